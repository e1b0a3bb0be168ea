/** How a program starts the run that a form describes. */
export interface Start {
  workflow: string;
  input: unknown;
  key: string;
  server: string; // its address
  manual?: boolean; // the input fits a form
}

export function asCurl({ workflow, input, key, server, manual }: Start): string {
  const by = manual ? { trigger: "manual" } : {};
  const body = JSON.stringify({ workflow, ...by, ...given(input), ...(key ? { key } : {}) });
  return [
    `curl ${quoted(`${server}/api/v1/runs`)}`,
    `-H "Authorization: Bearer $STEPWELL_API_KEY"`,
    `-H "Content-Type: application/json"`,
    `-d ${quoted(body)}`,
  ].join(" \\\n  ");
}

export function asCommand({ workflow, input, key, server, manual }: Start): string {
  const parts = ["stepwell run", quoted(workflow), `--database ${quoted(server)}`];
  if (input !== undefined) parts.push(`--input ${quoted(JSON.stringify(input))}`);
  if (key) parts.push(`--key ${quoted(key)}`);
  if (manual) parts.push("--manual");
  return parts.join(" ");
}

export function asPython({ workflow, input, key, server, manual }: Start): string {
  const parts = [python(workflow)];
  if (input !== undefined) parts.push(python(input));
  if (key) parts.push(`key=${python(key)}`);
  if (manual) parts.push('trigger="manual"');
  return [
    "import stepwell",
    "",
    `async with stepwell.connect(${python(server)}) as client:`,
    `    run = await client.start(${parts.join(", ")})`,
    "    print(await run.result())",
  ].join("\n");
}

function given(input: unknown): { input?: unknown } {
  return input === undefined ? {} : { input };
}

/** A text that a POSIX shell reads as one word. */
function quoted(text: string): string {
  return /^[\w./:@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

function python(value: unknown): string {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object") {
    const fields = Object.entries(value as object).map(([name, each]) => `${python(name)}: ${python(each)}`);
    return `{${fields.join(", ")}}`;
  }
  return JSON.stringify(value);
}
