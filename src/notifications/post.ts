/**
 * The POST to a receiver: JSON signed by the Standard Webhooks specification, or a message for a Slack-compatible
 * incoming webhook. Redirects are not followed, and only the start of the answer is read.
 */
import { Webhook } from "standardwebhooks";
import type { AttemptResult } from "../domain/events/attempts.ts";
import { checkDestinationUrl } from "../domain/events/destination.ts";
import { requestBody, emailText } from "../domain/events/request-body.ts";
import { configuredEmail, isLocal } from "../env.ts";
import { ANSWER_MAX_BYTES, DELIVERY_TIMEOUT_MS } from "../limits.ts";
import { within } from "../platform/time-limit.ts";
import type { Parcel } from "./destination-calls.ts";

export type Sent = Omit<AttemptResult, "atMs" | "tookMs">;

/**
 * Sends a notification to its receiver. Never throws. Errors are worded here, because the platform's error may
 * contain the URL.
 */
export async function postToReceiver(env: Env, workspaceId: string, parcel: Parcel): Promise<Sent> {
  // Check the URL at each attempt: the rules may have changed since the destination was created.
  const url = checkDestinationUrl(parcel.target, { local: isLocal(env), ownHosts: [new URL(parcel.pagesUrl).host] });
  if (!url.ok) return failed("Its address is not one that events are sent to.");
  const body = requestBody(parcel, workspaceId);
  const signal = AbortSignal.timeout(DELIVERY_TIMEOUT_MS);
  try {
    const response = await fetch(url.value, {
      method: "POST",
      headers: { ...signed(parcel, body), "content-type": "application/json", "user-agent": "signal-ingestion/1" },
      body,
      redirect: "manual",
      signal,
    });
    const { status } = response;
    const answer = await beginningOf(response);
    return { status, error: errorOf(status), answer, retryAfterMs: retryAfterMs(response.headers.get("retry-after")) };
  } catch {
    return failed(
      signal.aborted ? `No answer within ${DELIVERY_TIMEOUT_MS / 1_000} seconds.` : "No connection, or it broke off.",
    );
  }
}

/** Headers of the Standard Webhooks specification, also signed with the old secret during its overlap. */
function signed({ secrets, event }: Parcel, body: string): Record<string, string> {
  if (secrets.length === 0) return {};
  const at = new Date();
  return {
    "webhook-id": event.id,
    "webhook-timestamp": String(Math.floor(at.getTime() / 1_000)),
    "webhook-signature": secrets.map((secret) => new Webhook(secret).sign(event.id, at, body)).join(" "),
  };
}

function errorOf(status: number): string | null {
  if (status >= 200 && status < 300) return null;
  if (status === 410) return "It answered 410 Gone: it wants nothing any more.";
  if (status >= 300 && status < 400) return `It answered ${status}, a redirect, which is not followed.`;
  return `It answered ${status}.`;
}

/** Reads at most ANSWER_MAX_BYTES of an answer. A truncated or slow answer is accepted as far as it came. */
async function beginningOf(response: Response): Promise<string | null> {
  if (response.body === null) return null;
  const reader = response.body.getReader();
  const beginning = new Uint8Array(ANSWER_MAX_BYTES);
  let length = 0;
  try {
    while (length < ANSWER_MAX_BYTES) {
      // oxlint-disable-next-line no-await-in-loop -- one piece after the other
      const { done, value } = await reader.read();
      if (done) break;
      const piece = (value as Uint8Array).subarray(0, ANSWER_MAX_BYTES - length);
      beginning.set(piece, length);
      length += piece.length;
    }
    await reader.cancel();
  } catch {
    // The status decides; an unreadable body changes nothing.
  }
  return length === 0 ? null : new TextDecoder().decode(beginning.subarray(0, length));
}

/** Parses `Retry-After`: seconds or a date. */
function retryAfterMs(header: string | null): number | null {
  if (header === null) return null;
  const ms = /^\d{1,9}$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now();
  return ms > 0 ? ms : null;
}

function failed(error: string): Sent {
  return { status: null, error, answer: null, retryAfterMs: null };
}

/** Sends a notification to one email address. Never throws. */
export async function sendEmail(env: Env, { target, event, pagesUrl }: Parcel): Promise<Sent> {
  const email = configuredEmail(env);
  if (email === null) return sent("This deployment sends no email any more.");
  const { subject, text } = emailText(event, pagesUrl);
  // The platform sets the Message-ID itself and refuses any other value.
  const headers = { "X-Event-Id": event.id };
  try {
    await within(DELIVERY_TIMEOUT_MS, email.binding.send({ from: email.from, to: target, subject, text, headers }));
    return sent(null);
  } catch (error) {
    const { code } = error as { code?: unknown };
    return sent(
      typeof code === "string" ? `The platform refused the email: ${code}.` : "The platform refused the email.",
    );
  }
}

function sent(error: string | null): Sent {
  return { status: null, error, answer: null, retryAfterMs: null };
}
