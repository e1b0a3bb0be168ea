import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Plus, Trash2, Webhook as WebhookIcon } from "lucide-react";
import { useEffect, useState } from "react";
import { api, ask, root, type Schemas } from "../../api/client";
import { webhooksQuery } from "../../api/queries";
import { CopyButton } from "../../components/CopyButton";
import { Command, EmptyState } from "../../components/EmptyState";
import { FormDialog } from "../../components/FormDialog";
import { Skeleton } from "../../components/Skeleton";
import { WebhookForm } from "./WebhookForm";

type Webhook = Schemas["WebhookView"];

const PROOFS: Record<string, string> = {
  standard: "Standard Webhooks signature",
  hmac: "HMAC-SHA256 of the body",
  bearer: "Bearer token",
  basic: "Basic authentication",
  none: "None",
};

/** Addresses at which other services start workflows: where, how they prove themselves, and whether they are on. */
export function WebhooksPage() {
  const webhooks = useQuery(webhooksQuery);
  const queries = useQueryClient();
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Webhook | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    document.title = "Webhooks · Stepwell Studio";
  }, []);
  if (webhooks.error && !webhooks.data) throw webhooks.error;
  const rows = webhooks.data?.webhooks ?? [];
  const change = async (call: Promise<unknown>) => {
    setProblem("");
    try {
      await call;
    } catch (error) {
      setProblem((error as Error).message);
    }
    await queries.invalidateQueries({ queryKey: ["webhooks"] });
  };
  const set = (row: Webhook, on: boolean) => {
    const at = { params: { path: { webhook: row.name } }, body: {} as never };
    return on
      ? ask(api.POST("/api/v1/webhooks/{webhook}/resume", at))
      : ask(api.POST("/api/v1/webhooks/{webhook}/pause", at));
  };
  const remove = (row: Webhook) => {
    setRemoving(null);
    const at = { params: { path: { webhook: row.name } } };
    void change(ask(api.DELETE("/api/v1/webhooks/{webhook}", at)));
  };
  return (
    <main className="main" id="main">
      <div className={adding ? "schg" : "schg one"}>
        <div className="schl">
          <div className="pagehead">
            <h1>Webhooks</h1>
            <span className="xs t3">{rows.length || ""}</span>
            <span className="grow" />
            <button type="button" className="btn primary" onClick={() => setAdding(true)}>
              <Plus className="i" aria-hidden="true" />
              New webhook
            </button>
          </div>
          {problem && (
            <p className="errline" role="alert">
              {problem}
            </p>
          )}
          {rows.length > 0 && (
            <table className="table hooks">
              <thead>
                <tr>
                  <th scope="col">Webhook</th>
                  <th scope="col">Address</th>
                  <th scope="col" className="hide-s">
                    {" "}
                    Authentication{" "}
                  </th>
                  <th scope="col" className="hide-s">
                    {" "}
                    Response{" "}
                  </th>
                  <th scope="col" className="num">
                    <span className="sr">Actions</span>
                  </th>
                  <th scope="col" className="num">
                    On
                  </th>
                </tr>
              </thead>
              <tbody>
                {rows.map((row) => (
                  <Row
                    key={row.name}
                    row={row}
                    set={(on) => void change(set(row, on))}
                    remove={() => setRemoving(row)}
                  />
                ))}
              </tbody>
            </table>
          )}
          {webhooks.isPending && <Skeleton rows={4} />}
          {webhooks.data && !rows.length && (
            <EmptyState
              icon={<WebhookIcon className="i l" aria-hidden="true" />}
              title="No webhooks yet"
              action={<Command text="stepwell webhooks create NAME WORKFLOW --secret SECRET" />}
            >
              A webhook is an address at which another service starts a workflow, or publishes an event.
            </EmptyState>
          )}
        </div>
        {adding && <WebhookForm close={() => setAdding(false)} />}
      </div>
      {removing && (
        <FormDialog
          title={`Delete ${removing.name}?`}
          lead="Its address stops working and cannot be restored. Runs that it started continue."
          close={() => setRemoving(null)}
          keep="Keep it"
          word="Delete webhook"
          danger
          act={() => remove(removing)}
        />
      )}
    </main>
  );
}

function Row({ row, set, remove }: { row: Webhook; set: (on: boolean) => void; remove: () => void }) {
  return (
    <tr>
      <td>
        <div className="stack2">
          <span className="mono med">{row.name}</span>
          {row.workflow ? (
            <Link className="link xxs mono" to="/workflows/$name" params={{ name: row.workflow }}>
              {row.workflow}
            </Link>
          ) : (
            <span className="xxs t3">
              event <span className="mono">{row.event}</span>
            </span>
          )}
        </div>
      </td>
      <td>
        <span className="row g1">
          <span className="mono xs cut">{row.path}</span>
          <CopyButton
            text={`${window.location.origin}${root}${row.path}`}
            label={`Copy the address of ${row.name}`}
          />
        </span>
      </td>
      <td className="t2 hide-s">
        <div className="stack2">
          {PROOFS[row.scheme] ?? row.scheme}
          {row.secret && (
            <span className="xxs t3">
              secret <span className="mono">{row.secret}</span>
            </span>
          )}
        </div>
      </td>
      <td className="t2 hide-s">{row.reply === "result" ? "Result of the run" : "202, at once"}</td>
      <td className="num">
        <button
          type="button"
          className="iconbtn sm"
          title="Delete"
          aria-label={`Delete ${row.name}…`}
          onClick={remove}
        >
          <Trash2 className="i" aria-hidden="true" />
        </button>
      </td>
      <td className="num">
        <input
          type="checkbox"
          className="switch"
          role="switch"
          aria-label={`${row.name} is on`}
          checked={!row.paused}
          onChange={(event) => set(event.target.checked)}
        />
      </td>
    </tr>
  );
}
