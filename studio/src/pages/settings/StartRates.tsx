import { type FormEvent, useState } from "react";
import type { Schemas } from "../../api/client";
import { ChoiceField, TextField } from "../../components/Field";
import { duration } from "../../domain/time";

type Rate = Schemas["RateView"];

const PER = [
  ["workflow", "Workflow"],
  ["user", "User"],
] as const;

/** How many runs may be started in a while. Those that the server was given can be replaced, not removed. */
export function StartRates(props: {
  rates: Rate[];
  put: (body: { per: string; limit: number | null; seconds: number }) => Promise<boolean>;
  drop: (rate: Rate) => void;
}) {
  return (
    <>
      <h3 className="h3">Start rates</h3>
      <p className="t2 measure">
        How many runs each workflow or user may start in a window of time, in all workspaces. A start over a
        rate is refused, with the time after which to try again.
      </p>
      <RateForm put={props.put} />
      {props.rates.length > 0 && (
        <div className="card">
          <table className="table rates">
            <thead>
              <tr>
                <th scope="col">Scope</th>
                <th scope="col" className="num">
                  Starts
                </th>
                <th scope="col">Window</th>
                <th scope="col">Set by</th>
                <th scope="col" className="num">
                  <span className="sr">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {props.rates.map((rate) => (
                <tr key={`${rate.per} ${rate.seconds} ${rate.stored}`}>
                  <td>{PER.find(([per]) => per === rate.per)?.[1] ?? rate.per}</td>
                  <td className="num">{rate.limit?.toLocaleString("en") ?? "no limit"}</td>
                  <td>{duration(rate.seconds * 1000)}</td>
                  <td className="t2">{rate.stored ? rate.by : "the server's settings"}</td>
                  <td className="num">
                    {rate.stored && (
                      <button
                        type="button"
                        className="btn sm"
                        aria-label={`Remove the start rate of each ${rate.per} in ${duration(rate.seconds * 1000)}`}
                        onClick={() => props.drop(rate)}
                      >
                        Remove
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {!props.rates.length && <p className="t3">No start rates are set.</p>}
    </>
  );
}

function RateForm({ put }: { put: Parameters<typeof StartRates>[0]["put"] }) {
  const [per, setPer] = useState("workflow");
  const [most, setMost] = useState("");
  const [seconds, setSeconds] = useState("60");
  const [problem, setProblem] = useState("");
  const submitted = async (event: FormEvent) => {
    event.preventDefault();
    if (!/^[1-9]\d*$/.test(most)) return setProblem("Starts must be a whole number, 1 or more.");
    if (!(Number(seconds) > 0)) return setProblem("The window must be a number above 0.");
    setProblem("");
    if (await put({ per, limit: Number(most), seconds: Number(seconds) })) setMost("");
  };
  return (
    <form className="row wrap limitform" onSubmit={submitted} noValidate aria-label="Start rate">
      <ChoiceField label="Scope" value={per} set={setPer} of={PER} />
      <TextField label="Starts" value={most} set={setMost} />
      <TextField label="Window in seconds" value={seconds} set={setSeconds} />
      <button type="submit" className="btn primary">
        Set rate
      </button>
      {problem && (
        <p className="errline" role="alert">
          {problem}
        </p>
      )}
    </form>
  );
}
