import { useEffect } from "react";
import { create } from "zustand";
import { root } from "./client";

/** Live events of a tab: one stream for all topics, closed while nobody looks at the tab. */

export type LiveState = "connecting" | "live" | "reconnecting" | "paused" | "offline";

interface LiveStore {
  state: LiveState;
  since: number; // when the stream was last known to be up to date
}

export const useLive = create<LiveStore>(() => ({ state: "connecting", since: Date.now() }));

type Listener = (name: string, data: unknown) => void;
const NAMES = ["reset", "runs", "batch", "end", "error", "resume"];

class Connection {
  private source: EventSource | null = null;
  private readonly listeners = new Map<string, Set<Listener>>();
  private opened = "";
  private lastId = "";
  private scheduled = false;
  private attempts = 0;

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
      useLive.setState({ state: "paused" });
      return;
    }
    if (this.source && topics === this.opened) return;
    if (topics !== this.opened) this.lastId = "";
    this.close();
    this.opened = topics;
    if (!topics) return;
    const after = this.lastId ? `&after=${encodeURIComponent(this.lastId)}` : "";
    const source = new EventSource(`${root}/api/v1/stream?topics=${encodeURIComponent(topics)}${after}`);
    this.source = source;
    source.onopen = () => {
      this.attempts = 0;
      useLive.setState({ state: "live", since: Date.now() });
    };
    source.onerror = () => this.lost(source);
    for (const name of NAMES) source.addEventListener(name, (event) => this.received(name, event));
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

  private lost(source: EventSource): void {
    if (source !== this.source) return;
    this.attempts += 1;
    useLive.setState({ state: this.attempts > 3 ? "offline" : "reconnecting" });
    if (source.readyState === EventSource.CLOSED) {
      this.close();
      window.setTimeout(() => this.refresh(), Math.min(1000 * this.attempts, 10_000));
    }
  }

  private close(): void {
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
