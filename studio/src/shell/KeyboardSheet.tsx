import { X } from "lucide-react";
import { useState } from "react";
import { Dialog } from "../components/Dialog";
import { Kbd, modifier } from "../components/Kbd";
import { setSingleKeys, singleKeys } from "./shortcuts";

const SHEET: [string, [string[], string][]][] = [
  [
    "Everywhere",
    [
      [["?"], "This sheet"],
      [[modifier, "K"], "Search or jump"],
      [["/"], "Filter"],
      [["T"], "Light or dark"],
      [["Esc"], "Close"],
    ],
  ],
  [
    "Go to",
    [
      [["G", "R"], "Runs"],
      [["G", "W"], "Workflows"],
      [["G", "A"], "Approvals"],
      [["G", "K"], "Workers"],
      [["G", ","], "Settings"],
    ],
  ],
  [
    "Lists",
    [
      [["J"], "Next row"],
      [["K"], "Previous row"],
      [["Enter"], "Open"],
      [["."], "Show new runs"],
    ],
  ],
  [
    "Run",
    [
      [["1–5"], "Tabs"],
      [["["], "Previous event"],
      [["]"], "Next event"],
      [["{"], "Previous checkpoint"],
      [["}"], "Next checkpoint"],
      [["L"], "Live"],
      [["Space"], "Play"],
      [["F"], "Next failed"],
      [["W"], "Next waiting"],
      [["Y"], "Copy id"],
    ],
  ],
  [
    "Approvals",
    [
      [["J"], "Next"],
      [["K"], "Previous"],
      [[modifier, "Enter"], "Approve"],
    ],
  ],
];

export default function KeyboardSheet({ close }: { close: () => void }) {
  const [on, setOn] = useState(singleKeys());
  return (
    <Dialog label="Keyboard shortcuts" className="sheet" close={close}>
      <div className="shead">
        <h2>Keyboard</h2>
        <span className="grow" />
        <label className="row t2">
          <input
            type="checkbox"
            className="switch"
            checked={on}
            onChange={(event) => {
              setSingleKeys(event.target.checked);
              setOn(event.target.checked);
            }}
          />
          Single keys
        </label>
        <button type="button" className="iconbtn" aria-label="Close" onClick={close}>
          <X className="i" aria-hidden="true" />
        </button>
      </div>
      <div className="sgrid">
        {SHEET.map(([title, rows]) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>
              {rows.map(([keys, words]) => (
                <div key={words}>
                  <dt>{words}</dt>
                  <dd>
                    <Kbd keys={keys} />
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
