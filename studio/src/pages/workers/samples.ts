import { useEffect, useState } from "react";
import type { Schemas } from "../../api/client";

type Queue = Schemas["QueueView"];

const KEPT = 60; // two minutes

/** What the queues held since the page was opened: the server keeps no history of it. */
export function useSamples(queues: Queue[] | undefined, at: number) {
  const [history, setHistory] = useState<Queue[][]>([]);
  useEffect(() => {
    if (queues && at) setHistory((before) => [...before, queues].slice(-KEPT));
  }, [queues, at]);
  const total = (value: (queue: Queue) => number) =>
    history.map((sample) => sample.reduce((sum, queue) => sum + value(queue), 0));
  return {
    ready: total((queue) => queue.ready),
    active: total((queue) => queue.active),
    age: history.map((sample) => Math.max(0, ...sample.map((queue) => queue.age))),
    of: (name: string) => history.map((sample) => sample.find((queue) => queue.name === name)?.ready ?? 0),
  };
}
