import { X } from "lucide-react";
import type { ReactNode } from "react";

/** What is made or looked at beside a list. */
export function SidePanel(props: { title: string; close: () => void; children: ReactNode }) {
  return (
    <section className="inspector sched" aria-label={props.title}>
      <div className="insp-h">
        <h2 className="sans">{props.title}</h2>
        <span className="grow" />
        <button type="button" className="iconbtn sm" aria-label="Close" title="Close" onClick={props.close}>
          <X className="i" aria-hidden="true" />
        </button>
      </div>
      {props.children}
    </section>
  );
}
