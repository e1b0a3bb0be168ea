import { infiniteQueryOptions, useInfiniteQuery } from "@tanstack/react-query";
import { api, ask } from "../../api/client";
import { Ago } from "../../components/Time";
import { words } from "../../domain/schema";
import { Refused } from "./Refused";

const auditQuery = infiniteQueryOptions({
  queryKey: ["audit"],
  queryFn: ({ pageParam, signal }) =>
    ask(api.GET("/api/v1/audit", { params: { query: { cursor: pageParam, limit: 100 } }, signal })),
  initialPageParam: "",
  getNextPageParam: (page) => page.cursor ?? undefined,
});

/** Who asked for which change, newest first. */
export function Audit() {
  const audit = useInfiniteQuery(auditQuery);
  const entries = audit.data?.pages.flatMap((page) => page.entries) ?? [];
  return (
    <>
      <div className="row">
        <h2>Audit</h2>
      </div>
      <p className="t2 measure">
        Every request that changed something, or tried to. Entries cannot be edited.
      </p>
      <Refused error={audit.error} />
      {entries.length > 0 && (
        <div className="card scrollx">
          <table className="table audit">
            <thead>
              <tr>
                <th scope="col">When</th>
                <th scope="col">By</th>
                <th scope="col">Action</th>
                <th scope="col" className="hide-s">
                  Path
                </th>
                <th scope="col">Outcome</th>
              </tr>
            </thead>
            <tbody>
              {entries.map((entry) => (
                <tr key={entry.id}>
                  <td className="t2 nowrap">{entry.at ? <Ago at={Date.parse(entry.at)} /> : ""}</td>
                  <td className="med">{entry.by}</td>
                  <td>{words(entry.action).replace(/^Put /, "Set ")}</td>
                  <td className="mono xs t2 hide-s auditpath" title={entry.path}>
                    {entry.path.replace(/^\/api\/v1/, "")}
                  </td>
                  <td>
                    {entry.status < 400 ? (
                      <span className="t2">done</span>
                    ) : (
                      <span className="status st-failed">refused, {entry.status}</span>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {audit.hasNextPage && (
        <p>
          <button type="button" className="btn" onClick={() => void audit.fetchNextPage()}>
            Show older
          </button>
        </p>
      )}
      {audit.data && !entries.length && <p className="t3">No entries yet.</p>}
    </>
  );
}
