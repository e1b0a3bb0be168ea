import { useEffect, useState } from "react";

/** Rows that are about to come. Nothing for the first 150 ms: most answers are faster. */
export function Skeleton({ rows }: { rows: number }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = window.setTimeout(() => setLate(true), 150);
    return () => window.clearTimeout(timer);
  }, []);
  if (!late) return null;
  return (
    <div className="skeleton" role="status">
      <span className="sr">Loading</span>
      {Array.from({ length: rows }, (_, row) => (
        <i key={row} />
      ))}
    </div>
  );
}
