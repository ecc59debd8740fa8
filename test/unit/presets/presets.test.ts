/** Each preset against bodies as its vendor sends them: the event, the person and the time that its template makes of them. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { applyTemplate } from "../../../src/domain/template/apply.ts";
import { parseFormBody } from "../../../src/domain/template/form-body.ts";
import { compileSignalTemplate } from "../../../src/domain/template/signal-template.ts";
import { parseDotPath, readValue } from "../../../src/domain/json/dot-path.ts";
import { readPayload, type JsonObject } from "../../../src/domain/json/json-value.ts";
import { topicOf } from "../../../src/domain/signal/topic.ts";
import type { Preset } from "../../../src/presets/preset.ts";
import { PRESETS } from "../../../src/presets/presets.ts";

/** One line of samples/<preset>.ndjson. `at: null`: the time of receipt. Without `userId` the id does not matter. */
interface Sample {
  expect: [event: string, email: string | null, at: string | null, userId?: string][];
  headers?: Record<string, string>;
  form?: string;
  body?: unknown;
}

const RECEIVED_AT_MS = Date.UTC(2026, 10, 28);

function samplesOf({ id }: Preset): { line: string; sample: Sample }[] {
  const file = path.join(import.meta.dirname, "samples", `${id}.ndjson`);
  const lines = readFileSync(file, "utf8").trimEnd().split("\n");
  return lines.map((line) => ({ line, sample: JSON.parse(line) as Sample }));
}

function parsedForm(form: string): unknown {
  const parsed = parseFormBody(form);
  if (!parsed.ok) throw new Error(parsed.rejection.detail);
  return parsed.value;
}

/** The body with each number as it was sent. */
function bodyOf(line: string, { form }: Sample): unknown {
  return form === undefined ? (readPayload(line) as Sample).body : parsedForm(form);
}

function bodyOfPreset({ sample }: Preset): unknown {
  return "form" in sample ? parsedForm(sample.form) : sample.body;
}

function presetOf(id: string): Preset {
  const preset = PRESETS.find((one) => one.id === id);
  if (preset === undefined) throw new Error(`There is no preset ${id}.`);
  return preset;
}

function applied(preset: Preset, body: unknown, headers: Record<string, string> = {}) {
  const compiled = compileSignalTemplate(preset.template);
  if (!compiled.ok) throw new Error(JSON.stringify(compiled.rejection));
  const result = applyTemplate(compiled.value, body, {
    source: preset.address.split("/")[2],
    headers,
    receivedAtMs: RECEIVED_AT_MS,
  });
  if (!result.ok) throw new Error(result.rejection.detail);
  return result.value.items.map(({ outcome, payload }) => {
    if (outcome.kind !== "mapped") throw new Error(JSON.stringify(outcome));
    const { normalised, occurred, id } = outcome.signal;
    const at = occurred.from === "received" ? null : new Date(occurred.ms).toISOString();
    const { event, email = null, userId } = normalised;
    return { event, email, at, userId, id, payload, topic: topicOf(normalised) };
  });
}

