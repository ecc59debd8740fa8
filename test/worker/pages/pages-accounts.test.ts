/** Accounts (spec §1, design §8.7): the list, and one account with the origin and history of its values. */
import { runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, test } from "vitest";
import { deliver } from "../../support/deliver.ts";
import { textOf } from "../../support/html.ts";
import { newMembers, type Members } from "../../support/members.ts";
import type { TestKey } from "../../support/workspace.ts";

const TEMPLATE = [
  { target: "external_id", path: "id", type: "string" },
  { target: "name", path: "name", type: "string" },
  { target: "plan", path: "plan", type: "string" },
  { target: "user_count", path: "seats", type: "number" },
  { target: "recurring_revenue", path: "mrr", type: "number" },
  { target: "trial_status", path: "trial", type: "string" },
  { target: "feature_flags", path: "flags", type: "json" },
  { target: "attributes.region", path: "region", type: "string" },
  { target: "attributes.<u>", path: "markup", type: "json" },
];

let members: Members;
let key: TestKey;

beforeEach(async () => {
  members = await newMembers();
  key = await members.workspace.newKey({ name: "CRM <key>", endpoint_type: "product_org", payload_template: TEMPLATE });
});

/** One call for each, in different milliseconds, so that they arrive in this order. */
async function update(...payloads: object[]): Promise<string[]> {
  const ids: string[] = [];
  for (const payload of payloads) {
    const answer = await members.workspace.send(payload, { key: key.key, path: "/api/product-orgs/webhook/{key}" });
    ids.push((await answer.json<{ id: string }>()).id);
    await scheduler.wait(1);
  }
  await members.workspace.settled();
  return ids;
}

/** The external ids of all slices of the list. */
const listed = async (query: string): Promise<string[]> =>
  (await members.member.readAll(`${members.home}/accounts${query}`)).flatMap(({ rowHeads }) => rowHeads);

const pathOf = (externalId: string): string =>
  `${members.home}/accounts/one?${new URLSearchParams({ external_id: externalId }).toString()}`;

describe("the list of accounts", () => {
  test("if empty, explains the keys that fill it and lets managers create one", async () => {
    const newKeyPath = `${members.home}/settings/api-keys/new?endpoint_type=product_org`;
    const forOwner = await members.owner.read(`${members.home}/accounts`);
    expect(forOwner.text).toContain("Product Org Updates");
    expect(forOwner.targets).toContain(newKeyPath);
    expect((await members.owner.read(newKeyPath)).only('input[value="product_org"]').isChecked).toBe(true);
  });

  test("is sorted newest first or by last seen, in pages, and searched by a part of the name or id in any case", async () => {
    const ids = Array.from({ length: 30 }, (_, index) => `acme-${String(index).padStart(2, "0")}`);
    await update(
      ...ids.map((id) => ({ id, seats: 1_234 })),
      { id: "acme-03", name: "<i>Acme</i>" },
      { id: "ACME" },
      { id: "50%_off/../?#" },
    );
    const latest = ["50%_off/../?#", "ACME"];
    const named = "<i>Acme</i> acme-03";
    const newest = [...latest, ...ids.toReversed().map((id) => (id === "acme-03" ? named : id))];
    expect(await listed("")).toEqual(newest);
    expect(await listed("?sort=last_seen")).toEqual([...new Set([...latest, named, ...newest])]);
    expect(await listed("?q=acme-&sort=newest")).toEqual(newest.slice(2));
    expect(await listed("?q=acme_")).toEqual([]);
    for (const text of ["<i>ac", "CME</I>", "me-03"])
      expect(
        (await listed(`?${new URLSearchParams({ q: text }).toString()}`)).map((name) => name.split(" ").at(-1)),
      ).toEqual(["acme-03"]);
    const headingOf = async (query: string) =>
      (await members.member.read(`${members.home}/accounts${query}`)).only("h1").text;
    expect([await headingOf(""), await headingOf("?q=acme-")]).toEqual(["Accounts 32", "Accounts 30"]);
    expect(await headingOf("?q=acme_")).toBe("Accounts");
    const [found] = (await members.member.read(`${members.home}/accounts?q=acme-03`)).rows;
    expect(found?.cells).toEqual(expect.arrayContaining(["<i>Acme</i> acme-03", "1,234"]));
    const search = await members.member.read(`${members.home}/search?q=50%25_off`);
    const account = await members.member.read(search.link("50%_off/../?#").target ?? "");
    expect(account.only("h1").text).toBe("50%_off/../?#");
    const second = await members.member.read((await members.member.read(`${members.home}/accounts`)).next ?? "");
    expect((await members.member.read(second.previous ?? "")).rowHeads).toEqual(newest.slice(0, 25));
  });
});

