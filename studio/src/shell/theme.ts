import { create } from "zustand";
import { keep, kept } from "../components/Time";

type Theme = "light" | "dark" | "";
const KEPT = "stepwell.theme";

interface ThemeStore {
  theme: Theme; // "" follows the system
  choose: (theme: Theme) => void;
  toggle: () => void;
}

export const useTheme = create<ThemeStore>((set, get) => ({
  theme: kept(KEPT) as Theme,
  choose: (theme) => {
    keep(KEPT, theme);
    applyTheme(theme);
    set({ theme });
  },
  toggle: () => {
    const dark = get().theme ? get().theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    get().choose(dark ? "light" : "dark");
  },
}));

export function applyTheme(theme: string = kept(KEPT)): void {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}
