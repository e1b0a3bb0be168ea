import type { Problem } from "./where";

/**
 * Codes of a mistake in the node itself: another attempt cannot help, somebody has to change it. Everything else
 * went wrong while it ran.
 */
const CONFIGURED = new Set([
  "NODE_CONFIG",
  "EXPRESSION_ERROR",
  "NO_CASE_MATCHED",
  "OUTPUT_NOT_JSON",
  "OUTPUT_TOO_LARGE",
  "UNKNOWN_WORKFLOW",
  "NODE_UNSERVED",
  "LOOP_LIMIT",
  "STEP_LIMIT",
  "HTTP_METHOD",
  "HEADER_FORBIDDEN",
  "HEADER_INVALID",
  "SSRF_BLOCKED",
  "SQL_CONNECTION",
  "SQL_TEMPLATE",
  "SQL_ONE_STATEMENT",
  "SQL_PARAMS",
  "SQL_READ_ONLY",
  "SQL_FORBIDDEN",
  "SQL_TYPE",
  "CODE_SYNTAX",
  "CODE_NO_NETWORK",
]);

export function isConfigured(problem: Problem): boolean {
  const code = problem.code ?? "";
  return CONFIGURED.has(code) || /^(INVALID|UNKNOWN|BAD_|URL_|MISSING)/.test(code);
}

export function errorKind(problem: Problem): string {
  return isConfigured(problem) ? "Fix your node" : "Something went wrong";
}

/** The field of a node that its problem names: `url` of "order.url: unknown variable". */
export function fieldOf(problem: Problem): string {
  return /(?:^|\bfield )['"`]?([a-z][A-Za-z0-9_.[\]]*)['"`]?:/.exec(problem.message ?? "")?.[1] ?? "";
}
