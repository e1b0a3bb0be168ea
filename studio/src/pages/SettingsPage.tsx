import { queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { Gauge, Info, KeyRound, Palette, ScrollText } from "lucide-react";
import { type FormEvent, type ReactNode, useEffect, useId, useState } from "react";
import { ApiProblem, api, ask, root, type Schemas } from "../api/client";
import { aboutQuery, keysQuery, limitsQuery, meQuery } from "../api/queries";
import { CopyButton } from "../components/CopyButton";
import { Ago, useZone } from "../components/Time";
import { words } from "../domain/schema";
import { setSingleKeys, singleKeys } from "../shell/shortcuts";
import { useTheme } from "../shell/theme";

const SECTIONS: { name: string; label: string; icon: ReactNode; page: () => ReactNode }[] = [
  {
    name: "keys",
    label: "API keys",
    icon: <KeyRound className="i" aria-hidden="true" />,
    page: () => <Keys />,
  },
  {
    name: "limits",
    label: "Limits",
    icon: <Gauge className="i" aria-hidden="true" />,
    page: () => <Limits />,
  },
  {
    name: "audit",
    label: "Audit",
    icon: <ScrollText className="i" aria-hidden="true" />,
    page: () => <Audit />,
  },
  {
    name: "appearance",
    label: "Appearance",
    icon: <Palette className="i" aria-hidden="true" />,
    page: () => <Appearance />,
  },
  { name: "about", label: "About", icon: <Info className="i" aria-hidden="true" />, page: () => <About /> },
];

export function SettingsPage() {
  const { section = "keys" } = useParams({ strict: false });
  const chosen = SECTIONS.find((each) => each.name === section) ?? SECTIONS[0];
  useEffect(() => {
    document.title = "Settings · Stepwell Studio";
  }, []);
  return (
    <main className="main" id="main">
      <div className="set">
        <nav className="setnav" aria-label="Settings">
          <h1>Settings</h1>
          {SECTIONS.map((each) => (
            <Link
              key={each.name}
              to="/settings/$section"
              params={{ section: each.name }}
              aria-current={each === chosen ? "page" : undefined}
            >
              {each.icon}
              {each.label}
            </Link>
          ))}
        </nav>
        <div className="setbody scroll">
          <h2>{chosen?.label}</h2>
          {chosen?.page()}
        </div>
      </div>
    </main>
  );
}

/** What the server refused, instead of the section. */
function Refused({ error }: { error: Error | null }) {
  if (!error) return null;
  const text =
    error instanceof ApiProblem ? [error.message, error.hint].filter(Boolean).join(". ") : error.message;
  return (
    <p className="errline" role="alert">
      {text}
    </p>
  );
}

const SCOPES = ["read", "run", "approve", "edit", "admin"];

function Keys() {
  const keys = useQuery(keysQuery);
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<string[]>(["read", "run"]);
  const [made, setMade] = useState<Schemas["KeyCreated"] | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const id = useId();
  const create = async (event: FormEvent) => {
    event.preventDefault();
    setError(null);
    try {
      setMade(await ask(api.POST("/api/v1/keys", { body: { name, scopes } as never })));
      setName("");
      void queries.invalidateQueries({ queryKey: ["keys"] });
    } catch (problem) {
      setError(problem as Error);
    }
  };
  const revoke = async (key: string) => {
    await ask(api.DELETE("/api/v1/keys/{key_id}", { params: { path: { key_id: key } } })).catch(setError);
    void queries.invalidateQueries({ queryKey: ["keys"] });
  };
  const list = keys.data?.keys ?? [];
  return (
    <>
      <Refused error={keys.error ?? error} />
      <form className="row wrap" onSubmit={create}>
        <label className="sr" htmlFor={id}>
          Name of the new key
        </label>
        <input
          id={id}
          className="input keyname"
          placeholder="Who uses it"
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        {SCOPES.map((scope) => (
          <label className="row g1 xs" key={scope}>
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
            {scope}
          </label>
        ))}
        <button type="submit" className="btn primary" disabled={!name || !scopes.length}>
          Create key
        </button>
      </form>
      {made && (
        <section className="card keynew" aria-label="New key">
          <p>
            <b>{made.name}</b> is ready. Copy it now: it is shown once.
          </p>
          <div className="keyline">
            <code>export STEPWELL_API_KEY={made.secret}</code>
            <CopyButton text={`export STEPWELL_API_KEY=${made.secret}`} label="Copy the export line" />
          </div>
        </section>
      )}
      <table className="table">
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Scopes</th>
            <th scope="col">Created</th>
            <th scope="col">Last used</th>
            <th scope="col">Expires</th>
            <th scope="col">
              <span className="sr">Revoke</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {list.map((key) => (
            <tr key={key.id}>
              <td className="med">{key.name}</td>
              <td className="t2 xs">{key.scopes.join(", ")}</td>
              <td className="t2">
                <Ago at={Date.parse(key.created_at)} />
              </td>
              <td className="t2">{key.used_at ? <Ago at={Date.parse(key.used_at)} /> : "never"}</td>
              <td className="t2">{key.expires_at ? <Ago at={Date.parse(key.expires_at)} /> : "never"}</td>
              <td className="num">
                {key.revoked_at ? (
                  <span className="tag">revoked</span>
                ) : (
                  <button
                    type="button"
                    className="btn sm danger-quiet"
                    aria-label={`Revoke ${key.name}`}
                    onClick={() => void revoke(key.id)}
                  >
                    Revoke
                  </button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {keys.data && !list.length && (
        <p className="t3">No keys. Programs use one; browsers are signed in by their link.</p>
      )}
    </>
  );
}

function Limits() {
  const limits = useQuery(limitsQuery);
  const list = limits.data?.limits ?? [];
  return (
    <>
      <Refused error={limits.error} />
      <table className="table">
        <thead>
          <tr>
            <th scope="col">Of</th>
            <th scope="col">Name</th>
            <th scope="col" className="num">
              At once
            </th>
          </tr>
        </thead>
        <tbody>
          {list.map((limit) => (
            <tr key={`${limit.kind} ${limit.name}`}>
              <td>{limit.kind}</td>
              <td className="mono">{limit.name || "all"}</td>
              <td className="num">{limit.limit ?? "no limit"}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {limits.data && !list.length && <p className="t3">No limits are set.</p>}
      <h3 className="h3">Largest sizes</h3>
      <dl className="facts sizes">
        {Object.entries(limits.data?.sizes ?? {}).map(([name, value]) => (
          <div key={name}>
            <dt>{words(name)}</dt>
            <dd className="num">{value.toLocaleString("en")}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

const auditQuery = queryOptions({
  queryKey: ["audit"],
  queryFn: ({ signal }) => ask(api.GET("/api/v1/audit", { signal })),
});

function Audit() {
  const audit = useQuery(auditQuery);
  return (
    <>
      <Refused error={audit.error} />
      <table className="table">
        <thead>
          <tr>
            <th scope="col">When</th>
            <th scope="col">Who</th>
            <th scope="col">Did</th>
            <th scope="col">Where</th>
            <th scope="col" className="num">
              Answer
            </th>
          </tr>
        </thead>
        <tbody>
          {(audit.data?.entries ?? []).map((entry) => (
            <tr key={entry.id}>
              <td className="t2">{entry.at ? <Ago at={Date.parse(entry.at)} /> : ""}</td>
              <td className="med">{entry.by}</td>
              <td>{words(entry.action)}</td>
              <td className="mono xs t2">{entry.path}</td>
              <td className="num">{entry.status}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {audit.data && !audit.data.entries.length && <p className="t3">Nothing was changed yet.</p>}
    </>
  );
}

function Appearance() {
  const { theme, choose } = useTheme();
  const { utc, toggle } = useZone();
  const [keys, setKeys] = useState(singleKeys());
  return (
    <div className="col appear">
      <fieldset className="field">
        <legend className="label">Theme</legend>
        <div className="row g4">
          {(["", "light", "dark"] as const).map((each) => (
            <label className="row g1" key={each}>
              <input type="radio" name="theme" checked={theme === each} onChange={() => choose(each)} />
              {each === "" ? "As the system" : words(each)}
            </label>
          ))}
        </div>
      </fieldset>
      <label className="row">
        <input
          type="checkbox"
          className="switch"
          role="switch"
          checked={utc}
          onChange={(event) => toggle(event.target.checked)}
        />
        Show times in UTC
      </label>
      <label className="row">
        <input
          type="checkbox"
          className="switch"
          role="switch"
          checked={keys}
          onChange={(event) => {
            setSingleKeys(event.target.checked);
            setKeys(event.target.checked);
          }}
        />
        Shortcuts of a single key
      </label>
    </div>
  );
}

function About() {
  const about = useQuery(aboutQuery);
  const me = useQuery(meQuery);
  const facts: [string, string][] = about.data
    ? [
        ["Version", about.data.version],
        ["Database", about.data.database],
        ["Workspace", about.data.workspace],
        ["This process works", about.data.works ? "yes" : "no, it serves only"],
        ["Signed in as", me.data?.name ?? ""],
        ["Scopes", me.data?.scopes.join(", ") ?? ""],
      ]
    : [];
  return (
    <>
      <Refused error={about.error} />
      <dl className="facts sizes">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <p>
        <a className="link" href={`${root}/api/v1/openapi.json`}>
          OpenAPI document
        </a>
      </p>
    </>
  );
}
