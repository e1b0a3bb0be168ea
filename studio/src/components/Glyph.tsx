import type { StepStatus } from "../domain/status";

/** Status glyphs: each has an outline of its own, so that it holds at 12 px and without colour. */
export function Glyph({ status, size = 16 }: { status: StepStatus; size?: number }) {
  return (
    <svg className={`g st-${status}`} viewBox="0 0 16 16" width={size} height={size} aria-hidden="true">
      {SHAPES[status]}
    </svg>
  );
}

const stroke = {
  fill: "none",
  stroke: "currentColor",
  strokeLinecap: "round",
  strokeLinejoin: "round",
} as const;
const mark = { ...stroke, stroke: "var(--glyph-mark)", strokeWidth: 1.7 } as const;

const SHAPES: Record<StepStatus, React.ReactNode> = {
  pending: <circle cx="8" cy="8" r="6.2" {...stroke} strokeWidth="1.6" strokeDasharray="2.6 2.27" />,
  running: (
    <>
      <circle cx="8" cy="8" r="7" fill="currentColor" />
      <path d="M6.4 5.1v5.8l4.8-2.9z" fill="var(--glyph-mark)" />
    </>
  ),
  suspended: (
    <>
      <circle cx="8" cy="8" r="7" fill="currentColor" />
      <path d="M6.2 5.4v5.2M9.8 5.4v5.2" {...mark} />
    </>
  ),
  completed: (
    <>
      <circle cx="8" cy="8" r="7" fill="currentColor" />
      <path d="M4.9 8.3l2.1 2.1 4.1-4.5" {...mark} />
    </>
  ),
  failed: (
    <>
      <path d="M5.1 1h5.8L15 5.1v5.8L10.9 15H5.1L1 10.9V5.1z" fill="currentColor" />
      <path d="M5.7 5.7l4.6 4.6M10.3 5.7l-4.6 4.6" {...mark} />
    </>
  ),
  cancelled: (
    <>
      <circle cx="8" cy="8" r="6.2" {...stroke} strokeWidth="1.6" />
      <path d="M3.8 12.2l8.4-8.4" {...stroke} strokeWidth="1.6" />
    </>
  ),
  timed_out: (
    <>
      <circle cx="8" cy="9" r="5.6" {...stroke} strokeWidth="1.6" />
      <path d="M8 6.2V9l1.9 1.4M6.2 1.2h3.6" {...stroke} strokeWidth="1.6" />
    </>
  ),
  retrying: (
    <>
      <circle cx="8" cy="8" r="6.4" {...stroke} strokeWidth="1.5" strokeDasharray="3.2 1.82" />
      <path d="M10.4 6.3A3 3 0 1 0 11 8.6M10.7 4.4v2.1H8.6" {...stroke} strokeWidth="1.4" />
    </>
  ),
  skipped: (
    <>
      <rect
        x="1.8"
        y="1.8"
        width="12.4"
        height="12.4"
        rx="2.5"
        {...stroke}
        strokeWidth="1.4"
        strokeDasharray="2.4 2"
      />
      <path d="M5 5.4l2.6 2.6L5 10.6M8.6 5.4l2.6 2.6-2.6 2.6" {...stroke} strokeWidth="1.4" />
    </>
  ),
  idle: <circle cx="8" cy="8" r="3" {...stroke} strokeWidth="1.5" />,
};
