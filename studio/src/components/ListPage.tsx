import { Plus } from "lucide-react";
import { type ReactNode, useState } from "react";
import { Skeleton } from "./Skeleton";
import { usePageTitle } from "./usePageTitle";

/** A page that lists things of one kind, with a form for a new one beside them. */
export function ListPage(props: {
  title: string;
  list: { isPending: boolean; error: Error | null; data: unknown };
  count: number;
  summary?: ReactNode; // beside the title; the count unless given
  problem: string; // what the server refused last
  actions?: ReactNode; // before the button that adds
  add: string;
  form: (close: () => void) => ReactNode;
  empty: ReactNode; // instead of the children while there is nothing
  children: ReactNode;
  dialogs: ReactNode;
}) {
  const { list, count, problem } = props;
  const [adding, setAdding] = useState(false);
  usePageTitle(props.title);
  if (list.error && !list.data) throw list.error;
  return (
    <main className="main" id="main">
      <div className={adding ? "schg" : "schg one"}>
        <div className="schl">
          <div className="pagehead">
            <h1>{props.title}</h1>
            <span className="xs t3">{props.summary ?? (count || "")}</span>
            <span className="grow" />
            {props.actions}
            <button type="button" className="btn primary" onClick={() => setAdding(true)}>
              <Plus className="i" aria-hidden="true" />
              {props.add}
            </button>
          </div>
          {problem && (
            <p className="errline" role="alert">
              {problem}
            </p>
          )}
          {count > 0 && props.children}
          {list.isPending && <Skeleton rows={4} />}
          {list.data !== undefined && count === 0 && props.empty}
        </div>
        {adding && props.form(() => setAdding(false))}
      </div>
      {props.dialogs}
    </main>
  );
}
