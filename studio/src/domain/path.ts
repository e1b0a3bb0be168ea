/** A place in a run: "0/charge_card#2", "0~3/totals#1", "0/approval:sign#1", "0/submit@1". */
export interface PlacePath {
  lane: string; // "0", "0~3": the task that runs it
  what: string; // "step" unless the path says signal, approval, trigger …
  name: string;
  count: number; // which call of that name; 0: the path has none
}

export function parsePath(path: string): PlacePath {
  const cut = path.lastIndexOf("/");
  const lane = cut < 0 ? "" : path.slice(0, cut);
  const last = path.slice(cut + 1);
  const match = /^(?:([a-z_]+):)?(.*?)(?:[#@](\d+))?$/.exec(last);
  return {
    lane,
    what: match?.[1] ?? "step",
    name: match?.[2] || last,
    count: match?.[3] ? Number(match[3]) : 0,
  };
}

export function placeName(path: string): string {
  return parsePath(path).name;
}
