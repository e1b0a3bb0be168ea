import {
  Bell,
  Braces,
  Circle,
  Clock,
  CodeXml,
  Database,
  GitFork,
  GitMerge,
  Globe,
  PenLine,
  Play,
  RadioTower,
  Repeat,
  ShieldAlert,
  Shuffle,
  Sparkles,
  Split,
  Square,
  SquareFunction,
  Stamp,
  Table2,
  Workflow,
} from "lucide-react";
import type { ComponentType } from "react";

/** One icon for each type of node, for graphs of runs and of definitions. */
const ICONS: Record<string, ComponentType<{ className?: string }>> = {
  start: Play,
  end: Square,
  condition: Split,
  switch: Split,
  fork: GitFork,
  merge: GitMerge,
  set: PenLine,
  transform: Shuffle,
  loop: Repeat,
  retry: Repeat,
  try: ShieldAlert,
  approval: Stamp,
  delay: Clock,
  wait: RadioTower,
  call: SquareFunction,
  workflow: Workflow,
  http: Globe,
  query: Database,
  record: Table2,
  records: Table2,
  notify: Bell,
  ai: Sparkles,
  javascript: CodeXml,
  python: CodeXml,
  place: Circle,
};

/** Types of other packages have the braces of a definition. */
export function NodeIcon({ type }: { type: string }) {
  const Icon = ICONS[type] ?? Braces;
  return <Icon className="i ni" aria-hidden="true" />;
}
