import { useQueryClient } from "@tanstack/react-query";
import { useNavigate, useRouterState } from "@tanstack/react-router";
import { RotateCw, Unplug } from "lucide-react";
import { useEffect, useRef } from "react";
import { root } from "../api/client";
import { live, useLive } from "../api/live";
import { Age } from "./LivePill";

/** What is true while the server does not answer. Once it is back, everything on the screen is read again. */
export function ConnectionBanner() {
  const { state, lost, since } = useLive();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const path = useRouterState({ select: (router) => router.location.pathname });
  const wasLost = useRef(false);
  const down = (state === "reconnecting" || state === "offline") && lost > 1;
  useEffect(() => {
    if (lost > 0) wasLost.current = true;
    if (state === "live" && wasLost.current) {
      wasLost.current = false;
      void queries.invalidateQueries();
    }
  }, [state, lost, queries]);
  useEffect(() => {
    if (!lost) return;
    // A server that answers, but not to us, was started anew with other launch tokens, or ended our session.
    fetch(`${root}/api/v1/me`)
      .then((answer) => {
        if (answer.status === 401) void navigate({ to: "/sign-in" });
      })
      .catch(() => {});
  }, [lost, navigate]);
  if (!down) return null;
  return (
    <div className="banner st-running" role="status">
      <Unplug className="i" aria-hidden="true" />
      <div className="grow">
        <b>The server does not answer.</b>{" "}
        <span className="t2">
          {path === "/runs" ? "These rows are" : "What you see is"} <Age since={since} />. The page updates by
          itself once it is back; nothing is missed.
        </span>
      </div>
      <button type="button" className="btn sm" onClick={() => live.retry()}>
        <RotateCw className="i" aria-hidden="true" />
        Try now
      </button>
    </div>
  );
}
