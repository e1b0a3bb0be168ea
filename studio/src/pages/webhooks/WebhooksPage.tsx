import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Trash2, Webhook as WebhookIcon } from "lucide-react";
import { useState } from "react";
import { api, ask, root, type Schemas } from "../../api/client";
import { webhooksQuery } from "../../api/queries";
import { CopyButton } from "../../components/CopyButton";
import { DeleteDialog } from "../../components/DeleteDialog";
import { Command, EmptyState } from "../../components/EmptyState";
import { IconButton } from "../../components/IconButton";
import { ListPage } from "../../components/ListPage";
import { Switch } from "../../components/Switch";
import { useChange } from "../../components/useChange";
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
  const [removing, setRemoving] = useState<Webhook | null>(null);
  const { problem, change } = useChange(webhooksQuery.queryKey);
  const rows = webhooks.data?.webhooks ?? [];
  const set = (row: Webhook, on: boolean) => {
    const at = { params: { path: { webhook: row.name } }, body: {} as never };
    return on
      ? ask(api.POST("/api/v1/webhooks/{webhook}/resume", at))
      : ask(api.POST("/api/v1/webhooks/{webhook}/pause", at));
  };
  const remove = (row: Webhook) => {
    const at = { params: { path: { webhook: row.name } } };
    void change(() => ask(api.DELETE("/api/v1/webhooks/{webhook}", at)));
  };
  return (
    <ListPage
      title="Webhooks"
      list={webhooks}
      count={rows.length}
      problem={problem}
      add="New webhook"
      form={(close) => <WebhookForm close={close} />}
      empty={
        <EmptyState
          icon={<WebhookIcon className="i l" aria-hidden="true" />}
          title="No webhooks yet"
          action={<Command text="stepwell webhooks create NAME WORKFLOW --secret SECRET" />}
        >
          A webhook is an address at which another service starts a workflow, or publishes an event.
        </EmptyState>
      }
      dialogs={
        removing && (
          <DeleteDialog
            name={removing.name}
            lead="Its address stops working and cannot be restored. Runs that it started continue."
            word="Delete webhook"
            close={() => setRemoving(null)}
            remove={() => remove(removing)}
          />
        )
      }
    >
      <table className="table hooks">
        <thead>
          <tr>
            <th scope="col">Webhook</th>
            <th scope="col">Address</th>
            <th scope="col" className="hide-s">
              Authentication
            </th>
            <th scope="col" className="hide-s">
              Response
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
              set={(on) => void change(() => set(row, on))}
              remove={() => setRemoving(row)}
            />
          ))}
        </tbody>
      </table>
    </ListPage>
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
        <IconButton icon={Trash2} title="Delete" label={`Delete ${row.name}…`} act={remove} />
      </td>
      <td className="num">
        <Switch label={`${row.name} is on`} on={!row.paused} set={set} />
      </td>
    </tr>
  );
}
