import { Download } from "lucide-react";
import { type ReactNode, useMemo } from "react";
import { pretty } from "../domain/json";
import { CopyButton } from "./CopyButton";

const SHOWN_MAX = 64 * 1024;

/** A value as JSON: read only, always text, cut at 64 KB. */
export function JsonView({ value, name }: { value: unknown; name: string }) {
  const text = useMemo(() => (value === undefined ? "" : pretty(value)), [value]);
  const shown = text.length > SHOWN_MAX ? text.slice(0, SHOWN_MAX) : text;
  const drawn = useMemo(() => highlighted(shown), [shown]);
  if (value === undefined) return <p className="t3">Empty.</p>;
  return (
    <div className="jsonview">
      <div className="jsontools">
        <CopyButton text={text} label={`Copy ${name}`} />
        <button
          type="button"
          className="iconbtn sm"
          aria-label={`Download ${name}`}
          title={`Download ${name}`}
          onClick={() => download(text, name)}
        >
          <Download className="i s" aria-hidden="true" />
        </button>
      </div>
      <pre className="code" tabIndex={0}>
        {drawn}
      </pre>
      {shown.length < text.length && (
        <p className="t3 xs">
          The first 64 KB of {Math.round(text.length / 1024)} KB. Download it for the rest.
        </p>
      )}
    </div>
  );
}

const TOKEN = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;

function highlighted(text: string): ReactNode[] {
  const parts: ReactNode[] = [];
  let at = 0;
  for (const match of text.matchAll(TOKEN)) {
    if (match.index > at) parts.push(text.slice(at, match.index));
    const [whole, string, colon, word] = match;
    const look = string ? (colon ? "k" : "s") : word ? "w" : "n";
    if (colon)
      parts.push(
        <span className={look} key={match.index}>
          {string}
        </span>,
        colon,
      );
    else
      parts.push(
        <span className={look} key={match.index}>
          {whole}
        </span>,
      );
    at = match.index + whole.length;
  }
  parts.push(text.slice(at));
  return parts;
}

function download(text: string, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = `${name}.json`;
  link.click();
  URL.revokeObjectURL(link.href);
}
