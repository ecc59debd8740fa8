/** Form fields with their label, hint and error, tied together for screen readers. */
import type { Child, JSX } from "hono/jsx";
import { HiddenFields, LinkButton } from "./actions.tsx";

interface Labelled {
  /** The control's name, and its id. */
  name: string;
  label: Child;
  hint?: Child;
  error?: string | undefined;
}

type Input = Omit<JSX.IntrinsicElements["input"], "name" | "id">;

/**
 * Attributes that tie hint and error to a control. With an error it asks for the focus: a browser gives it to the first
 * control that does, so to the first wrong field of a form.
 */
function described({ name, hint, error }: Labelled) {
  const ids = [hint === undefined ? [] : `${name}-hint`, error === undefined ? [] : `${name}-error`].flat();
  return {
    ...(ids.length === 0 ? {} : { "aria-describedby": ids.join(" ") }),
    ...(error === undefined ? {} : { "aria-invalid": "true" as const, autofocus: true }),
  };
}

function Around({ field, children }: { field: Labelled; children: Child }) {
  const { name, label, hint, error } = field;
  return (
    <div class="field">
      <label for={name}>{label}</label>
      {children}
      {hint !== undefined && (
        <span class="hint" id={`${name}-hint`}>
          {hint}
        </span>
      )}
      {error !== undefined && (
        <span class="error" id={`${name}-error`}>
          {error}
        </span>
      )}
    </div>
  );
}

export function TextField({ name, label, hint, error, ...input }: Labelled & Input) {
  const field = { name, label, hint, error };
  return (
    <Around field={field}>
      <input id={name} name={name} type="text" {...input} {...described(field)} />
    </Around>
  );
}

interface NameFieldProps {
  name: string;
  label: string;
  value: string;
  known: readonly string[];
}

/** A field for a name: known ones are offered, and others can be typed. */
export function NameField({ known, ...field }: NameFieldProps) {
  if (known.length === 0) return <TextField {...field} autocomplete="off" />;
  const id = `known-${field.name}`;
  return (
    <>
      <TextField {...field} list={id} autocomplete="off" />
      <DataList id={id} values={known} />
    </>
  );
}

/** The values that a text field offers. */
export function DataList({ id, values }: { id: string; values: readonly string[] }) {
  return (
    <datalist id={id}>
      {values.map((value) => (
        <option value={value} />
      ))}
    </datalist>
  );
}

export function TextArea({
  name,
  label,
  hint,
  error,
  value,
  ...area
}: Labelled & Omit<JSX.IntrinsicElements["textarea"], "name" | "id"> & { value: string }) {
  const field = { name, label, hint, error };
  return (
    <Around field={field}>
      <textarea id={name} name={name} {...area} {...described(field)}>
        {textareaText(value)}
      </textarea>
    </Around>
  );
}

export function SelectField({
  name,
  label,
  hint,
  error,
  value,
  options,
}: Labelled & { value: string; options: readonly (readonly [value: string, text: string])[] }) {
  const field = { name, label, hint, error };
  return (
    <Around field={field}>
      <select id={name} name={name} {...described(field)}>
        {options.map(([option, text]) => (
          <option value={option} selected={option === value}>
            {text}
          </option>
        ))}
      </select>
    </Around>
  );
}

export function CheckField({ name, label, hint, checked }: Labelled & { checked: boolean }) {
  return (
    <div class="check">
      <input type="checkbox" id={name} name={name} value="on" checked={checked} {...described({ name, label, hint })} />
      <div>
        <label for={name}>{label}</label>
        {hint !== undefined && (
          <div class="hint" id={`${name}-hint`}>
            {hint}
          </div>
        )}
      </div>
    </div>
  );
}

type FormAttributes = Omit<JSX.IntrinsicElements["form"], "action" | "method" | "children">;

interface FormProps extends FormAttributes {
  action: string;
  /** Text of the button that sends the form: a verb. */
  submit: string;
  /** The button's class. */
  look?: string;
  /** Address of the link that leaves the form. */
  cancel?: string;
  /** Hidden fields. */
  hidden?: Record<string, string>;
  children: Child;
}

/** A form that is sent once, with the button that sends it. */
export function Form({ action, submit, look = "primary", cancel, hidden = {}, children, ...attributes }: FormProps) {
  return (
    <form method="post" action={action} class="form" data-once {...attributes}>
      <HiddenFields fields={hidden} />
      {children}
      <div class="row">
        <button class={look}>{submit}</button>
        {cancel !== undefined && <LinkButton href={cancel} text="Cancel" />}
      </div>
    </form>
  );
}

/** The errors of a form, shown above it. */
export function FormErrors({ errors, title = "Nothing was saved" }: { errors: readonly string[]; title?: string }) {
  if (errors.length === 0) return <></>;
  return (
    <div class="notice bad" role="alert">
      <strong>{title}</strong>
      <ul>
        {errors.map((error) => (
          <li>{error}</li>
        ))}
      </ul>
    </div>
  );
}

/** One of several that are offered, with what it means; a radio button, or a box where several may be chosen. */
export function Choice({
  type = "radio",
  group,
  name,
  value,
  label,
  hint,
  checked,
  autofocus = false,
  children,
}: {
  type?: "radio" | "checkbox";
  /** Of the ids: `group-value`. */
  group: string;
  name: string;
  value: string;
  label: Child;
  hint: Child;
  checked: boolean;
  autofocus?: boolean;
  /** Below the hint. */
  children?: Child;
}) {
  const id = `${group}-${value}`;
  return (
    <div class="check">
      <input
        type={type}
        id={id}
        name={name}
        value={value}
        checked={checked}
        aria-describedby={`${id}-hint`}
        autofocus={autofocus}
      />
      <div>
        <label for={id}>{label}</label>
        <div class="hint" id={`${id}-hint`}>
          {hint}
        </div>
        {children}
      </div>
    </div>
  );
}

/** The content of a textarea. HTML drops a line break at its beginning, so a text that begins with one gets another. */
export function textareaText(value: string): string {
  return /^[\r\n]/.test(value) ? `\n${value}` : value;
}
