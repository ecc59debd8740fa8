/** One line at the top of every page, about the signal limit, that can be put away. */
import type { Said } from "../usage-copy.ts";
import { Dismiss } from "./dismiss.tsx";

interface Props {
  /** `/w/{slug}`. */
  home: string;
  notice: Said;
  /** What is dismissed: another one is said again. */
  state: string;
  /** Where to return. */
  back: string;
}

export function UsageBar({ home, notice, state, back }: Props) {
  return (
    <section class={`notice bar ${notice.tone}`} aria-label="Usage">
      <span>
        <strong>{notice.title}</strong> <a href={`${home}/usage`}>To Usage</a>
      </span>
      <Dismiss home={home} what="usage" state={state} back={back} label="Dismiss what is said of the usage" />
    </section>
  );
}
