/**
 * Consumer of the deliveries' queue. It asks the Destinations object for the delivery, sends it, and reports the
 * result. It never asks the queue for a retry: Destinations schedules unreported deliveries again.
 */
import type { AttemptResult } from "../domain/events/attempts.ts";
import type { DueDelivery, Parcel } from "./destination-calls.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import { sendEmail, postToReceiver } from "./post.ts";

/** Acknowledges the messages at once, so that a slow receiver does not block later messages. */
export function deliver(batch: MessageBatch<string>, env: Env, ctx: ExecutionContext): void {
  for (const { body } of batch.messages) ctx.waitUntil(deliverOne(env, JSON.parse(body) as DueDelivery));
}

/** Sends one delivery and reports the result. Never throws. */
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
