/** What several of the notifications' pages show of a destination and of a delivery. */
import type { Delivery } from "../../notifications/destination-calls.ts";
import type { Destination } from "../../domain/events/destination.ts";
import { DELIVERY_END, destinationSaid } from "./notification-copy.ts";
import { VERIFY_CODE } from "./verify-code.ts";
import { CopyText } from "../views/copy-text.tsx";
import { Badge, Panel, Time } from "../views/parts.tsx";

/** A destination's state in a word or two, and since when. */
export function DestinationBadge({ destination, nowMs }: { destination: Destination; nowMs: number }) {
  const { tone, label, sinceMs } = destinationSaid(destination);
  return (
    <>
      <Badge tone={tone}>{label}</Badge>
      {sinceMs !== undefined && (
        <div class="quiet small">
          began <Time ms={sinceMs} nowMs={nowMs} />
        </div>
      )}
    </>
  );
}

interface DeliveryOf {
  delivery: Delivery;
  destination: Pick<Destination, "state" | "failingSinceMs">;
  nowMs: number;
}

/** Due so soon, it is worth waiting for. */
const SOON_MS = 60_000;

/** Whether something is about to come of a delivery, so that its page looks again by itself. */
export function isUnderWay({ delivery, destination, nowMs }: DeliveryOf): boolean {
  const { type, state, attempts, dueAtMs } = delivery;
  if (state !== "waiting" || dueAtMs === null) return false;
  if (type === "destination.test") return true;
  if (destination.state !== "active" || dueAtMs - nowMs >= SOON_MS) return false;
  return attempts.length === 0 ? destination.failingSinceMs === null : dueAtMs > nowMs;
}

/** What became of a delivery so far, and what comes next. */
export function DeliveryBadge({ delivery, destination, nowMs }: DeliveryOf) {
  const { type, state, endReason, attempts, dueAtMs } = delivery;
  // A test is tried once only: that its attempts failed says nothing more than that it failed.
  const ending = type === "destination.test" && endReason === "attempts_failed" ? null : endReason;
  if (state === "delivered") return <Badge tone="good">Delivered</Badge>;
  if (state === "failed") {
    return (
      <>
        <Badge tone="bad">Not delivered</Badge>
        {ending !== null && <div class="quiet small">{DELIVERY_END[ending]}</div>}
      </>
    );
  }
  if (destination.state !== "active" && type !== "destination.test") {
    return <Waits>Until the destination is resumed</Waits>;
  }
  if (isUnderWay({ delivery, destination, nowMs }) && attempts.length === 0)
    return <Badge tone="info">On its way</Badge>;
  if (dueAtMs === null || dueAtMs <= nowMs) return <Waits>Until the destination answers again</Waits>;
  return (
    <>
      <Badge tone="warn">Comes again</Badge>
      <div class="quiet small">
        <Time ms={dueAtMs} nowMs={nowMs} />
      </div>
    </>
  );
}

function Waits({ children }: { children: string }) {
  return (
    <>
      <Badge tone="quiet">Waits</Badge>
      <div class="quiet small">{children}</div>
    </>
  );
}

/** How receivers of a webhook check what they get. */
export function VerifyPanel() {
  return (
    <Panel title="Verify what comes" id="verify">
      <p class="quiet small">
        Anybody can post to a URL. Each delivery is signed by the{" "}
        <a href="https://www.standardwebhooks.com/">Standard Webhooks</a> specification, in the headers{" "}
        <code>webhook-id</code>, <code>webhook-timestamp</code> and <code>webhook-signature</code>. Answer with 2xx
        within ten seconds; anything else is tried again for some three days, and 410 ends the destination.
      </p>
      {VERIFY_CODE.map(({ id, language, install, code }, at) => (
        <details open={at === 0}>
          <summary>{language}</summary>
          <div class="stack sample-code">
            <CopyText id={`install-${id}`} label={`installation for ${language}`} text={install} />
            <CopyText block id={`verify-${id}`} label={`verification in ${language}`} text={code} />
          </div>
        </details>
      ))}
    </Panel>
  );
}