describe.each(PRESETS)("the preset of $name", (preset) => {
  test.each(
    samplesOf(preset).map(({ line, sample }, index) => [index + 1, sample.expect[0]?.[0], line, sample] as const),
  )("reads sample %i, %s", (_, __, line, sample) => {
    const read = applied(preset, bodyOf(line, sample), sample.headers);
    expect(read.map(({ event, email, at }) => [event, email, at])).toEqual(
      sample.expect.map(([event, email, at]) => [event, email, at]),
    );
    for (const [index, { userId }] of read.entries()) {
      const expected = sample.expect[index]?.[3];
      if (expected !== undefined) expect(userId).toBe(expected);
    }
  });

  test("reads its own sample, for the preview", () => {
    const read = applied(preset, bodyOfPreset(preset), { ...preset.sample.headers });
    expect(read).toHaveLength(1);
    expect(read[0]?.email ?? read[0]?.userId).toBeDefined();
  });

  test("has a rule for an event that is sent, on fields that the event has", () => {
    const bodies = [
      { body: bodyOfPreset(preset), headers: { ...preset.sample.headers } },
      ...samplesOf(preset).map(({ line, sample }) => ({ body: bodyOf(line, sample), headers: sample.headers ?? {} })),
    ];
    const payloads = bodies.flatMap(({ body, headers }) =>
      applied(preset, body, headers).flatMap(({ event, payload }) => (event === preset.rule.event ? [payload] : [])),
    );
    expect(payloads.length).toBeGreaterThan(0);
    for (const { path: field } of preset.rule.conditions ?? []) {
      const dotPath = parseDotPath(field.replace(/^payload\./, ""));
      expect(field, "begins with payload.").toMatch(/^payload\./);
      expect(payloads.some((payload) => dotPath !== undefined && readValue(payload, dotPath) !== undefined)).toBe(true);
    }
  });

  test("explains itself in short sentences", () => {
    for (const text of [...preset.setUp, preset.events, preset.person, preset.note ?? ""]) {
      for (const sentence of text.split(/(?<=[.:])\s/))
        expect(sentence.split(/\s+/).length, sentence).toBeLessThanOrEqual(20);
    }
    expect(preset.documentation).toMatch(/^https:\/\//);
  });
});

test("presets have names, ids and addresses of their own", () => {
  for (const field of ["id", "name", "address", "documentation"] as const) {
    expect(new Set(PRESETS.map((preset) => preset[field])).size, field).toBe(PRESETS.length);
  }
});

/** What a vendor changes when it sends the same event again. */
const CHANGED_BY_A_RETRY: [id: string, change: (body: JsonObject) => void][] = [
  ["hubspot-app", (body) => (body["attemptNumber"] = 1)],
  ["intercom", (body) => (body["delivery_attempts"] = 2)],
  ["stripe", (body) => (body["pending_webhooks"] = 0)],
  ["chargebee", (body) => (body["webhook_status"] = "failed")],
  ["mailgun", (body) => (body["signature"] = { timestamp: "1529006999", token: "other", signature: "other" })],
  ["pipedrive", (body) => ((body["meta"] as JsonObject)["attempt"] = 2)],
];

test.each(CHANGED_BY_A_RETRY)("%s: a retry has the id of the first try", (id, change) => {
  const preset = presetOf(id);
  const body = bodyOfPreset(preset);
  const again = structuredClone(Array.isArray(body) ? (body[0] as unknown) : body) as JsonObject;
  change(again);
  const [first, second] = [applied(preset, body), applied(preset, again)];
  expect(first[0]?.id).toBeDefined();
  expect(second[0]?.id).toBe(first[0]?.id);
});

test.each([
  ["brevo", "URL"],
  ["postmark", "OriginalLink"],
  ["mailjet", "url"],
])("%s: clicks on two links in the same second are two signals", (id, link) => {
  const preset = presetOf(id);
  const body = bodyOfPreset(preset);
  const other = structuredClone(Array.isArray(body) ? (body[0] as unknown) : body) as JsonObject;
  other[link] = "https://www.example.com/other";
  expect(applied(preset, other)[0]?.id).not.toBe(applied(preset, body)[0]?.id);
});

test("an admin of Intercom and the owner of a shop are no persons", () => {
  const admin = { topic: "admin.logged_in", data: { item: { type: "admin", id: "1", email: "agent@example.com" } } };
  expect(applied(presetOf("intercom"), admin)[0]).toMatchObject({ email: null, userId: undefined });
  const shop = { id: 5, name: "Super Toys", email: "owner@example.com" };
  expect(applied(presetOf("shopify"), shop, { "x-shopify-topic": "shop/update" })[0]).toMatchObject({ email: null });
});

test.each([
  ["mailchimp", ["subscribe", "unsubscribe", "campaign"]],
  ["activecampaign", ["contact_tag_added", "open", "click", "deal_add"]],
])("%s: the forms of %j say what they are about", (id, events) => {
  const preset = presetOf(id);
  const read = samplesOf(preset).flatMap(({ line, sample }) => applied(preset, bodyOf(line, sample), sample.headers));
  for (const event of events) {
    const topics = read.flatMap((one) => (one.event === event ? [one.topic] : []));
    expect([event, topics.length > 0, topics.includes(undefined)]).toEqual([event, true, false]);
  }
});

test("guests of a shop do not become one person", () => {
  const order = { id: 1, customer_id: 0, billing: { email: "" } };
  const [guest] = applied(presetOf("woocommerce"), order, { "x-wc-webhook-topic": "order.created" });
  expect(guest).toMatchObject({ event: "order.created", email: null, userId: undefined });
});
