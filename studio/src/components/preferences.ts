import { create } from "zustand";
import { keep, kept } from "./Time";

/** How this browser likes the pages: kept here, sent nowhere. */
interface Preferences {
  compact: boolean;
  still: boolean; // no motion, whatever the system says
  choose: (change: Partial<Pick<Preferences, "compact" | "still">>) => void;
}

const COMPACT = "stepwell.compact";
const STILL = "stepwell.still";

export const usePreferences = create<Preferences>((set) => ({
  compact: kept(COMPACT) !== "",
  still: kept(STILL) !== "",
  choose: (change) =>
    set((before) => {
      const now = { ...before, ...change };
      keep(COMPACT, now.compact ? "1" : "");
      keep(STILL, now.still ? "1" : "");
      apply(now);
      return now;
    }),
}));

export function applyPreferences(): void {
  apply(usePreferences.getState());
}

function apply({ compact, still }: Pick<Preferences, "compact" | "still">): void {
  const page = document.documentElement.dataset;
  if (compact) page.density = "compact";
  else delete page.density;
  if (still) page.motion = "none";
  else delete page.motion;
}
