import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useMatchRoute, useRouterState } from "@tanstack/react-router";
import { CircleHelp, Ellipsis, Search, SunMoon } from "lucide-react";
import { Fragment, lazy, Suspense, useState } from "react";
import { demoQuery } from "../api/demo";
import { useLive } from "../api/live";
import { aboutQuery, workersQuery } from "../api/queries";
import { Kbd, modifier } from "../components/Kbd";
import { useZone } from "../components/Time";
import { ConnectionBanner } from "./ConnectionBanner";
import { useCounts } from "./counts";
import { LivePill } from "./LivePill";
import { COUNTS, PLACES, type Place } from "./navigation";
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
      <Navigation more={() => setOverlay("palette")} />
      <div className="content">
        <ConnectionBanner />
        <Outlet />
      </div>
      <Foot />
      <Suspense>
        {overlay === "palette" && <Palette close={close} keyboard={() => setOverlay("keyboard")} />}
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

function Navigation({ more }: { more: () => void }) {
  const counts = useCounts();
  const demo = useQuery(demoQuery).data;
  return (
    <nav className="side" aria-label="Main">
      {PLACES.filter((place) => place.only !== "demo" || demo).map((place, index, shown) => (
        <Fragment key={place.to}>
          {place.group && place.group !== shown[index - 1]?.group && (
            <span className="sideh" aria-hidden="true">
              {place.group}
            </span>
          )}
          <Item place={place} count={place.count ? counts[place.count] : 0} />
        </Fragment>
      ))}
      <button type="button" className="more" onClick={more}>
        <Ellipsis className="i" aria-hidden="true" />
        <span className="lbl">More</span>
      </button>
    </nav>
  );
}

function Item({ place, count }: { place: Place; count: number }) {
  const said = place.count && COUNTS[place.count];
  return (
    <Link to={place.to} title={place.label} data-more={place.more ? "1" : undefined}>
      <place.icon className="i" aria-hidden="true" />
      <span className="lbl">{place.label}</span>
      {said && count > 0 && (
        <span className={`count st-${said.status}`}>
          <i />
          <span>
            {count}
            <span className="sr"> {said.word}</span>
          </span>
        </span>
      )}
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
  const workers = useQuery({
    ...workersQuery,
    // The first worker is looked out for: until it is there, nothing goes on.
    refetchInterval: (query) => (query.state.data?.workers.some((each) => each.alive) ? 10_000 : 2_000),
  }).data?.workers;
  const away = useLive((stream) => stream.state === "offline");
  const alive = workers?.filter((worker) => worker.alive).length;
  if (away) return <footer className="foot">not connected</footer>;
  return (
    <footer className="foot">
      {about && <span className={about.file ? "mono" : undefined}>{about.file || about.database}</span>}
      {about && <span className="dot">v{about.version}</span>}
      {alive !== undefined && (
        <span className="dot">
          {alive === 0 ? "no worker yet" : `${alive} ${alive === 1 ? "worker" : "workers"}`}
        </span>
      )}
      {me && <span className="dot">workspace {me.workspace}</span>}
      {me && <span className="dot">{me.local ? "local" : me.name}</span>}
    </footer>
  );
}
