/** Asks before something is done that cannot be undone. */
import type { PropsWithChildren } from "hono/jsx";

interface Confirmation {
  label: string;
  action: string;
  submit: string;
  tone?: "danger" | "primary";
  /** Tells it apart from others on the page with the same label and action. */
  of?: string;
}

/** A button that says first what will happen, above the page: nothing on it moves. Works without a script. */
export function Confirm({
  label,
  action,
  submit,
  tone = "danger",
  of = "",
  children,
}: PropsWithChildren<Confirmation>) {
  const id = `confirm-${label}-${of}-${action}`.replaceAll(" ", "-");
  return (
    <>
      <button type="button" class={`small ${tone === "danger" ? "danger" : ""}`} popovertarget={id}>
        {label}
      </button>
      <div class="confirm" popover="auto" id={id} role="dialog" aria-label={label}>
        <form method="post" action={action} data-once>
          {children}
          <div class="row">
            <button class={tone}>{submit}</button>
            <button type="button" popovertarget={id} popovertargetaction="hide">
              Cancel
            </button>
          </div>
        </form>
      </div>
    </>
  );
}
