/** Previews and proposals of signal templates in the operator API; removed templates, and templates of rotated keys. */
import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { lookUpKey } from "../../../src/ingest/authenticate.ts";
import { newWorkspace, type TestKey, type TestWorkspace } from "../../support/workspace.ts";

const TEMPLATE = [
  { target: "event", path: "trigger" },
  { target: "email", path: "contact.mail" },
  { target: "id", path: "message" },
  { target: "occurred_at", path: "at" },
  { target: "company", path: "contact.firm" },
];
const body = {
  trigger: "form.filled",
  message: "m-1",
  at: "2026-02-23T22:28:55Z",
  contact: { mail: "Jane <jane@example.com>", firm: "Acme" },
};

interface Preview {
  signals: Record<string, unknown>[];
  rejected: unknown[];
  warnings: { mapping: number; message: string }[];
}
const preview = (workspace: TestWorkspace, samples: unknown[], more: object = {}) =>
  workspace.operator<Preview>("POST", "/templates/preview", { payload_template: TEMPLATE, samples, ...more });
const messages = (answer: Preview) => answer.warnings.map(({ mapping, message }) => [mapping, message]);

describe("a preview", () => {
  test("shows the signal, the value of each mapping and the rules that would match, and counts nothing", async () => {
    const workspace = await newWorkspace();
    const rule = await workspace.operator<{ id: string }>("POST", "/rules", {
      name: "Form",
      event: "form.*",
      conditions: [{ path: "payload.contact.firm", operator: "equals", value: "acme" }],
      scoring_signal: "form",
      points: 5,
    });
    expect(await preview(workspace, [{ body, source: "crm" }])).toEqual({
      signals: [
        {
          sample: 0,
          signal_id: null,
          kind: "mapped",
          event: "form.filled",
          source: "crm",
          email: "jane@example.com",
          user_id: null,
          anonymous_id: null,
          id: "m-1",
          occurred_at: "2026-02-23T22:28:55.000Z",
          traits: { company: "Acme" },
          problems: [],
          detail: null,
          values: ["form.filled", "jane@example.com", "m-1", "2026-02-23T22:28:55.000Z", "Acme"],
          rules: [{ rule_id: rule.id, scoring_signal: "form", points: 5 }],
        },
      ],
      rejected: [],
      warnings: [],
    });
    expect(await workspace.settled()).toMatchObject({ accepted: 0 });
  });

  test("names misfits, calls of CDPs, problems and bodies that are none", async () => {
    const workspace = await newWorkspace();
    const { signals, rejected } = await preview(workspace, [
      { body: { kind: "x" } },
      { body: { type: "track", event: "Bought", messageId: "m", anonymousId: "a" } },
      { form: "trigger=a&contact[mail]=nobody" },
      { body: Array.from({ length: 10_001 }, () => 1) },
      { body: { trigger: "e".repeat(300) } },
    ]);
    expect(signals).toMatchObject([
      { sample: 0, kind: "misfit", detail: expect.stringContaining("`trigger`"), rules: [] },
      { sample: 1, kind: "call" },
      { sample: 2, kind: "mapped", event: "a", email: null, problems: [expect.stringContaining("contact.mail")] },
      { sample: 4, kind: "rejected", detail: expect.stringContaining("`event`") },
    ]);
    expect(rejected).toMatchObject([{ sample: 3, code: "batch_too_long" }]);
  });

  test("warns of mappings without a value in any sample, and of one id with two contents", async () => {
    const workspace = await newWorkspace();
    const { at: _at, ...without } = body;
    const unused = await preview(workspace, [{ body: { trigger: "a" } }, { body: without }]);
    expect(messages(unused)).toEqual([[3, "finds a value in no sample"]]);
    const same = [{ body }, { body: { ...body, contact: {} } }];
    expect(messages(await preview(workspace, same))).toEqual([[2, expect.stringContaining("same event and id")]]);
    expect(messages(await preview(workspace, [{ body }, { body }]))).toEqual([]);
    const items = [{ target: "items", path: "rows" }, ...TEMPLATE];
    const ofItems = await preview(workspace, [{ body: { rows: [body] } }], { payload_template: items });
    expect([ofItems.signals.length, messages(ofItems)]).toEqual([1, []]);
    const noItems = await preview(workspace, [{ body }], { payload_template: items });
    expect(messages(noItems)).toEqual([[0, "finds a value in no sample"]]);
  });

  test("reads the latest signals and misfits of a key, with the headers of misfits", async () => {
    const misfits = { payload_template: [{ target: "event", path: "@header.x-topic" }, TEMPLATE[1]], misfits: "keep" };
    const workspace = await newWorkspace({ key: misfits });
    const path = "/api/signal-staging/webhook/crm/{key}";
    await workspace.send(body, { path, headers: { "x-topic": "one" } });
    await workspace.send({ ...body, message: "m-2" }, { path });
    await workspace.settled();
    const template = [{ target: "event", text: "{@source} {message}" }, TEMPLATE[1]];
    const { signals } = await preview(workspace, [], { payload_template: template, key_id: workspace.key.id });
    expect(signals).toMatchObject([
      { event: "crm m-2", email: "jane@example.com", signal_id: expect.stringMatching(/^sig_/) },
      { event: "crm m-1", email: "jane@example.com" },
    ]);
  });

  test.each([
    [{ samples: [] }, 422, "samples"],
    [{ samples: [{}] }, 422, "either"],
    [{ samples: [{ form: "a=1&".repeat(1_001) }] }, 422, "samples.0.form"],
    [{ samples: Array.from({ length: 21 }, () => ({ body })) }, 422, "samples"],
    [{ key_id: "key_unknown" }, 404, "not_found"],
    [{ samples: [{ body }], payload_template: [{ target: "event", text: "{a" }] }, 422, "payload_template.0.text"],
  ])("of %j is rejected", async (more, status, text) => {
    const workspace = await newWorkspace();
    for (const place of ["preview", "propose"]) {
      const isPreview = place === "preview";
      if (!isPreview && "payload_template" in more) continue;
      const answer = await workspace.ask("POST", `/templates/${place}`, {
        ...(isPreview && { payload_template: TEMPLATE }),
        ...more,
      });
      expect(answer.status).toBe(status);
      expect(JSON.stringify(answer.body)).toContain(text);
    }
  });

  test("needs the scope read for stored signals and rules", async () => {
    const workspace = await newWorkspace();
    const ask = async (scopes: ("keys" | "read")[], more: object) =>
      workspace.askWith(await workspace.newToken(scopes), "POST", "/templates/preview", {
        payload_template: TEMPLATE,
        ...more,
      });
    expect(await ask(["keys"], { key_id: workspace.key.id })).toMatchObject({ status: 422 });
    expect(await ask(["keys"], { samples: [{ body }] })).toMatchObject({
      status: 200,
      body: { signals: [{ rules: null }] },
    });
    expect(await ask(["keys", "read"], { key_id: workspace.key.id })).toMatchObject({ status: 200 });
  });
});

