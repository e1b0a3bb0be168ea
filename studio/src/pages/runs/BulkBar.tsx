import { Link } from "@tanstack/react-router";
import { Ban, RotateCw, Trash2, X } from "lucide-react";
import { type ReactNode, useEffect } from "react";
import { FormDialog } from "../../components/FormDialog";
import { type BulkVerb, bulkBody, type RunFilters } from "../../domain/filters";
import type { Bulk } from "./useBulk";

const VERBS: { verb: BulkVerb; word: string; icon: ReactNode }[] = [
  { verb: "retry", word: "Retry", icon: <RotateCw className="i s" aria-hidden="true" /> },
  { verb: "cancel", word: "Cancel", icon: <Ban className="i s" aria-hidden="true" /> },
  { verb: "delete", word: "Delete", icon: <Trash2 className="i s" aria-hidden="true" /> },
];
const WORD = Object.fromEntries(VERBS.map((each) => [each.verb, each.word])) as Record<BulkVerb, string>;
const CONSEQUENCE: Record<BulkVerb, (count: string) => string> = {
  retry: (count) => `${count} continue where they stopped. Completed steps do not run again.`,
  cancel: (count) => `${count} clean up and end. Steps that run now finish; nothing after them starts.`,
  delete: (count) =>
    `${count} are deleted with their logs and documents. This cannot be undone. Runs that have not ended stay.`,
};

/** What can be done with many runs. Each verb carries its own count and says its consequence. */
export function BulkBar(props: {
  bulk: Bulk;
  filters: RunFilters;
  selected: number;
  asked: BulkVerb | "";
  ask: (verb: BulkVerb | "") => void;
  close: () => void;
}) {
  const { bulk, asked, close } = props;
  const possible = bulkBody(props.filters, "retry", 0) !== null;
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) close();
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, [close]);
  return (
    <div className="bulk" role="toolbar" aria-label="Bulk actions">
      {bulk.job ? <Progress bulk={bulk} /> : <Choice {...props} possible={possible} />}
      {bulk.problem && <span role="alert">{bulk.problem}</span>}
      <span className="vr" />
      {!bulk.job &&
        VERBS.map(({ verb, word, icon }) => {
          const count = bulk.count(verb);
          return (
            <button
              type="button"
              className="onink"
              key={verb}
              disabled={count === 0}
              onClick={() => props.ask(verb)}
            >
              {icon}
              {word} {count === null ? "all" : count.toLocaleString("en")}
            </button>
          );
        })}
      <button type="button" className="onink ic" aria-label="Close bulk actions" onClick={close}>
        <X className="i s" aria-hidden="true" />
      </button>
      {asked && (
        <FormDialog
          title={`${WORD[asked]} ${named(bulk.count(asked))}?`}
          lead={CONSEQUENCE[asked](capital(named(bulk.count(asked))))}
          close={() => props.ask("")}
          keep="Keep them"
          word={`${WORD[asked]} ${named(bulk.count(asked))}`}
          danger={asked !== "retry"}
          ready={bulk.count(asked) !== 0}
          act={() => {
            props.ask("");
            void bulk.start(asked);
          }}
        />
      )}
    </div>
  );
}

function Choice(props: { bulk: Bulk; selected: number; possible: boolean }) {
  const { bulk } = props;
  if (bulk.all) {
    return (
      <>
        <b>{bulk.matching === null ? "All" : `All ${bulk.matching.toLocaleString("en")}`} matching</b>
        <button type="button" className="onink link2" onClick={() => bulk.setAll(false)}>
          Only the selected
        </button>
      </>
    );
  }
  return (
    <>
      <b>{props.selected} selected</b>
      {props.possible && (
        <button type="button" className="onink link2" onClick={() => bulk.setAll(true)}>
          Select all {bulk.matching === null ? "" : `${bulk.matching.toLocaleString("en")} `}matching
        </button>
      )}
    </>
  );
}

function Progress({ bulk }: { bulk: Bulk }) {
  const { job } = bulk;
  if (!job) return null;
  const looked = job.done + job.unchanged + job.failed;
  const wanted = job.total ?? bulk.wanted;
  const word = WORD[job.action as BulkVerb] ?? job.action;
  return (
    <>
      {!bulk.over && wanted ? (
        <span
          className="bar"
          role="progressbar"
          aria-label={`${word}: progress`}
          aria-valuemin={0}
          aria-valuemax={wanted}
          aria-valuenow={Math.min(looked, wanted)}
        >
          <i style={{ width: `${(100 * Math.min(looked, wanted)) / wanted}%` }} />
        </span>
      ) : null}
      <span role="status">
        {word}: {job.done} done
        {job.unchanged ? `, ${job.unchanged} unchanged` : ""}
        {job.failed ? `, ${job.failed} refused` : ""}
        {bulk.over ? "" : "…"}
      </span>
      <Link className="onink link2" to="/runs/$id" params={{ id: job.id }}>
        Results
      </Link>
    </>
  );
}

function named(count: number | null): string {
  if (count === null) return "all matching runs";
  return `${count.toLocaleString("en")} ${count === 1 ? "run" : "runs"}`;
}

function capital(text: string): string {
  return `${text[0]?.toUpperCase()}${text.slice(1)}`;
}
