import { useEffect } from "react";
import { create } from "zustand";
import { root } from "./client";

/** Live events of a tab: one stream for all topics, closed while nobody looks at the tab. */

export type LiveState = "connecting" | "live" | "reconnecting" | "paused" | "offline";

interface LiveStore {
  state: LiveState;
  since: number; // when the stream was last known to be up to date
  lost: number; // attempts to connect that failed since then
  retryAt: number; // when the next attempt is made; 0: now
}

export const useLive = create<LiveStore>(() => ({
  state: "connecting",
  since: Date.now(),
  lost: 0,
  retryAt: 0,
}));

const RETRY_MAX = 10_000;
const POLL = 3_000;
const STREAMS_MAX = 4; // of all tabs: a browser opens six connections to a server, and pages need some of them

/** One of the few streams that the tabs of a browser share. */
class StreamSlot {
  private letGo: (() => void) | null = null;

  async take(): Promise<boolean> {
    if (this.letGo || !navigator.locks) return true; // without locks only hidden tabs give way
    for (let slot = 0; slot < STREAMS_MAX; slot++)
      if (await this.taken(`stepwell.stream.${slot}`)) return true;
    return false;
  }

  private taken(name: string): Promise<boolean> {
    return new Promise((answer) => {
      void navigator.locks.request(name, { ifAvailable: true }, (lock) => {
        answer(lock !== null);
        return (
          lock &&
          new Promise<void>((release) => {
            this.letGo = release;
          })
        );
      });
    });
  }

  release(): void {
    this.letGo?.();
    this.letGo = null;
  }
}

type Listener = (name: string, data: unknown) => void;
const NAMES = ["reset", "runs", "batch", "end", "error", "resume"];

class Connection {
  private source: EventSource | null = null;
  private readonly listeners = new Map<string, Set<Listener>>();
  private opened = "";
  private lastId = "";
  private scheduled = false;
  private attempts = 0;
  private timer = 0;
  private missed = false; // the stream was away since it was last open
  private readonly slot = new StreamSlot();

  constructor() {
    document.addEventListener("visibilitychange", () => this.refresh());
  }

  follow(topic: string, listener: Listener): () => void {
    const set = this.listeners.get(topic) ?? new Set();
    this.listeners.set(topic, set.add(listener));
    this.refresh();
    return () => {
      set.delete(listener);
      if (!set.size && this.listeners.get(topic) === set) this.listeners.delete(topic);
      this.refresh();
    };
  }

  /** Connect again now. */
  retry(): void {
    this.close();
    this.refresh();
  }

  private refresh(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    queueMicrotask(() => {
      this.scheduled = false;
      this.connect();
    });
  }

  private connect(): void {
    const topics = [...this.listeners.keys()].sort().join(",");
    if (document.hidden) {
      this.close();
      this.slot.release();
      useLive.setState({ state: "paused" });
      return;
    }
    if (this.source && topics === this.opened) return;
    if (topics !== this.opened) this.lastId = "";
    this.close();
    this.opened = topics;
    if (!topics) return;
    useLive.setState({ retryAt: 0 });
    void this.slot.take().then((taken) => {
      if (this.source || this.opened !== topics || document.hidden) return;
      if (taken) this.open(topics);
      else this.poll();
    });
  }

  private open(topics: string): void {
    const after = this.lastId ? `&after=${encodeURIComponent(this.lastId)}` : "";
    const source = new EventSource(`${root}/api/v1/stream?topics=${encodeURIComponent(topics)}${after}`);
    this.source = source;
    source.onopen = () => {
      this.attempts = 0;
      useLive.setState({ state: "live", since: Date.now(), lost: 0, retryAt: 0 });
      if (this.missed) this.catchUp();
      this.missed = false;
    };
    source.onerror = () => this.lost(source);
    for (const name of NAMES) source.addEventListener(name, (event) => this.received(name, event));
  }

  /** Other tabs have the streams: look now and then, and whether one has become free. */
  private poll(): void {
    this.missed = true;
    useLive.setState({ state: "live", since: Date.now(), lost: 0, retryAt: 0 });
    this.catchUp();
    this.timer = window.setTimeout(() => this.refresh(), POLL);
  }

  /** Let every listener read again what it may have missed. */
  private catchUp(): void {
    for (const listeners of [...this.listeners.values()])
      for (const listener of listeners) listener("reset", null);
  }

  private received(name: string, event: Event): void {
    if (!(event instanceof MessageEvent)) return;
    if (event.lastEventId) this.lastId = event.lastEventId;
    useLive.setState({ since: Date.now() });
    const data: unknown = JSON.parse(event.data as string);
    for (const [topic, listeners] of this.listeners) {
      if (belongs(topic, name, data)) for (const listener of listeners) listener(name, data);
    }
  }

  /** Connect again by ourselves, later each time: a browser does not say when it will, and gives up on some answers. */
  private lost(source: EventSource): void {
    if (source !== this.source) return;
    this.close();
    this.missed = true;
    this.attempts += 1;
    const wait = Math.min(1000 * 2 ** (this.attempts - 1), RETRY_MAX);
    useLive.setState((before) => ({
      state: this.attempts > 3 ? "offline" : "reconnecting",
      since: before.state === "live" ? Date.now() : before.since,
      lost: this.attempts,
      retryAt: Date.now() + wait,
    }));
    this.timer = window.setTimeout(() => this.refresh(), wait);
  }

  private close(): void {
    window.clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }
}

function belongs(topic: string, name: string, data: unknown): boolean {
  if (name === "error" || name === "resume") return false;
  if (topic === "runs") return name === "reset" || name === "runs";
  const first = Array.isArray(data) ? data[0] : data;
  return topic === `run:${(first as { run?: string } | undefined)?.run}`;
}

export const live = new Connection();

/** Follow a topic while the component is there; `listener` must be stable. */
export function useTopic(topic: string, listener: Listener): void {
  useEffect(() => live.follow(topic, listener), [topic, listener]);
}
