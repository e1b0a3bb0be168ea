import { useQuery } from "@tanstack/react-query";
import { root } from "../../api/client";
import { aboutQuery } from "../../api/queries";
import { Command } from "../../components/EmptyState";
import { Refused } from "./Refused";

/** What this server is. */
export function About() {
  const about = useQuery(aboutQuery);
  const data = about.data;
  return (
    <>
      <div className="row">
        <h2>About</h2>
      </div>
      <Refused error={about.error} />
      {data && (
        <dl className="facts">
          <dt>Version</dt>
          <dd>{data.version}</dd>
          <dt>Database</dt>
          <dd>
            {data.database}
            {data.file && (
              <>
                , <code>{data.file}</code>
              </>
            )}
          </dd>
          <dt>Workspace</dt>
          <dd>{data.workspace}</dd>
          <dt>This process</dt>
          <dd>
            {data.works
              ? `server and worker with ${data.slots} slots`
              : "server only; workers run in other processes"}
          </dd>
          <dt>API</dt>
          <dd>
            <a className="link" href={`${root}/api/v1/openapi.json`}>
              OpenAPI document
            </a>
          </dd>
          <dt>Network</dt>
          <dd>Studio loads nothing from other hosts and sends nothing to them.</dd>
        </dl>
      )}
      <p className="t2">To check this installation, run this where the server runs:</p>
      <p>
        <Command text="stepwell doctor" />
      </p>
    </>
  );
}
