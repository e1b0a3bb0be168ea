import { X } from "lucide-react";
import { useState } from "react";
import { Dialog } from "../components/Dialog";
import { Kbd, modifier } from "../components/Kbd";
import { PLACES } from "./navigation";
import { setSingleKeys, singleKeys } from "./shortcuts";

const SHEET: [string, [string, ...string[][]][]][] = [
  [
    "Anywhere",
    [
      ["Search or jump", [modifier, "K"]],
      ["Keyboard shortcuts", ["?"]],
      ["Filter", ["/"]],
      ["Switch theme", ["T"]],
      ["Close", ["Esc"]],
    ],
  ],
  [
    "Lists",
    [
      ["Next, previous", ["J"], ["K"]],
      ["Open", ["⏎"]],
      ["Select, select range", ["X"], ["⇧", "X"]],
      ["Retry, cancel", ["R"], ["C"]],
      ["Bulk", ["B"]],
      ["Show new runs", ["."]],
    ],
  ],
  [
    "Run",
    [
      ["Tabs", ["1 to 6"]],
      ["Previous, next event", ["["], ["]"]],
      ["Previous, next checkpoint", ["{"], ["}"]],
      ["Play, live", ["Space"], ["L"]],
      ["Next failed, waiting", ["F"], ["W"]],
      ["Outline, expand all", ["O"], ["E"]],
      ["Next, previous run", ["J"], ["K"]],
      ["Parent run, copy id", ["P"], ["Y"]],
    ],
  ],
  [
    "Go to",
    PLACES.filter((place) => !place.only).map((place) => [place.label, ["G", place.key.toUpperCase()]]),
  ],
  [
    "Approvals",
    [
      ["Next, previous", ["J"], ["K"]],
      ["Approve", [modifier, "⏎"]],
      ["Deny", ["⇧", modifier, "⏎"]],
    ],
  ],
];

export default function KeyboardSheet({ close }: { close: () => void }) {
  const [on, setOn] = useState(singleKeys());
  return (
    <Dialog label="Keyboard shortcuts" className="sheet" close={close}>
      <div className="shead">
        <h2>Keyboard shortcuts</h2>
        <label className="row xs t2">
          <input
            type="checkbox"
            className="switch"
            checked={on}
            onChange={(event) => {
              setSingleKeys(event.target.checked);
              setOn(event.target.checked);
            }}
          />
          Single-key shortcuts
        </label>
        <span className="grow" />
        <button type="button" className="iconbtn" aria-label="Close" onClick={close}>
          <X className="i" aria-hidden="true" />
        </button>
      </div>
      <div className="sgrid">
        {SHEET.map(([title, rows]) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>
              {rows.map(([words, ...keys]) => (
                <div key={words}>
                  <dt>{words}</dt>
                  <dd className="row g1">
                    {keys.map((each) => (
                      <Kbd keys={each} key={each.join()} />
                    ))}
                  </dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
