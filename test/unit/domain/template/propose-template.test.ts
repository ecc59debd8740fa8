/** A template proposed from samples, by names and values. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readPayload } from "../../../../src/domain/json/json-value.ts";
import { applyTemplate } from "../../../../src/domain/template/apply.ts";
import { proposeSignalTemplate, type TemplateSample } from "../../../../src/domain/template/propose-template.ts";
import { compileSignalTemplate, compileStoredTemplate } from "../../../../src/domain/template/signal-template.ts";
import { amount } from "../../../support/amount.ts";

const NOW = Date.parse("2026-11-27T12:00:00Z");

/** The proposed sources by target. */
function proposed(...samples: TemplateSample[]): Record<string, unknown> {
  const template = proposeSignalTemplate(samples, NOW);
  return Object.fromEntries(template.map(({ target, path, paths, text }) => [target, path ?? paths ?? { text }]));
}
const of = (...bodies: unknown[]): Record<string, unknown> => proposed(...bodies.map((body) => ({ body })));

describe("the proposed address", () => {
  test.each([
    [{ email: "a@x.co" }, "email"],
    [{ data: { recipient: "a@x.co" } }, "data.recipient"],
    [{ "Email Address": "a@x.co" }, "Email Address"],
    [{ owner: { email: "o@x.co" }, contact: { email: "a@x.co" } }, "contact.email"],
    [{ email: "o@x.co", agent: true, customer: { email: "a@x.co" } }, "customer.email"],
    [{ from: "o@x.co", to: "a@x.co" }, "to"],
    [{ assignee_email: "o@x.co", mail: "a@x.co" }, "mail"],
    [{ "message-id": "<1@x.co>", address: "a@x.co" }, "address"],
    [{ from: { email: "only@x.co" } }, "from.email"],
    [
      {
        properties: [
          { name: "phone", value: "1" },
          { name: "email", value: "a@x.co" },
        ],
      },
      "properties[name=email].value",
    ],
    [
      {
        answers: [
          { type: "text", text: "x" },
          { type: "email", email: "a@x.co" },
        ],
      },
      "answers[].email",
    ],
    [{ to: ["a@x.co"] }, "to[]"],
    [{ payload: JSON.stringify({ user: { email: "a@x.co" } }) }, "payload.user.email"],
    [{ "contact.email": "a@x.co" }, `"contact.email"`],
    [{ "@email": "a@x.co" }, `"@email"`],
    [{ user: "Jane <a@x.co>" }, "user"],
  ])("of %j is %s", (body, path) => {
    expect(of(body)["email"]).toBe(path);
  });

  test.each([[{ message_id: "1@x.co" }], [{ url: "mailto@x.co" }], [{ email: "not one" }], [{ email: null }], [{}]])(
    "is none of %j",
    (body) => {
      expect(of(body)).not.toHaveProperty("email");
    },
  );

  test("covers samples of different shapes, the best path first", () => {
    const bodies = [
      { event: "a", user: { email: "a@x.co" }, mail: "b@x.co" },
      { event: "b", mail: "b@x.co" },
      { event: "c" },
      { event: "d", lead: { to: "c@x.co" } },
    ];
    expect(of(...bodies)["email"]).toEqual(["user.email", "lead.to", "mail"]);
  });

  test("is missing where samples have a user id alone", () => {
    expect(of({ event: "x", userId: 5 })).toEqual({ event: "event", user_id: "userId" });
  });

  test("brings the traits beside it", () => {
    const body = {
      event: "x",
      name: "Deal",
      contact: { email: "a@x.co", first_name: "A", LastName: "B", company: "C", jobTitle: "D", name: "" },
    };
    expect(of(body)).toEqual({
      event: "event",
      email: "contact.email",
      first_name: "contact.first_name",
      last_name: "contact.LastName",
      company: "contact.company",
      title: "contact.jobTitle",
    });
  });
});

describe("the proposed event", () => {
  test.each([
    [{ event: "x", type: "y" }, "event"],
    [{ eventName: "x", id: 1 }, "eventName"],
    [{ meta: { event_type: "x" }, contact: { type: "lead" } }, "meta.event_type"],
    [{ RecordType: "Bounce", Type: "HardBounce" }, "RecordType"],
    [{ type: "customer.created", object: "event" }, "type"],
    [{ event: { id: 1 }, action: "opened" }, "action"],
    [{ event: "https://x.co/event", topic: "orders/create" }, "topic"],
    [{ event: "0b5f9f40-1d0f-4f2e-9d7e-0d8c5ad1b1f3", trigger: "sent" }, "trigger"],
    [{ "event-data": { event: "opened" } }, "event-data.event"],
  ])("of %j is %s", (body, path) => {
    expect(of(body)["event"]).toBe(path);
  });

  test("otherwise is a header, the source of the path, or a constant", () => {
    const headers = { "x-shopify-topic": "orders/create", "x-event": "" };
    expect(proposed({ body: { a: 1 }, headers, source: "shop" })["event"]).toBe("@header.x-shopify-topic");
    expect(proposed({ body: { action: "opened" }, headers: { "x-github-event": "issues" } })["event"]).toEqual([
      "@header.x-github-event",
      "action",
    ]);
    expect(proposed({ body: { event: "x" }, headers })["event"]).toBe("event");
    expect(proposed({ body: { a: 1 }, source: "shop" })["event"]).toBe("@source");
    expect(proposed({ body: { a: 1 }, headers: { "x-secret-event": "no" } })["event"]).toEqual({
      text: "Webhook received",
    });
    expect(proposed()["event"]).toEqual({ text: "Webhook received" });
  });
});

