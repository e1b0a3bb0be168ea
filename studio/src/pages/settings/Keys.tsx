import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Plus, X } from "lucide-react";
import { type FormEvent, useId, useState } from "react";
import { api, ask, type Schemas } from "../../api/client";
import { keysQuery } from "../../api/queries";
import { CopyButton } from "../../components/CopyButton";
import { Dialog } from "../../components/Dialog";
import { Command } from "../../components/EmptyState";
import { Glyph } from "../../components/Glyph";
import { Ago, useNow } from "../../components/Time";
import { Refused } from "./Refused";

type Key = Schemas["KeyView"];

const SCOPES: [string, string][] = [
  ["read", "see runs, workflows and workers"],
  ["run", "start, retry, cancel and signal runs"],
  ["approve", "decide approvals"],
  ["edit", "change graphs, delete runs"],
  ["admin", "everything else: keys, limits, holds, workers"],
];
const SOON = 7 * 24 * 3600 * 1000;

export function Keys() {
  const keys = useQuery(keysQuery);
  const queries = useQueryClient();
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState<Schemas["KeyCreated"] | null>(null);
  const [revoking, setRevoking] = useState<Key | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const changed = () => void queries.invalidateQueries({ queryKey: ["keys"] });
  const revoke = async (key: Key) => {
    setRevoking(null);
    await ask(api.DELETE("/api/v1/keys/{key_id}", { params: { path: { key_id: key.id } } })).catch(setError);
    changed();
  };
  const list = keys.data?.keys ?? [];
  return (
    <>
      <div className="row">
        <h2>API keys</h2>
        <span className="grow" />
        <button type="button" className="btn primary" onClick={() => setMaking(true)}>
          <Plus className="i" aria-hidden="true" />
          New key
        </button>
      </div>
      <p className="t2 measure">
        For programs, the command line and people who sign in. A key allows what its scopes name and nothing
        else.
      </p>
      <Refused error={keys.error ?? error} />
      {made && <NewKey made={made} done={() => setMade(null)} />}
      {list.length > 0 && (
        <div className="card scrollx">
          <table className="table">
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col" className="hide-s">
                  Key
                </th>
                <th scope="col">Scopes</th>
                <th scope="col" className="hide-s">
                  Created
                </th>
                <th scope="col" className="hide-s">
                  Last used
                </th>
                <th scope="col">Expires</th>
                <th scope="col" className="num">
                  <span className="sr">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {list.map((key) => (
                <tr key={key.id}>
                  <td className="med">{key.name}</td>
                  <td className="mono xs t2 hide-s">sw_key_…{key.id.slice(-4)}</td>
                  <td>
                    <span className="row g1 wrap">
                      {key.scopes.map((scope) => (
                        <span className="tag" key={scope}>
                          {scope}
                        </span>
                      ))}
                    </span>
                  </td>
                  <td className="t2 hide-s">
                    <Ago at={Date.parse(key.created_at)} />
                  </td>
                  <td className="t2 hide-s">
                    {key.used_at ? <Ago at={Date.parse(key.used_at)} /> : "never"}
                  </td>
                  <td>
                    <Expiry at={key.expires_at ?? null} />
                  </td>
                  <td className="num">
                    {key.revoked_at ? (
                      <span className="tag">revoked</span>
                    ) : (
                      <button
                        type="button"
                        className="btn sm"
                        aria-label={`Revoke ${key.name}…`}
                        onClick={() => setRevoking(key)}
                      >
                        Revoke…
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {keys.data && !list.length && (
        <p className="t3">No keys yet. Programs need one; this browser is signed in through a link.</p>
      )}
      {making && (
        <KeyDialog
          close={() => setMaking(false)}
          made={(key) => {
            setMaking(false);
            setMade(key);
            changed();
          }}
        />
      )}
      {revoking && (
        <Dialog label={`Revoke ${revoking.name}`} className="rdlg small" close={() => setRevoking(null)}>
          <div className="shead">
            <h2>
              Revoke <code>{revoking.name}</code>?
            </h2>
          </div>
          <div className="rbody">
            <p className="t2">
              Programs and browsers that use it are refused at once, on other servers within a second. A
              revoked key cannot be restored.
            </p>
            <div className="row apbtns">
              <button type="button" className="btn danger" onClick={() => void revoke(revoking)}>
                Revoke key
              </button>
              <button type="button" className="btn" onClick={() => setRevoking(null)}>
                Keep it
              </button>
            </div>
          </div>
        </Dialog>
      )}
    </>
  );
}

function Expiry({ at }: { at: string | null }) {
  const now = useNow(60_000);
  if (!at) return <span className="t2">never</span>;
  const left = Date.parse(at) - now;
  return (
    <span className={left < SOON ? "status st-running" : "t2"}>
      <Ago at={Date.parse(at)} />
    </span>
  );
}

function NewKey({ made, done }: { made: Schemas["KeyCreated"]; done: () => void }) {
  return (
    <section className="card keynew" aria-label="New key">
      <div className="row wrap">
        <Glyph status="completed" />
        <b>Key “{made.name}” created.</b>
        <span className="t2">Copy it now: it is shown only once and stored as a hash.</span>
      </div>
      <div className="keyline">
        <code>{made.secret}</code>
        <CopyButton text={made.secret} label="Copy the key" />
      </div>
      <div className="row keyexport">
        <Command big text={`export STEPWELL_API_KEY=${made.secret}`} />
        <button type="button" className="btn primary" onClick={done}>
          Done
        </button>
      </div>
    </section>
  );
}

const LASTING: [string, string][] = [
  ["7d", "7 days"],
  ["30d", "30 days"],
  ["90d", "90 days"],
  ["365d", "a year"],
  ["", "until it is revoked"],
];

function KeyDialog(props: { close: () => void; made: (key: Schemas["KeyCreated"]) => void }) {
  const id = useId();
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<string[]>(["read", "run"]);
  const [roles, setRoles] = useState("");
  const [lasting, setLasting] = useState("90d");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const create = async (event: FormEvent) => {
    event.preventDefault();
    if (!name.trim() || !scopes.length) {
      setProblem(name.trim() ? "Choose at least one scope." : "Enter a name.");
      return;
    }
    setBusy(true);
    try {
      const body = {
        name: name.trim(),
        scopes,
        roles: roles
          .split(",")
          .map((role) => role.trim())
          .filter(Boolean),
        expires: lasting || null,
        principal: "person",
      };
      props.made(await ask(api.POST("/api/v1/keys", { body: body as never })));
    } catch (error) {
      setProblem((error as Error).message);
      setBusy(false);
    }
  };
  return (
    <Dialog label="New key" className="rdlg small" close={props.close}>
      <div className="shead">
        <h2>New key</h2>
        <span className="grow" />
        <button type="button" className="iconbtn" aria-label="Close" onClick={props.close}>
          <X className="i" aria-hidden="true" />
        </button>
      </div>
      <form className="rbody apform" onSubmit={create} noValidate>
        <div className="field">
          <label htmlFor={`${id}-name`}>Name</label>
          <input
            id={`${id}-name`}
            className="input"
            autoComplete="off"
            placeholder="Who uses it"
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        </div>
        <fieldset className="field">
          <legend className="label">Scopes</legend>
          {SCOPES.map(([scope, words]) => (
            <label className="row g1" key={scope}>
              <input
                type="checkbox"
                className="check"
                checked={scopes.includes(scope)}
                onChange={(event) =>
                  setScopes((before) =>
                    event.target.checked ? [...before, scope] : before.filter((other) => other !== scope),
                  )
                }
              />
              <span className="med">{scope}</span> <span className="t3 xs">{words}</span>
            </label>
          ))}
        </fieldset>
        <div className="field">
          <label htmlFor={`${id}-roles`}>
            Roles <span className="t3">optional; approvals may be assigned to role:NAME</span>
          </label>
          <input
            id={`${id}-roles`}
            className="input"
            autoComplete="off"
            placeholder="finance, support"
            value={roles}
            onChange={(event) => setRoles(event.target.value)}
          />
        </div>
        <div className="field">
          <label htmlFor={`${id}-lasting`}>Valid for</label>
          <select
            id={`${id}-lasting`}
            className="input"
            value={lasting}
            onChange={(event) => setLasting(event.target.value)}
          >
            {LASTING.map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        </div>
        {problem && (
          <p className="errline" role="alert">
            {problem}
          </p>
        )}
        <div className="row apbtns">
          <button type="submit" className="btn primary" disabled={busy}>
            Create key
          </button>
          <button type="button" className="btn" onClick={props.close}>
            Close
          </button>
        </div>
      </form>
    </Dialog>
  );
}
