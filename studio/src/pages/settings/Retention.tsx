import { useQuery } from "@tanstack/react-query";
import { aboutQuery, databaseQuery } from "../../api/queries";
import { Command } from "../../components/EmptyState";
import { words } from "../../domain/schema";
import { duration } from "../../domain/time";
import { Refused } from "./Refused";

/** How long ended runs are kept, and how large the database is. */
export function Retention() {
  const about = useQuery(aboutQuery);
  const database = useQuery(databaseQuery);
  const kept = about.data?.keep_ended_seconds;
  return (
    <>
      <div className="row">
        <h2>Retention</h2>
      </div>
      <p className="t2 measure">
        {kept
          ? `Workers remove runs ${duration(kept * 1000)} after their end, with their logs.`
          : "Ended runs are kept until someone removes them."}{" "}
        The setting is <code>keep_ended_seconds</code>, for each worker.
      </p>
      <Refused error={about.error ?? database.error} />
      {database.data && (
        <>
          <dl className="facts">
            <dt>Size</dt>
            <dd>{size(database.data.bytes)}</dd>
            {Object.entries(database.data.counts).map(([name, count]) => (
              <CountFact key={name} name={name} count={count} />
            ))}
            <dt>Payloads</dt>
            <dd>{database.data.encoded ? "compressed or encrypted" : "plain JSON"}</dd>
          </dl>
          <p className="t2 measure">
            To remove old runs now, or to copy the database, run these where it is. Runs that have not ended
            stay.
          </p>
          <div className="row wrap">
            <Command text="stepwell db prune --older-than 30d" />
            <Command text="stepwell db backup copy.db" />
          </div>
        </>
      )}
    </>
  );
}

function CountFact({ name, count }: { name: string; count: number }) {
  return (
    <>
      <dt>{words(name)}</dt>
      <dd>{count.toLocaleString("en")}</dd>
    </>
  );
}

function size(bytes: number): string {
  const megabytes = bytes / 1024 / 1024;
  return megabytes >= 1 ? `${megabytes.toFixed(1)} MB` : `${Math.ceil(bytes / 1024)} KB`;
}