describe("the proposed time and id", () => {
  test.each([
    [{ event: "x", timestamp: 1_795_773_600 }, "timestamp"],
    [{ event: "x", created_at: "2026-11-27T10:00:00Z", date: "2026-11-27" }, "created_at"],
    [{ event: "x", timestamp: "2026-11-27 10:00:00", created: 1_795_773_600 }, ["created"]],
    [{ meta: { event: "x", ts: 1_795_773_600 }, user: { created_at: 1_700_000_000 } }, "meta.ts"],
    [{ event: "x", user: { created_at: 1_700_000_000 } }, undefined],
    [{ event: "x", timestamp: "soon" }, undefined],
  ])("of %j has the time %j", (body, path) => {
    expect([of(body)["occurred_at"]].flat()).toEqual([path].flat());
  });

  test.each([
    [{ event: "x", id: "1", event_id: "2" }, {}, "event_id"],
    [{ event: "x", sg_event_id: "2" }, {}, "sg_event_id"],
    [{ event: "x", id: "1" }, {}, undefined],
    [{ event: "x", id: "1" }, { "x-github-delivery": "d" }, "@header.x-github-delivery"],
    [{ event: "x", user: { event_id: "2" } }, {}, undefined],
  ])("of %j under %j has the id %s", (body, headers, path) => {
    expect(proposed({ body, headers })["id"]).toBe(path);
  });
});

describe("the proposed items", () => {
  test("are a list with addresses where nothing else has one, with the event around them", () => {
    expect(of({ action: "insert", data: [{ Email: "a@x.co" }, { Email: "b@x.co" }] })).toEqual({
      items: "data",
      event: "@body.action",
      email: "Email",
    });
    expect(of({ events: [{ event: "open", email: "a@x.co" }] })).toEqual({
      items: "events",
      event: "event",
      email: "email",
    });
  });

  test("are none where the body has an address, or its array is the list", () => {
    expect(of({ event: "x", email: "a@x.co", items: [{ vendor_email: "b@x.co" }] })).not.toHaveProperty("items");
    expect(of([{ event: "x", email: "a@x.co" }])).toEqual({ event: "event", email: "email" });
  });
});

test("an unchanged proposal is a template that finds addresses, for any samples", () => {
  const name = fc.oneof(
    fc.constantFrom(
      "event",
      "type",
      "email",
      "user",
      "to",
      "data",
      "events",
      "timestamp",
      "event_id",
      "name",
      "company",
    ),
    fc.string({ maxLength: 8 }),
  );
  const value = fc.oneof(
    fc.constantFrom("a@x.co", "Opened", 1_795_773_600, "2026-11-27T10:00:00Z", null, "", `{"email":"b@x.co"}`),
    fc.string({ maxLength: 10 }),
  );
  const { json } = fc.letrec<{ json: unknown }>((tie) => ({
    json: fc.oneof(
      { maxDepth: 3 },
      value,
      fc.dictionary(name, tie("json"), { maxKeys: 5 }),
      fc.array(tie("json"), { maxLength: 3 }),
    ),
  }));
  const body = fc.dictionary(name, json, { maxKeys: 6 }).map((sent) => readPayload(JSON.stringify(sent)));
  const headers = fc.dictionary(fc.constantFrom("x-event", "x-topic", "x-token-event", "é-event"), fc.string());
  let emails = 0;
  fc.assert(
    fc.property(fc.array(fc.record({ body, headers }), { minLength: 1, maxLength: 4 }), (samples) => {
      const template = proposeSignalTemplate(samples, NOW);
      const compiled = compileSignalTemplate(template);
      if (!compiled.ok) throw new Error(JSON.stringify(compiled.rejection));
      const isConstant = template.some(({ target, text }) => target === "event" && text !== undefined);
      for (const sample of samples) {
        const applied = applyTemplate(compiled.value, sample.body, { headers: sample.headers, receivedAtMs: NOW });
        for (const { outcome } of applied.ok ? applied.value.items : []) {
          if (outcome.kind === "mapped" && outcome.signal.normalised.email !== undefined) emails += 1;
          if (isConstant && outcome.kind === "misfit") expect(outcome.misfit.code).toBe("signal_not_object");
        }
      }
    }),
    { numRuns: amount(300, 20_000) },
  );
  expect(emails).toBeGreaterThan(50);
});

test("a proposal reads the first 20 samples", () => {
  const bodies = Array.from({ length: 21 }, (_, nth) => ({
    body: nth < 20 ? { event: "x" } : { event: "x", email: "a@x.co" },
  }));
  expect(proposed(...bodies)).toEqual({ event: "event" });
  expect(proposed(...bodies.slice(1))).toEqual({ event: "event", email: "email" });
  expect(compileStoredTemplate(proposeSignalTemplate(bodies, NOW)).targets.event?.sources).toHaveLength(1);
});
