import { type FormEvent, useState } from "react";
import { ApiProblem, api, ask, root } from "../api/client";
import { Command } from "../components/EmptyState";
import { usePageTitle } from "../components/usePageTitle";
import { PublicFrame } from "../shell/PublicFrame";

/** What a browser without a session sees. An expired link is a normal state, not an error. */
export function SignInPage() {
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const left = new URLSearchParams(window.location.search).has("left");
  usePageTitle("Sign in");
  const signIn = async (event: FormEvent) => {
    event.preventDefault();
    const text = key.trim();
    if (!text) {
      setProblem("Enter an API key. Keys begin with sw_key_.");
      return;
    }
    if (!text.startsWith("sw_")) {
      window.location.assign(`${root}/?t=${encodeURIComponent(text)}`); // a launch token
      return;
    }
    setBusy(true);
    setProblem("");
    try {
      await ask(api.POST("/api/v1/session", { body: { key: text } as never }));
      window.location.assign(`${root}/`);
    } catch (error) {
      setBusy(false);
      setProblem(error instanceof ApiProblem ? `${capital(error.message)}.` : String(error));
    }
  };
  return (
    <PublicFrame
      small
      label={<b>stepwell</b>}
      under={`${window.location.host}, no account, nothing leaves this server`}
    >
      <div>
        <h1>{left ? "You are signed out" : "This browser is not signed in"}</h1>
        <p className="t2 lead">
          Open the link that the server printed in its terminal. Each start prints a new link, and older links
          stop working. To get a new one, start the server again:
        </p>
      </div>
      <Command big text="stepwell dev flows.py" />
      <div className="or t3 xs">
        <span>or</span>
      </div>
      <form className="col signin" onSubmit={signIn} noValidate>
        <div className="field">
          <label htmlFor="key">API key</label>
          <input
            id="key"
            className={problem ? "input mono bad" : "input mono"}
            type="password"
            placeholder="sw_key_…"
            autoComplete="off"
            aria-invalid={problem ? true : undefined}
            aria-describedby="key-help"
            value={key}
            onChange={(event) => setKey(event.target.value)}
          />
          <span className={problem ? "err" : "help"} id="key-help" role={problem ? "alert" : undefined}>
            {problem || "Stored in a cookie of this browser that scripts cannot read."}
          </span>
        </div>
        <div className="row">
          <button type="submit" className="btn primary lg" disabled={busy}>
            Sign in
          </button>
        </div>
      </form>
    </PublicFrame>
  );
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
