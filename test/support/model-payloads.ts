/** Payloads of the model's contents. */
import type { Envelope } from "../../src/wire/admission.ts";
import { accountId } from "./model-accounts.ts";
import { emailOf, idOf } from "./model-lines.ts";
import type { Content } from "./model.ts";

/** A payload with an id. An account update has no id except that of its call. */
export function writtenAs(
  id: string,
  key: string,
  content: Content,
): { id: string; envelope: Envelope; payload: string } {
  const { kind, hasId, n } = content;
  const payload = payloadOf(content);
  if (kind !== "account") return { id, envelope: { id, key }, payload };
  return { id, envelope: { id, key, endpoint: "product_org", ...(hasId ? { idem: `call-${n}` } : {}) }, payload };
}

/** A repeated content has its members in another order and another send time. */
function payloadOf({ kind, person, names, event, hasId, n }: Content): string {
  if (kind === "account") return JSON.stringify({ id: accountId(person), n, plan: event });
  const ids = names.filter((name) => name !== "email").map((name) => [`${name}Id`, idOf(name, person)] as const);
  const members = [
    ["type", kind === "signal" ? "track" : kind],
    ["n", n],
    ["sentAt", new Date().toISOString()],
    ...(hasId ? [["messageId", `m-${n}`]] : []),
    ...ids,
    ...(kind === "alias" ? [["previousId", idOf("anonymous", person)]] : []),
    ...(kind === "signal" ? [["event", event]] : []),
    ...(names.includes("email")
      ? [kind === "identify" ? ["traits", { email: emailOf(person) }] : ["email", emailOf(person)]]
      : []),
  ] as const;
  return JSON.stringify(Object.fromEntries(Date.now() % 2_000 < 1_000 ? members : members.toReversed()));
}
