import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiProblem, api, ask } from "../../api/client";
import { clock } from "../../domain/time";

/** A refusal in words. Who comes too late is told who decided: that is no error. */
function told(refused: ApiProblem): string {
  const { decided_by: by, decided_at: at, decision } = refused.context;
  if (refused.code !== "ALREADY_DECIDED" || !by)
    return [refused.message, refused.hint].filter(Boolean).join(". ");
  const when = at ? ` at ${clock(Date.parse(at), undefined).slice(0, 5)}` : "";
  return `Already decided: ${by} ${decision ?? "decided"} this${when}. Your answer was not needed and was not sent.`;
}

/** Verbs on a run. The page changes when the event arrives, not when the button is pressed. */
export function useRunActions(id: string) {
  const queries = useQueryClient();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const [field, setField] = useState("");
  const path = { run_id: id };

  async function act<T>(call: () => Promise<T>): Promise<T | null> {
    setBusy(true);
    setProblem("");
    try {
      const done = await call();
      void queries.invalidateQueries({ queryKey: ["run", id] });
      void queries.invalidateQueries({ queryKey: ["runs"] });
      void queries.invalidateQueries({ queryKey: ["approvals"] });
      return done;
    } catch (error) {
      const refused = error instanceof ApiProblem ? error : null;
      setProblem(refused ? told(refused) : String(error));
      setField(refused?.field ?? "");
      return null;
    } finally {
      setBusy(false);
    }
  }

  return {
    busy,
    problem,
    field,
    retry: () => act(() => ask(api.POST("/api/v1/runs/{run_id}/retry", { params: { path } }))),
    compensate: () => act(() => ask(api.POST("/api/v1/runs/{run_id}/compensate", { params: { path } }))),
    cancel: (reason: string) =>
      act(() =>
        ask(api.POST("/api/v1/runs/{run_id}/cancel", { params: { path }, body: { reason } as never })),
      ),
    hold: (reason: string) =>
      act(() => ask(api.POST("/api/v1/runs/{run_id}/hold", { params: { path }, body: { reason } as never }))),
    release: () => act(() => ask(api.POST("/api/v1/runs/{run_id}/release", { params: { path } }))),
    skip: (step: string, output: unknown) =>
      act(() =>
        ask(
          api.POST("/api/v1/runs/{run_id}/skip", { params: { path }, body: { output, path: step } as never }),
        ),
      ),
    force: (reason: string) =>
      act(() =>
        ask(api.POST("/api/v1/runs/{run_id}/force", { params: { path }, body: { reason } as never })),
      ),
    remove: () => act(() => ask(api.DELETE("/api/v1/runs/{run_id}", { params: { path } }))),
    signal: (name: string, payload: unknown) =>
      act(() =>
        ask(api.POST("/api/v1/runs/{run_id}/signal", { params: { path }, body: { name, payload } as never })),
      ),
    decide: (wait: string, answer: unknown, reason: string) =>
      act(() =>
        ask(
          api.POST("/api/v1/runs/{run_id}/decide", {
            params: { path },
            body: { answer, path: wait, reason } as never,
          }),
        ),
      ),
    trigger: (transition: string, payload: unknown) =>
      act(() =>
        ask(
          api.POST("/api/v1/runs/{run_id}/trigger", {
            params: { path },
            body: { transition, ...(payload === undefined ? {} : { payload }) } as never,
          }),
        ),
      ),
    rerun: (input: unknown, version: string) =>
      act(() =>
        ask(
          api.POST("/api/v1/runs/{run_id}/rerun", {
            params: { path },
            body: { input, ...(version ? { version } : {}) } as never,
          }),
        ),
      ),
    rerunFrom: (step: string) =>
      act(() =>
        ask(api.POST("/api/v1/runs/{run_id}/rerun-from", { params: { path }, body: { step } as never })),
      ),
    fork: (seq: number, edits: Record<string, unknown>) =>
      act(() =>
        ask(
          api.POST("/api/v1/runs/{run_id}/fork", { params: { path }, body: { at: seq, ...edits } as never }),
        ),
      ),
  };
}
