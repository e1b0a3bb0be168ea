import { useState } from "react";
import { usePreferences } from "../../components/preferences";
import { useZone } from "../../components/Time";
import { words } from "../../domain/schema";
import { setSingleKeys, singleKeys } from "../../shell/shortcuts";
import { useTheme } from "../../shell/theme";

/** How this browser shows Studio. */
export function Appearance() {
  const { theme, choose } = useTheme();
  const { utc, toggle } = useZone();
  const { compact, still, choose: prefer } = usePreferences();
  const [keys, setKeys] = useState(singleKeys());
  return (
    <>
      <div className="row">
        <h2>Appearance</h2>
      </div>
      <p className="t2 measure">Saved in this browser.</p>
      <div className="col appear">
        <Choice
          legend="Theme"
          name="theme"
          value={theme}
          values={["", "light", "dark"]}
          words={(each) => (each === "" ? "System" : words(each))}
          choose={(each) => choose(each as typeof theme)}
        />
        <Choice
          legend="Density"
          name="density"
          value={compact ? "compact" : "normal"}
          values={["normal", "compact"]}
          words={words}
          choose={(each) => prefer({ compact: each === "compact" })}
        />
        <Choice
          legend="Time zone"
          name="zone"
          value={utc ? "utc" : "local"}
          values={["local", "utc"]}
          words={(each) =>
            each === "utc" ? "UTC" : `Local (${Intl.DateTimeFormat().resolvedOptions().timeZone})`
          }
          choose={(each) => toggle(each === "utc")}
        />
        <Switch label="Reduce motion" on={still} change={(on) => prefer({ still: on })}>
          Even if the system does not ask for it.
        </Switch>
        <Switch
          label="Single-key shortcuts"
          on={keys}
          change={(on) => {
            setSingleKeys(on);
            setKeys(on);
          }}
        >
          Shortcuts with {"Ctrl or ⌘"} always work. Press ? for the list.
        </Switch>
      </div>
    </>
  );
}

function Choice(props: {
  legend: string;
  name: string;
  value: string;
  values: string[];
  words: (value: string) => string;
  choose: (value: string) => void;
}) {
  return (
    <fieldset className="field">
      <legend className="label">{props.legend}</legend>
      <div className="row g4 wrap">
        {props.values.map((each) => (
          <label className="row g1" key={each}>
            <input
              type="radio"
              name={props.name}
              checked={props.value === each}
              onChange={() => props.choose(each)}
            />
            {props.words(each)}
          </label>
        ))}
      </div>
    </fieldset>
  );
}

function Switch(props: {
  label: string;
  on: boolean;
  change: (on: boolean) => void;
  children: string | string[];
}) {
  return (
    <div className="field">
      <label className="row">
        <input
          type="checkbox"
          className="switch"
          role="switch"
          checked={props.on}
          onChange={(event) => props.change(event.target.checked)}
        />
        {props.label}
      </label>
      <span className="help">{props.children}</span>
    </div>
  );
}
