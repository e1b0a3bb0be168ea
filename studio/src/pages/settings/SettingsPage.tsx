import { Link, useParams } from "@tanstack/react-router";
import {
  Archive,
  Gauge,
  Info,
  KeyRound,
  Lock,
  type LucideIcon,
  Palette,
  ScrollText,
  SlidersHorizontal,
} from "lucide-react";
import { type ComponentType, useEffect } from "react";
import { About } from "./About";
import { Appearance } from "./Appearance";
import { Audit } from "./Audit";
import { General } from "./General";
import { Keys } from "./Keys";
import { Limits } from "./Limits";
import { Retention } from "./Retention";
import { Secrets } from "./Secrets";

/** Sections in the order of the navigation; the address of one is /settings/NAME. */
const SECTIONS: { name: string; label: string; icon: LucideIcon; section: ComponentType }[] = [
  { name: "general", label: "General", icon: SlidersHorizontal, section: General },
  { name: "keys", label: "API keys", icon: KeyRound, section: Keys },
  { name: "secrets", label: "Secrets", icon: Lock, section: Secrets },
  { name: "limits", label: "Limits", icon: Gauge, section: Limits },
  { name: "appearance", label: "Appearance", icon: Palette, section: Appearance },
  { name: "retention", label: "Retention", icon: Archive, section: Retention },
  { name: "audit", label: "Audit", icon: ScrollText, section: Audit },
  { name: "about", label: "About", icon: Info, section: About },
];

export function SettingsPage() {
  const { section = "general" } = useParams({ strict: false });
  const chosen = SECTIONS.find((each) => each.name === section) ?? SECTIONS[0];
  useEffect(() => {
    document.title = `${chosen?.label} · Settings · Stepwell Studio`;
    // On a phone they stand beside each other, and the chosen one may be out of sight.
    document.querySelector(".setnav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [chosen]);
  return (
    <main className="main" id="main">
      <div className="set">
        <nav className="setnav" aria-label="Settings">
          <h1>Settings</h1>
          {SECTIONS.map((each) => (
            <Link
              key={each.name}
              to="/settings/$section"
              params={{ section: each.name }}
              aria-current={each === chosen ? "page" : undefined}
            >
              <each.icon className="i" aria-hidden="true" />
              {each.label}
            </Link>
          ))}
        </nav>
        {/* Reached by keys: a section may be longer than the page and have nothing to focus. */}
        <section className="setbody scroll" aria-label={chosen?.label} tabIndex={0}>
          {chosen && <chosen.section />}
        </section>
      </div>
    </main>
  );
}
