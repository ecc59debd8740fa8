/** The button that puts a notice away; see dismissed.ts. */
import type { Dismissible } from "../dismissed.ts";

interface Props {
  /** The workspace's path, `/w/{slug}`. */
  home: string;
  what: Dismissible;
  state: string;
  /** Path of the page to return to. */
  back: string;
  /** The button's name for screen readers. */
  label: string;
}

export function Dismiss({ home, what, state, back, label }: Props) {
  return (
    <form method="post" action={`${home}/dismiss`}>
      <input type="hidden" name="what" value={what} />
      <input type="hidden" name="state" value={state} />
      <input type="hidden" name="back" value={back} />
      <button class="link" aria-label={label}>
        Dismiss
      </button>
    </form>
  );
}
