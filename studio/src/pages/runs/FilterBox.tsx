import { Search, X } from "lucide-react";
import { useState } from "react";
import { Kbd } from "../../components/Kbd";
import { chips, type RunFilters, typed } from "../../domain/filters";
import { statusWord } from "../../domain/status";

/** Filters as chips and text in one input; Enter adds, Backspace removes the last. */
export function FilterBox({
  filters,
  change,
}: {
  filters: RunFilters;
  change: (filters: RunFilters) => void;
}) {
  const [text, setText] = useState("");
  const shown = chips(filters);
  return (
    <div className="filters">
      <div className="filterbox">
        <Search className="i s" aria-hidden="true" />
        {shown.map((chip) => (
          <span className="chip on" key={`${chip.name} ${chip.value}`}>
            {chip.name === "q" ? "text" : chip.name}:{" "}
            <b>{chip.name === "status" ? statusWord(chip.value as never) : chip.value}</b>
            <button
              className="x"
              type="button"
              aria-label={`Remove filter ${chip.name} ${chip.value}`}
              onClick={() => change(chip.without)}
            >
              <X className="i s" aria-hidden="true" />
            </button>
          </span>
        ))}
        <input
          className="bare"
          aria-label="Filter runs"
          placeholder={
            shown.length
              ? ""
              : "status:failed workflow:name since:24h tag:name=value error:words, an id or a key"
          }
          autoComplete="off"
          data-filter
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && text.trim()) {
              change(typed(text, filters));
              setText("");
            } else if (event.key === "Backspace" && !text) {
              const last = shown.at(-1);
              if (last) change(last.without);
            } else if (event.key === "Escape") event.currentTarget.blur();
          }}
        />
        <span className="hide-s">
          <Kbd keys={["/"]} />
        </span>
      </div>
    </div>
  );
}
