import { useEffect, useState } from "react";
import { isTyping, singleKeys } from "../shell/shortcuts";

/** The row that j, k and Enter are about; -1 until one of them was pressed. */
export function useRowCursor(rows: number, open: (row: number) => void): number {
  const [at, setAt] = useState(-1);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (!singleKeys() || event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector("dialog[open]")) return;
      if (event.key === "j") setAt((before) => Math.min(before + 1, rows - 1));
      else if (event.key === "k") setAt((before) => Math.max(before - 1, 0));
      else if (event.key === "Enter" && at >= 0 && event.target === document.body) open(at);
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, [rows, open, at]);
  useEffect(() => {
    if (at >= 0) document.querySelector("tr.cur")?.scrollIntoView({ block: "nearest" });
  }, [at]);
  return at;
}
