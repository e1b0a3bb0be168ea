import { live, useLive } from "../api/live";

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
  const state = useLive((stream) => stream.state);
  return (
    <button type="button" className={`live ${LOOK[state]}`} onClick={() => live.retry()}>
      <i />
      {WORDS[state]}
    </button>
  );
}
