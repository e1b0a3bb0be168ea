import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";
import type { Run, Schemas } from "../../api/client";
import { live, useTopic } from "../../api/live";
import { firstEventsQuery, readEvents } from "../../api/queries";
import { Fold, type RunEvent, type RunModel } from "../../domain/run";
import { isEnded } from "../../domain/status";

type EventView = Schemas["EventView"];

interface Shown {
  events: RunEvent[];
  model: RunModel;
}

/** All events of a run, then every new one: no gap, no repeat, whatever the connection does. */
export function useRunEvents(id: string): Shown {
  const queries = useQueryClient();
  const [shown, setShown] = useState<Shown>(() => ({ events: [], model: new Fold().add([]) }));
  const folded = useRef(new Fold());
  const last = useRef(0);
  const filling = useRef(false);
  const unread = useRef<RunEvent[]>([]); // of pages that are still coming
  const ended = useRef(false);

  const publish = useCallback(() => {
    const news = unread.current;
    unread.current = [];
    if (!news.length) return;
    const model = folded.current.add(news);
    setShown((before) => ({ events: [...before.events, ...news], model }));
  }, []);

  const add = useCallback(
    (batch: EventView[]) => {
      const fresh = batch.filter((event) => event.seq > last.current);
      if (!fresh.length) return true;
      if (fresh[0]?.seq !== last.current + 1) return false;
      last.current = fresh.at(-1)?.seq ?? last.current;
      unread.current.push(...fresh.map(read));
      if (!filling.current) publish();
      return true;
    },
    [publish],
  );

  const fill = useCallback(async () => {
    if (filling.current) return;
    filling.current = true;
    try {
      for (let more = true; more; ) {
        const early = firstEventsQuery(id); // asked for before the page was here, and taken once
        const page = await (last.current ? readEvents(id, last.current) : queries.fetchQuery(early));
        queries.removeQueries({ queryKey: early.queryKey });
        add(page.events);
        more = page.more;
        // Drawing a log costs its length: a long one is shown when it has doubled, not page by page.
        if (unread.current.length * 2 >= last.current) publish();
      }
    } catch {
      // the stream brings them when the server is back
    } finally {
      filling.current = false;
      publish();
    }
  }, [id, queries, add, publish]);

  const received = useCallback(
    (name: string, data: unknown) => {
      if (name === "end") ended.current = true;
      if (name === "reset" || (name === "batch" && !add(data as EventView[]))) void fill();
    },
    [add, fill],
  );

  // The stream of a run ends with it. Someone who retries it brings it back.
  const listed = useCallback(
    (_: string, data: unknown) => {
      const run = Array.isArray(data) ? (data as Run[]).find((each) => each.id === id) : undefined;
      if (!run || !ended.current) return;
      void fill();
      if (!isEnded(run.status)) {
        ended.current = false;
        live.retry();
      }
    },
    [id, fill],
  );
  useTopic("runs", listed);

  useEffect(() => {
    last.current = 0;
    unread.current = [];
    folded.current = new Fold();
    setShown({ events: [], model: folded.current.add([]) });
    void fill();
  }, [fill]);
  useTopic(`run:${id}`, received);
  return shown;
}

export function read(event: EventView): RunEvent {
  const data = event.data !== null && typeof event.data === "object" ? event.data : {};
  return {
    seq: event.seq,
    at: Date.parse(event.at),
    kind: event.kind,
    path: event.path,
    attempt: event.attempt,
    data: data as Record<string, unknown>,
  };
}
