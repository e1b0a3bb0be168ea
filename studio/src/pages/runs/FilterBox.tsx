import { useQuery } from "@tanstack/react-query";
import { Search, X } from "lucide-react";
import { useId, useRef, useState } from "react";
import { workflowsQuery } from "../../api/queries";
import { Kbd } from "../../components/Kbd";
import { type Chip, chips, FILTER_NAMES, type RunFilters, typed, typedProblem } from "../../domain/filters";
import { RUN_STATUSES, statusWord } from "../../domain/status";

/** Filters as chips and text in one input: Enter adds, Backspace removes the last, arrows go between chips. */
export function FilterBox(props: { filters: RunFilters; change: (filters: RunFilters) => void }) {
  const [text, setText] = useState("");
  const [typing, setTyping] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const workflows = useQuery({ ...workflowsQuery, enabled: typing });
  const id = useId();
  const shown = chips(props.filters);
  const problem = typedProblem(text);
  const suggested = [
    ...RUN_STATUSES.map((status) => `status:${status}`),
    ...(workflows.data?.workflows ?? []).map((workflow) => `workflow:${workflow.name}`),
    ...["since:1h", "since:24h", "since:7d"],
    ...FILTER_NAMES.map((name) => `${name}:`),
  ];
  const walk = (event: React.KeyboardEvent) => {
    const by = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    const stops = [...(box.current?.querySelectorAll<HTMLElement>("button.x, input") ?? [])];
    const next = stops[stops.indexOf(event.target as HTMLElement) + by];
    if (!by || !next || (event.target instanceof HTMLInputElement && event.target.selectionStart)) return;
    event.preventDefault();
    next.focus();
  };
  return (
    <div className="filters">
      <div
        className={problem ? "filterbox bad" : "filterbox"}
        ref={box}
        role="group"
        aria-label="Filters"
        onKeyDown={walk}
      >
        <Search className="i s" aria-hidden="true" />
        {shown.map((chip) => (
          <span className="chip on" key={`${chip.name} ${chip.value}`}>
            {chip.name === "q" ? "text" : chip.name}: <b>{words(chip)}</b>
            <button
              className="x"
              type="button"
              aria-label={`Remove filter ${chip.name} ${chip.value}`}
              onClick={() => props.change(chip.without)}
            >
              <X className="i s" aria-hidden="true" />
            </button>
          </span>
        ))}
        <input
          className="bare"
          aria-label="Filter runs"
          aria-invalid={problem ? true : undefined}
          aria-describedby={problem ? `${id}-problem` : undefined}
          placeholder="status: workflow: since: tag: error: or the start of an id or key"
          autoComplete="off"
          list={`${id}-list`}
          data-filter
          value={text}
          onFocus={() => setTyping(true)}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && text.trim() && !problem) {
              props.change(typed(text, props.filters));
              setText("");
            } else if (event.key === "Backspace" && !text) {
              const last = shown.at(-1);
              if (last) props.change(last.without);
            } else if (event.key === "Escape") event.currentTarget.blur();
          }}
        />
        <datalist id={`${id}-list`}>
          {suggested.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
        <span className="hide-s">
          <Kbd keys={["/"]} />
        </span>
      </div>
      {problem && (
        <p className="err xs" id={`${id}-problem`} role="alert">
          {problem}
        </p>
      )}
    </div>
  );
}

function words(chip: Chip): string {
  if (chip.name === "status") return statusWord(chip.value as never);
  return /^\d{4}-.*T/.test(chip.value) ? chip.value.slice(0, 16).replace("T", " ") : chip.value;
}
