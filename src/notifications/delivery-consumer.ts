/**
 * Consumer of the deliveries' queue. It asks the Destinations object for the delivery, sends it, and reports the result. It never asks the
 * queue for a retry: Destinations schedules unreported deliveries again.
 */
import type { AttemptResult } from "../domain/notifications/attempts.ts";
import { checkDestinationUrl } from "../domain/notifications/destination.ts";
import { emailText, requestBody } from "../domain/notifications/request-body.ts";
import { configuredEmail, isLocal } from "../env.ts";
import { ANSWER_MAX_BYTES, CALL_TIMEOUT_MS, DELIVERY_TIMEOUT_MS } from "../limits.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import type { DueDelivery, Parcel } from "./destination-calls.ts";
import { signatureHeaders } from "./signature.ts";

/** Acknowledges the messages at once, so that a slow receiver does not block later messages. */
export function deliver(batch: MessageBatch<string>, env: Env, ctx: ExecutionContext): void {
  for (const { body } of batch.messages) ctx.waitUntil(deliverOne(env, body));
}

/** Never throws. @param message of somebody else, it may be anything. */
async function deliverOne(env: Env, message: string): Promise<void> {
  let fields = { workspace: "", delivery: "", attempt: 0 };
  try {
    const { workspaceId, ...due } = JSON.parse(message) as DueDelivery;
    fields = { workspace: workspaceId, delivery: due.id, attempt: due.attempt };
    // With a wrong JURISDICTION, this object is empty and takes nothing. The right one sends the delivery again.
    const destinations = env.DESTINATIONS.getByName(workspaceId);
    const parcel = await within<Parcel | null>(CALL_TIMEOUT_MS, destinations.take(due));
    if (parcel === null) return;
    const result = await send(env, workspaceId, parcel);
    await within(CALL_TIMEOUT_MS, destinations.report(due, result));
    const { status, tookMs } = result;
    const outcome = result.error === null ? "delivered" : "failed";
    const sent = { destination: parcel.destinationId, type: parcel.notification.type, status, outcome, ms: tookMs };
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

type Sent = Omit<AttemptResult, "atMs" | "tookMs">;

/**
 * POSTs a notification to its receiver: JSON signed by the Standard Webhooks specification, or a message for a Slack-compatible incoming
 * webhook. Redirects are not followed. Never throws. Errors are worded here, because the platform's error may contain the URL.
 */
async function postToReceiver(env: Env, workspaceId: string, parcel: Parcel): Promise<Sent> {
  // Check the URL at each attempt: the rules may have changed since the destination was created.
  const url = checkDestinationUrl(parcel.target, { local: isLocal(env), ownHosts: [new URL(parcel.pagesUrl).host] });
  if (!url.ok) return unanswered("Its address is not one that notifications are sent to.");
  const body = requestBody(parcel, workspaceId);
  const signal = AbortSignal.timeout(DELIVERY_TIMEOUT_MS);
  try {
    const headers = requestHeaders(parcel, body);
    const response = await fetch(url.value, { method: "POST", headers, body, redirect: "manual", signal });
    const { status } = response;
    // An answer may repeat the custom headers, which are secrets, in any encoding.
    const answer = parcel.headers.length === 0 ? await beginningOf(response) : null;
    if (parcel.headers.length > 0) void response.body?.cancel().catch(() => undefined);
    return { status, error: errorOf(status), answer, retryAfterMs: retryAfterMs(response.headers.get("retry-after")) };
  } catch {
    return unanswered(
      signal.aborted ? `No answer within ${DELIVERY_TIMEOUT_MS / 1_000} seconds.` : "No connection, or it broke off.",
    );
  }
}

/** The headers of the service win over custom headers of the same name. */
function requestHeaders(parcel: Parcel, body: string): Headers {
  const headers = new Headers(parcel.headers.map(({ name, value }): [string, string] => [name, value]));
  const ours = {
    ...signatureHeaders(parcel.secrets, parcel.notification.id, body),
    "content-type": "application/json",
    "user-agent": "signal-ingestion/1",
  };
  for (const [name, value] of Object.entries(ours)) headers.set(name, value);
  return headers;
}

function errorOf(status: number): string | null {
  if (status >= 200 && status < 300) return null;
  if (status === 410) return "It answered 410 Gone.";
  if (status >= 300 && status < 400) return `It answered ${status}, a redirect, which is not followed.`;
  return `It answered ${status}.`;
}

/** A truncated or slow answer is accepted as far as it came. */
async function beginningOf(response: Response): Promise<string | null> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  try {
    // Leaving the loop cancels the rest of the body.
    for await (const piece of response.body ?? []) {
      pieces.push(piece);
      length += piece.length;
      if (length >= ANSWER_MAX_BYTES) break;
    }
  } catch {
    // The status decides; an unreadable body changes nothing.
  }
  return length === 0 ? null : Buffer.concat(pieces).toString("utf8", 0, ANSWER_MAX_BYTES);
}

function retryAfterMs(header: string | null): number | null {
  if (header === null) return null;
  const ms = /^\d{1,9}$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now();
  return ms > 0 ? ms : null;
}

function unanswered(error: string | null): Sent {
  return { status: null, error, answer: null, retryAfterMs: null };
}

/** Never throws. */
async function sendEmail(env: Env, { target, notification, pagesUrl }: Parcel): Promise<Sent> {
  const email = configuredEmail(env);
  if (email === null) return unanswered("This deployment sends no email any more.");
  const { subject, text } = emailText(notification, pagesUrl);
  // The platform sets the Message-ID itself and rejects any other value.
  const headers = { "X-Notification-Id": notification.id };
  try {
    await within(DELIVERY_TIMEOUT_MS, email.binding.send({ from: email.from, to: target, subject, text, headers }));
    return unanswered(null);
  } catch (error) {
    const { code } = error as { code?: unknown };
    return unanswered(
      typeof code === "string" ? `The platform rejected the email: ${code}.` : "The platform rejected the email.",
    );
  }
}