test("a proposal maps what the samples show, and the preview takes it", async () => {
  const workspace = await newWorkspace();
  const answer = await workspace.operator<{ payload_template: { target: string; path?: string }[] }>(
    "POST",
    "/templates/propose",
    {
      samples: [{ body: { event_type: "opened", recipient: "jane@example.com", ts: 1_771_885_735 } }],
    },
  );
  expect(answer.payload_template).toMatchObject(
    expect.arrayContaining([
      expect.objectContaining({ target: "event", path: "event_type" }),
      expect.objectContaining({ target: "email", path: "recipient" }),
    ]),
  );
  expect((await preview(workspace, [{ body }], { payload_template: answer.payload_template })).signals).toHaveLength(1);
});

describe("a template", () => {
  const event = (workspace: TestWorkspace) =>
    workspace.list<{ event: string }>("/signals").then((found) => found.map((signal) => signal.event));

  test("that is removed leaves earlier signals and replays as they were", async () => {
    const workspace = await newWorkspace({ key: { payload_template: TEMPLATE, misfits: "keep" } });
    const path = `/keys/${workspace.key.id}/template`;
    await workspace.send({ event: "plain", what: 1 });
    await workspace.settled();
    await workspace.operator("PUT", path, { payload_template: [{ target: "event", path: "event" }] });
    for (const _ of [1, 2]) {
      expect(await workspace.operator("DELETE", path)).toMatchObject({ payload_template: null });
    }
    expect((await workspace.audit("key.template")).at(-1)?.detail).toEqual({ version: 3, removed: true });
    expect(await workspace.audit("key.template")).toHaveLength(2);
    await lookUpKey(env.DB, workspace.key.key, Date.now(), createExecutionContext());
    expect((await workspace.send({ trigger: "a" })).status).toBe(422);
    expect((await workspace.send({ event: "as sent", email: "p1@example.com" })).status).toBe(202);
    await workspace.operator("POST", "/dead-letters/replay", {});
    expect(await workspace.settled()).toMatchObject({ accepted: 2, processed: 2, dead_lettered: 0, balanced: true });
    expect((await event(workspace)).toSorted()).toEqual(["as sent", "plain"]);
    await workspace.operator("PUT", path, { payload_template: TEMPLATE });
    await lookUpKey(env.DB, workspace.key.key, Date.now(), createExecutionContext());
    expect((await workspace.send({ ...body, message: "m-9" })).status).toBe(202);
  });

  test("of a key for accounts cannot be removed, nor that of an unknown key", async () => {
    const workspace = await newWorkspace();
    const payload_template = [{ target: "external_id", path: "id", type: "string" }];
    const accounts = await workspace.newKey({ endpoint_type: "product_org", payload_template });
    expect((await workspace.ask("DELETE", `/keys/${accounts.id}/template`)).status).toBe(409);
    expect((await workspace.ask("DELETE", "/keys/key_unknown/template")).status).toBe(404);
  });

  test("that a key gets after its rotation holds for the whole rotation, with ids that identify across it", async () => {
    const workspace = await newWorkspace();
    const rotate = (key: TestKey) => workspace.operator<TestKey>("POST", `/keys/${key.id}/rotate`, { overlap: "1h" });
    const second = await rotate(workspace.key);
    const third = await rotate(second);
    const other = await workspace.newKey();
    await workspace.operator("PUT", `/keys/${second.id}/template`, { payload_template: TEMPLATE });
    const keys = await workspace.list<{ id: string; payload_template: unknown[] | null }>("/keys");
    const templates = new Map(keys.map((key) => [key.id, key.payload_template?.length ?? 0]));
    expect([workspace.key, second, third, other].map(({ id }) => templates.get(id))).toEqual([5, 5, 5, 0]);
    await workspace.send(body, { key: third.key });
    await workspace.send({ ...body, more: 1 }, { key: workspace.key.key });
    expect(await workspace.settled()).toMatchObject({ processed: 1, duplicates: 1, balanced: true });
  });
});
