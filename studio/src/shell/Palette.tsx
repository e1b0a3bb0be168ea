import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Copy, Keyboard, Play, RotateCw, Search, SunMoon, Workflow } from "lucide-react";
import { type ReactNode, useDeferredValue, useEffect, useId, useState } from "react";
import { api, ask, type Run, root } from "../api/client";
import { demoQuery } from "../api/demo";
import { workflowsQuery } from "../api/queries";
import { Dialog } from "../components/Dialog";
import { Glyph } from "../components/Glyph";
import { Kbd, modifier } from "../components/Kbd";
import { where } from "../domain/where";
import { useCounts } from "./counts";
import { COUNTS, PLACES } from "./navigation";
import { useTheme } from "./theme";

interface Choice {
  id: string;
  group: string;
  icon: ReactNode;
  text: ReactNode;
  more?: string;
  keys?: string[];
  path?: string; // where it leads; it can be opened in a new tab
  act?: () => unknown;
}

const icon = { className: "i", "aria-hidden": true } as const;

/** Search or jump: runs by id or key, what can be done with the best match, workflows and pages. */
export default function Palette({ close, keyboard }: { close: () => void; keyboard: () => void }) {
  const navigate = useNavigate();
  const list = useId();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const wanted = useDeferredValue(text.trim().toLowerCase());
  const runs = useFound(wanted);
  const choices = [...runChoices(runs), ...useDo(runs, wanted), ...usePlaces(wanted, keyboard)];
  const current = Math.min(at, choices.length - 1);
  useEffect(() => {
    document.getElementById(`${list}-${current}`)?.scrollIntoView({ block: "nearest" });
  }, [list, current]);
  const moved = (by: number) => setAt((current + by + choices.length) % Math.max(choices.length, 1));
  const choose = (choice: Choice | undefined, newTab: boolean) => {
    if (!choice) return;
    close();
    if (choice.path && newTab) window.open(`${root}${choice.path}`, "_blank", "noopener");
    else if (choice.path) void navigate({ href: `${root}${choice.path}` });
    choice.act?.();
  };
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
          aria-activedescendant={choices[current] ? `${list}-${current}` : undefined}
          aria-label="Search or jump"
          autoComplete="off"
          placeholder="Run id, key, workflow or page"
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          onKeyDown={(event) => {
            if (event.key === "ArrowDown") moved(1);
            else if (event.key === "ArrowUp") moved(-1);
            else if (event.key === "Enter") choose(choices[current], event.metaKey || event.ctrlKey);
            else return;
            event.preventDefault();
          }}
        />
        <kbd className="kbd">esc</kbd>
      </div>
      <div className="cmdl" role="listbox" id={list} aria-label="Results" tabIndex={-1}>
        {choices.map((choice, index) => (
          <div key={choice.id} role="presentation">
            {choice.group !== choices[index - 1]?.group && (
              <div className="cmdg" role="presentation">
                {choice.group}
              </div>
            )}
            <div
              id={`${list}-${index}`}
              role="option"
              aria-selected={index === current}
              className={index === current ? "sel" : ""}
              onMouseMove={() => setAt(index)}
              onClick={(event) => choose(choice, event.metaKey || event.ctrlKey)}
            >
              {choice.icon}
              <span className="nowrap">{choice.text}</span>
              <span className="t3 xs clip">{choice.more}</span>
              <span className="grow" />
              {choice.keys ? <Kbd keys={choice.keys} /> : index === current && <Kbd keys={["⏎"]} />}
            </div>
          </div>
        ))}
        {!choices.length && <p className="t3 px-3 py-4">No results for “{text}”.</p>}
      </div>
      <div className="cmdf xs t3">
        <span className="row g1">
          <Kbd keys={["↑", "↓"]} /> move
        </span>
        <span className="row g1">
          <Kbd keys={["⏎"]} /> open
        </span>
        <span className="row g1">
          <Kbd keys={[modifier, "⏎"]} /> new tab
        </span>
        <span className="grow" />
        <span className="hide-s">Ids, keys, workflows, actions, pages</span>
      </div>
    </Dialog>
  );
}

