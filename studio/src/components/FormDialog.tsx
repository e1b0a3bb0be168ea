import { X } from "lucide-react";
import type { ReactNode } from "react";
import { Dialog } from "./Dialog";

/** A dialog that says what will happen, and whose button is named after the act. */
export function FormDialog(props: {
  title: string;
  lead: ReactNode;
  close: () => void;
  keep: string; // the button that changes nothing
  word?: string; // the button that acts; without it there is nothing to do
  icon?: ReactNode;
  danger?: boolean;
  busy?: boolean;
  ready?: boolean;
  problem?: string;
  act?: () => void;
  aside?: ReactNode; // at the left of the buttons
  children?: ReactNode;
}) {
  const { ready = true } = props;
  return (
    <Dialog label={props.title} className="rdlg" close={props.close}>
      <form
        className="formdlg"
        onSubmit={(event) => {
          event.preventDefault();
          if (ready && !props.busy) props.act?.();
        }}
      >
        <div className="shead">
          <h2>{props.title}</h2>
          <span className="grow" />
          <button type="button" className="iconbtn" aria-label="Close" onClick={props.close}>
            <X className="i" aria-hidden="true" />
          </button>
        </div>
        <div className="rbody">
          <p className="t2">{props.lead}</p>
          {props.children}
          {props.problem && (
            <p className="errline" role="alert">
              {props.problem}
            </p>
          )}
        </div>
        <div className="rfoot">
          {props.aside}
          <span className="grow" />
          <button type="button" className="btn" data-keep onClick={props.close}>
            {props.keep}
          </button>
          {props.word && (
            <button
              type="submit"
              className={props.danger ? "btn danger" : "btn primary"}
              disabled={props.busy === true || !ready}
            >
              {props.icon}
              {props.word}
            </button>
          )}
        </div>
      </form>
    </Dialog>
  );
}
