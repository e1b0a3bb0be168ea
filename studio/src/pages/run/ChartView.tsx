import { Inspector } from "./Inspector";
import type { RunAt } from "./RunPage";
import { StepsView } from "./StepsView";

export default function ChartView({ at }: { at: RunAt }) {
  return (
    <div className="panes two">
      <StepsView at={at} />
      <Inspector at={at} />
    </div>
  );
}
