import {
  Activity,
  BellRing,
  CalendarClock,
  Cpu,
  type LucideIcon,
  RadioTower,
  Settings,
  Skull,
  Stamp,
  Table2,
  Webhook,
  Workflow as WorkflowIcon,
} from "lucide-react";

/** The pages that the shell leads to. Sidebar, palette, keys and keyboard sheet are drawn from this table. */
export interface Place {
  to: string;
  label: string;
  icon: LucideIcon;
  key: string; // pressed after G
  count?: "running" | "approvals";
  only?: "demo"; // shown where the server has it
  group?: string; // the heading that it is under, with its neighbours
  more?: boolean; // on a narrow screen it is behind More
}

export const PLACES: readonly Place[] = [
  { to: "/demo", label: "Demo", icon: Skull, key: "d", only: "demo", more: true },
  { to: "/workflows", label: "Workflows", icon: WorkflowIcon, key: "w" },
  { to: "/runs", label: "Runs", icon: Activity, key: "r", count: "running" },
  { to: "/approvals", label: "Approvals", icon: Stamp, key: "a", count: "approvals" },
  { to: "/schedules", label: "Schedules", icon: CalendarClock, key: "s", group: "Starts" },
  { to: "/webhooks", label: "Webhooks", icon: Webhook, key: "h", group: "Starts", more: true },
  { to: "/triggers", label: "Triggers", icon: RadioTower, key: "t", group: "Starts", more: true },
  { to: "/workers", label: "Workers", icon: Cpu, key: "k", group: "Operate", more: true },
  { to: "/alerts", label: "Alerts", icon: BellRing, key: "l", group: "Operate", more: true },
  { to: "/records", label: "Records", icon: Table2, key: "e", group: "Operate", more: true },
  { to: "/settings", label: "Settings", icon: Settings, key: ",", group: "Operate", more: true },
];

/** What a count says in words, and the status whose colour it takes. */
export const COUNTS = {
  running: { status: "running", word: "running" },
  approvals: { status: "suspended", word: "pending" },
} as const;
