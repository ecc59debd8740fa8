/**
 * Settings › Notifications, as owners, admins, members and strangers see it, with a receiver that verifies
 * signatures.
 */
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { newMembers, type Members, focusedIn } from "../../support/members.ts";
import { readHtml, textOf } from "../../support/html.ts";
import { listen, Receiver } from "../../support/destination-harness.ts";
import { until } from "../../support/until.ts";
import { operator } from "../../support/workspace.ts";

const DESTINATION = /dst_[0-9a-f-]{36}/;

afterEach(() => {
  vi.restoreAllMocks();
});

const pathOf = (of: Members) => `${of.home}/settings/notifications`;

interface Made {
  of: Members;
  /** The path of the destination's page. */
  at: string;
  secret: string;
  receiver: Receiver;
  /** The answer that showed the secret. */
  answer: { headers: Headers; html: string };
  /** The form that created it. */
  form: [string, string][];
}

/** A webhook that an admin has created with the form. */
async function newWebhook(): Promise<Made> {
  const of = await newMembers({ key: null });
  const receiver = new Receiver();
  listen(receiver);
  const id = (await of.admin.read(`${pathOf(of)}/new`)).field("id").value ?? "";
  const form: [string, string][] = [
    ["id", id],
    ["name", "CRM"],
    ["type", "webhook"],
    ["target", receiver.url],
    ["events", "person.score_crossed"],
    ["events", "key.expiring"],
  ];
  const answer = await of.admin.post(`${pathOf(of)}/new`, form);
  expect(answer.status).toBe(200);
  const html = await answer.text();
  const secret = readHtml(html).only("#new-secret").text;
  return { of, at: `${pathOf(of)}/${id}`, secret, receiver, answer: { headers: answer.headers, html }, form };
}

async function raiseCrossing({ workspace }: Members): Promise<void> {
  const data = { email: "jane@example.com", threshold: 50, score: 52, score_before: 40, signal_id: null };
  const event = { id: `evt_${crypto.randomUUID()}`, type: "person.score_crossed", time: Date.now(), data } as const;
  await env.DESTINATIONS.getByName(workspace.id).raise([event]);
}

/** Path of the page of a delivery, after a test. */
async function testOf({ of, at }: Made): Promise<string> {
  const answer = await of.admin.post(`${at}/test`);
  expect(answer.status).toBe(303);
  return answer.headers.get("location") ?? "";
}

describe("who may see notifications", () => {
  test("owners and admins see them; a member learns whom to ask, and sees neither the menu entry nor the log entries", async () => {
    const { of, at } = await newWebhook();
    expect(textOf(await of.owner.see(pathOf(of)))).toContain("CRM Webhook");
    const refused = await of.member.get(pathOf(of));
    expect(refused.status).toBe(403);
    const html = await refused.text();
    expect(textOf(html)).toContain("Only owners and admins can see or manage notifications.");
    expect((await of.owner.read(of.home + "/signals")).targets).toContain(pathOf(of));
    expect(readHtml(html).targets).not.toContain(pathOf(of));
    expect((await of.member.post(`${at}/test`)).status).toBe(403);
    expect((await of.stranger.get(at)).status).toBe(404);
    const activity = textOf(await of.member.see(`${of.home}/settings/activity`));
    expect(activity).not.toContain("the destination");
    expect(activity).not.toContain("Destination created");
  });

  test("a destination of another workspace is not found", async () => {
    const { at } = await newWebhook();
    const otherTeam = await newMembers({ key: null });
    const elsewhere = `${pathOf(otherTeam)}/${DESTINATION.exec(at)?.[0]}`;
    expect((await otherTeam.owner.get(elsewhere)).status).toBe(404);
    for (const action of ["test", "pause", "resume", "delete", "rotate", "change"]) {
      expect((await otherTeam.owner.post(`${elsewhere}/${action}`, { overlap: "none" })).status).toBe(404);
    }
  });
});

