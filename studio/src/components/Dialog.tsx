import { type ReactNode, useEffect, useRef } from "react";

/** What a person does first: type, or leave things as they are. */
const FIRST = "input:not([type=checkbox]), textarea, select, [data-keep]";

/** A modal: the browser's own dialog traps the focus, closes on Esc and gives the focus back. */
export function Dialog(props: { label: string; className?: string; close: () => void; children: ReactNode }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const { close } = props;
  useEffect(() => {
    const element = dialog.current;
    if (element && !element.open) {
      element.showModal();
      element.querySelector<HTMLElement>(FIRST)?.focus();
    }
    return () => element?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      className={`dialog ${props.className ?? ""}`}
      aria-label={props.label}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onClick={(event) => {
        if (event.target === dialog.current) close();
      }}
    >
      {props.children}
    </dialog>
  );
}
