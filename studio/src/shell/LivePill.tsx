import { live, useLive } from "../api/live";
import { useNow } from "../components/Time";
import { coarse } from "../domain/time";

const WORDS = {
  connecting: "Connecting",
  live: "Live",
  reconnecting: "Reconnecting",
  paused: "Paused",
  offline: "Not connected",
} as const;
const LOOK = { connecting: "", live: "", reconnecting: "warn", paused: "", offline: "bad" } as const;

/** Whether the page is up to date; press it to connect now. */
export function LivePill() {
  const { state, retryAt } = useLive();
  return (
    <button type="button" className={`live ${LOOK[state]}`} onClick={() => live.retry()}>
      <i />
      <span>
        {WORDS[state]}
        {state === "reconnecting" && retryAt > 0 && <Countdown until={retryAt} before=" in " />}
      </span>
    </button>
  );
}

/** The seconds until then, once a second; nobody is told each second. */
export function Countdown({ until, before }: { until: number; before: string }) {
  const left = Math.max(0, Math.ceil((until - useNow(500)) / 1000));
  return (
    <span aria-live="off">
      {before}
      {left} s
    </span>
  );
}

/** The age of what is shown, in words. */
export function Age({ since }: { since: number }) {
  return <span aria-live="off">{coarse(Math.max(useNow(1000) - since, 1500))} old</span>;
}
