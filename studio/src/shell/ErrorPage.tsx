import { useQueryClient } from "@tanstack/react-query";
import { type ErrorComponentProps, Link, useRouter } from "@tanstack/react-router";
import { CircleAlert, Copy, MapPinOff, RotateCw, ShieldX, Unplug } from "lucide-react";
import { useEffect } from "react";
import { ApiProblem } from "../api/client";
import { useLive } from "../api/live";
import { Command, EmptyState } from "../components/EmptyState";
import { useNow, useZoneName } from "../components/Time";
import { clock, coarse } from "../domain/time";

/** A page that could not be drawn: what is true, why, and what to do. */
export function ErrorPage({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  const queries = useQueryClient();
  const again = () => {
    void queries.resetQueries({ predicate: (query) => query.state.status === "error" });
    void router.invalidate();
    reset();
  };
  if (error instanceof ApiProblem && error.status === 0) return <Unreachable again={again} />;
  if (error instanceof ApiProblem && error.status === 403) {
    return (
      <main className="main" id="main">
        <EmptyState
          whole
          icon={<ShieldX className="i l" aria-hidden="true" />}
          title="This key does not allow that"
        >
          {error.message}. {error.hint}
        </EmptyState>
      </main>
    );
  }
  const details = [
    window.location.pathname,
    error instanceof ApiProblem ? `${error.status} ${error.code}` : "",
    error instanceof Error ? (error.stack ?? error.message) : String(error),
  ].join("\n");
  return (
    <main className="main" id="main">
      <EmptyState
        whole
        bad
        icon={<CircleAlert className="i l" aria-hidden="true" />}
        title="This page stopped working"
        action={
          <>
            <button type="button" className="btn" onClick={again}>
              <RotateCw className="i" aria-hidden="true" />
              Show again
            </button>
            <button
              type="button"
              className="btn"
              onClick={() => void navigator.clipboard?.writeText(details)}
            >
              <Copy className="i" aria-hidden="true" />
              Copy details
            </button>
          </>
        }
      >
        {error instanceof Error ? error.message : String(error)}. Runs are not affected.
      </EmptyState>
    </main>
  );
}

const TRY_EVERY = 5_000;

function Unreachable({ again }: { again: () => void }) {
  const since = useLive((stream) => stream.since);
  const now = useNow(1000);
  const zone = useZoneName();
  useEffect(() => {
    const timer = window.setTimeout(again, TRY_EVERY);
    return () => window.clearTimeout(timer);
  });
  return (
    <main className="main" id="main">
      <EmptyState
        whole
        bad
        icon={<Unplug className="i l" aria-hidden="true" />}
        title="The server does not answer"
        action={
          <div className="unreachable">
            <Command text="stepwell dev flows.py" />
            <div className="row">
              <button type="button" className="btn primary" onClick={again}>
                <RotateCw className="i" aria-hidden="true" />
                Try now
              </button>
              <span className="xs t3">Trying again every {TRY_EVERY / 1000} s</span>
            </div>
            <dl className="facts">
              <dt>Address</dt>
              <dd className="mono">{window.location.host}</dd>
              <dt>Since</dt>
              <dd>
                {clock(since, zone)}, {coarse(Math.max(now - since, 1500))} ago
              </dd>
            </dl>
          </div>
        }
      >
        Nothing was lost: runs are in the database, and continue as soon as a worker is back.
      </EmptyState>
    </main>
  );
}

export function NotFoundPage() {
  return (
    <main className="main" id="main">
      <EmptyState
        whole
        icon={<MapPinOff className="i l" aria-hidden="true" />}
        title="Page not found"
        action={
          <Link className="btn" to="/runs">
            Go to Runs
          </Link>
        }
      />
    </main>
  );
}
