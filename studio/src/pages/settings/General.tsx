import { useQuery } from "@tanstack/react-query";
import { LogOut } from "lucide-react";
import { useState } from "react";
import { api, ask, root } from "../../api/client";
import { meQuery } from "../../api/queries";
import { Ago } from "../../components/Time";
import { instant } from "../../domain/time";
import { Refused } from "./Refused";

/** Who is signed in here, and what they may do. */
export function General() {
  const me = useQuery(meQuery);
  const [error, setError] = useState<Error | null>(null);
  const signOut = async () => {
    try {
      await ask(api.DELETE("/api/v1/session"));
      window.location.assign(`${root}/sign-in?left`);
    } catch (problem) {
      setError(problem as Error);
    }
  };
  const ends = instant(me.data?.expires_at);
  return (
    <>
      <div className="row">
        <h2>General</h2>
      </div>
      <Refused error={me.error ?? error} />
      {me.data && (
        <>
          <dl className="facts">
            <dt>Signed in as</dt>
            <dd>
              <b>{me.data.name}</b>
              {me.data.local && <span className="t3"> through the launch link of this server</span>}
            </dd>
            <dt>Workspace</dt>
            <dd>{me.data.workspace}</dd>
            <dt>Scopes</dt>
            <dd>
              <span className="row g1">
                {me.data.scopes.map((scope) => (
                  <span className="tag" key={scope}>
                    {scope}
                  </span>
                ))}
              </span>
            </dd>
            {me.data.roles.length > 0 && (
              <>
                <dt>Roles</dt>
                <dd>{me.data.roles.join(", ")}</dd>
              </>
            )}
            {ends !== null && (
              <>
                <dt>Session ends</dt>
                <dd>
                  <Ago at={ends} />
                </dd>
              </>
            )}
          </dl>
          <p>
            <button type="button" className="btn" onClick={() => void signOut()}>
              <LogOut className="i" aria-hidden="true" />
              Sign out
            </button>
          </p>
        </>
      )}
    </>
  );
}
