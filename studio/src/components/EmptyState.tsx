import type { ReactNode } from "react";
import { CopyButton } from "./CopyButton";

/** What is true, why, and the next command or button. */
export function EmptyState(props: {
  icon: ReactNode;
  title: string;
  children?: ReactNode;
  action?: ReactNode;
  bad?: boolean;
}) {
  return (
    <div className={props.bad ? "empty2 err" : "empty2"}>
      <span className={props.bad ? "eicon bad" : "eicon"}>{props.icon}</span>
      <h2>{props.title}</h2>
      {props.children && <p className="t2">{props.children}</p>}
      {props.action && <div className="row">{props.action}</div>}
    </div>
  );
}

/** A command to type, with a button that copies it. */
export function Command({ text }: { text: string }) {
  return (
    <code className="cmd">
      {text}
      <CopyButton text={text} label={`Copy ${text}`} />
    </code>
  );
}
