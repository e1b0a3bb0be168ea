import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Info, Minus, Move, Pencil, Plus } from "lucide-react";
import { type ReactNode, useMemo } from "react";
import { api, ask, type WorkflowDetail } from "../../api/client";
import { versionsQuery, workflowQuery } from "../../api/queries";
import { Ago } from "../../components/Time";
import { countOf, definitionDiff, diffLines } from "../../domain/definitionDiff";
import { version } from "../runs/RunRow";
import { DefinitionCanvas, DrawingCanvas } from "./DefinitionCanvas";

const LIVE = ["pending", "running", "suspended"] as const;
const LIVE_MAX = 200;

/** Versions, newest first, and what one changed against another. */
export function Versions(props: {
  name: string;
  latest: WorkflowDetail;
  chosen: string;
  against: string;
  choose: (version: string, against: string | undefined) => void;
}) {
  const { name, latest } = props;
  const history = [...(useQuery(versionsQuery(name)).data?.versions ?? [])].reverse();
  const names = history.map((each) => each.version);
  const chosen = names.includes(props.chosen) ? props.chosen : latest.version;
  const before = names[names.indexOf(chosen) + 1] ?? "";
  const against = names.includes(props.against) && props.against !== chosen ? props.against : before;
  const live = useLiveRuns(name);
  return (
    <div className="wfp">
      <ol className="vers" aria-label="Versions">
        {history.map((each) => (
          <li key={each.version}>
            <button
              type="button"
              className={each.version === chosen ? "ver sel" : "ver"}
              aria-current={each.version === chosen ? "true" : undefined}
              onClick={() => props.choose(each.version, undefined)}
            >
              <span className="vn mono">{version(each.version)}</span>
              <span className="grow">
                <span className="clip vt">
                  {each.title && each.title !== name ? each.title : `Version ${each.version}`}
                </span>
                <span className="xs t3">
                  {each.created_at ? <Ago at={Date.parse(each.created_at)} /> : "date not recorded"}
                  {each.created_by && ` by ${each.created_by}`}
                </span>
              </span>
              {each.version === latest.version && <span className="tag st st-completed">latest</span>}
              {(live.get(each.version) ?? 0) > 0 && (
                <span className="tag st st-running">{live.get(each.version)} live</span>
              )}
            </button>
          </li>
        ))}
      </ol>
      <VersionDetail
        name={name}
        chosen={chosen}
        against={against}
        others={names.filter((each) => each !== chosen)}
        choose={(other) => props.choose(chosen, other)}
        stay={against ? (live.get(against) ?? 0) : 0}
      />
    </div>
  );
}

/** How many runs of each version have not ended; at most the newest 200 are counted. */
function useLiveRuns(name: string): Map<string, number> {
  const runs = useQuery({
    queryKey: ["live runs", name],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/api/v1/workflows/{name}/executions", {
          params: { path: { name }, query: { status: [...LIVE], limit: LIVE_MAX } },
          signal,
        }),
      ),
  });
  const counts = new Map<string, number>();
  for (const run of runs.data?.runs ?? []) counts.set(run.version, (counts.get(run.version) ?? 0) + 1);
  return counts;
}

function VersionDetail(props: {
  name: string;
  chosen: string;
  against: string;
  others: string[];
  choose: (version: string) => void;
  stay: number;
}) {
  const { name, chosen, against } = props;
  const value = useQuery(workflowQuery(name, chosen)).data;
  const old = useQuery({ ...workflowQuery(name, against), enabled: against !== "" }).data;
  const diff = useMemo(
    () => (value && old ? definitionDiff(value.kind, old.definition, value.definition) : null),
    [value, old],
  );
  if (!value) return <section className="vdetail" aria-busy="true" />;
  if (!against) {
    return (
      <section className="vdetail scroll" aria-label={`Version ${chosen}`}>
        <div className="row">
          <h2>{version(chosen)}, the first version</h2>
        </div>
        {value.kind !== "function" && (
          <div className="diffc">
            <DefinitionCanvas name={name} version={chosen} kind={value.kind} definition={value.definition} />
          </div>
        )}
        <p className="t2">There is no other version to compare it with.</p>
      </section>
    );
  }
  const lines = diff ? diffLines(diff) : [];
  return (
    <section className="vdetail scroll" aria-label={`Version ${chosen}`}>
      <div className="row wrap">
        <h2>{version(chosen)} against</h2>
        <select
          className="input versus"
          aria-label="Compare with"
          value={against}
          onChange={(event) => props.choose(event.target.value)}
        >
          {props.others.map((each) => (
            <option key={each} value={each}>
              {version(each)}
            </option>
          ))}
        </select>
        {diff && (
          <>
            <Chip
              look="completed"
              icon={<Plus className="i s" aria-hidden="true" />}
              n={countOf(diff, "added")}
              word="added"
            />
            <Chip
              look="running"
              icon={<Pencil className="i s" aria-hidden="true" />}
              n={countOf(diff, "changed")}
              word="changed"
            />
            <Chip
              look="failed"
              icon={<Minus className="i s" aria-hidden="true" />}
              n={countOf(diff, "removed")}
              word="removed"
            />
            <Chip
              look=""
              icon={<Move className="i s" aria-hidden="true" />}
              n={diff.moved.length}
              word="moved"
            />
          </>
        )}
      </div>
      {diff && value.kind !== "function" && (
        <div className="diffc">
          <DrawingCanvas
            label={`Difference between ${version(against)} and ${version(chosen)}`}
            layoutKey={`diff ${name} ${against} ${chosen}`}
            kind={value.kind}
            drawing={diff.drawing}
            changes={diff}
          />
        </div>
      )}
      {diff && lines.length > 0 && (
        <pre className="code difft" tabIndex={0}>
          {lines.map((line, index) => (
            <span className={line.kind === "head" ? "c" : line.kind} key={index}>
              {line.kind === "head" ? "  " : line.kind === "del" ? "- " : "+ "}
              {line.text}
            </span>
          ))}
        </pre>
      )}
      {diff && !lines.length && (
        <p className="t2">
          {diff.moved.length
            ? `Only the layout differs: ${diff.moved.join(", ")}.`
            : "The versions are identical."}
        </p>
      )}
      {props.stay > 0 && (
        <div className="note">
          <Info className="i s" aria-hidden="true" />
          <p>
            <b>
              {props.stay} {props.stay === 1 ? "run stays" : "runs stay"} on {version(against)}
            </b>{" "}
            until {props.stay === 1 ? "it ends" : "they end"}.{" "}
            <Link
              className="link"
              to="/runs"
              search={{ workflow: name, version: against, status: LIVE.join(",") } as never}
            >
              Show {props.stay === 1 ? "it" : "them"}
            </Link>
          </p>
        </div>
      )}
    </section>
  );
}

function Chip({ look, icon, n, word }: { look: string; icon: ReactNode; n: number; word: string }) {
  if (!n) return null;
  return (
    <span className={look ? `chip st st-${look}` : "chip"}>
      {icon}
      {n} {word}
    </span>
  );
}