/** The newest runs, and those whose key or id begins with the text. */
function useFound(wanted: string): Run[] {
  const newest = useQuery({
    queryKey: ["palette", ""],
    queryFn: ({ signal }) => ask(api.GET("/api/v1/runs", { params: { query: { limit: 200 } }, signal })),
  });
  const named = useQuery({
    queryKey: ["palette", wanted],
    queryFn: async ({ signal }) => {
      const query = /^[0-9a-f]{4,32}$/.test(wanted) ? { id_prefix: wanted } : { key_prefix: wanted };
      return ask(api.GET("/api/v1/runs", { params: { query: { ...query, limit: 10 } }, signal }));
    },
    enabled: wanted.length > 1,
    placeholderData: (before) => before,
  });
  const near = (newest.data?.runs ?? []).filter((run) =>
    `${run.id} ${run.key} ${run.workflow} ${run.status}`.toLowerCase().includes(wanted),
  );
  const far = wanted.length > 1 ? (named.data?.runs ?? []) : [];
  const fits = far.filter((run) => run.key.toLowerCase().startsWith(wanted) || run.id.startsWith(wanted));
  return [...new Map([...near, ...fits].map((run) => [run.id, run])).values()].slice(0, wanted ? 6 : 4);
}

function runChoices(runs: Run[]): Choice[] {
  return runs.map((run) => ({
    id: run.id,
    group: "Runs",
    icon: <Glyph status={run.status} />,
    text: nameOf(run),
    more: [run.workflow, where(run).place, where(run).words].filter(Boolean).join(", "),
    path: `/runs/${run.id}`,
  }));
}

function nameOf(run: Run): string {
  return run.key || run.id.slice(-8);
}

/** What can be done with the best match. */
function useDo(runs: Run[], wanted: string): Choice[] {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const run = runs[0];
  if (!wanted || !run) return [];
  const group = `Do with ${nameOf(run)}`;
  const retryable = run.status === "failed" || run.status === "timed_out";
  const retry = async () => {
    await ask(api.POST("/api/v1/runs/{run_id}/retry", { params: { path: { run_id: run.id } } }));
    void queries.invalidateQueries({ queryKey: ["run", run.id] });
    void navigate({ to: "/runs/$id", params: { id: run.id } });
  };
  return [
    ...(retryable
      ? [
          {
            id: "retry",
            group,
            icon: <RotateCw {...icon} />,
            text: "Retry",
            more: `runs ${where(run).place || "what failed"} again, in the same run`,
            act: retry,
          },
        ]
      : []),
    {
      id: "copy",
      group,
      icon: <Copy {...icon} />,
      text: "Copy id",
      more: run.id,
      act: () => navigator.clipboard?.writeText(run.id),
    },
  ];
}

function usePlaces(wanted: string, keyboard: () => void): Choice[] {
  const counts = useCounts();
  const demo = useQuery(demoQuery).data;
  const workflows = useQuery(workflowsQuery).data?.workflows ?? [];
  const toggle = useTheme((theme) => theme.toggle);
  const has = (text: string) => text.toLowerCase().includes(wanted);
  const names = [...new Set(workflows.map((workflow) => workflow.name))].filter(has);
  const places = PLACES.filter((place) => (place.only !== "demo" || demo) && has(place.label));
  const actions: Choice[] = [
    {
      id: "theme",
      group: "Go to",
      icon: <SunMoon {...icon} />,
      text: "Switch theme",
      keys: ["T"],
      act: toggle,
    },
    {
      id: "keyboard",
      group: "Go to",
      icon: <Keyboard {...icon} />,
      text: "Keyboard shortcuts",
      keys: ["?"],
      act: keyboard,
    },
  ];
  return [
    ...names.slice(0, wanted ? 5 : 3).map((name) => ({
      id: `workflow ${name}`,
      group: "Workflows",
      icon: <Workflow {...icon} />,
      text: <code>{name}</code>,
      path: `/workflows/${encodeURIComponent(name)}`,
    })),
    ...(wanted
      ? names.slice(0, 2).map((name) => ({
          id: `start ${name}`,
          group: "Workflows",
          icon: <Play {...icon} />,
          text: (
            <>
              Run <code>{name}</code>…
            </>
          ),
          path: `/workflows/${encodeURIComponent(name)}?start=1`,
        }))
      : []),
    ...places.map((place) => ({
      id: place.to,
      group: "Go to",
      icon: <place.icon {...icon} />,
      text: place.label,
      more: place.count && counts[place.count] ? `${counts[place.count]} ${COUNTS[place.count].word}` : "",
      keys: ["G", place.key.toUpperCase()],
      path: place.to,
    })),
    ...actions.filter((action) => has(String(action.text))),
  ];
}
