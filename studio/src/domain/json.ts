/** JSON for readers: what fits into a line stands in one. */

const WIDTH = 64; // characters

export function pretty(value: unknown): string {
  const plain = JSON.parse(JSON.stringify(value ?? null)) as unknown;
  return isHolder(plain) ? opened(plain, "") : JSON.stringify(plain);
}

type Holder = unknown[] | Record<string, unknown>;

function isHolder(value: unknown): value is Holder {
  return typeof value === "object" && value !== null && Object.keys(value).length > 0;
}

function drawn(value: unknown, indent: string, room: number): string {
  if (!isHolder(value)) return JSON.stringify(value);
  const short = JSON.stringify(value).length <= room ? inline(value) : "";
  return short && short.length <= room ? short : opened(value, indent);
}

function inline(value: unknown): string {
  if (!isHolder(value)) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(inline).join(", ")}]`;
  const parts = Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${inline(each)}`);
  return `{${parts.join(", ")}}`;
}

function opened(value: Holder, indent: string): string {
  const inner = `${indent}  `;
  const room = WIDTH - inner.length;
  if (!Array.isArray(value)) {
    const parts = Object.entries(value).map(([name, each]) => {
      const head = `${JSON.stringify(name)}: `;
      return `${inner}${head}${drawn(each, inner, room - head.length)}`;
    });
    return `{\n${parts.join(",\n")}\n${indent}}`;
  }
  const parts = value.map((each) => drawn(each, inner, room));
  const lines = value.some(isHolder) ? parts : filled(parts, room);
  return `[\n${lines.map((line) => `${inner}${line}`).join(",\n")}\n${indent}]`;
}

/** Many short values beside each other, as many as a line takes. */
function filled(parts: string[], room: number): string[] {
  const lines: string[] = [];
  for (const part of parts) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + part.length + 2 <= room)
      lines[lines.length - 1] = `${last}, ${part}`;
    else lines.push(part);
  }
  return lines;
}
