/**
 * Forms and actions: fields with their label, hint and error, tied together for screen readers; buttons, a menu of actions,
 * and a confirmation before an action that cannot be undone.
 */
import type { Child, JSX, PropsWithChildren } from "hono/jsx";

interface Labelled {
  name: string;
  label: Child;
  hint?: Child;
  error?: string | undefined;
}

type InputAttributes = Omit<JSX.IntrinsicElements["input"], "name" | "id">;

/** A browser focuses the first control with `autofocus`, so the first field with an error. */
function descriptionAttributes({ name, hint, error }: Labelled) {
  const ids = [hint === undefined ? [] : `${name}-hint`, error === undefined ? [] : `${name}-error`].flat();
  return {
    ...(ids.length === 0 ? {} : { "aria-describedby": ids.join(" ") }),
    ...(error === undefined ? {} : { "aria-invalid": "true" as const, autofocus: true }),
  };
}

function FieldFrame({ field, children }: { field: Labelled; children: Child }) {
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

/** For text without words, such as a path: browsers must not correct it. */
const CODE = { class: "mono", autocapitalize: "off", spellcheck: false } as const;

export function TextField({
  name,
  label,
  hint,
  error,
  code = false,
  ...input
}: Labelled & InputAttributes & { code?: boolean }) {
  const field = { name, label, hint, error };
  return (
    <FieldFrame field={field}>
      <input
        id={name}
        name={name}
        type="text"
        autocomplete="off"
        {...(code && CODE)}
        {...input}
        {...descriptionAttributes(field)}
      />
    </FieldFrame>
  );
}

interface NameFieldProps {
  name: string;
  label: string;
  value: string;
  suggestions: readonly string[];
}

/** A text field with suggestions; other texts can be typed too. */
export function NameField({ suggestions, ...field }: NameFieldProps) {
  if (suggestions.length === 0) return <TextField {...field} />;
  const id = `known-${field.name}`;
  return (
    <>
      <TextField {...field} list={id} />
      <DataList id={id} values={suggestions} />
    </>
  );
}

export function DataList({ id, values }: { id: string; values: readonly string[] }) {
  return (
    <datalist id={id}>
      {values.map((value) => (
        <option value={value} />
      ))}
    </datalist>
  );
}

type TextAreaAttributes = Omit<JSX.IntrinsicElements["textarea"], "name" | "id"> & { value: string };

/** For text that is not made of words. */
export function TextArea({ name, label, hint, error, value, ...area }: Labelled & TextAreaAttributes) {
  const field = { name, label, hint, error };
  return (
    <FieldFrame field={field}>
      <textarea id={name} name={name} {...CODE} {...area} {...descriptionAttributes(field)}>
        {textareaText(value)}
      </textarea>
    </FieldFrame>
  );
}

interface SelectProps extends Labelled {
  value: string;
  options: readonly (readonly [value: string, text: string])[];
  /** Selector of the button that a choice presses. Without a script the button is shown. */
  press?: string;
}

export function SelectField({ value, options, press, ...field }: SelectProps) {
  return (
    <FieldFrame field={field}>
      <select id={field.name} name={field.name} data-press={press} {...descriptionAttributes(field)}>
        {options.map(([option, text]) => (
          <option value={option} selected={option === value}>
            {text}
          </option>
        ))}
      </select>
    </FieldFrame>
  );
}

interface CheckProps {
  type?: "radio" | "checkbox";
  id: string;
  name: string;
  value?: string;
  label: Child;
  hint?: Child;
  checked: boolean;
  autofocus?: boolean;
}

/** The children stand below the hint. */
export function Check({
  type = "checkbox",
  value = "on",
  label,
  hint,
  children,
  ...input
}: PropsWithChildren<CheckProps>) {
  const hintId = hint === undefined ? undefined : `${input.id}-hint`;
  return (
    <div class="check">
      <input type={type} value={value} aria-describedby={hintId} {...input} />
      <div>
        <label for={input.id}>{label}</label>
        {hint !== undefined && (
          <div class="hint" id={hintId}>
            {hint}
          </div>
        )}
        {children}
      </div>
    </div>
  );
}

interface ChoicesProps<Value extends string> {
  legend: string;
  name: string;
  /** Prefix of the ids, if several fields of the page have this name. */
  group?: string;
  options: readonly { value: Value; label: string; hint: string }[];
  value: Value;
  error?: string | undefined;
}

export function Choices<Value extends string>(props: ChoicesProps<Value>) {
  const { legend, name, group = name, options, value: chosen, error } = props;
  return (
    <fieldset class="field" aria-describedby={error === undefined ? undefined : `${group}-error`}>
      <legend>{legend}</legend>
      {options.map(({ value, ...texts }, index) => (
        <Check
          type="radio"
          id={`${group}-${value}`}
          name={name}
          value={value}
          {...texts}
          checked={value === chosen}
          autofocus={error !== undefined && index === 0}
        />
      ))}
      {error !== undefined && (
        <span class="error" id={`${group}-error`}>
          {error}
        </span>
      )}
    </fieldset>
  );
}

type FormAttributes = Omit<JSX.IntrinsicElements["form"], "action" | "method" | "children">;

interface FormProps extends FormAttributes {
  action: string;
  submit: string;
  look?: string;
  cancel?: string;
  hidden?: Record<string, string>;
  /** The fields contain buttons that do not submit the form as a whole. */
  hasInnerButtons?: boolean;
  /** Shown beside the submit button. */
  beside?: Child;
  children: Child;
}

/** A form that is sent once, with the button that sends it. The server says what is wrong, in the same way for all fields. */
export function Form({ action, submit, look = "primary", cancel, hidden = {}, children, ...props }: FormProps) {
  const { hasInnerButtons = false, beside, ...attributes } = props;
  return (
    <form method="post" action={action} class="form" data-once novalidate {...attributes}>
      {hasInnerButtons && (
        // The Enter key presses the first button of a form.
        <button class="visually-hidden" tabindex={-1} aria-hidden="true">
          {submit}
        </button>
      )}
      <HiddenFields fields={hidden} />
      {children}
      <div class="row">
        <button class={look}>{submit}</button>
        {beside}
        {cancel !== undefined && <LinkButton href={cancel} text="Cancel" />}
      </div>
    </form>
  );
}

/**
 * Attributes of a form whose preview follows what somebody types: `url` answers with the new `#preview`.
 *
 * @param first what the page shows when it opens: `asked`, the script asks for the preview; `shown`, the page contains it.
 */
export function livePreview(url: string, first: "asked" | "shown" = "asked") {
  const attributes = { "data-preview": "#preview", "data-preview-url": url } as const;
  return first === "asked" ? { ...attributes, "data-preview-first": true } : attributes;
}

/** An error of several fields. No field has the focus, so it is announced. */
export function ErrorText({ text }: { text: string }) {
  return (
    <p class="error" role="alert">
      {text}
    </p>
  );
}

/** Sentences by field; `form` is about the form as a whole, `rows.0.path` about a field of the first mapping. */
export type FieldErrors = Partial<Record<string, string>>;

/** All errors, with the number of the mapping that has one. */
export function errorList(errors: FieldErrors): string[] {
  return Object.entries(errors).flatMap(([field, text]) => {
    if (text === undefined) return [];
    const row = /^(?:rows|map)\.(\d+)/.exec(field)?.[1];
    return row === undefined ? text : `Mapping ${Number(row) + 1}: ${text}`;
  });
}

/**
 * The errors for the box above a form. Those of fields stand at the fields, of which the first has the focus. Those of a
 * template or of conditions as a whole have no focus, and stand below the screen.
 */
export function summaryOf({ form, ...atFields }: FieldErrors): string[] {
  const areSeveral = errorList(atFields).length > 1;
  const { template = [], conditions = [] } = atFields;
  return [form ?? [], areSeveral ? "Fix the fields marked below." : [template, conditions]].flat(2);
}

interface ErrorsProps {
  errors: readonly Child[];
  title?: string | undefined;
}

export function FormErrors({ errors, title = "Nothing was saved" }: ErrorsProps) {
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

/** The content of a textarea. HTML drops a line break at its beginning, so a text that begins with one gets another. */
export function textareaText(value: string): string {
  return /^[\r\n]/.test(value) ? `\n${value}` : value;
}

/**
 * A "…" button that opens a menu of links and buttons. It works without a script; with a script, Escape and a click
 * elsewhere close it.
 *
 * @param props.label names the menu for screen readers, such as `Actions for key Website`.
 */
export function Menu({ label, text = "…", children }: PropsWithChildren<{ label: string; text?: Child }>) {
  return (
    <details class="menu-of">
      <summary aria-label={label}>{text}</summary>
      <div>{children}</div>
    </details>
  );
}

export function LinkButton({ href, text, look = "" }: { href: string; text: string; look?: string }) {
  return (
    <a class={`button ${look}`.trim()} href={href}>
      {text}
    </a>
  );
}

interface ConfirmProps {
  label: Child;
  /** Also for screen readers, such as `Delete rule "Demo"?`. */
  title: string;
  action: string;
  submit: string;
  tone?: "danger" | "primary";
  look?: string;
  fields?: Record<string, string>;
}

/**
 * A button that asks before it acts. With a script the question is a modal dialog; without one it opens below the button.
 * The children say the consequences, and may contain fields.
 */
export function Confirm({
  label,
  title,
  action,
  submit,
  tone = "danger",
  look = "button",
  fields = {},
  children,
}: PropsWithChildren<ConfirmProps>) {
  return (
    <details class="confirm">
      <summary class={look} aria-label={title}>
        {label}
      </summary>
      <form method="post" action={action} class="confirm-body" data-once>
        <h2>{title}</h2>
        <HiddenFields fields={fields} />
        {children}
        <div class="row">
          <button class={tone}>{submit}</button>
          <button type="button" class="needs-script" data-close>
            Cancel
          </button>
        </div>
      </form>
    </details>
  );
}

interface PostProps {
  action: string;
  text: string;
  look?: string;
  fields?: Record<string, string>;
  label?: string;
}

export function PostButton({ action, text, look = "", fields = {}, label }: PostProps) {
  return (
    <form method="post" action={action} data-once>
      <HiddenFields fields={fields} />
      <button class={look} aria-label={label}>
        {text}
      </button>
    </form>
  );
}

export function HiddenFields({ fields }: { fields: Record<string, string> }) {
  return (
    <>
      {Object.entries(fields).map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
    </>
  );
}
