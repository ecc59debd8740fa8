/** A menu of actions, and a confirmation before an action that cannot be undone. */
import type { Child, PropsWithChildren } from "hono/jsx";

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

/** A link that looks like a button. @param props.look further classes, such as `primary`. */
export function LinkButton({ href, text, look = "" }: { href: string; text: string; look?: string }) {
  return (
    <a class={`button ${look}`.trim()} href={href}>
      {text}
    </a>
  );
}

interface Question {
  /** Text of the button that asks the question. */
  label: Child;
  /** Title of the dialog, also for screen readers, such as `Delete rule "Demo"?`. */
  title: string;
  /** Path that the form posts to. */
  action: string;
  /** Text of the button that confirms: a verb. */
  submit: string;
  tone?: "danger" | "primary";
  /** Classes of the button that asks. */
  look?: string;
  /** Hidden fields. */
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
}: PropsWithChildren<Question>) {
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
  /** Hidden fields. */
  fields?: Record<string, string>;
  /** Names the button for screen readers. */
  label?: string;
}

/** A button that posts a form without visible fields. */
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
