import { ApiProblem } from "../../api/client";

/** What the server refused, instead of the section. */
export function Refused({ error }: { error: Error | null }) {
  if (!error) return null;
  const text =
    error instanceof ApiProblem ? [error.message, error.hint].filter(Boolean).join(". ") : error.message;
  return (
    <p className="errline" role="alert">
      {text}
    </p>
  );
}
