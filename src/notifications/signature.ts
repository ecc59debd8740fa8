import { Webhook } from "standardwebhooks";

/**
 * The headers of a signed delivery, by the Standard Webhooks specification: one signature for each secret, because old secrets also sign
 * during their overlap. Without a secret there are none.
 */
export function signatureHeaders(secrets: readonly string[], id: string, body: string): Record<string, string> {
  if (secrets.length === 0) return {};
  const at = new Date();
  return {
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(at.getTime() / 1_000)),
    "webhook-signature": secrets.map((secret) => new Webhook(secret).sign(id, at, body)).join(" "),
  };
}
