import { type FormEvent, useState } from "react";
import { root } from "../api/client";
import { Command } from "../components/EmptyState";
import { Brand } from "../shell/Shell";

/** What a browser without a session sees. An expired link is a normal state, not an error. */
export function SignInPage() {
  const [token, setToken] = useState("");
  const signIn = (event: FormEvent) => {
    event.preventDefault();
    if (token.trim()) window.location.assign(`${root}/?t=${encodeURIComponent(token.trim())}`);
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
          <label htmlFor="token">Launch token</label>
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
        </form>
      </div>
    </main>
  );
}
