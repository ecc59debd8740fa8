/** Settings › Notifications: what is asked before a destination's secret is replaced. */
import type { Destination } from "../../domain/events/destination.ts";
import type { Overlap } from "../../workspace/manage-keys.ts";
import { OverlapChoice } from "../views/overlap-choice.tsx";
import { PageHead, Panel } from "../views/parts.tsx";

const OVERLAPS = {
  none: { label: "Now", hint: "A receiver with the old one verifies nothing until it has the new one." },
  "1h": { label: "In 1 hour", hint: "Until then every delivery is signed with both." },
  "24h": { label: "In 24 hours", hint: "Until then every delivery is signed with both." },
  "7d": { label: "In 7 days", hint: "Until then every delivery is signed with both." },
} as const satisfies Record<Overlap, { label: string; hint: string }>;

const USUAL: Overlap = "24h";

/** @param props.error what is wrong with a form that came without an overlap. */
export function RotateSecretView({
  path,
  destination,
  error,
}: {
  path: string;
  destination: Destination;
  error?: string;
}) {
  const { id, name } = destination;
  return (
    <>
      <PageHead title={`Rotate the secret of ${name}`} crumbs={<a href={path}>Notifications</a>}>
        The new one is shown once.
      </PageHead>
      <Panel>
        <form method="post" action={`${path}/${id}/rotate`} data-once class="form">
          <OverlapChoice
            legend="When does the old secret end?"
            copy={OVERLAPS}
            chosen={USUAL}
            autofocus
            error={error}
          />
          <div class="row">
            <button class="primary">Rotate the secret</button>
            <a class="button" href={`${path}/${id}`}>
              Cancel
            </a>
          </div>
        </form>
      </Panel>
    </>
  );
}
