import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { FileText } from "lucide-react";
import { useState } from "react";
import type { Schemas } from "../../api/client";
import { documentQuery, documentsQuery } from "../../api/queries";
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
          <DocumentValue run={at.run.id} document={document} />
        </section>
      ))}
    </div>
  );
}

/** A value; a long one is loaded when somebody asks for it. */
function DocumentValue({ run, document }: { run: string; document: Schemas["DocumentView"] }) {
  const [wanted, setWanted] = useState(false);
  const bytes = (document.value as { truncated?: unknown; bytes?: unknown } | null)?.bytes;
  const truncated = (document.value as { truncated?: unknown } | null)?.truncated === true;
  const whole = useQuery(documentQuery(run, document.name, document.version, truncated && wanted));
  if (truncated && whole.data === undefined) {
    return (
      <p className="t2 row g1">
        {Math.round(Number(bytes) / 1024).toLocaleString("en")} KB, not loaded.
        <button type="button" className="btn sm" disabled={wanted} onClick={() => setWanted(true)}>
          Load full
        </button>
      </p>
    );
  }
  return <JsonView value={truncated ? whole.data : document.value} name={document.name} />;
}
