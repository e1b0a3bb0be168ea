import { useQuery } from "@tanstack/react-query";
import { api, ask, type Schemas } from "../../api/client";
import { useZoneName } from "../../components/Time";
import { clock } from "../../domain/time";

const MOST = 500;

/** What one attempt of a step logged and printed. */
export function useLogs(run: string, path: string, attempt: number, live: boolean, enabled: boolean) {
  return useQuery({
    queryKey: ["logs", run, path, attempt],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/api/v1/runs/{run_id}/logs", {
          params: { path: { run_id: run }, query: { path, attempt, limit: MOST } },
          signal,
        }),
      ),
    refetchInterval: live ? 2_000 : false,
    enabled,
  });
}

export function LogLines({ lines, more }: { lines: Schemas["LogLineView"][]; more: boolean }) {
  const zone = useZoneName();
  return (
    <>
      <ol className="code logs" tabIndex={0} aria-label="Logs">
        {lines.map((line) => (
          <li
            key={line.n}
            className={/^(ERROR|CRITICAL)$/.test(line.level) || line.stream === "stderr" ? "bad" : ""}
          >
            <span className="c">{clock(Date.parse(line.at), zone, true)}</span>{" "}
            {line.level && <b>{line.level}</b>} {line.text}
          </li>
        ))}
      </ol>
      {more && <p className="t3 xs">The first {MOST} lines. `stepwell runs logs` has all.</p>}
    </>
  );
}
