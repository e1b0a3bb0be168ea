import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useId, useState } from "react";
import { api, ask, type Schemas } from "../../api/client";
import { limitsQuery } from "../../api/queries";
import { words } from "../../domain/schema";
import { Refused } from "./Refused";
import { StartRates } from "./StartRates";

type Kind = Schemas["LimitView"]["kind"];
const KINDS: [string, string][] = [
  ["workspace", "Workspace"],
  ["workflow", "Workflow"],
  ["queue", "Queue"],
  ["key", "Limit key"],
];

/** How many runs may be active at once, and the largest sizes. */
export function Limits() {
  const limits = useQuery(limitsQuery);
  const queries = useQueryClient();
  const [error, setError] = useState<Error | null>(null);
  const list = limits.data?.limits ?? [];
  const change = async (call: Promise<unknown>) => {
    setError(null);
    try {
      await call;
      void queries.invalidateQueries({ queryKey: ["limits"] });
      return true;
    } catch (problem) {
      setError(problem as Error);
      return false;
    }
  };
  return (
    <>
      <div className="row">
        <h2>Limits</h2>
      </div>
      <p className="t2 measure">
        How many runs may be active at once. Runs over a limit wait; runs that are active are not stopped.
      </p>
      <Refused error={limits.error ?? error} />
      <LimitForm put={(body) => change(ask(api.PUT("/api/v1/limits", { body: body as never })))} />
      {list.length > 0 && (
        <div className="card">
          <table className="table limits">
            <thead>
              <tr>
                <th scope="col">Scope</th>
                <th scope="col">Name</th>
                <th scope="col" className="num">
                  Active runs
                </th>
                <th scope="col" className="hide-s">
                  Set by
                </th>
                <th scope="col" className="num">
                  <span className="sr">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {list.map((limit) => (
                <tr key={`${limit.kind} ${limit.name}`}>
                  <td>{KINDS.find(([kind]) => kind === limit.kind)?.[1] ?? limit.kind}</td>
                  <td className="mono" title={limit.name}>
                    {limit.name || "all"}
                  </td>
                  <td className="num">{limit.limit ?? "no limit"}</td>
                  <td className="t2 hide-s">{limit.by}</td>
                  <td className="num">
                    <button
                      type="button"
                      className="btn sm"
                      aria-label={`Remove the limit of ${limit.kind} ${limit.name}`.trim()}
                      onClick={() =>
                        void change(
                          ask(
                            api.DELETE("/api/v1/limits", {
                              params: { query: { kind: limit.kind as never, name: limit.name } },
                            }),
                          ),
                        )
                      }
                    >
                      Remove
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {limits.data && !list.length && (
        <p className="t3">No limits are set. Runs wait only for free slots of workers.</p>
      )}
      <StartRates
        rates={limits.data?.rates ?? []}
        put={(body) => change(ask(api.PUT("/api/v1/start-rates", { body: body as never })))}
        drop={(rate) => {
          const query = { per: rate.per as never, seconds: rate.seconds };
          void change(ask(api.DELETE("/api/v1/start-rates", { params: { query } })));
        }}
      />
      <h3 className="h3">Largest sizes</h3>
      <dl className="facts">
        {Object.entries(limits.data?.sizes ?? {}).map(([name, value]) => (
          <SizeFact key={name} name={name} value={value} />
        ))}
      </dl>
    </>
  );
}

function SizeFact({ name, value }: { name: string; value: number }) {
  const bytes = name.includes("bytes");
  return (
    <>
      <dt>{words(name.replace("_bytes", "")).replace("Json", "JSON")}</dt>
      <dd>
        {bytes && value >= 1024
          ? `${(value / 1024).toLocaleString("en", { maximumFractionDigits: 0 })} KB`
          : value.toLocaleString("en")}
      </dd>
    </>
  );
}

function LimitForm({
  put,
}: {
  put: (body: { kind: Kind; name: string; limit: number }) => Promise<boolean>;
}) {
  const id = useId();
  const [kind, setKind] = useState("workflow");
  const [name, setName] = useState("");
  const [most, setMost] = useState("");
  const [problem, setProblem] = useState("");
  const submitted = async (event: FormEvent) => {
    event.preventDefault();
    const limit = Number(most);
    if (!/^\d+$/.test(most)) setProblem("Active runs must be a whole number, 0 or more.");
    else if (kind !== "workspace" && !name.trim()) setProblem("Enter the name of what is limited.");
    else {
      setProblem("");
      const named = kind === "workspace" ? "" : name.trim();
      if (await put({ kind: kind as Kind, name: named, limit })) {
        setName("");
        setMost("");
      }
    }
  };
  return (
    <form className="row wrap limitform" onSubmit={submitted} noValidate>
      <div className="field">
        <label htmlFor={`${id}-kind`}>Scope</label>
        <select
          id={`${id}-kind`}
          className="input"
          value={kind}
          onChange={(event) => setKind(event.target.value)}
        >
          {KINDS.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </div>
      {kind !== "workspace" && (
        <div className="field">
          <label htmlFor={`${id}-name`}>Name</label>
          <input
            id={`${id}-name`}
            className="input mono"
            autoComplete="off"
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        </div>
      )}
      <div className="field short">
        <label htmlFor={`${id}-most`}> Active runs </label>
        <input
          id={`${id}-most`}
          className="input"
          inputMode="numeric"
          autoComplete="off"
          value={most}
          onChange={(event) => setMost(event.target.value)}
        />
      </div>
      <button type="submit" className="btn primary">
        Set limit
      </button>
      {problem && (
        <p className="errline" role="alert">
          {problem}
        </p>
      )}
    </form>
  );
}
