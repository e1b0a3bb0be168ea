import { type FormEvent, type ReactNode, useId, useMemo, useState } from "react";
import { type Field, formShape, initial, readForm, type Typed, typedOf } from "../domain/schema";

/** A form from a JSON Schema. Errors stand at their field; the buttons are the caller's. */
export function SchemaForm(props: {
  schema: unknown;
  problem?: { field: string; message: string } | null;
  value?: unknown; // to begin with, instead of the defaults of the schema
  changed?: (value: unknown) => void; // what is typed, as far as it can be read
  submit: (value: unknown, button: string) => void;
  children: ReactNode;
}) {
  const shape = useMemo(() => formShape(props.schema), [props.schema]);
  const [typed, setTyped] = useState<Typed>(() =>
    shape ? { ...initial(shape), ...(props.value === undefined ? {} : typedOf(shape, props.value)) } : {},
  );
  const [errors, setErrors] = useState<Record<string, string>>({});
  const submitted = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const pressed = (event.nativeEvent as SubmitEvent).submitter;
    const button = pressed instanceof HTMLButtonElement ? pressed.value : "";
    if (!shape) {
      props.submit(undefined, button);
      return;
    }
    const read = readForm(shape, typed);
    setErrors(read.errors);
    const wrong = Object.keys(read.errors)[0];
    if (wrong) event.currentTarget.querySelector<HTMLElement>(`[data-field="${CSS.escape(wrong)}"]`)?.focus();
    else props.submit(read.value, button);
  };
  const told = props.problem;
  return (
    <form
      className="apform"
      onSubmit={submitted}
      noValidate
      onKeyDown={(event) => {
        if (event.key !== "Enter" || !(event.metaKey || event.ctrlKey)) return;
        event.preventDefault();
        const deny = event.shiftKey && event.currentTarget.querySelector<HTMLButtonElement>("[value=deny]");
        if (deny) event.currentTarget.requestSubmit(deny);
        else if (!event.shiftKey) event.currentTarget.requestSubmit();
      }}
    >
      {shape?.fields.map((field) => (
        <FieldInput
          key={field.name}
          field={field}
          value={typed[field.name] ?? ""}
          error={errors[field.name] ?? (told?.field.endsWith(field.name) ? told.message : "")}
          change={(value) => {
            const now = { ...typed, [field.name]: value };
            setTyped(now);
            props.changed?.(readForm(shape, now).value);
          }}
        />
      ))}
      {told && !shape?.fields.some((field) => told.field.endsWith(field.name)) && (
        <p className="errline" role="alert">
          {told.message}
        </p>
      )}
      {props.children}
    </form>
  );
}

function FieldInput(props: {
  field: Field;
  value: string | boolean;
  error: string;
  change: (value: string | boolean) => void;
}) {
  const { field, value, error } = props;
  const id = useId();
  const common = {
    id,
    "data-field": field.name,
    "aria-invalid": error ? true : undefined,
    "aria-describedby": error || field.help ? `${id}-help` : undefined,
  } as const;
  if (field.type === "boolean") {
    return (
      <label className="row" htmlFor={id}>
        <input
          {...common}
          type="checkbox"
          className="check"
          checked={value === true}
          onChange={(event) => props.change(event.target.checked)}
        />
        {field.label}
      </label>
    );
  }
  const look = `input${error ? " bad" : ""}`;
  return (
    <div className="field">
      <label htmlFor={id}>
        {field.label} {!field.required && <span className="t3">optional</span>}
      </label>
      {field.type === "choice" ? (
        <select
          {...common}
          className={look}
          value={String(value)}
          onChange={(event) => props.change(event.target.value)}
        >
          {!field.required || value === "" ? <option value="" /> : null}
          {field.choices.map((choice) => (
            <option key={choice}>{choice}</option>
          ))}
        </select>
      ) : field.type === "long" || field.type === "json" ? (
        <textarea
          {...common}
          className={field.type === "json" ? `${look} mono` : look}
          rows={field.type === "json" ? 5 : 2}
          value={String(value)}
          onChange={(event) => props.change(event.target.value)}
        />
      ) : (
        <input
          {...common}
          className={look}
          inputMode={field.type === "text" ? undefined : "decimal"}
          autoComplete="off"
          value={String(value)}
          onChange={(event) => props.change(event.target.value)}
        />
      )}
      {(error || field.help) && (
        <span className={error ? "err" : "help"} id={`${id}-help`}>
          {error || field.help}
        </span>
      )}
    </div>
  );
}
