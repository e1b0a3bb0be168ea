import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { FileText } from "lucide-react";
import { documentsQuery } from "../../api/queries";
import { EmptyState } from "../../components/EmptyState";
import { JsonView } from "../../components/JsonView";
import type { RunAt } from "./RunPage";

/** What the steps saved for readers, in the versions at the cursor. */
export function DocumentsView({ at }: { at: RunAt }) {
  const documents = useQuery({ ...documentsQuery(at.run.id, at.seq), placeholderData: keepPreviousData });
  const list = documents.data?.documents ?? [];
  if (documents.data && !list.length) {
    return (
      <EmptyState icon={<FileText className="i l" aria-hidden="true" />} title="No documents">
        A step saves one with <code>ctx.save(name, value)</code>; it is visible once the step has completed.
      </EmptyState>
    );
  }
  return (
    <div className="scroll docs">
      {list.map((document) => (
        <section key={document.id}>
          <h2 className="h3">
            <code className="med">{document.name}</code>{" "}
            <span className="tag">version {document.version}</span>
            <button type="button" className="link linkbtn" onClick={() => at.goTo(document.seq)}>
              seq {document.seq}
            </button>
          </h2>
          <JsonView value={document.value} name={document.name} />
        </section>
      ))}
    </div>
  );
}
