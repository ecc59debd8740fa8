/** The search of the sidebar: people, events, accounts, mapping rules, API keys and signal ids. */
import { beforeEach, expect, test } from "vitest";
import type { Part } from "../../support/html.ts";
import { type Browser, type Members, newMembers } from "../../support/members.ts";

let of: Members;

beforeEach(async () => {
  of = await newMembers({ key: { name: "Acme CRM" } });
});

const found = (text: string, browser: Browser = of.member): Promise<Part> =>
  browser.read(`${of.home}/search?${new URLSearchParams({ q: text }).toString()}`);
const groups = (page: Part): string[] => page.all("main h2").map(({ text }) => text);

/** Six people, one event of theirs, an account, a mapping rule and two keys. @returns the ids of the signals. */
async function happened(): Promise<string[]> {
  const people = Array.from({ length: 6 }, (_, n) => ({ event: "Acme <b>day</b>", email: `p${n}@acme.example` }));
  const sent = await of.workspace.send(people.map((signal) => ({ ...signal, source: "web" })));
  const { results } = await sent.json<{ results: { id: string }[] }>();
  const payload_template = ["external_id", "name"].map((field) => ({
    target: field,
    path: field,
    type: "string",
    required: field === "external_id",
  }));
  const key = await of.workspace.newKey({ name: "Accounts", endpoint_type: "product_org", payload_template });
  const path = "/api/product-orgs/webhook/{key}";
  await of.workspace.send({ external_id: "acme-1", name: "Acme Inc" }, { path, key: key.key });
  await of.workspace.operator("POST", "/rules", { name: "Acme visit", event: "Visit", scoring_signal: "v", points: 1 });
  await of.workspace.settled();
  return results.map(({ id }) => id);
}

test("results are grouped, five of each group, with a link to all", async () => {
  await happened();
  const page = await found("acme", of.admin);
  expect(groups(page)).toEqual(["People", "Events", "Accounts", "Mapping rules", "API keys"]);
  expect(page.table("People").rows).toHaveLength(5);
  expect(page.links("View all").map(({ target }) => target)).toEqual([`${of.home}/people?q=acme`]);
  expect((await of.member.get(page.link("acme-1").target ?? "")).status).toBe(200);
  expect((await of.member.get(page.link("Acme <b>day</b>").target ?? "")).status).toBe(200);
  expect((await of.member.get(page.link("Acme visit").target ?? "")).status).toBe(200);
  expect(page.link(/^Acme CRM/).target).toBe(`${of.home}/settings/api-keys/${of.workspace.key.id}`);
  expect(page.all("main b")).toHaveLength(0);
});

test("members find no API keys", async () => {
  await happened();
  expect(groups(await found("acme"))).toEqual(["People", "Events", "Accounts", "Mapping rules"]);
  expect((await found("CRM")).text).toContain("No results for “CRM”");
});

test("a signal id leads to the signal", async () => {
  const [id] = await happened();
  const { status, location } = await of.member.get(`${of.home}/search?q=%20${id}`);
  expect([status, location]).toEqual([303, `${of.home}/signals/${id}`]);
  expect((await found("sig_none")).text).toContain("No results for “sig_none”");
});

test("without a text or a result the page says so, and the field keeps the text", async () => {
  expect((await found(" ")).text).toContain("Enter a search text");
  const page = await found('"><script>alert(1)</script>');
  expect(page.text).toContain("No results");
  expect(page.inlineScripts).toHaveLength(0);
  expect(page.only(".sidebar [name=q]").value).toBe('"><script>alert(1)</script>');
});
