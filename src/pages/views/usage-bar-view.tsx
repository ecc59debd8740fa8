/** One line at the top of every page, about the signal limit, that can be put away. */
import type { NoticeCopy } from "./usage-copy.ts";
import { Dismiss } from "../dismissed.tsx";

interface Props {
  /** The workspace's path, `/w/{slug}`. */
  home: string;
  notice: NoticeCopy;
  /** Names the notice that is dismissed; a notice in another state is shown again. */
  state: string;
  /** Path of the page to return to. */
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
