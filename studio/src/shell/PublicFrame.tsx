import { SunMoon } from "lucide-react";
import type { ReactNode } from "react";
import { Brand } from "./Shell";
import { useTheme } from "./theme";

/** A page without the shell, for people who are not signed in: one card. */
export function PublicFrame(props: {
  label: ReactNode;
  under?: ReactNode;
  small?: boolean;
  children: ReactNode;
}) {
  const toggle = useTheme((theme) => theme.toggle);
  return (
    <main className="pub" id="main">
      <div className={props.small ? "pubcard login" : "pubcard"}>
        <div className="row pubtop">
          <Brand />
          {props.label}
          <span className="grow" />
          <button type="button" className="iconbtn sm" aria-label="Switch theme" onClick={toggle}>
            <SunMoon className="i" aria-hidden="true" />
          </button>
        </div>
        {props.children}
      </div>
      {props.under && <p className="xs t3 pubunder">{props.under}</p>}
    </main>
  );
}
