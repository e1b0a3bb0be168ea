import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";
import { api, ask, type Schemas } from "../../api/client";
import { secretsQuery } from "../../api/queries";
import { ChoiceField, TextField } from "../../components/Field";
import { FormDialog } from "../../components/FormDialog";
import { Ago } from "../../components/Time";
import { Refused } from "./Refused";

type Secret = Schemas["SecretView"];

const USES = [
  ["bearer", "Authorization: Bearer …"],
  ["basic", "user:password"],
  ["header", "custom header"],
] as const;

/** Values that steps and nodes use by name. Nobody can read one again, here or elsewhere. */
export function Secrets() {
  const secrets = useQuery(secretsQuery);
  const queries = useQueryClient();
  const [setting, setSetting] = useState<Secret | "new" | null>(null);
  const [removing, setRemoving] = useState<Secret | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const changed = () => void queries.invalidateQueries({ queryKey: ["secrets"] });
  const remove = async (secret: Secret) => {
    setRemoving(null);
    setError(null);
    const at = { params: { path: { secret_name: secret.name } } };
    await ask(api.DELETE("/api/v1/secrets/{secret_name}", at)).catch(setError);
    changed();
  };
  const list = secrets.data?.secrets ?? [];
  return (
    <>
      <div className="row">
        <h2>Secrets</h2>
        <span className="grow" />
        <button type="button" className="btn primary" onClick={() => setSetting("new")}>
          <Plus className="i" aria-hidden="true" />
          New secret
        </button>
      </div>
      <p className="t2 measure">
        Steps and nodes use them by name. A value is sealed when it is set and never shown again. In what a
        run records, it is redacted.
      </p>
      <Refused error={secrets.error ?? error} />
      {list.length > 0 && (
        <div className="card scrollx">
          <table className="table secrets">
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">Hosts</th>
                <th scope="col" className="hide-s">
                  Sent as
                </th>
                <th scope="col" className="hide-s">
                  Set
                </th>
                <th scope="col" className="num">
                  <span className="sr">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {list.map((secret) => (
                <tr key={secret.name}>
                  <td className="mono med">{secret.name}</td>
                  <td className="t2">{secret.hosts.join(", ") || "none"}</td>
                  <td className="t2 hide-s">{secret.use === "header" ? secret.header : secret.use}</td>
                  <td className="t2 hide-s">
                    <Ago at={Date.parse(secret.created_at)} />
                    {secret.created_by && ` by ${secret.created_by}`}
                    {secret.version > 1 && `, value ${secret.version}`}
                  </td>
                  <td className="num">
                    <button
                      type="button"
                      className="btn sm"
                      aria-label={`Replace ${secret.name}…`}
                      onClick={() => setSetting(secret)}
                    >
                      Replace…
                    </button>{" "}
                    <button
                      type="button"
                      className="btn sm"
                      aria-label={`Delete ${secret.name}…`}
                      onClick={() => setRemoving(secret)}
                    >
                      Delete…
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {secrets.data && !list.length && <p className="t3">No secrets yet.</p>}
      {setting && (
        <SecretDialog
          secret={setting === "new" ? null : setting}
          close={() => setSetting(null)}
          done={() => {
            setSetting(null);
            changed();
          }}
        />
      )}
      {removing && (
        <FormDialog
          title={`Delete ${removing.name}?`}
          lead="Workers stop using it within seconds. Steps and nodes that name it fail until it is set again."
          close={() => setRemoving(null)}
          keep="Keep it"
          word="Delete secret"
          danger
          act={() => void remove(removing)}
        />
      )}
    </>
  );
}

function SecretDialog(props: { secret: Secret | null; close: () => void; done: () => void }) {
  const { secret } = props;
  const [name, setName] = useState(secret?.name ?? "");
  const [value, setValue] = useState("");
  const [hosts, setHosts] = useState(secret?.hosts.join(", ") ?? "");
  const [use, setUse] = useState<string>(secret?.use ?? "bearer");
  const [header, setHeader] = useState(secret?.header ?? "");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const seal = async () => {
    setBusy(true);
    setProblem("");
    const body = {
      value,
      hosts: hosts.split(/[\s,]+/).filter(Boolean),
      use,
      ...(use === "header" ? { header: header.trim() } : {}),
    };
    try {
      const at = { params: { path: { secret_name: name.trim() } }, body: body as never };
      await ask(api.PUT("/api/v1/secrets/{secret_name}", at));
      props.done();
    } catch (error) {
      setProblem((error as Error).message);
      setBusy(false);
    }
  };
  return (
    <FormDialog
      title={secret ? `Replace ${secret.name}` : "New secret"}
      lead="The value is sealed on the server and cannot be read again: keep your own copy."
      close={props.close}
      keep="Close"
      word={secret ? "Replace value" : "Set secret"}
      busy={busy}
      ready={Boolean(name.trim() && value)}
      problem={problem}
      act={() => void seal()}
    >
      <div className="apform">
        {!secret && <TextField label="Name" value={name} set={setName} placeholder="stripe" mono />}
        <TextField label="Value" value={value} set={setValue} help="At least 8 characters." secret mono />
        <TextField
          label="Hosts"
          value={hosts}
          set={setHosts}
          placeholder="api.example.com"
          help="Hosts to which http nodes may send it, separated by commas. Leave empty to allow none."
          mono
        />
        <ChoiceField label="Sent as" value={use} set={setUse} of={USES} />
        {use === "header" && <TextField label="Header" value={header} set={setHeader} mono />}
      </div>
    </FormDialog>
  );
}
