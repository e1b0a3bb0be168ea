import { create } from "zustand";
import { keep, kept } from "../../components/Time";

/** Columns of the runs list that somebody can hide or add. */
export interface Columns {
  workflow: boolean;
  tags: boolean;
  trigger: boolean;
  started: boolean;
  duration: boolean;
}

const KEPT = "stepwell.columns";
const USUAL: Columns = { workflow: true, tags: false, trigger: false, started: true, duration: true };
export const COLUMN_WORDS: Record<keyof Columns, string> = {
  workflow: "Workflow",
  tags: "Tags",
  trigger: "Trigger",
  started: "Started",
  duration: "Duration",
};

function read(): Columns {
  const shown = kept(KEPT);
  if (!shown) return USUAL;
  const names = shown.split(",");
  return Object.fromEntries(Object.keys(USUAL).map((name) => [name, names.includes(name)])) as never;
}

export const useColumns = create<{ columns: Columns; toggle: (name: keyof Columns) => void }>((set, get) => ({
  columns: read(),
  toggle: (name) => {
    const columns = { ...get().columns, [name]: !get().columns[name] };
    const shown = (Object.keys(columns) as (keyof Columns)[]).filter((each) => columns[each]);
    keep(KEPT, shown.join(",") || "none");
    set({ columns });
  },
}));
