import { type FormEvent, useState } from "react";
import { ApiProblem, api, ask, root } from "../api/client";
import { Command } from "../components/EmptyState";
import { Brand } from "../shell/Shell";

/** What a browser without a session sees. An expired link is a normal state, not an error. */
export function SignInPage() {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState("");
  const signIn = async (event: FormEvent) => {
    event.preventDefault();
    const text = token.trim();
    if (!text) return;
    if (!text.startsWith("sw_")) {
      window.location.assign(`${root}/?t=${encodeURIComponent(text)}`);
      return;
    }
    try {
      await ask(api.POST("/api/v1/session", { body: { key: text } as never }));
      window.location.assign(`${root}/`);
    } catch (error) {
      setProblem(error instanceof ApiProblem ? error.message : String(error));
    }
  };
  return (
    <main className="pub" id="main">
      <div className="pubcard login">
        <span className="brand">
          <Brand />
          stepwell
        </span>
        <div>
          <h1>Open the address that the server printed</h1>
          <p className="t2">
            It signs this browser in. An old address does not: each start of the server has its own.
          </p>
        </div>
        <Command text="stepwell dev flows.py" />
        <div className="or t3 xs">or</div>
        <form className="field" onSubmit={signIn}>
          <label htmlFor="token">API key or launch token</label>
          <span className="row">
            <input
              id="token"
              className="input mono"
              type="password"
              autoComplete="off"
              value={token}
              onChange={(event) => setToken(event.target.value)}
            />
            <button type="submit" className="btn primary">
              Sign in
            </button>
          </span>
          {problem && (
            <span className="err" role="alert">
              {problem}
            </span>
          )}
        </form>
      </div>
    </main>
  );
}
