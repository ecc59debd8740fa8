/** The search of the sidebar: people, events, accounts, mapping rules, API keys and signal ids. */
import { beforeEach, expect, test } from "vitest";
import type { Part } from "../../support/html.ts";
import { type Browser, type Members, newMembers } from "../../support/members.ts";

let members: Members;

beforeEach(async () => {
  members = await newMembers({ key: { name: "Acme CRM" } });
});

const found = (text: string, browser: Browser = members.member): Promise<Part> =>
  browser.read(`${members.home}/search?${new URLSearchParams({ q: text }).toString()}`);
const groups = (page: Part): string[] => page.all("main h2").map(({ text }) => text);

/** Six people, one event of theirs, an account, six mapping rules and two keys. @returns the ids of the signals. */
async function fillWorkspace(): Promise<string[]> {
  const people = Array.from({ length: 6 }, (_, n) => ({ event: "Acme <b>day</b>", email: `p${n}@acme.example` }));
  const sent = await members.workspace.send(people.map((signal) => ({ ...signal, source: "web" })));
  const { results } = await sent.json<{ results: { id: string }[] }>();
  const payload_template = ["external_id", "name"].map((field) => ({ target: field, path: field, type: "string" }));
  const key = await members.workspace.newKey({ name: "Accounts", endpoint_type: "product_org", payload_template });
  const path = "/api/product-orgs/webhook/{key}";
  await members.workspace.send({ external_id: "acme-1", name: "Acme Inc" }, { path, key: key.key });
  for (const name of [...[1, 2, 3, 4, 5].map((n) => `acme ${n}`), "Acme visit"])
    await members.workspace.operator("POST", "/rules", { name, event: "Visit", scoring_signal: "v", points: 1 });
  await members.workspace.settled();
  return results.map(({ id }) => id);
}

test("results are grouped, five of each group, with a link to all", async () => {
  await fillWorkspace();
  const page = await found("acme", members.admin);
  expect(groups(page)).toEqual(["People", "Events", "Accounts", "Mapping rules", "API keys"]);
  for (const group of ["People", "Mapping rules"]) expect(page.table(group).rows).toHaveLength(5);
  expect(page.links("View all").map(({ target }) => target)).toEqual([
    `${members.home}/people?q=acme`,
    `${members.home}/rules?q=acme`,
  ]);
  for (const name of ["acme-1", "Acme <b>day</b>", "Acme visit"])
    expect((await members.member.get(page.link(new RegExp(`^${name}|${name}$`)).target ?? "")).status).toBe(200);
  expect(page.link(/^Acme CRM/).target).toBe(`${members.home}/settings/api-keys/${members.workspace.key.id}`);
  expect(page.all("main b")).toHaveLength(0);
});

test("suggestions are the first three of each kind, each with its page, and nothing for an empty text", async () => {
  await fillWorkspace();
  const suggested = (text: string, browser = members.admin) =>
    browser.read(`${members.home}/search/suggestions?${new URLSearchParams({ q: text }).toString()}`);
  const list = await suggested("acme");
  const options = list.all('[role="listbox"] > a[role="option"]');
  const kinds = options.map(({ text }) => /Person|Account|Event from|Mapping rule|API key/.exec(text)?.[0]);
  expect(kinds).toEqual([
    "Person",
    "Person",
    "Person",
    "Account",
    "Event from",
    "Mapping rule",
    "Mapping rule",
    "Mapping rule",
    "API key",
  ]);
  expect(new Set(options.map((option) => option.attribute("id"))).size).toBe(options.length);
  for (const { target = "" } of options) expect((await members.admin.get(target)).status, target).toBe(200);
  expect(list.text).toContain("Acme <b>day</b> Event from web");
  expect([list.all("b").length, list.all("nav").length]).toEqual([0, 0]);
  expect((await suggested("acme", members.member)).text).not.toContain("API key");
  expect((await suggested(" ")).all('[role="listbox"] > *')).toEqual([]);
});

test("a whole key or its shown beginning finds the key", async () => {
  const { key, id } = members.workspace.key;
  for (const text of [key, key.slice(0, 8), key.slice(0, 6)]) {
    expect((await found(text, members.admin)).link(/^Acme CRM/).target, text).toBe(
      `${members.home}/settings/api-keys/${id}`,
    );
    expect((await found(text)).links(/^Acme CRM/), text).toEqual([]);
  }
  const other = `sk_${key.slice(3, 8).split("").toReversed().join("")}x`;
  expect((await found(other, members.admin)).links(/^Acme CRM/)).toEqual([]);
});

test("members find no API keys", async () => {
  await fillWorkspace();
  expect(groups(await found("acme"))).toEqual(["People", "Events", "Accounts", "Mapping rules"]);
  expect((await found("CRM")).text).toContain("No results for “CRM”");
});

test("says what can be found: API keys only for those who see them", async () => {
  for (const [browser, isManager] of [
    [members.owner, true],
    [members.admin, true],
    [members.member, false],
  ] as const)
    for (const text of ["nothing", " "])
      expect((await found(text, browser)).only("main").text.includes("API key"), text).toBe(isManager);
});

test("a signal id leads to the signal", async () => {
  const [id] = await fillWorkspace();
  const { status, location } = await members.member.get(`${members.home}/search?q=%20${id}`);
  expect([status, location]).toEqual([303, `${members.home}/signals/${id}`]);
  expect((await found("sig_none")).text).toContain("No results for “sig_none”");
});

test("an email without a person leads to the signals that name it, such as held ones", async () => {
  const page = await found("otto@nobody.example");
  expect(page.link("Search signals with this email").target).toBe(
    `${members.home}/signals/all?email=otto%40nobody.example`,
  );
  expect((await found("otto")).links("Search signals with this email")).toEqual([]);
});

test("without a text or a result the page says so, and the field keeps the text", async () => {
  expect((await found(" ")).text).toContain("Enter a search text");
  const page = await found('"><script>alert(1)</script>');
  expect(page.text).toContain("No results");
  expect(page.inlineScripts).toHaveLength(0);
  expect(page.only(".sidebar [name=q]").value).toBe('"><script>alert(1)</script>');
});
