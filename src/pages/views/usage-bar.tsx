/** One line at the top of every page, about the signal limit, that can be put away. */
import type { Said } from "../usage-copy.ts";

interface Props {
  /** `/w/{slug}`. */
  home: string;
  notice: Said;
  /** What is dismissed. */
  name: string;
  /** Where to return. */
  back: string;
}

export function UsageBar({ home, notice, name, back }: Props) {
  return (
    <section class={`notice bar ${notice.tone}`} aria-label="Usage">
      <span>
        <strong>{notice.title}</strong> <a href={`${home}/usage`}>To Usage</a>
      </span>
      <form method="post" action={`${home}/usage/dismiss`}>
        <input type="hidden" name="name" value={name} />
        <input type="hidden" name="back" value={back} />
        <button class="link" aria-label="Dismiss what is said of the usage">
          Dismiss
        </button>
      </form>
    </section>
  );
}