describe("a new destination", () => {
  test("is the first action on an empty page", async () => {
    const of = await newMembers({ key: null });
    const html = await of.admin.see(pathOf(of));
    expect(textOf(html)).toContain("Nobody is told anything yet");
    expect(readHtml(html).targets).toContain(`${pathOf(of)}/new`);
    expect(focusedIn(await of.admin.see(`${pathOf(of)}/new`))).toBe("name");
  });

  test("shows its secret once, on a page that is not cached, with code to verify it in three languages", async () => {
    const { of, at, secret, answer, form, receiver } = await newWebhook();
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/=]{32,}$/);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    for (const language of ["javascript", "python", "go"]) {
      expect(readHtml(answer.html).all(`[id="verify-${language}"]`)).toHaveLength(1);
    }

    const again = await of.admin.post(`${pathOf(of)}/new`, form);
    expect(again.status).toBe(409);
    expect(await again.text()).not.toContain("whsec_");
    for (const path of [at, `${at}/change`, `${at}/rotate`, pathOf(of), `${of.home}/settings/activity`]) {
      expect(await of.admin.see(path)).not.toContain(secret);
    }
    expect(textOf(await of.admin.see(pathOf(of))).match(/CRM Webhook/g)).toHaveLength(1);
    expect(receiver.received).toEqual([]);
  });

  test("shows errors at their fields, keeps the input, and focuses the first invalid field", async () => {
    const of = await newMembers({ key: null });
    const typed = { name: "<b>", type: "webhook", target: "http://127.0.0.1/x", events: "key.silent" };
    const post = async (fields: Record<string, string>) => {
      const { events, ...rest } = { ...typed, ...fields };
      const answer = await of.admin.post(`${pathOf(of)}/new`, events === "" ? rest : { ...rest, events });
      expect(answer.status).toBe(422);
      return answer.text();
    };
    const notHttps = await post({});
    expect(notHttps).toContain("The URL must begin with https://.");
    const form = readHtml(notHttps).form(`${pathOf(of)}/new`);
    expect(form.field("name").value).toBe("<b>");
    const chosen = form.fields("events").filter(({ isChecked }) => isChecked);
    expect(chosen.map(({ value }) => value)).toEqual(["key.silent"]);
    expect(focusedIn(notHttps)).toBe("target");
    expect(await post({ target: "https://10.0.0.1/x" })).toContain("events are not sent to addresses");
    expect(await post({ target: "" })).toContain("Give the URL.");
    expect(focusedIn(await post({ name: " ", target: "" }))).toBe("name");
    const nothing = await post({ target: "https://crm.example.com/", events: "" });
    expect(nothing).toContain("Choose at least one.");
    expect(focusedIn(nothing)).toBe("event-person.score_crossed");
    expect(textOf(await of.admin.see(pathOf(of)))).toContain("Nobody is told anything yet");
  });

  test("is offered with an example of each event, as it is sent", async () => {
    const of = await newMembers({ key: null });
    const text = textOf(await of.admin.see(`${pathOf(of)}/new`));
    expect(text).toContain(`"type": "person.score_crossed"`);
    expect(text).toContain(`"workspace": "${of.workspace.id}"`);
    expect(text).not.toContain("Email A sentence");
  });
});

describe("a test", () => {
  test("is signed with the shown secret and shows its result at once", async () => {
    const made = await newWebhook();
    const delivery = await testOf(made);
    expect(made.receiver.verify(made.secret)).toMatchObject({ type: "destination.test" });
    const text = textOf(await made.of.admin.see(delivery));
    expect(text).toContain("The test has arrived: accepted with 200");
    expect(text).toContain("thanks");
  });

  test("shows the reason and the answer as text if it fails, and can be resent under the same id", async () => {
    const made = await newWebhook();
    const { of, receiver, at } = made;
    receiver.answer = () => new Response("<script>alert(1)</script>", { status: 500 });
    const delivery = await testOf(made);
    const html = await of.admin.see(delivery);
    expect(textOf(html)).toContain("The test was not accepted. It answered 500.");
    expect(textOf(html)).toContain("<script>alert(1)</script>");
    expect(readHtml(html).inlineScripts).toHaveLength(0);
    expect(textOf(await of.admin.see(at))).toContain("It answered 500.");

    receiver.answer = () => new Response(null, { status: 204 });
    const again = await of.admin.post(`${delivery}/again`);
    expect(again.headers.get("location")).toBe(delivery);
    expect(textOf(await of.admin.see(delivery))).toContain("The test has arrived: accepted with 204");
    expect(new Set(receiver.ids()).size).toBe(1);
    expect((await of.admin.get(`${at}/deliveries/dlv_nowhere`)).status).toBe(404);
  });
});

