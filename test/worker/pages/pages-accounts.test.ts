/** Accounts (spec §1, design §8.7): the list, and one account with where its values come from and how they changed. */
import { beforeAll, describe, expect, test } from "vitest";
import { newMembers, type Members } from "../../support/members.ts";
import { operator, type TestKey } from "../../support/workspace.ts";

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

beforeAll(async () => {
  members = await newMembers();
});

async function newKey(of: Members, name = "CRM <key>"): Promise<TestKey> {
  const body = { name, endpoint_type: "product_org", payload_template: TEMPLATE };
  return operator<TestKey>("POST", `/workspaces/${of.workspace.id}/keys`, body);
}

/** One call for each, so that they come in this order. */
async function update(of: Members, key: TestKey, payloads: object[]): Promise<string[]> {
  const ids: string[] = [];
  for (const payload of payloads) {
    // oxlint-disable-next-line no-await-in-loop -- in this order
    const answer = await of.workspace.send(payload, { key: key.key, path: "/api/product-orgs/webhook/{key}" });
    // oxlint-disable-next-line no-await-in-loop -- in this order
    ids.push((await answer.json<{ id: string }>()).id);
  }
  await of.workspace.settled();
  return ids;
}

function listed(html: string): string[] {
  return [...html.matchAll(/<th scope="row" class="who"><a [^>]*>([^<]*)</g)].map(([, id]) => id ?? "");
}

function nextOf(html: string): string | null {
  const [, href] = /<a class="button small" href="([^"]*)" rel="next"/.exec(html) ?? [];
  return href?.replaceAll("&amp;", "&") ?? null;
}

async function allPages<T>(of: Members, first: string, read: (html: string) => T[]): Promise<T[]> {
  const seen: T[] = [];
  let path: string | null = first;
  for (let pages = 0; path !== null && pages < 10; pages++) {
    // oxlint-disable-next-line no-await-in-loop -- each page names the next
    const html = await of.member.see(path);
    seen.push(...read(html));
    path = nextOf(html);
  }
  return seen;
}

const one = (of: Members, externalId: string): string =>
  `${of.home}/accounts/one?${new URLSearchParams({ external_id: externalId }).toString()}`;

describe("the list of accounts", () => {
  test("where there is nothing, explains the keys that fill it, and lets managers make one", async () => {
    const forOwner = await members.owner.see(`${members.home}/accounts`);
    expect(forOwner).toContain("Product Org Updates");
    expect(forOwner).toContain(`href="${members.home}/settings/api-keys/new"`);
    const forMember = await members.member.see(`${members.home}/accounts`);
    expect(forMember).toContain("Ask an owner or admin");
    expect(forMember).not.toContain("/settings/api-keys/new");
  });

  test("comes newest first or as last seen, in pages, and is searched by the beginning of the external id", async () => {
    const of = await newMembers();
    const key = await newKey(of);
    const ids = Array.from({ length: 30 }, (_, index) => `acme-${String(index).padStart(2, "0")}`);
    await update(of, key, [
      ...ids.map((id) => ({ id, seats: 1_234 })),
      { id: "acme-03", name: "<i>Acme</i>" },
      { id: "ACME" },
      { id: "50%_off/../?#" },
    ]);
    const newest = ["50%_off/../?#", "ACME", ...ids.toReversed()];
    expect(await allPages(of, `${of.home}/accounts`, listed)).toEqual(newest);
    expect(await allPages(of, `${of.home}/accounts?sort=last_seen`, listed)).toEqual([
      "50%_off/../?#",
      "ACME",
      "acme-03",
      ...ids.toReversed().filter((id) => id !== "acme-03"),
    ]);
    expect(await allPages(of, `${of.home}/accounts?q=acme-`, listed)).toEqual(ids);
    expect(await allPages(of, `${of.home}/accounts?q=acme_`, listed)).toEqual([]);
    const html = await of.member.see(`${of.home}/accounts?q=acme-03`);
    expect(html).toContain("&lt;i&gt;Acme&lt;/i&gt;");
    expect(html).toContain("1,234");
    expect(await of.member.see(one(of, "50%_off/../?#"))).toContain("<h1>50%_off/../?#</h1>");
  });
});

