/** Notifications, with a receiver that verifies signatures. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { crossed, listen, Receiver } from "../../support/destination-harness.ts";
import type { Part } from "../../support/html.ts";
import { type Answer, focusedIn, type Members, newMembers } from "../../support/members.ts";
import { until } from "../../support/until.ts";

let of: Members;
/** The path of the list of destinations. */
let list: string;

beforeEach(async () => {
  of = await newMembers();
  list = `${of.home}/settings/notifications`;
});
afterEach(() => void vi.restoreAllMocks());

interface Made {
  /** The path of the destination's page. */
  at: string;
  secret: string;
  receiver: Receiver;
  /** The answer that showed the secret. */
  answer: Answer;
  /** The form that created it. */
  form: [string, string][];
}

/** A webhook that an admin has created with the form. */
async function newWebhook(): Promise<Made> {
  const receiver = new Receiver();
  listen(receiver);
  const id = (await of.admin.read(`${list}/new`)).field("id").value ?? "";
  const form: [string, string][] = [
    ["id", id],
    ["name", "CRM"],
    ["type", "webhook"],
    ["target", receiver.url],
    ["notifications", "person.score_crossed"],
    ["notifications", "key.expiring"],
  ];
  const answer = await of.admin.post(`${list}/new`, form);
  expect(answer.status).toBe(200);
  return { at: `${list}/${id}`, secret: answer.page.only("#new-secret").text, receiver, answer, form };
}

const raiseCrossing = () => of.workspace.destinations.raise([crossed()]);
const textAt = async (path: string) => (await of.admin.read(path)).text;
const activity = () => textAt(`${of.home}/settings/activity`);

/** The path of the page of the latest delivery. */
const deliveryOf = async (at: string) =>
  (await of.admin.read(at)).targets.find((target) => target.startsWith(`${at}/deliveries/dlv_`)) ?? "";

describe("a new destination", () => {
  test("is the first action on an empty page, with an example of each notification as it is sent", async () => {
    const empty = await of.admin.read(list);
    expect([empty.text, empty.targets]).toEqual([
      expect.stringContaining("No destinations yet"),
      expect.arrayContaining([`${list}/new`]),
    ]);
    const { text, body } = await of.admin.get(`${list}/new`);
    expect(focusedIn(body)).toBe("name");
    expect(text).toContain(`"type": "person.score_crossed"`);
    expect(text).toContain(`"workspace": "${of.workspace.id}"`);
    expect(text).not.toContain("Email A sentence");
  });

  test("shows its secret once, on a page that is not cached, with code to verify it in three languages", async () => {
    const { at, secret, answer, form, receiver } = await newWebhook();
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/=]{32,}$/);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    for (const language of ["javascript", "python", "go"])
      expect(answer.page.all(`[id="verify-${language}"]`)).toHaveLength(1);
    const again = await of.admin.post(`${list}/new`, form);
    expect([again.status, again.body.includes("whsec_")]).toEqual([409, false]);
    for (const path of [at, `${at}/change`, list, `${of.home}/settings/activity`])
      expect(await of.admin.see(path)).not.toContain(secret);
    expect((await textAt(list)).match(/CRM Webhook/g)).toHaveLength(1);
    expect(receiver.received).toEqual([]);
  });
});

describe("a test of a destination", () => {
  test("is signed with the shown secret and shows its result at once", async () => {
    const { at, receiver, secret } = await newWebhook();
    const sent = await of.admin.post(`${at}/test`);
    expect(sent.status).toBe(303);
    expect(receiver.verify(secret)).toMatchObject({ type: "destination.test" });
    expect(await textAt(sent.location)).toMatch(/Test delivered: accepted with 200.*thanks/);
  });

  test("shows the reason and the answer as text if it fails, and can be resent under the same id", async () => {
    const { receiver, at } = await newWebhook();
    receiver.answer = () => new Response("<script>alert(1)</script>", { status: 500 });
    const { location: delivery } = await of.admin.post(`${at}/test`);
    const failed = await of.admin.read(delivery);
    expect(failed.text).toMatch(/Test failed It answered 500\..*<script>alert\(1\)<\/script>/);
    for (const text of [failed.text, await textAt(at)]) {
      expect(text).toContain("Test failed");
      expect(text).not.toContain("it works");
    }
    expect(failed.inlineScripts).toHaveLength(0);
    for (const path of [at, list]) expect(await textAt(path)).toContain("Test failed");
    expect(await textAt(at)).toContain("It answered 500.");
    // A test has a single attempt.
    for (const path of [at, delivery]) expect(await textAt(path)).not.toContain("All attempts failed");

    receiver.answer = () => new Response(null, { status: 204 });
    expect((await of.admin.post(`${delivery}/again`)).location).toBe(delivery);
    expect(await textAt(delivery)).toContain("Test delivered: accepted with 204");
    expect(new Set(receiver.ids()).size).toBe(1);
    for (const path of [at, list]) expect(await textAt(path)).toContain("Ready");
    expect(await textAt(at)).toContain("The test was delivered. No notifications yet.");
    // A test is no notification, and the list of deliveries shows that it was delivered.
    expect(await textAt(at)).toContain("Last delivered No notification yet");
    expect((await of.admin.get(`${at}/deliveries/dlv_nowhere`)).status).toBe(404);
  });
});

