import { type ReactNode, useId } from "react";

interface FieldProps {
  label: ReactNode;
  value: string;
  set: (value: string) => void;
  help?: ReactNode;
}

/** A text with its label; `secret` hides what is typed. */
export function TextField(
  props: FieldProps & { placeholder?: string; mono?: boolean; secret?: boolean; options?: string[] },
) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{props.label}</label>
      <input
        id={id}
        className={props.mono ? "input mono" : "input"}
        type={props.secret ? "password" : "text"}
        autoComplete={props.secret ? "new-password" : "off"}
        list={props.options ? `${id}-options` : undefined}
        placeholder={props.placeholder}
        value={props.value}
        aria-describedby={props.help ? `${id}-help` : undefined}
        onChange={(event) => props.set(event.target.value)}
      />
      {props.options && (
        <datalist id={`${id}-options`}>
          {props.options.map((option) => (
            <option key={option} value={option} />
          ))}
        </datalist>
      )}
      {props.help && (
        <span className="help" id={`${id}-help`}>
          {props.help}
        </span>
      )}
    </div>
  );
}

/** One of a few values, each with the words that a person reads. */
export function ChoiceField(props: FieldProps & { of: readonly (readonly [string, string])[] }) {
  const id = useId();
  return (
    <div className="field grow">
      <label htmlFor={id}>{props.label}</label>
      <select
        id={id}
        className="input"
        value={props.value}
        aria-describedby={props.help ? `${id}-help` : undefined}
        onChange={(event) => props.set(event.target.value)}
      >
        {props.of.map(([value, words]) => (
          <option key={value} value={value}>
            {words}
          </option>
        ))}
      </select>
      {props.help && (
        <span className="help" id={`${id}-help`}>
          {props.help}
        </span>
      )}
    </div>
  );
}
