/** What real senders get wrong. */
import { JSON_TYPE, type Call, type DemoDelivery, type DemoKeys, type Sender } from "./delivery.ts";

/** Calls of which nothing is kept; each answer says what to do. */
export function mistakes({ campaigns, crm, accounts, retired }: DemoKeys): Sender {
  const path = `/api/signal-staging/webhook/${campaigns}`;
  const crmPath = `/api/signal-staging/webhook/${crm.key}`;
  const good = JSON.stringify({ email: "peter@example.com", event: "Filled Out Form" });
  const refused = (what: string, status: number, code: string, call: Partial<Call>): DemoDelivery => ({
    what,
    status,
    code,
    kept: 0,
    calls: [{ path, headers: JSON_TYPE, body: good, ...call }],
  });
  const notEncoded =
    '{ "email": "nina@example.com", "event": "Filled Out Form",\n  "properties": { "company": Acme & Sons } }';
  const quotedTwice = '{ "email": ""nina@example.com"", "event": "Filled Out Form" }';
  const rawNewline = '{ "event": "Filled Out Form", "properties": { "comment": "first\nsecond" } }';
  const form = { headers: { "content-type": "application/x-www-form-urlencoded" } };
  const wrongKey = `${campaigns.slice(0, -1)}${campaigns.endsWith("a") ? "b" : "a"}`;
  return {
    name: "Mistakes",
    deliveries: [
      refused("a token that is not encoded", 400, "body_not_json", { body: notEncoded }),
      refused("a token that is quoted twice", 400, "body_not_json", { body: quotedTwice }),
      refused("a raw line break in a text", 400, "body_not_json", { body: rawNewline }),
      refused("a form-encoded body", 415, "media_type_unsupported", { ...form, body: "email=a%40b.example&event=X" }),
      refused("no body", 400, "body_empty", { body: "" }),
      refused("a signal without an event", 422, "event_missing", { body: '{"email":"peter@example.com"}' }),
      refused("a mistyped key", 401, "unauthorized", { path: `/api/signal-staging/webhook/${wrongKey}` }),
      refused("a wrong secret", 401, "unauthorized", {
        path: crmPath,
        headers: { ...JSON_TYPE, "x-api-secret": "guess" },
      }),
      refused("no secret", 401, "unauthorized", { path: crmPath }),
      refused("a deactivated key", 401, "unauthorized", { path: `/api/signal-staging/webhook/${retired}` }),
      refused("a signal to the account endpoint", 403, "endpoint_mismatch", {
        path: `/api/product-orgs/webhook/${campaigns}`,
      }),
      refused("account data to the signal endpoint", 403, "endpoint_mismatch", {
        path: `/api/signal-staging/webhook/${accounts}`,
      }),
      refused("PUT in place of POST", 405, "method_not_allowed", { method: "PUT" }),
    ],
  };
}