describe("a destination", () => {
  test("is failing only while failed deliveries wait", async () => {
    const { at, receiver } = await newWebhook();
    receiver.answer = () => new Response(null, { status: 500 });
    await raiseCrossing();
    await until(async () => expect(await of.admin.see(at)).toContain("Retrying"));
    for (const path of [at, list]) expect(await textAt(path)).toContain("Failing");
    // A notification waits for its next attempt.
    expect(await textAt(at)).toContain("Last delivered No notification yet Waiting 1 delivery");
    receiver.answer = () => new Response(null, { status: 200 });
    await of.admin.post(`${await deliveryOf(at)}/again`);
    await until(async () => expect(await textAt(at)).toContain("Healthy"));
    for (const path of [at, list]) expect(await textAt(path)).not.toContain("Failing");
  });

  test("can be paused, resumed, changed and deleted; the activity log has an entry for each", async () => {
    const { at } = await newWebhook();
    expect((await of.admin.post(`${at}/pause`)).location).toBe(`${at}?done=destination_paused`);
    expect(await textAt(at)).toContain("New notifications are skipped.");
    expect((await of.admin.post(`${at}/resume`)).location).toBe(`${at}?done=destination_resumed`);
    const change = { name: "Sales", target: "", notifications: "usage.level" };
    expect((await of.admin.post(`${at}/change`, change)).location).toBe(`${at}?done=saved`);
    expect(await textAt(at)).toMatch(/Sales.*Notifications Usage reaches 80, 100 or 200%/);
    for (const path of [`${at}/change`, `${list}/new`]) {
      const { status, page } = await of.admin.post(path, { type: "webhook", name: " ", target: "https://localhost/" });
      expect(status).toBe(422);
      expect(page.all(".field .error, #notifications-error").map(({ text }) => text)).toEqual([
        "Enter a name.",
        "This host name is private. Enter a public one.",
        "Choose at least one notification.",
      ]);
    }
    expect((await of.admin.post(`${at}/delete`)).location).toBe(`${list}?done=destination_deleted`);
    expect((await of.admin.get(at)).status).toBe(404);
    const log = await activity();
    for (const entry of ["created CRM", "paused CRM", "resumed CRM", "changed Sales", "deleted Sales"])
      expect(log).toMatch(new RegExp(`Destination ${entry}.*${of.admin.email}`));
  });

  test("has custom headers whose values stay hidden, are kept if left empty, and do not follow it to another URL", async () => {
    const { at, receiver } = await newWebhook();
    const elsewhere = new Receiver();
    listen(receiver, elsewhere);
    const change = (headers: readonly (readonly [name: string, value: string])[], target = "", renamed = "CRM") =>
      of.admin.post(`${at}/change`, [
        ["name", renamed],
        ["target", target],
        ["notifications", "key.silent"],
        ...headers.flatMap(([name, value], index): [string, string][] => [
          [`header_name_${index}`, name],
          [`header_value_${index}`, value],
        ]),
      ]);
    const sentTo = async (to = receiver) => {
      await of.admin.post(`${at}/test`);
      return ["authorization", "x-api-key"].map((name) => to.received.at(-1)?.headers.get(name));
    };
    const saved = `${at}?done=saved`;
    const both = [
      ["Authorization", "Bearer tok-4711"],
      ["X-Api-Key", "key-0815"],
    ] as const;
    expect((await change(both)).location).toBe(saved);
    expect(await sentTo()).toEqual(["Bearer tok-4711", "key-0815"]);
    expect(await textAt(at)).toContain("Authorization: ••••, X-Api-Key: ••••");
    const form = (await of.admin.read(`${at}/change`)).form(`${at}/change`);
    expect([form.field("header_name_0").value, form.field("header_value_0").value]).toEqual(["Authorization", ""]);

    const kept = both.map(([name]) => [name, ""] as const);
    const rejected = await change(kept, elsewhere.url);
    // Only at the headers, where it is announced.
    expect([rejected.status, rejected.text.match(/The URL has changed\./g)?.length]).toEqual([422, 1]);
    expect(rejected.page.alerts).toEqual([expect.stringContaining("The URL has changed.")]);
    // Beside all other errors of the form.
    const further = await change([...kept, ["X-New", ""]], elsewhere.url, " ");
    for (const error of ["The URL has changed.", "Enter a value for X-New.", "Enter a name."])
      expect(further.page.text).toContain(error);
    for (const target of ["", receiver.url, "http://[", "https://user:pw@elsewhere.example"])
      expect((await change(kept, target, " ")).text, target).not.toContain("The URL has changed.");
    expect((await change(kept)).location).toBe(saved);
    expect(await sentTo()).toEqual(["Bearer tok-4711", "key-0815"]);
    const invalid = await change([["Host", "h"]]);
    expect([invalid.status, focusedIn(invalid.body)]).toEqual([422, "header_name_0"]);
    expect((await change([["X-Api-Key", "new"]], elsewhere.url)).location).toBe(saved);
    expect(await sentTo(elsewhere)).toEqual([null, "new"]);
    expect(await activity()).toContain("Headers: X-Api-Key");
    for (const path of [at, `${at}/change`, list, await deliveryOf(at), `${of.home}/settings/activity`])
      expect(await of.admin.see(path)).not.toMatch(/tok-4711|key-0815/);
  });

  test("gets a new secret that is shown once; until the old one ends both sign", async () => {
    const { at, secret, receiver } = await newWebhook();
    expect((await of.admin.post(`${at}/rotate`, { overlap: "some day" })).status).toBe(422);
    const answer = await of.admin.post(`${at}/rotate`, { overlap: "24h" });
    const fresh = answer.page.only("#new-secret").text;
    expect([fresh === secret, answer.headers.get("cache-control")]).toEqual([false, "no-store"]);
    await of.admin.post(`${at}/test`);
    expect(receiver.verify(secret)).toEqual(receiver.verify(fresh));
    expect(await textAt(at)).toContain("Old secret Also signs");
  });

  test("of type email is shown as unconfirmed until its code is entered", async () => {
    const object = env.DESTINATIONS.getByName(of.workspace.id);
    const id = `dst_${crypto.randomUUID()}`;
    const email = { id, name: "Ops", type: "email" as const, target: "ops@example.com", headers: [] };
    await object.create({ ...email, notifications: ["usage.level"], pagesUrl: "https://signals.example/w/demo" });
    const at = `${of.home}/settings/notifications/${id}`;
    expect(await textAt(at)).toContain("Unconfirmed");
    const wrong = await of.admin.post(`${at}/confirm`, { code: "1" });
    expect([wrong.status, wrong.page.text]).toEqual([422, expect.stringContaining("The code is wrong or expired")]);
    const code = await runInDurableObject(object, (_, { storage }) =>
      storage.sql
        .exec<{ code: string }>("SELECT confirmation ->> 'code' AS code FROM destinations WHERE id = ?", id)
        .one(),
    );
    expect((await of.admin.post(`${at}/confirm`, code)).status).toBe(303);
    expect(await textAt(at)).not.toContain("Unconfirmed");
  });

  test("gets one new secret from a rotation that is sent several times", async () => {
    const { at, receiver } = await newWebhook();
    const fields = { overlap: "24h", secret_id: (await of.admin.read(at)).field("secret_id").value ?? "" };
    const answers = await Promise.all(Array.from({ length: 4 }, () => of.admin.post(`${at}/rotate`, fields)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409, 409, 409]);
    const shown = answers.flatMap(({ page }) => page.all("#new-secret").map(({ text }) => text));
    expect(shown).toHaveLength(1);
    const rejected = answers.find(({ status }) => status === 409);
    expect(rejected?.page.text).toContain("The secret was already rotated.");
    await of.admin.post(`${at}/test`);
    receiver.verify(shown[0] ?? "");
    const entries = await of.workspace.audit("destination.secret_rotated");
    expect(entries.filter(({ target }) => at.endsWith(target))).toHaveLength(1);
  });

  test("shows how many failed deliveries it would get again, for several times, and gets them once", async () => {
    const { at, receiver } = await newWebhook();
    expect(await textAt(`${at}/again`)).toContain("No failed deliveries");
    expect((await of.admin.read(at)).targets).not.toContain(`${at}/again`);
    receiver.answer = () => new Response(null, { status: 410 });
    await raiseCrossing();
    await until(async () => expect(await textAt(at)).toContain("Switched off The receiver answered 410 Gone."));
    const off = await of.admin.read(`${at}/again`);
    expect(off.text).toContain("The destination is paused or switched off. Resume it first.");
    expect(off.fields("since")).toEqual([]);
    const since = new Date(0).toISOString();
    for (const action of [`${at}/again`, `${await deliveryOf(at)}/again`]) {
      const { status, page } = await of.admin.post(action, { since });
      expect([status, page.alerts[0]]).toEqual([409, expect.stringContaining("Resume it first.")]);
    }
    expect(receiver.received).toHaveLength(1);

    const release = Promise.withResolvers<undefined>();
    receiver.answer = async () => {
      await release.promise;
      return new Response(null, { status: 200 });
    };
    await of.admin.post(`${at}/resume`);
    expect(await textAt(at)).toContain("Deliver 1 failed again");
    const form = (await of.admin.read(`${at}/again`)).form(`${at}/again`);
    expect(form.fields("since").map(({ isChecked }) => isChecked)).toEqual([false, true, false, false]);
    expect(await textAt(`${at}/again`)).toMatch(/Last hour 1 delivery Last 24 hours 1 delivery/);
    const typedTime = await textAt(`${at}/again?since=2126-11-20T08:00`);
    expect(typedTime).toContain("Since Nov 20, 2126, 8:00:00 AM UTC 0 deliveries");
    for (const answer of [await of.admin.get(`${at}/again?since=soon`), await of.admin.post(`${at}/again`, {})])
      expect([answer.status, answer.text]).toEqual([422, expect.stringMatching(/Enter a date and|Choose a time\./)]);

    expect((await of.admin.post(`${at}/again`, { since })).location).toBe(`${at}?done=delivered_again`);
    expect((await of.admin.post(`${at}/again`, { since })).location).toBe(`${at}?done=nothing_delivered_again`);
    await until(() => expect(receiver.received).toHaveLength(2));
    const waits = await of.admin.read(at);
    expect([waits.text.includes("In progress"), waits.all("[data-refresh]").length]).toEqual([true, 1]);
    release.resolve(undefined);
    await until(async () => expect(await textAt(at)).toContain("Healthy"));
    expect(new Set(receiver.ids()).size).toBe(1);
    expect(await activity()).toMatch(/Notification delivered again CRM Since: .* · Deliveries: 1/);
  });

  test("says which failed deliveries it cannot get again, and why", async () => {
    const { at, receiver } = await newWebhook();
    receiver.answer = () => new Response(null, { status: 410 });
    await raiseCrossing();
    await until(async () => expect(await textAt(at)).toContain("Switched off"));
    await of.admin.post(`${at}/resume`);
    await of.workspace.operator("DELETE", "/people/jane@example.com");
    expect(await textAt(`${at}/again`)).toContain("No failed deliveries Not sent again: 1 of deleted people.");
  });

  test("shows waiting notifications as waiting while it is paused, and its pages do not refresh", async () => {
    const { at, receiver } = await newWebhook();
    receiver.answer = () => new Response(null, { status: 500 });
    await raiseCrossing();
    await until(async () => expect(await of.admin.see(at)).toContain("Retrying"));
    expect((await of.admin.read(at)).all("[data-refresh]")).toHaveLength(1);
    await of.admin.post(`${at}/pause`);
    for (const path of [at, await deliveryOf(at)]) {
      const page = await of.admin.read(path);
      expect(page.text).toContain("Waiting Until the destination is resumed");
      expect(page.all("[data-refresh]")).toHaveLength(0);
    }
  });
});

test("thresholds of people and accounts are saved together", async () => {
  const { at } = await newWebhook();
  expect(await textAt(list)).toContain("CRM cannot be notified of scores.");
  await of.admin.post(`${at}/change`, { name: "CRM", target: "", notifications: "account.score_fell" });
  const save = (thresholds: string, account_thresholds: string) =>
    of.admin.post(`${list}/thresholds`, { thresholds, account_thresholds });
  const shown = ({ page }: { page: Part }) =>
    ["thresholds", "account_thresholds"].map((name) => page.field(name).value);
  expect((await save("100; 50", "")).location).toBe(`${list}?done=thresholds_saved`);
  expect(await textAt(list)).toContain("CRM cannot be notified of accounts' scores.");
  await save("100; 50", "500 200");
  const saved = await of.admin.get(list);
  expect([shown(saved), saved.text.includes("cannot be notified")]).toEqual([["50, 100", "200, 500"], false]);
  expect(await activity()).toMatch(/Score thresholds changed Account thresholds: none → 200, 500/);
});
