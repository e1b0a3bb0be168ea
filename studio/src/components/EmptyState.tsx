import type { ReactNode } from "react";
import { CopyButton } from "./CopyButton";

/** What is true, why, and the next command or button. */
export function EmptyState(props: {
  icon: ReactNode;
  title: string;
  children?: ReactNode;
  action?: ReactNode;
  bad?: boolean;
  whole?: boolean; // it is all that the page says
}) {
  const Title = props.whole ? "h1" : "h2";
  return (
    <div className={props.bad ? "empty2 err" : "empty2"}>
      <span className={props.bad ? "eicon bad" : "eicon"}>{props.icon}</span>
      <Title>{props.title}</Title>
      {props.children && <p className="t2">{props.children}</p>}
      {props.action && <div className="row">{props.action}</div>}
    </div>
  );
}

/** A command to type, with a button that copies it. */
export function Command({ text, big }: { text: string; big?: boolean }) {
  return (
    <code className={big ? "cmd big" : "cmd"}>
      <span className="clip">{text}</span>
      {big && <span className="grow" />}
      <CopyButton text={text} label={`Copy ${text}`} />
    </code>
  );
}
