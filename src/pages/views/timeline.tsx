/** Things that happened one after the other. */
import type { Child, PropsWithChildren } from "hono/jsx";
import type { Tone } from "../copy.ts";
import { Time } from "./parts.tsx";

export function TimelineStep({
  title,
  ms,
  tone = "quiet",
  children,
}: PropsWithChildren<{ title: Child; ms?: number | null; tone?: Tone }>) {
  return (
    <li class={tone === "quiet" ? undefined : tone}>
      <div class="row">
        <strong>{title}</strong>
        {ms !== undefined && ms !== null && (
          <span class="quiet small">
            <Time ms={ms} />
          </span>
        )}
      </div>
      <div class="small">{children}</div>
    </li>
  );
}
