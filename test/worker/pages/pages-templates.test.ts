/** Payload templates of keys for signals on the pages: the sender by name, the preview, and signals that no template fits (spec §2.2). */
import { runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { DAY_MS } from "../../../src/domain/duration.ts";
import { MISFIT_KEPT_DAYS } from "../../../src/limits.ts";
import { PRESETS, presetAddress, presetNamed } from "../../../src/presets/presets.ts";
import { isUnchanged, presetOfTemplate } from "../../../src/pages/keys/template-form.tsx";
import type { SignalMapping } from "../../../src/domain/template/signal-template.ts";
import type { Preset } from "../../../src/presets/preset.ts";
import { stopClock } from "../../support/clock.ts";
import type { Part } from "../../support/html.ts";
import { type Answer, focusedIn, type Members, newMembers } from "../../support/members.ts";
import type { TestKey } from "../../support/workspace.ts";

type Form = Record<string, string>;

let members: Members;
let keys: string;

beforeEach(async () => {
  members = await newMembers({ key: null });
  keys = `${members.home}/settings/api-keys`;
});
afterEach(() => void vi.useRealTimers());

function preset(id: string): Preset {
  const found = presetNamed(id);
  if (found === undefined) throw new Error(`There is no preset ${id}.`);
  return found;
}

/** What a browser without a script sends of the page's form. */
function fieldsIn(page: Part): Form {
  const form = page.only("form.stack");
  return Object.fromEntries(
    form
      .all("input, select, textarea")
      .filter((field) => !["radio", "checkbox"].includes(field.attribute("type") ?? "") || field.isChecked)
      .map((field) => [field.attribute("name") ?? "", field.value ?? "on"] as const),
  );
}

const previewIn = (page: Part): Part => page.only("#preview");
const newKey = (body: object) =>
  members.workspace.newKey(body as Record<string, unknown>) as Promise<TestKey & { id: string }>;
const listed = () => members.workspace.list("/keys");

/** The page of a new key after its buttons, each with what was typed before it. */
async function press(page: Part, button: string, typed: Form = {}): Promise<Answer> {
  return members.admin.post(`${keys}/new`, { ...fieldsIn(page), ...typed, do: button });
}

async function sendTo(path: string, body: unknown, headers: Form = {}): Promise<{ id: string; misfit?: true }> {
  const answer = await members.workspace.send(body, { path, headers });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

const SHOP = [{ target: "event", path: "trigger" }];
const ODD = { what: "order.created", buyer: { email: "zoe@example.com", first_name: "Zoe" } };

/** A key with a template of its own, and a kept signal that it does not fit. */
async function withMisfit(template: unknown = SHOP) {
  const key = await newKey({ name: "Shop", payload_template: template, misfits: "keep" });
  const { id } = await sendTo(`/api/signal-staging/webhook/shop/${key.key}`, ODD);
  await members.workspace.settled();
  return { key, id };
}

describe("the form of a key", () => {
  test("takes a sender by name without a script: its template, a preview of its sample, and a key that reads it", async () => {
    const { page: chosen } = await press(await members.admin.read(`${keys}/new`), "sender", { sender: "typeform" });
    const preview = previewIn(chosen);
    expect([preview.detail("Event"), preview.detail("Person")]).toEqual(["form_response", "laura@example.com"]);
    expect(preview.detail("Time")).toContain("Jan 26, 2026");
    expect(chosen.field("map.1.value").value).toContain("form_response.answers[type=email].email");

    const created = await members.admin.post(`${keys}/new`, { ...fieldsIn(chosen), name: "Our form" });
    const key = created.copied("new-key");
    const { template, misfits, answer, sample } = preset("typeform");
    expect(await listed()).toMatchObject([{ name: "Our form", misfits, answer, payload_template: template }]);
    const address = created.copied("url-preset");
    expect(address).toBe(`https://signals.example${presetAddress(preset("typeform"), key)}`);
    for (const step of preset("typeform").setUp) expect(created.text).toContain(step.replaceAll("`", ""));
    const { id } = await sendTo(new URL(address).pathname, "body" in sample && sample.body);
    await members.workspace.settled();
    expect(await members.workspace.operator("GET", `/signals/${id}`)).toMatchObject({
      event: "form_response",
      email: "laura@example.com",
      source: "typeform",
    });
    const repeated = await sendTo(new URL(address).pathname, "body" in sample && sample.body);
    await members.workspace.settled();
    for (const one of [id, repeated.id]) {
      const trace = await members.admin.read(`${members.home}/signals/${one}`);
      expect(trace.text).toContain("By the payload template of its key");
    }
  });

  test("previews a pasted body with its headers, and the rules that would match", async () => {
    const rule = { name: "Order", event: "orders/*", scoring_signal: "ordered", points: 15 };
    await members.workspace.operator("POST", "/rules", rule);
    const page = await members.owner.read(`${keys}/new?sender=shopify`);
    const typed = { body: '{"email":"ann@example.com"}', headers: "X-Shopify-Topic: orders/paid" };
    const { page: part } = await members.owner.post(`${keys}/new/preview`, { ...fieldsIn(page), ...typed });
    expect(previewIn(part).detail("Event")).toBe("orders/paid");
    expect(previewIn(part).detail("Rules")).toBe("+15 ordered");
    const own = { name: "Own shop", conditions: [{ path: "source", operator: "equals", value: "shopify" }] };
    await members.workspace.operator("PUT", "/exclusions", { items: [own] });
    const { page: excluded } = await members.owner.post(`${keys}/new/preview`, { ...fieldsIn(page), ...typed });
    expect(previewIn(excluded).detail("Rules")).toBe("None: an exclusion covers it");
    const unread = await members.owner.post(`${keys}/new/preview`, { ...fieldsIn(page), body: '{"email":' });
    expect(unread.text).toContain("Not valid JSON at line 1, column 10");
    expect(await listed()).toEqual([]);
  });

  test("proposes the mappings of another sender, which the admin can change row by row", async () => {
    const first = await press(await members.owner.read(`${keys}/new`), "sender", { sender: "other" });
    expect(previewIn(first.page).text).toContain("Propose mappings");
    const { page } = await press(first.page, "propose", {
      body: JSON.stringify({ trigger: "paid", contact: { email: "a@b.example" } }),
    });
    expect([page.field("map.0.value").value, page.field("map.1.value").value]).toEqual(["trigger", "contact.email"]);
    expect(previewIn(page).detail("Person")).toBe("a@b.example");
    const more = await press(page, "map");
    expect(more.page.fields("map.2.target")).toHaveLength(1);
    const fewer = await press(more.page, "unmap.0");
    expect(fewer.page.field("map.0.value").value).toBe("contact.email");
  });

  test("says beside its field why a mapping cannot be used, and creates nothing", async () => {
    const { page } = await press(await members.owner.read(`${keys}/new`), "sender", { sender: "other" });
    const typed = { name: "Bad", "map.0.value": "", "map.1.value": "a..b", "map.2.from": "text", "map.2.value": "{at" };
    const answer = await members.owner.post(`${keys}/new`, { ...fieldsIn(page), ...typed });
    expect(answer.status).toBe(422);
    expect(answer.page.only("#map-1-error").text).toContain("`a..b` is not a path".replaceAll("`", ""));
    expect(answer.page.only("#map-2-error").text).toContain("open brace at position 1");
    expect(focusedIn(answer.body)).toBe("map.1.value");
    expect(answer.text).toContain("Mapping 2:");
    const blank = await members.owner.post(`${keys}/new`, { ...fieldsIn(page), name: "Blank" });
    expect(blank.text).toContain("has no mapping");
    expect(await listed()).toEqual([]);
  });

  test("keeps the sample that was typed when another sender is chosen", async () => {
    const { page } = await press(await members.owner.read(`${keys}/new?sender=typeform`), "sender", {
      sender: "sendgrid",
    });
    expect(page.field("body").value).toContain("sg_event_id");
    const own = await press(page, "sender", { sender: "brevo", body: '{"mine":1}' });
    expect(own.page.field("body").value).toBe('{"mine":1}');
  });

  test("offers every sender, and the template of each reads its sample", async () => {
    const { items } = await members.workspace.operator<{ items: Record<string, unknown>[] }>(
      "GET",
      "/templates/presets",
    );
    expect(items.map(({ id }) => id)).toEqual(PRESETS.map(({ id }) => id));
    const options = (await members.owner.read(`${keys}/new`)).field("sender").all("option");
    for (const { id, name, payload_template, sample } of items) {
      expect(options.map((option) => [option.attribute("value"), option.text])).toContainEqual([id, name]);
      const { signals } = await members.workspace.operator<{ signals: { kind: string }[] }>(
        "POST",
        "/templates/preview",
        {
          payload_template,
          samples: [sample],
        },
      );
      expect(signals.map(({ kind }) => kind)).toEqual(signals.map(() => "mapped"));
      expect(signals.length).toBeGreaterThan(0);
    }
  });
});

describe("a signal that the template does not fit", () => {
  test("leads to the template with its payload as the sample, and is replayed with the better one", async () => {
    const { key, id } = await withMisfit();
    const trace = await members.admin.read(`${members.home}/signals/${id}`);
    const path = trace.link("Map this payload").target ?? "";
    expect(path).toBe(`${keys}/${key.id}/template?signal=${id}`);
    const list = await members.admin.read(`${members.home}/signals/dead-letters`);
    expect([list.link("Map").target, list.rowHeads]).toEqual([path, [expect.stringMatching(/^Unknown event/)]]);
    expect((await members.admin.read(`${members.home}/signals/all`)).rowHeads).toEqual(["Unknown event"]);
    expect((await members.member.read(`${members.home}/signals/dead-letters`)).links("Map")).toEqual([]);
    const page = await members.admin.read(path);
    expect(page.text).toContain('"what": "order.created"');
    expect(previewIn(page).text).toContain("The template does not fit this payload");
    const { latest: _, ...alone } = fieldsIn(page);
    const { page: part } = await members.admin.post(`${keys}/${key.id}/template/preview`, alone);
    expect(previewIn(part).text).toContain("The template does not fit this payload");

    const template = `${keys}/${key.id}/template`;
    const proposed = await members.admin.post(template, { ...fieldsIn(page), do: "propose" });
    const mapped = { ...fieldsIn(proposed.page), "map.0.value": "trigger\nwhat" };
    expect(fieldsIn(proposed.page)).toMatchObject({ "map.2.value": "buyer.email", signal: id });
    const saved = await members.admin.post(template, mapped);
    expect(saved.location).toBe(`${members.home}/signals/${id}?done=template_saved`);
    await members.workspace.operator("POST", "/dead-letters/replay", {});
    await members.workspace.settled();
    expect(await members.workspace.operator("GET", `/signals/${id}`)).toMatchObject({
      status: "processed",
      event: "order.created",
      email: "zoe@example.com",
    });
  });

  test("gets no proposal that reads what the template reads already", async () => {
    const { key, id } = await withMisfit([{ target: "event", path: "event_type" }]);
    await sendTo(`/api/signal-staging/webhook/shop/${key.key}`, { event_type: "paid", buyer: ODD.buyer });
    await members.workspace.settled();
    const template = `${keys}/${key.id}/template`;
    const page = await members.admin.read(`${template}?signal=${id}`);
    const { page: proposed } = await members.admin.post(template, { ...fieldsIn(page), do: "propose" });
    const rows = Object.entries(fieldsIn(proposed));
    expect(rows.filter(([, value]) => value === "event_type").map(([name]) => name)).toEqual(["map.0.value"]);
    expect(rows.map(([, value]) => value)).toContain("buyer.email");
  });

  test("gets a proposal at once if its key has no template", async () => {
    const key = await newKey({ name: "Plain" });
    const { id } = await sendTo(`/api/signal-staging/webhook/${key.key}`, {
      event: "paid",
      buyer: { email: "zoe@example.com" },
    });
    await members.workspace.settled();
    const trace = await members.owner.read(`${members.home}/signals/${id}`);
    expect(trace.only(".timeline").text).toContain(
      "An address stands at buyer.email, which a payload template can read.",
    );
    const path = trace.link("Map this payload").target ?? "";
    expect(fieldsIn(await members.owner.read(path))).toMatchObject({ sender: "other", "map.1.value": "buyer.email" });
  });

  test("is purged after 90 days, and the trace and Live say why", async () => {
    const { id } = await withMisfit();
    stopClock(Date.now() + (MISFIT_KEPT_DAYS + 1) * DAY_MS);
    await runDurableObjectAlarm(members.workspace.store);
    const trace = await members.owner.read(`${members.home}/signals/${id}`);
    expect(trace.text).toContain("no template has fitted it within 90 days");
    expect(trace.text).not.toContain("billing period ended");
    expect(trace.text).not.toContain("at the end of the billing period");
    const live = await members.owner.read(`${members.home}/live`);
    expect(live.rows.map(({ text }) => text)).toEqual([
      expect.stringContaining("No template has fitted it within 90 days"),
    ]);
  });
});

test("a key with a template of its own does not offer bodies of other senders as if they would fit", async () => {
  const note = "This key reads bodies by its payload template.";
  const connect = async (body: object) => {
    const { id } = await newKey(body);
    const pages = [`${members.home}/connect?key=${id}`, `${keys}/${id}`];
    return Promise.all(pages.map(async (path) => (await members.owner.read(path)).text.includes(note)));
  };
  expect(await connect({ name: "Shop", payload_template: SHOP })).toEqual([true, true]);
  expect(await connect({ name: "Plain" })).toEqual([false, false]);
  expect(await connect({ name: "Forms", payload_template: preset("typeform").template })).toEqual([false, false]);
  const { page: chosen } = await press(await members.admin.read(`${keys}/new`), "sender", { sender: "other" });
  const created = await members.admin.post(`${keys}/new`, {
    ...fieldsIn(chosen),
    name: "Shop",
    "map.0.value": "trigger",
    "map.1.value": "buyer.email",
  });
  expect(created.page.text).toContain(note);
  expect(created.page.all(".code-tabs label").map(({ text }) => text)).toEqual(["curl", "Node", "Python"]);
});

test("a duplicate by its mapped id is shown as one with the same id, not of the same content", async () => {
  const template = [...SHOP, { target: "id", path: "n" }];
  const key = await newKey({ name: "Shop", payload_template: template });
  const send = (more: object) => sendTo(`/api/signal-staging/webhook/${key.key}`, { trigger: "a", n: "1", ...more });
  const first = await send({});
  await members.workspace.settled();
  const { id } = await send({ more: true });
  await members.workspace.settled();
  const { text } = await members.owner.get(`${members.home}/signals/${id}`);
  expect(text).toContain(`Same id as ${first.id}. Counted, but not scored.`);
  expect(text).toContain("The payload of a duplicate is not kept. The first signal has the same id.");
  expect((await members.owner.get(`${members.home}/live`)).text).toContain("Same id as an earlier signal");
  expect(await members.workspace.operator("GET", `/signals/${id}`)).toMatchObject({
    duplicate_of: first.id,
    same_id: true,
  });
});

describe("the template of a key", () => {
  test("is changed with what becomes of misfits, and removed", async () => {
    const key = await newKey({ name: "Shop" });
    const path = `${keys}/${key.id}`;
    expect((await members.owner.read(path)).link("Map another body").target).toBe(`${path}/template`);
    const page = await members.owner.read(`${path}/template?sender=mailgun`);
    const saved = await members.owner.post(`${path}/template`, fieldsIn(page));
    expect(saved.location).toBe(`${path}?done=template_saved`);
    expect(await listed()).toMatchObject([
      { misfits: "keep", answer: 200, payload_template: preset("mailgun").template },
    ]);
    const shown = await members.owner.read(path);
    expect(shown.text).toContain(
      "As proposed for Mailgun. A payload that does not fit is kept for 90 days. Success is answered with 200.",
    );
    expect(shown.table("Payload template").rows).toHaveLength(preset("mailgun").template.length);
    const empty = await members.owner.post(`${path}/template`, {});
    expect([empty.status, empty.page.only("#sender-error").text]).toEqual([422, "Choose who sends."]);
    const unknown = await members.owner.post(`${path}/template`, { sender: "nobody" });
    expect(unknown.status).toBe(422);
    const change = await members.owner.read(`${path}/template`);
    expect(change.field("sender").value).toBe("mailgun");
    await members.owner.post(`${path}/template`, { ...fieldsIn(change), sender: "" });
    expect(await listed()).toMatchObject([{ payload_template: null }]);
  });

  test("is still that of its sender when a mapping of a preset was edited", async () => {
    const payload_template = preset("typeform").template.map((mapping) =>
      mapping.target === "email" ? { target: "email", path: "form_response.hidden.work_email" } : mapping,
    );
    const key = await newKey({ name: "Forms", payload_template });
    const shown = await members.owner.read(`${keys}/${key.id}`);
    expect(shown.text).toContain("For Typeform, edited. A payload that does not fit is");
    const change = await members.owner.read(`${keys}/${key.id}/template`);
    expect(fieldsIn(change)).toMatchObject({ sender: "typeform", "map.1.value": "form_response.hidden.work_email" });
    expect(change.text).toContain("4 mappings for Typeform, edited");
    expect((await members.owner.read(`${members.home}/connect`)).text).toContain(
      "This key has the template of Typeform",
    );
  });

  test("is that of each preset also with one mapping less, and of none with mappings that several have", () => {
    for (const each of PRESETS) {
      expect(presetOfTemplate(each.template)?.id).toBe(each.id);
      expect(isUnchanged(each, each.template)).toBe(true);
      const less = each.template.toSpliced(
        each.template.findIndex(({ target }) => target === "occurred_at"),
        1,
      );
      expect(presetOfTemplate(less)?.id).toBe(each.id);
      expect(isUnchanged(each, less)).toBe(false);
    }
    const usual: SignalMapping[] = [
      { target: "event", path: "event" },
      { target: "email", path: "email" },
      { target: "occurred_at", path: "timestamp" },
    ];
    expect(presetOfTemplate(usual)).toBeUndefined();
  });

  test("of a key for accounts has no such page", async () => {
    const payload_template = [{ target: "external_id", path: "id", type: "string" }];
    const key = await newKey({ name: "Accounts", endpoint_type: "product_org", payload_template });
    expect((await members.owner.get(`${keys}/${key.id}/template`)).status).toBe(404);
  });

  test("is tried with the latest signals of its key", async () => {
    const { key } = await withMisfit([{ target: "event", path: "what" }]);
    const page = await members.owner.read(`${keys}/${key.id}/template`);
    expect(previewIn(page).detail("Event")).toBe("order.created");
    expect(previewIn(page).detail("Person")).toBe("Nobody, but an address stands at buyer.email");
    const { latest: _, ...others } = fieldsIn(page);
    const { page: without } = await members.owner.post(`${keys}/${key.id}/template`, { ...others, do: "preview" });
    expect(previewIn(without).text).toContain("Paste a sample");
  });
});

describe("Connect", () => {
  test("names the senders, and says what to do at one of them and for its key", async () => {
    const key = await newKey({ name: "Shop", secret: true });
    const path = `${members.home}/connect?sender=webhooks`;
    const options = (await members.member.read(path)).field("preset").all("option");
    expect(options.map(({ text }) => text)).toEqual(expect.arrayContaining(PRESETS.map(({ name }) => name)));
    const intercom = await members.owner.get(`${path}&preset=intercom`);
    expect(intercom.copied("url-preset")).toBe(
      "https://signals.example/api/signal-staging/webhook/intercom/YOUR_API_KEY",
    );
    expect(intercom.text).toContain("Intercom first checks it with HEAD.");
    expect(intercom.text).toContain("X-Api-Secret: YOUR_SHARED_SECRET");
    expect(intercom.page.link("Create a key for Intercom").target).toBe(`${keys}/new?sender=intercom`);
    expect(intercom.page.link("Set it for this key").target).toBe(`${keys}/${key.id}/template?sender=intercom`);
  });

  test("opens at the sender whose template the key has, with a test call that it understands", async () => {
    const { template, misfits, answer } = preset("shopify");
    await newKey({ name: "Shop", payload_template: template, misfits, answer });
    const page = await members.owner.read(`${members.home}/connect`);
    expect(page.text).toContain("This key has the template of Shopify");
    const call = page.only("[data-test-call]");
    expect(call.attribute("data-test-call")).toContain("/webhook/shopify/YOUR_API_KEY");
    expect(call.attribute("data-headers")).toContain("x-shopify-topic");
  });
});

test("a rejection for want of an event leads to the template of its key", async () => {
  const key = await newKey({ name: "Vendor" });
  await members.workspace.send({ trigger: "a" }, { key: key.key });
  const call = (await members.owner.read(`${members.home}/rejections`)).only("tbody a.row-link").target ?? "";
  expect((await members.owner.read(call)).link("Map its payloads").target).toBe(`${keys}/${key.id}/template`);
  expect((await members.member.read(call)).links("Map its payloads")).toEqual([]);
});
