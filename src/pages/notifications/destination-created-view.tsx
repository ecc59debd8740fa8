/** Settings › Notifications: the one page that shows a destination's secret, and what stands there when it came twice. */
import type { Destination } from "../../domain/events/destination.ts";
import { VerifyPanel } from "./destination-parts.tsx";
import { CopyText } from "../views/copy-text.tsx";
import { PageHead, Notice, Panel, Time } from "../views/parts.tsx";

interface DestinationCreated {
  /** Path of the notifications, `/w/{slug}/settings/notifications`. */
  path: string;
  destination: Destination;
  /** The signing secret; null: this kind of destination has none. */
  secret: string | null;
  /** Whether the destination was there before, and only its secret is new. */
  isRotated: boolean;
  nowMs: number;
}

export function DestinationCreatedView({ path, destination, secret, isRotated, nowMs }: DestinationCreated) {
  const { id, name, oldSecretEndsAtMs } = destination;
  return (
    <>
      <PageHead
        title={isRotated ? "Secret rotated" : "Destination created"}
        crumbs={<a href={path}>Notifications</a>}
        actions={
          <>
            <form method="post" action={`${path}/${id}/test`} data-once>
              <button class="primary">Send a test</button>
            </form>
            <a class="button" href={`${path}/${id}`}>
              To the destination
            </a>
          </>
        }
      >
        {name}
      </PageHead>
      {secret !== null && (
        <>
          <Notice tone="warn" title="Copy the secret now: it will not be shown again.">
            <p>If it is lost, rotate it: the old one can go on for a while.</p>
          </Notice>
          {oldSecretEndsAtMs !== null && (
            <Notice title="The old secret signs too.">
              <p>
                It ends <Time ms={oldSecretEndsAtMs} nowMs={nowMs} />. Until then a receiver with either of the two
                verifies what it gets.
              </p>
            </Notice>
          )}
          <Panel title="Secret">
            <CopyText id="new-secret" label="secret" text={secret} />
            <p class="quiet small">
              The receiver needs it to verify what comes. Keep it where it keeps its other secrets.
            </p>
          </Panel>
          <VerifyPanel />
        </>
      )}
    </>
  );
}

/** The same form was sent twice: a reload, a way back, or a double click of which this is the second answer. */
export function DestinationMadeBeforeView({ path, destination }: Pick<DestinationCreated, "path" | "destination">) {
  const { id, name, type } = destination;
  return (
    <>
      <PageHead title="This destination was created already" crumbs={<a href={path}>Notifications</a>}>
        The same form was sent before, so no second one was made.
      </PageHead>
      {type === "webhook" && (
        <Notice tone="warn" title="A secret is shown once, and that was in the first answer.">
          <p>If you have copied it, all is well. If you never saw it, rotate it now: nothing is lost.</p>
        </Notice>
      )}
      <Panel>
        <div class="row">
          <a class="button primary" href={`${path}/${id}`}>
            To {name}
          </a>
          {type === "webhook" && (
            <a class="button" href={`${path}/${id}/rotate`}>
              Rotate the secret
            </a>
          )}
        </div>
      </Panel>
    </>
  );
}
