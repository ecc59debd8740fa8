/**
 * The consumer of the deliveries' queue: asks Destinations what to send, sends it, and reports what came of it. It never
 * asks the queue for another try: whatever it does not report, because it failed or died, Destinations sends again.
 */
import type { AttemptResult } from "../domain/events/attempts.ts";
import type { DueDelivery, Parcel } from "./destination-calls.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import { sendEmail, postToReceiver } from "./post.ts";

/** Takes the messages off the queue at once: a receiver that hangs holds up nothing that comes after. */
export function deliver(batch: MessageBatch<string>, env: Env, ctx: ExecutionContext): void {
  for (const { body } of batch.messages) ctx.waitUntil(deliverOne(env, JSON.parse(body) as DueDelivery));
}

/** Sends one delivery and reports what came of it. Never throws. */
async function deliverOne(env: Env, { workspaceId, ...due }: DueDelivery): Promise<void> {
  const fields = { workspace: workspaceId, delivery: due.id, attempt: due.attempt };
  try {
    const destinations = env.DESTINATIONS.getByName(workspaceId);
    const parcel = await within<Parcel | null>(CALL_TIMEOUT_MS, destinations.take(due));
    if (parcel === null) return;
    const result = await send(env, workspaceId, parcel);
    await within(CALL_TIMEOUT_MS, destinations.report(due, result));
    const { status, tookMs } = result;
    const outcome = result.error === null ? "delivered" : "failed";
    const sent = { destination: parcel.destinationId, type: parcel.event.type, status, outcome, ms: tookMs };
    logEvent("delivery", { ...fields, ...sent });
  } catch (error) {
    logEvent("delivery_lost", { ...fields, error: errorText(error) });
  }
}

async function send(env: Env, workspaceId: string, parcel: Parcel): Promise<AttemptResult> {
  const atMs = Date.now();
  const sent = parcel.type === "email" ? await sendEmail(env, parcel) : await postToReceiver(env, workspaceId, parcel);
  return { ...sent, atMs, tookMs: Date.now() - atMs };
}
