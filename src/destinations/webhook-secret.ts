/** The secret that a webhook's deliveries are signed with, in the form of the Standard Webhooks specification. */

/** The specification allows 24 to 64 bytes. */
const SECRET_BYTES = 32;

export function newSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(SECRET_BYTES));
  return `whsec_${btoa(String.fromCharCode(...bytes))}`;
}