describe("an account", () => {
  test("shows fields, flags, attributes, the source of each, and its history before and after", async () => {
    const more = { flags: { beta: true, sso: false, seats: 3 }, region: "emea" };
    const [, second, third] = await update(
      { id: "acme", name: "<script>alert(1)</script>", plan: "Free", seats: 12, mrr: 99.5, trial: "active", ...more },
      { id: "acme", plan: "Growth", markup: { "<b>": ["<i>"] } },
      { id: "acme", seats: 4_000 },
    );
    const changed = await members.owner.read(`${members.home}/signals/${second}`);
    const found = await members.owner.read(changed.link("View account").target ?? "");
    expect(found.targets).toContain(pathOf("acme"));
    const page = await members.owner.read(pathOf("acme"));
    const fields = Object.fromEntries(
      page.all("#fields dt").map(({ text }, index) => [text, page.all("#fields dd")[index]?.all("div")[0]?.text]),
    );
    // Its masked key never breaks.
    expect(page.all("#fields a .nowrap").length).toBeGreaterThan(0);
    expect(fields).toEqual({
      Name: "<script>alert(1)</script>",
      Plan: "Growth",
      "User count": "4,000",
      "Recurring revenue": "99.5",
      "Trial status": "active",
      "Feature flags": "beta, seats: 3, sso: off",
    });
    const attributes = page.table("Attributes").rows.map((row) => row.cells[0]);
    expect(attributes).toEqual(["<u>", "region"]);
    expect(page.table("Attributes").row("region").cells[1]).toContain("emea");
    expect(page.inlineScripts).toHaveLength(0);
    expect(page.all("b, i, u")).toHaveLength(0);
    for (const [index, field, id, change] of [
      [0, "User count", third, "12 → 4,000"],
      [1, "Plan", second, "Free → Growth"],
    ] as const) {
      const entry = page.only("#history").all("li")[index];
      const shown = [entry?.only("strong").text, entry?.link("View signal").target, entry?.text.endsWith(change)];
      expect(shown).toEqual([field, `${members.home}/signals/${id}`, true]);
    }
    const keyPage = page.links(/^CRM <key> sk_/)[0]?.target ?? "";
    expect((await members.owner.read(keyPage)).only("h1").text).toBe("CRM <key>");
    // Spec §1: only owners and admins may see keys.
    const forMember = await members.member.read(pathOf("acme"));
    expect(forMember.text).not.toContain("CRM");
    expect(forMember.text).toContain("Growth");
    // As if retention had dropped the update.
    await runInDurableObject(members.workspace.store, (_, { storage: { sql } }) => {
      sql.exec("UPDATE accounts SET claims = replace(claims, ?, 'sig_gone')", third);
    });
    const field = (await members.owner.read(pathOf("acme"))).all("#fields dd")[2];
    expect([field?.text, field?.targets]).toEqual(["4,000 just now by an account update, deleted since", []]);
  });

  test("shows its history in pages, each entry once", async () => {
    await update(...Array.from({ length: 40 }, (_, index) => ({ id: "busy", plan: `plan ${index}`, seats: index })));
    const changes = (await members.member.readAll(pathOf("busy"))).flatMap((page) => page.all("#history li"));
    const numbers = Array.from({ length: 40 }, (_, index) => 39 - index);
    expect(changes.map((change) => `${change.only("strong").text} ${change.text.split(" → ")[1]}`)).toEqual(
      numbers.flatMap((n) => [`User count ${n}`, `Plan plan ${n}`]),
    );
  });

  test("with values as large as a signal shows the beginning of each", async () => {
    await update({ id: "big", name: "n".repeat(20_000), flags: { text: "f".repeat(30_000) } });
    const list = await members.member.see(`${members.home}/accounts`);
    expect(textOf(list)).toMatch(/n{59}…/);
    expect(list.length).toBeLessThan(20_000);
    const html = await members.member.see(pathOf("big"));
    expect(textOf(html)).toMatch(/n{10000}…/);
    expect(html.length).toBeLessThan(40_000);
  });
});

test("an account has the latest scores of the 20 people who were seen last, also of a person it has had for long", async () => {
  const { workspace, member } = members;
  await workspace.operator("POST", "/rules", { name: "r", event: "E", scoring_signal: "demo", points: 5 });
  const now = Date.now();
  const people = Array.from({ length: 21 }, (_, n) => {
    const traits = { email: `p${n}@example.com`, company: { id: "acme" } };
    return {
      id: `sig_${n}`,
      ordinal: n + 1,
      payload: { type: "identify", userId: `u${n}`, traits },
      at: now - 100 + n,
    };
  });
  const last = { id: "sig_last", ordinal: 22, payload: { event: "E", email: "p0@example.com" }, at: now };
  await deliver(workspace.id, [...people, last]);
  const page = await member.read(pathOf("acme"));
  expect(page.only("#scores").text).toContain("p0@example.com");
  expect(page.only("#scores").text).toContain("+5 demo");
});
