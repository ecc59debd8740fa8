/** An event by email, through the platform's binding. */
import type { Parcel } from "./destination-calls.ts";
import { emailText } from "../domain/events/request-body.ts";
import { configuredEmail } from "../env.ts";
import { DELIVERY_TIMEOUT_MS } from "../limits.ts";
import { within } from "../platform/time-limit.ts";
import type { Sent } from "./post.ts";

/** Sends an event to one address. Never throws. */
export async function sendEmail(env: Env, { target, event, pagesUrl }: Parcel): Promise<Sent> {
  const email = configuredEmail(env);
  if (email === null) return sent("This deployment sends no email any more.");
  const { subject, text } = emailText(event, pagesUrl);
  // The platform makes the Message-ID itself, and refuses another.
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
