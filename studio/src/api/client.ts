import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];
export type Run = Schemas["RunSummary"];
export type RunDetail = Schemas["RunView"];
export type Wait = Schemas["WaitView"];
export type Workflow = Schemas["WorkflowList"]["workflows"][number];
export type WorkflowDetail = Schemas["WorkflowDetail"];

/** Where the server is mounted: "" or "/flows". */
export const root = new URL(document.baseURI).pathname.replace(/\/$/, "");

export const api = createClient<paths>({ baseUrl: root });

/** What the server refused, in its own words. */
export class ApiProblem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint = "",
    readonly field = "",
    readonly context: Record<string, string> = {},
  ) {
    super(message);
    this.name = "ApiProblem";
  }
}

type Answer<T> = { data?: T; error?: unknown; response: Response };

/** Return the data of an answer; throw ApiProblem for a refusal or when nobody answers. */
export async function ask<T>(call: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await call;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiProblem(0, "UNREACHABLE", "The server does not answer.");
  }
  if (answer.response.ok) return answer.data as T;
  const told = (answer.error ?? {}) as Partial<Schemas["ProblemDetails"]>;
  throw new ApiProblem(
    answer.response.status,
    told.code ?? "UNKNOWN",
    told.message ?? answer.response.statusText,
    told.hint ?? "",
    told.field ?? "",
    told.context ?? {},
  );
}
