/** What differs between two JSON values, by path. */
export interface Difference {
  path: string;
  kind: "added" | "removed" | "changed";
  old: unknown;
  value: unknown;
}

export function differences(old: unknown, value: unknown, path = ""): Difference[] {
  if (isObject(old) && isObject(value)) {
    const names = [...new Set([...Object.keys(old), ...Object.keys(value)])];
    return names.flatMap((name) => {
      const at = path ? `${path}.${name}` : name;
      if (!(name in old)) return [{ path: at, kind: "added" as const, old: undefined, value: value[name] }];
      if (!(name in value)) return [{ path: at, kind: "removed" as const, old: old[name], value: undefined }];
      return differences(old[name], value[name], at);
    });
  }
  if (JSON.stringify(old) === JSON.stringify(value)) return [];
  return [{ path: path || "value", kind: "changed", old, value }];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
