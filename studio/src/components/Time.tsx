import { useEffect, useState } from "react";
import { create } from "zustand";
import { absolute, ago } from "../domain/time";

/** The zone that times are shown in: undefined is the browser's own. */
interface ZoneStore {
  utc: boolean;
  toggle: (utc: boolean) => void;
}

const KEPT = "stepwell.utc";

export const useZone = create<ZoneStore>((set) => ({
  utc: kept(KEPT) === "1",
  toggle: (utc) => {
    keep(KEPT, utc ? "1" : "");
    set({ utc });
  },
}));

export function useZoneName(): string | undefined {
  return useZone((zone) => (zone.utc ? "UTC" : undefined));
}

/** The time now, once every `every` milliseconds. */
export function useNow(every = 1000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), every);
    return () => window.clearInterval(timer);
  }, [every]);
  return now;
}

/** A time in relative words, with the absolute one in its title. */
export function Ago({ at }: { at: number }) {
  const now = useNow(5000);
  const zone = useZoneName();
  return (
    <time dateTime={new Date(at).toISOString()} title={absolute(at, zone)}>
      {ago(at, Math.max(now, Date.now()), zone)}
    </time>
  );
}

export function kept(name: string): string {
  try {
    return localStorage.getItem(name) ?? "";
  } catch {
    return ""; // a private window
  }
}

export function keep(name: string, value: string): void {
  try {
    if (value) localStorage.setItem(name, value);
    else localStorage.removeItem(name);
  } catch {
    // a private window: it is forgotten
  }
}