describe("an account", () => {
  test("has fields, flags, attributes, where each comes from, and its history before and after", async () => {
    const of = await newMembers();
    const key = await newKey(of);
    const [, second, third] = await update(of, key, [
      {
        id: "acme",
        name: "<script>alert(1)</script>",
        plan: "Free",
        seats: 12,
        mrr: 99.5,
        trial: "active",
        flags: { beta: true, sso: false, seats: 3 },
        region: "emea",
      },
      { id: "acme", plan: "Growth", markup: { "<b>": ["<i>"] } },
      { id: "acme", seats: 4_000 },
    ]);
    const html = await of.owner.see(one(of, "acme"));
    expect(html).toContain("&lt;script&gt;alert(1)&lt;/script&gt;");
    expect(html).not.toMatch(/<script>alert|<b>|<i>|<u>/);
    expect(html).toMatch(/Growth.*4,000.*99\.5.*active/s);
    expect(html).toMatch(/beta<\/span>.*seats: 3<\/span>.*sso: off<\/span>/s);
    expect(html).toContain("&lt;u&gt;");
    expect(html).toContain("emea");
    expect(html).toMatch(
      new RegExp(`Plan</strong><a class="small" href="${of.home}/signals/${second ?? "?"}".*?Free.*?→.*?Growth`, "s"),
    );
    expect(html).toMatch(
      new RegExp(`User count</strong><a class="small" href="${of.home}/signals/${third ?? "?"}".*?12.*?→.*?4,000`, "s"),
    );
    expect(html.indexOf("User count</strong>")).toBeLessThan(html.indexOf("Plan</strong>"));
    expect(html).toContain("CRM &lt;key&gt;");
    // Spec §1: only owners and admins may see keys.
    const forMember = await of.member.see(one(of, "acme"));
    expect(forMember).not.toContain("CRM");
    expect(forMember).toContain("Growth");
  });

  test("has its history in pages, nothing twice and nothing missing", async () => {
    const of = await newMembers();
    const key = await newKey(of);
    await update(
      of,
      key,
      [Array.from({ length: 40 }, (_, index) => ({ id: "busy", plan: `plan ${index}`, seats: index }))].flat(),
    );
    const changes = await allPages(of, one(of, "busy"), (html) =>
      [...html.matchAll(/<strong>(Plan|User count)<\/strong>.*?to <\/span><span[^>]*>([^<]*)</gs)].map(
        ([, field, after]) => `${field ?? ""} ${after ?? ""}`,
      ),
    );
    const expected = Array.from({ length: 40 }, (_, index) => [
      `User count ${39 - index}`,
      `Plan plan ${39 - index}`,
    ]).flat();
    expect(changes).toEqual(expected);
  });

  test("of another workspace is not there", async () => {
    const of = await newMembers();
    await update(of, await newKey(of), [{ id: "secret-acme" }]);
    expect((await of.member.get(one(of, "secret-acme"))).status).toBe(200);
    expect((await members.owner.get(one(members, "secret-acme"))).status).toBe(404);
    expect((await of.stranger.get(one(of, "secret-acme"))).status).toBe(404);
  });

  test("with values as large as a signal is shown with their beginnings", async () => {
    const of = await newMembers();
    await update(of, await newKey(of), [{ id: "big", name: "n".repeat(20_000), flags: { text: "f".repeat(30_000) } }]);
    const list = await of.member.see(`${of.home}/accounts`);
    expect(list).toMatch(/n{59}…/);
    expect(list.length).toBeLessThan(20_000);
    const html = await of.member.see(one(of, "big"));
    expect(html).toMatch(/n{10000}…/);
    expect(html.length).toBeLessThan(40_000);
  });
});
