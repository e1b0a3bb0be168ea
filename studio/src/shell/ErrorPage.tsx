import { useQueryClient } from "@tanstack/react-query";
import { type ErrorComponentProps, Link, useRouter } from "@tanstack/react-router";
import { CircleAlert, MapPinOff, Unplug } from "lucide-react";
import { ApiProblem } from "../api/client";
import { Command, EmptyState } from "../components/EmptyState";

/** A page that could not be drawn: what is true, why, and what to do. */
export function ErrorPage({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  const queries = useQueryClient();
  const again = () => {
    reset();
    void queries.invalidateQueries();
    void router.invalidate();
  };
  const retry = (
    <button type="button" className="btn" onClick={again}>
      Try again
    </button>
  );
  if (error instanceof ApiProblem && error.status === 0) {
    return (
      <main className="main" id="main">
        <EmptyState
          bad
          icon={<Unplug className="i l" aria-hidden="true" />}
          title="The server does not answer"
          action={
            <>
              <Command text="stepwell dev flows.py" />
              {retry}
            </>
          }
        >
          Nothing was lost: runs live in the database, and go on with the next worker.
        </EmptyState>
      </main>
    );
  }
  return (
    <main className="main" id="main">
      <EmptyState
        bad
        icon={<CircleAlert className="i l" aria-hidden="true" />}
        title="This page stopped working"
        action={retry}
      >
        {error instanceof Error ? error.message : String(error)}. The runs go on.
      </EmptyState>
    </main>
  );
}

export function NotFoundPage() {
  return (
    <main className="main" id="main">
      <EmptyState
        icon={<MapPinOff className="i l" aria-hidden="true" />}
        title="There is no such page"
        action={
          <Link className="btn" to="/runs">
            Go to Runs
          </Link>
        }
      />
    </main>
  );
}
