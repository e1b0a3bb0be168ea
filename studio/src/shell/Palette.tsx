import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Activity, Cpu, Search, Settings, Stamp, Workflow } from "lucide-react";
import { type ReactNode, useId, useState } from "react";
import { api, ask } from "../api/client";
import { workflowsQuery } from "../api/queries";
import { Dialog } from "../components/Dialog";
import { Glyph } from "../components/Glyph";
import { Kbd } from "../components/Kbd";

interface Choice {
  id: string;
  group: string;
  icon: ReactNode;
  text: ReactNode;
  search: string;
  go: () => void;
}

/** Search or jump: pages, workflows, and runs by id or key. */
export default function Palette({ close }: { close: () => void }) {
  const navigate = useNavigate();
  const list = useId();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const workflows = useQuery(workflowsQuery);
  const runs = useQuery({
    queryKey: ["palette"],
    queryFn: () => ask(api.GET("/api/v1/runs", { params: { query: { limit: 200 } } })),
  });
  const to = (path: string) => () => {
    close();
    void navigate({ to: path });
  };
  const icon = { className: "i", "aria-hidden": true } as const;
  const wanted = text.trim().toLowerCase();
  const choices: Choice[] = [
    ...(runs.data?.runs ?? []).map((run) => ({
      id: run.id,
      group: "Runs",
      icon: <Glyph status={run.status} />,
      text: (
        <>
          <b className="med">{run.key || run.id.slice(-8)}</b>
          <code className="t2">{run.workflow}</code>
          <span className="t3 xs">{run.id}</span>
        </>
      ),
      search: `${run.id} ${run.key} ${run.workflow} ${run.status}`,
      go: to(`/runs/${run.id}`),
    })),
    ...[...new Set((workflows.data?.workflows ?? []).map((workflow) => workflow.name))].map((name) => ({
      id: `workflow ${name}`,
      group: "Workflows",
      icon: <Workflow {...icon} />,
      text: <code>{name}</code>,
      search: name,
      go: to(`/workflows/${encodeURIComponent(name)}`),
    })),
    ...(
      [
        ["/runs", "Runs", <Activity key="" {...icon} />],
        ["/workflows", "Workflows", <Workflow key="" {...icon} />],
        ["/approvals", "Approvals", <Stamp key="" {...icon} />],
        ["/workers", "Workers", <Cpu key="" {...icon} />],
        ["/settings", "Settings", <Settings key="" {...icon} />],
      ] as const
    ).map(([path, name, drawn]) => ({
      id: path,
      group: "Go to",
      icon: drawn,
      text: name,
      search: name,
      go: to(path),
    })),
  ];
  const found = choices.filter((choice) => choice.search.toLowerCase().includes(wanted));
  const limit: Record<string, number> = { Runs: wanted ? 7 : 4, Workflows: 6, "Go to": 5 };
  const shown = ["Runs", "Workflows", "Go to"].flatMap((group) =>
    found.filter((choice) => choice.group === group).slice(0, limit[group]),
  );
  const current = Math.min(at, shown.length - 1);
  const moved = (by: number) => setAt((current + by + shown.length) % Math.max(shown.length, 1));
  return (
    <Dialog label="Search or jump" className="cmdk" close={close}>
      <div className="cmdin">
        <Search className="i" aria-hidden="true" />
        <input
          autoFocus
          className="bare"
          role="combobox"
          aria-expanded="true"
          aria-controls={list}
          aria-activedescendant={shown[current] ? `${list}-${current}` : undefined}
          aria-label="Search or jump"
          placeholder="Run id, key, workflow or page"
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          onKeyDown={(event) => {
            if (event.key === "ArrowDown") moved(1);
            else if (event.key === "ArrowUp") moved(-1);
            else if (event.key === "Enter") shown[current]?.go();
            else return;
            event.preventDefault();
          }}
        />
      </div>
      <div className="cmdl" role="listbox" id={list} aria-label="Results" tabIndex={-1}>
        {shown.map((choice, index) => (
          <div key={choice.id} role="presentation">
            {choice.group !== shown[index - 1]?.group && <div className="cmdg">{choice.group}</div>}
            <div
              id={`${list}-${index}`}
              role="option"
              aria-selected={index === current}
              className={index === current ? "sel" : ""}
              onMouseMove={() => setAt(index)}
              onClick={choice.go}
            >
              {choice.icon}
              {choice.text}
            </div>
          </div>
        ))}
        {!shown.length && <p className="t3 px-3 py-4">Nothing has “{text}” in its name.</p>}
      </div>
      <div className="cmdf xs t3">
        <span className="row g1">
          <Kbd keys={["↑", "↓"]} /> move
        </span>
        <span className="row g1">
          <Kbd keys={["Enter"]} /> open
        </span>
      </div>
    </Dialog>
  );
}
