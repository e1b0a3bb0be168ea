/** A line of numbers, oldest first. The last one is said beside it, so it is not read out. */
export function Spark({ points, bad }: { points: number[]; bad: boolean }) {
  if (points.length < 2) return null;
  const most = Math.max(...points, 1);
  const line = points
    .map((value, index) => `${(index / (points.length - 1)) * 96},${22 - (value / most) * 20}`)
    .join(" ");
  return (
    <svg className={bad ? "spk bad" : "spk"} viewBox="0 0 96 24" width="96" height="24" aria-hidden="true">
      <polyline points={line} />
    </svg>
  );
}
