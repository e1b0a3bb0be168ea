import { type QueryKey, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

/** Changes of what a page shows: what the server refused last, and a call after which the page is read again. */
export function useChange(queryKey: QueryKey) {
  const queries = useQueryClient();
  const [problem, setProblem] = useState("");
  const change = async (call: () => Promise<unknown>): Promise<boolean> => {
    setProblem("");
    let done = true;
    try {
      await call();
    } catch (error) {
      setProblem((error as Error).message);
      done = false;
    }
    await queries.invalidateQueries({ queryKey });
    return done;
  };
  return { problem, change };
}
