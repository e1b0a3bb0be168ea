import { lazy, Suspense, useId, useState } from "react";

const JsonEditor = lazy(() => import("./JsonEditor"));

export interface Json {
  text: string;
  setText: (text: string) => void;
  value: unknown; // undefined while the text cannot be read
  problem: string;
}

/** JSON that somebody edits. */
export function useJson(start: unknown): Json {
  const [text, setText] = useState(() => JSON.stringify(start ?? null, null, 2));
  let value: unknown;
  let problem = "";
  try {
    value = JSON.parse(text);
  } catch (error) {
    problem = `This is not valid JSON: ${(error as Error).message}`;
  }
  return { text, setText, value, problem };
}

export function JsonField(props: { label: string; note?: string; json: Json; rows?: number }) {
  const id = useId();
  const rows = props.rows ?? 7;
  return (
    <div className="field">
      <span className="fieldlabel" id={id}>
        {props.label} {props.note && <span className="t3">{props.note}</span>}
      </span>
      <Suspense fallback={<div className="jsonedit" aria-busy="true" style={{ height: rows * 18 + 14 }} />}>
        <JsonEditor
          label={props.label}
          text={props.json.text}
          change={props.json.setText}
          invalid={props.json.problem !== ""}
          rows={rows}
        />
      </Suspense>
      {props.json.problem && (
        <span className="err" role="alert">
          {props.json.problem}
        </span>
      )}
    </div>
  );
}
