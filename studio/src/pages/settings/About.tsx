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
          <dd>{data.works ? `works, ${data.slots} slots` : "serves only; workers run elsewhere"}</dd>
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
      <p className="t2">What is wrong with this installation, in a terminal beside the server:</p>
      <p>
        <Command text="stepwell doctor" />
      </p>
    </>
  );
}
