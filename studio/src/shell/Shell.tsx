import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useMatchRoute, useRouterState } from "@tanstack/react-router";
import { Activity, CircleHelp, Cpu, Search, Settings, Skull, Stamp, SunMoon, Workflow } from "lucide-react";
import { lazy, type ReactNode, Suspense, useState } from "react";
import { demoQuery } from "../api/demo";
import { aboutQuery } from "../api/queries";
import { Kbd, modifier } from "../components/Kbd";
import { useZone } from "../components/Time";
import { useCounts } from "./counts";
import { LivePill } from "./LivePill";
import { useShortcuts } from "./shortcuts";
import { useTheme } from "./theme";

const Palette = lazy(() => import("./Palette"));
const KeyboardSheet = lazy(() => import("./KeyboardSheet"));

/** The frame of every page: top bar, navigation, the page, foot. */
export function Shell() {
  const [overlay, setOverlay] = useState<"" | "palette" | "keyboard">("");
  const rail = useMatchRoute()({ to: "/runs/$id" }) !== false;
  const toggle = useTheme((theme) => theme.toggle);
  const path = useRouterState({ select: (state) => state.location.pathname });
  useShortcuts({ palette: () => setOverlay("palette"), keyboard: () => setOverlay("keyboard") });
  const close = () => setOverlay("");
  return (
    <div className={rail ? "app rail" : "app"}>
      <a className="skip" href={`${path}#main`}>
        Skip to content
      </a>
      <header className="top">
        <Link className="brand" to="/" aria-label="stepwell, home">
          <Brand />
          <span className="brandname">stepwell</span>
        </Link>
        <button type="button" className="search" onClick={() => setOverlay("palette")}>
          <Search className="i s" aria-hidden="true" />
          <span className="grow">Search or jump…</span>
          <Kbd keys={[modifier, "K"]} />
        </button>
        <span className="grow" />
        <LivePill />
        <ZoneSwitch />
        <button
          type="button"
          className="iconbtn"
          aria-label="Switch theme (T)"
          title="Switch theme (T)"
          onClick={toggle}
        >
          <SunMoon className="i" aria-hidden="true" />
        </button>
        <button
          type="button"
          className="iconbtn"
          aria-label="Keyboard shortcuts (?)"
          title="Keyboard shortcuts (?)"
          onClick={() => setOverlay("keyboard")}
        >
          <CircleHelp className="i" aria-hidden="true" />
        </button>
      </header>
      <Navigation />
      <Outlet />
      <Foot />
      <Suspense>
        {overlay === "palette" && <Palette close={close} />}
        {overlay === "keyboard" && <KeyboardSheet close={close} />}
      </Suspense>
    </div>
  );
}

export function Brand() {
  return (
    <svg viewBox="0 0 24 24" aria-hidden="true">
      <rect x="2" y="4" width="20" height="4.6" rx="1.2" fill="currentColor" />
      <rect x="5.5" y="10" width="13" height="4.6" rx="1.2" fill="currentColor" opacity=".72" />
      <rect x="9" y="16" width="6" height="4.6" rx="1.2" fill="var(--accent)" />
    </svg>
  );
}

function Navigation() {
  const counts = useCounts();
  const demo = useQuery(demoQuery).data;
  return (
    <nav className="side" aria-label="Main">
      {demo && <Item to="/demo" icon={<Skull className="i" aria-hidden="true" />} label="Demo" />}
      <Item to="/workflows" icon={<Workflow className="i" aria-hidden="true" />} label="Workflows" />
      <Item
        to="/runs"
        icon={<Activity className="i" aria-hidden="true" />}
        label="Runs"
        count={counts.running}
        status="running"
        word="running"
      />
      <Item
        to="/approvals"
        icon={<Stamp className="i" aria-hidden="true" />}
        label="Approvals"
        count={counts.approvals}
        status="suspended"
        word="pending"
      />
      <Item to="/workers" icon={<Cpu className="i" aria-hidden="true" />} label="Workers" />
      <Item to="/settings" icon={<Settings className="i" aria-hidden="true" />} label="Settings" more />
    </nav>
  );
}

function Item(props: {
  to: string;
  icon: ReactNode;
  label: string;
  count?: number;
  status?: string;
  word?: string;
  more?: boolean;
}) {
  return (
    <Link to={props.to} title={props.label} data-more={props.more ? "1" : undefined}>
      {props.icon}
      <span className="lbl">{props.label}</span>
      {props.count ? (
        <span className={`count st-${props.status}`}>
          <i />
          <span>
            {props.count}
            <span className="sr"> {props.word}</span>
          </span>
        </span>
      ) : null}
    </Link>
  );
}

function ZoneSwitch() {
  const { utc, toggle } = useZone();
  return (
    <div className="seg tz" role="group" aria-label="Time zone">
      <button type="button" aria-pressed={utc} onClick={() => toggle(true)}>
        UTC
      </button>
      <button type="button" aria-pressed={!utc} onClick={() => toggle(false)}>
        Local
      </button>
    </div>
  );
}

function Foot() {
  const { me } = useCounts();
  const about = useQuery(aboutQuery).data;
  return (
    <footer className="foot">
      {about && <span>v{about.version}</span>}
      {about && <span className="dot">{about.database}</span>}
      {me && <span className="dot">workspace {me.workspace}</span>}
      {me && <span className="dot">{me.name}</span>}
    </footer>
  );
}
