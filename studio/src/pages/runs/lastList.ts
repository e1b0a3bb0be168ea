/** The list that somebody came from: its runs follow each other on the run page too. */
let ids: string[] = [];

export function rememberList(runs: { id: string }[]): void {
  ids = runs.map((run) => run.id);
}

export function neighbour(id: string, by: number): string {
  const at = ids.indexOf(id);
  return at < 0 ? "" : (ids[at + by] ?? "");
}
