import { X } from "lucide-react";
import type { ReactNode } from "react";
import { IconButton } from "./IconButton";

/** What is made or looked at beside a list. */
export function SidePanel(props: { title: string; close: () => void; children: ReactNode }) {
  return (
    <section className="inspector sched" aria-label={props.title}>
      <div className="insp-h">
        <h2 className="sans">{props.title}</h2>
        <span className="grow" />
        <IconButton icon={X} title="Close" act={props.close} />
      </div>
      {props.children}
    </section>
  );
}
