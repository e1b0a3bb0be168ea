/** JSON Schemas as forms: flat objects become fields, everything else is JSON text. */

export type JsonSchema = Record<string, unknown>;

export interface Field {
  name: string;
  label: string;
  type: "text" | "long" | "number" | "integer" | "boolean" | "choice" | "json";
  required: boolean;
  choices: string[];
  initial: unknown;
  help: string;
}

export interface FormShape {
  fields: Field[];
  whole: boolean; // one field that is the value itself
}

/** The fields of a schema. `null`: nothing has to be filled in. */
export function formShape(schema: unknown): FormShape | null {
  if (schema === null || schema === undefined || schema === false) return null;
  if (schema === true) return null;
  const plain = resolved(schema as JsonSchema, schema as JsonSchema);
  if (plain.type === "object" && plain.properties && typeof plain.properties === "object") {
    const required = Array.isArray(plain.required) ? plain.required.map(String) : [];
    const fields = Object.entries(plain.properties as Record<string, JsonSchema>).map(([name, property]) =>
      field(name, resolved(property, schema as JsonSchema), required.includes(name)),
    );
    return { fields, whole: false };
  }
  if (plain.type === "null") return null;
  const one = field("value", plain, plain.default === undefined);
  return { fields: [{ ...one, label: one.type === "json" ? "JSON" : "Value" }], whole: true };
}

/** The schema itself, if it is only named. */
export function plainSchema(schema: JsonSchema): JsonSchema {
  return resolved(schema, schema);
}

/** What the author wrote about a form; "" if nothing. */
export function descriptionOf(schema: unknown): string {
  if (schema === null || typeof schema !== "object") return "";
  const text = plainSchema(schema as JsonSchema).description;
  return typeof text === "string" ? text : "";
}

/** Follow $ref, and an anyOf whose only other side is null. */
function resolved(schema: JsonSchema, root: JsonSchema, depth = 0): JsonSchema {
  if (depth > 20) return {};
  if (typeof schema.$ref === "string") {
    const path = schema.$ref.replace(/^#\//, "").split("/");
    let at: unknown = root;
    for (const part of path) at = (at as Record<string, unknown> | undefined)?.[part];
    return at && typeof at === "object" ? resolved(at as JsonSchema, root, depth + 1) : {};
  }
  if (Array.isArray(schema.anyOf)) {
    const real = (schema.anyOf as JsonSchema[]).filter((each) => each.type !== "null");
    const one = real[0];
    if (real.length === 1 && one)
      return { ...resolved(one, root, depth + 1), default: schema.default ?? null };
  }
  return schema;
}

function field(name: string, schema: JsonSchema, required: boolean): Field {
  const choices = Array.isArray(schema.enum) ? schema.enum.map(String) : [];
  const types: Record<string, Field["type"]> = {
    string: "text",
    number: "number",
    integer: "integer",
    boolean: "boolean",
  };
  const type = choices.length ? "choice" : (types[String(schema.type)] ?? "json");
  const long = type === "text" && /note|comment|reason|description|message/.test(name);
  return {
    name,
    label: String(schema.title ?? words(name)),
    type: long ? "long" : type,
    required,
    choices,
    initial: schema.default,
    help: String(schema.description ?? ""),
  };
}

export function words(name: string): string {
  const text = name
    .replaceAll("_", " ")
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .toLowerCase();
  return text ? text[0]?.toUpperCase() + text.slice(1) : name;
}

export type Typed = Record<string, string | boolean>;

export function initial(shape: FormShape): Typed {
  return Object.fromEntries(
    shape.fields.map((each) => [
      each.name,
      each.type === "boolean"
        ? each.initial === true
        : each.initial === undefined || each.initial === null
          ? ""
          : each.type === "json"
            ? JSON.stringify(each.initial, null, 2)
            : String(each.initial),
    ]),
  );
}

/** A value as it would be typed into the form. Fields that it does not have are left out. */
export function typedOf(shape: FormShape, value: unknown): Typed {
  const fields = shape.whole ? { value } : value;
  if (fields === null || typeof fields !== "object" || Array.isArray(fields)) return {};
  const known = shape.fields.filter((each) => each.name in fields);
  return initial({
    ...shape,
    fields: known.map((each) => ({ ...each, initial: (fields as Record<string, unknown>)[each.name] })),
  });
}

/** Read what was typed. Fields that were left empty and may be are left out. */
export function readForm(shape: FormShape, typed: Typed): { value: unknown; errors: Record<string, string> } {
  const errors: Record<string, string> = {};
  const value: Record<string, unknown> = {};
  for (const each of shape.fields) {
    const text = typed[each.name];
    if (typeof text === "boolean") {
      value[each.name] = text;
      continue;
    }
    if (!text) {
      if (each.required && each.type !== "text" && each.type !== "long")
        errors[each.name] = "This field is required.";
      else if (each.required) errors[each.name] = "This field is required.";
      continue;
    }
    if (each.type === "number" || each.type === "integer") {
      const number = Number(text);
      if (!Number.isFinite(number) || (each.type === "integer" && !Number.isInteger(number))) {
        errors[each.name] = each.type === "integer" ? "Enter a whole number." : "Enter a number.";
      } else value[each.name] = number;
    } else if (each.type === "json") {
      try {
        value[each.name] = JSON.parse(text);
      } catch {
        errors[each.name] = "This is not valid JSON.";
      }
    } else value[each.name] = text;
  }
  return { value: shape.whole ? value.value : value, errors };
}