describe("a destination", () => {
  test("can be paused, resumed, changed and deleted; the activity log has a sentence for each", async () => {
    const { of, at } = await newWebhook();
    expect((await of.admin.post(`${at}/pause`)).headers.get("location")).toBe(`${at}?done=destination_paused`);
    expect(textOf(await of.admin.see(at))).toContain("What happens until it is resumed is not told.");
    await of.admin.post(`${at}/resume`);
    const change = { name: "Sales", target: "", events: "usage.level" };
    expect((await of.admin.post(`${at}/change`, change)).headers.get("location")).toBe(`${at}?done=saved`);
    const text = textOf(await of.admin.see(at));
    expect(text).toContain("Sales");
    expect(text).toContain("Usage reaches 80, 100 or 200 %");
    const bad = await of.admin.post(`${at}/change`, { ...change, target: "https://localhost/" });
    expect(bad.status).toBe(422);
    expect((await of.admin.post(`${at}/delete`)).headers.get("location")).toBe(
      `${pathOf(of)}?done=destination_deleted`,
    );
    expect((await of.admin.get(at)).status).toBe(404);
    const log = textOf(await of.owner.see(`${of.home}/settings/activity`));
    for (const sentence of ["created", "paused", "resumed", "changed", "deleted"]) {
      expect(log).toContain(`${of.admin.email} ${sentence} the destination`);
    }
  });

  test("gets a new secret that is shown once; until the old one ends both sign", async () => {
    const made = await newWebhook();
    const { of, at, secret, receiver } = made;
    expect((await of.admin.post(`${at}/rotate`, { overlap: "some day" })).status).toBe(422);
    const answer = await of.admin.post(`${at}/rotate`, { overlap: "24h" });
    const fresh = readHtml(await answer.text()).only("#new-secret").text;
    expect([fresh === secret, answer.headers.get("cache-control")]).toEqual([false, "no-store"]);
    await testOf(made);
    expect(receiver.verify(secret)).toEqual(receiver.verify(fresh));
    expect(textOf(await of.admin.see(at))).toContain("The old one signs too");
  });

  test("resends nothing while it is paused, and the page says why", async () => {
    const { of, at, receiver } = await newWebhook();
    await raiseCrossing(of);
    await until(() => expect(receiver.received).toHaveLength(1));
    const { targets } = await of.admin.read(at);
    const delivery = targets.find((target) => target.startsWith(`${at}/deliveries/dlv_`));
    await of.admin.post(`${at}/pause`);
    const refused = await of.admin.post(`${delivery}/again`);
    expect(refused.status).toBe(409);
    expect(textOf(await refused.text())).toContain("The destination is paused or switched off. Resume it first.");
    expect(receiver.received).toHaveLength(1);
  });

  test("shows waiting notifications as waiting while it is paused, and its pages do not refresh", async () => {
    const { of, at, receiver } = await newWebhook();
    receiver.answer = () => new Response(null, { status: 500 });
    await raiseCrossing(of);
    await until(async () => expect(await of.admin.see(at)).toContain("Comes again"));
    expect(await of.admin.see(at)).toContain("data-refresh");
    const { targets } = await of.admin.read(at);
    const delivery = targets.find((target) => target.startsWith(`${at}/deliveries/dlv_`)) ?? "";
    await of.admin.post(`${at}/pause`);
    for (const page of [at, delivery]) {
      const html = await of.admin.see(page);
      expect(textOf(html)).toContain("Waits Until the destination is resumed");
      expect(html).not.toContain("data-refresh");
    }
  });

  test("says why the service switched it off, and can be resumed", async () => {
    const { of, at, receiver } = await newWebhook();
    receiver.answer = () => new Response(null, { status: 410 });
    await raiseCrossing(of);
    await until(async () => expect(textOf(await of.admin.see(at))).toContain("Switched off It answered 410 Gone"));
    expect(textOf(await of.owner.see(`${of.home}/settings/activity`))).toContain("switched off the destination CRM");
    await of.admin.post(`${at}/resume`);
    expect(textOf(await of.admin.see(at))).not.toContain("Switched off");
  });
});

describe("settings about scores and keys", () => {
  test("thresholds are at most five whole numbers, in any order; without any, the page names the destinations that want them", async () => {
    const { of } = await newWebhook();
    expect(textOf(await of.admin.see(pathOf(of)))).toContain("CRM is to be told when a score crosses one.");
    const save = (thresholds: string) => of.admin.post(`${pathOf(of)}/thresholds`, { thresholds });
    for (const [typed, why] of [
      ["50, lots", "Whole numbers"],
      ["1 2 3 4 5 6", "At most 5."],
      ["50, 50", "The same score twice."],
    ] as const) {
      const refused = await save(typed);
      expect([typed, refused.status]).toEqual([typed, 422]);
      const html = await refused.text();
      expect(textOf(html)).toContain(why);
      expect(readHtml(html).field("thresholds").value).toBe(typed);
    }
    expect((await save("100; 50")).headers.get("location")).toBe(`${pathOf(of)}?done=thresholds_saved`);
    const page = await of.admin.read(pathOf(of));
    expect(page.field("thresholds").value).toBe("50, 100");
    expect(page.text).not.toContain("is to be told when");
    expect(textOf(await of.owner.see(`${of.home}/settings/activity`))).toMatch(
      /changed the scores whose crossing is told ?: 50, 100/,
    );
  });

  test("the page of a key sets the number of days that it may be silent", async () => {
    const of = await newMembers();
    const id = of.workspace.key.id;
    const at = `${of.home}/settings/api-keys/${id}`;
    const refused = await of.admin.post(`${at}/silence`, { silent_after_days: "0" });
    expect(refused.status).toBe(422);
    expect(focusedIn(await refused.text())).toBe("silent_after_days");
    const stored = async () => {
      const { items } = await operator<{ items: unknown[] }>("GET", `/workspaces/${of.workspace.id}/keys`);
      return items;
    };
    expect((await of.admin.post(`${at}/silence`, { silent_after_days: "3" })).status).toBe(303);
    expect(await stored()).toMatchObject([{ id, silent_after_days: 3 }]);
    expect((await of.admin.post(`${at}/silence`, { silent_after_days: "" })).status).toBe(303);
    expect(await stored()).toMatchObject([{ id, silent_after_days: null }]);
  });
});
