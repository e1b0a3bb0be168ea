import { useQuery } from "@tanstack/react-query";
import { api, ask } from "../../api/client";
import { useZoneName } from "../../components/Time";
import { clock } from "../../domain/time";

/** What one attempt of a step logged and printed. */
export function LogsSection(props: { run: string; path: string; attempt: number; live: boolean }) {
  const zone = useZoneName();
  const logs = useQuery({
    queryKey: ["logs", props.run, props.path, props.attempt],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/api/v1/runs/{run_id}/logs", {
          params: {
            path: { run_id: props.run },
            query: { path: props.path, attempt: props.attempt, limit: 500 },
          },
          signal,
        }),
      ),
    refetchInterval: props.live ? 2_000 : false,
  });
  const lines = logs.data?.lines ?? [];
  if (!lines.length) return null;
  return (
    <div className="sec">
      <h3>Logs {lines.length}</h3>
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
      {logs.data?.more && <p className="t3 xs">The first 500 lines. `stepwell runs logs` has all.</p>}
    </div>
  );
}
