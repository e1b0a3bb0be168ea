import { useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";
import { keep, kept } from "../components/Time";
import { PLACES } from "./navigation";
import { useTheme } from "./theme";

const GO = new Map(PLACES.map((place) => [place.key, place.to]));
const KEPT = "stepwell.keys-off";

export function singleKeys(): boolean {
  return kept(KEPT) === "";
}

export function setSingleKeys(on: boolean): void {
  keep(KEPT, on ? "" : "1");
}

export function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof Element &&
    target.closest(
      "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable], .cm-editor",
    ) !== null
  );
}

/** Keys that work on every page. Single keys are off in inputs, and can be turned off. */
export function useShortcuts(open: { palette: () => void; keyboard: () => void }): void {
  const navigate = useNavigate();
  useEffect(() => {
    let before = "";
    const pressed = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() === "k" && (event.metaKey || event.ctrlKey)) {
        event.preventDefault();
        open.palette();
        return;
      }
      if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target) || !singleKeys()) return;
      if (document.querySelector("dialog[open]")) return;
      const to = GO.get(event.key);
      if (before === "g" && to) void navigate({ to });
      else if (event.key === "?") open.keyboard();
      else if (event.key === "t") useTheme.getState().toggle();
      else if (event.key === "/") {
        const filter = document.querySelector<HTMLInputElement>("[data-filter]");
        if (filter) {
          event.preventDefault();
          filter.focus();
        }
      }
      before = event.key;
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, [navigate, open.palette, open.keyboard]);
}
