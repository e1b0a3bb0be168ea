import { ChevronFirst, ChevronLast, ChevronLeft, ChevronRight, Pause, Play, Radio } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import { isEnded } from "../../domain/status";
import { isTyping, singleKeys } from "../../shell/shortcuts";
import type { RunAt } from "./RunPage";

const TICKS_MAX = 240;

/** The one cursor of the page. Large ticks are checkpoints, small ones events, red ones failures. */
export function Scrubber({ at }: { at: RunAt }) {
  const { model, seq } = at;
  const last = Math.max(model.last, 1);
  const [playing, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(1);
  const goTo = useRef(at.goTo);
  goTo.current = at.goTo;
  const now = useRef(seq);
  now.current = seq;

  useEffect(() => {
    if (!playing) return;
    const timer = window.setInterval(() => {
      if (now.current >= last) setPlaying(false);
      else goTo.current(now.current + 1);
    }, 480 / speed);
    return () => window.clearInterval(timer);
  }, [playing, speed, last]);

  const play = () => {
    if (!playing && seq >= last) at.goTo(1);
    setPlaying(!playing);
  };
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const target =
        event.target instanceof Element ? event.target.closest("button, a, [role=slider]") : null;
      if (event.key !== " " || target || isTyping(event.target) || !singleKeys()) return;
      event.preventDefault();
      play();
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  });

  const share = (each: number) => `${last < 2 ? 100 : ((each - 1) / (last - 1)) * 100}%`;
  const ticks = useMemo(() => {
    const every = Math.max(1, Math.ceil(model.last / TICKS_MAX));
    return Array.from({ length: Math.floor(model.last / every) }, (_, index) => (index + 1) * every);
  }, [model.last]);
  const drag = (event: React.PointerEvent<HTMLDivElement>) => {
    if (event.buttons !== 1) return;
    const box = event.currentTarget.getBoundingClientRect();
    const part = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    at.goTo(Math.round(1 + part * (last - 1)));
  };
  const keys: Record<string, number> = {
    ArrowLeft: seq - 1,
    ArrowRight: seq + 1,
    Home: 1,
    End: last,
    PageUp: seq - 10,
    PageDown: seq + 10,
  };
  const every = Math.ceil(model.checkpoints.length / 24) || 1;
  const points = model.checkpoints.filter((_, index) => (index + 1) % every === 0);
  return (
    <div className={at.live ? "scrub" : "scrub past"} role="group" aria-label="Time travel">
      <div className="row g1">
        <Step
          label="Previous checkpoint ({)"
          go={() => at.goTo(model.checkpoints.findLast((each) => each < seq) ?? 1)}
          icon={<ChevronFirst className="i" aria-hidden="true" />}
        />
        <Step
          label="Previous event ([)"
          go={() => at.goTo(seq - 1)}
          icon={<ChevronLeft className="i" aria-hidden="true" />}
        />
        <Step
          label={playing ? "Pause (Space)" : "Play (Space)"}
          go={play}
          icon={
            playing ? <Pause className="i" aria-hidden="true" /> : <Play className="i" aria-hidden="true" />
          }
        />
        <Step
          label="Next event (])"
          go={() => at.goTo(seq + 1)}
          icon={<ChevronRight className="i" aria-hidden="true" />}
        />
        <Step
          label="Next checkpoint (})"
          go={() => at.goTo(model.checkpoints.find((each) => each > seq) ?? last)}
          icon={<ChevronLast className="i" aria-hidden="true" />}
        />
      </div>
      <div
        className="track"
        role="slider"
        tabIndex={0}
        aria-label="Cursor"
        aria-valuemin={1}
        aria-valuemax={last}
        aria-valuenow={seq}
        aria-valuetext={`seq ${seq} of ${last}`}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          drag(event);
        }}
        onPointerMove={drag}
        onKeyDown={(event) => {
          const to = keys[event.key];
          if (to === undefined) return;
          event.preventDefault();
          event.stopPropagation();
          at.goTo(to);
        }}
      >
        <div className="rail2">
          <span className="done" style={{ width: share(seq) }} />
        </div>
        {ticks.map((each) => (
          <i className="ev" key={each} style={{ left: share(each) }} />
        ))}
        {model.failures.slice(-100).map((each) => (
          <i className="ev bad" key={`bad ${each}`} style={{ left: share(each) }} />
        ))}
        {points.map((each, index) => (
          <i className={each > seq ? "ck past" : "ck"} key={`ck ${each}`} style={{ left: share(each) }}>
            {(points.length <= 12 || index % 4 === 3) && <b>{(index + 1) * every}</b>}
          </i>
        ))}
        <i className="knob" style={{ left: share(seq) }} />
      </div>
      <span className="seqn mono xs">
        seq <b>{seq}</b> <span className="t3">/ {last}</span>
      </span>
      <div className="seg hide-s" role="group" aria-label="Speed">
        {[1, 4, 16].map((each) => (
          <button type="button" key={each} aria-pressed={speed === each} onClick={() => setSpeed(each)}>
            {each}×
          </button>
        ))}
      </div>
      {at.live ? (
        <span className="atlive xs">
          <Radio className="i s" aria-hidden="true" />
          {isEnded(at.run.status) ? "At the end" : "Live"}
        </span>
      ) : (
        <button type="button" className="btn sm" onClick={() => at.goTo(last)}>
          Live
        </button>
      )}
    </div>
  );
}

function Step({ label, go, icon }: { label: string; go: () => void; icon: React.ReactNode }) {
  return (
    <button type="button" className="iconbtn sm" aria-label={label} title={label} onClick={go}>
      {icon}
    </button>
  );
}
