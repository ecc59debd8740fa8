/** What each role sees on the pages (spec §1, §5.6). service/access.test.ts has the calls that each role may make. */
import { beforeAll, expect, test } from "vitest";
import { DAY, deliver } from "../../support/deliver.ts";
import type { Part } from "../../support/html.ts";
import { type Members, newMembers } from "../../support/members.ts";
import { newPlan } from "../../support/workspace.ts";

let team: Members;
/** Replaced in the paths of the tables. */
let ids: Record<string, string>;

/** With a record on each page. Names that only owners and admins may see begin with "Private". */
beforeAll(async () => {
  team = await newMembers({ key: { name: "Private key" }, signalLimit: 1 });
  const { workspace } = team;
  // One of them is held, and then can be released.
  await workspace.send([{ event: "Seen", email: "ann@example.com" }, { event: "Seen" }]);
  await workspace.settled();
  await workspace.operator("PATCH", "", { plan: await newPlan(10) });
  const made = async (path: string, body: object) => (await workspace.operator<{ id: string }>("POST", path, body)).id;
  const conditions = [{ path: "properties.n", operator: "in", value: [1, "<b>"] }];
  const newRule = (more: object) => made("/rules", { event: "E", scoring_signal: "d", points: 5, ...more });
  const [rule, gone] = [await newRule({ name: "Demo", conditions }), await newRule({ name: "Gone" })];
  await workspace.operator("PATCH", `/rules/${rule}`, { points: 6 });
  let exclusion = "";
  for (const name of ["Staff", "Own staff"]) {
    const items = [{ name, conditions }];
    const put = await workspace.operator<{ items: { id: string }[] }>("PUT", "/exclusions", { items });
    exclusion = put.items[0]?.id ?? "";
  }
  const webhook = { type: "webhook", target: "https://private.example/", notifications: ["usage.level"] };
  const destination = await made("/destinations", { name: "Private destination", ...webhook });
  await workspace.newToken(["read"], { name: "Private token" });
  const head = { key: workspace.key.id };
  await deliver(workspace.id, [
    { id: "sig_1", ordinal: 1, payload: { event: "E", source: "web", email: "ann@example.com" }, head },
    { id: "sig_2", ordinal: 2, payload: { event: "Paid", buyer: { email: "zoe@example.com" } }, head },
    { id: "sig_dead", ordinal: 3, payload: "no json", periodStart: 1, periodEnd: Date.now() + DAY },
  ]);
  await workspace.operator("DELETE", `/rules/${gone}`);
  ids = { key: workspace.key.id, rule, gone, exclusion, destination };
});

const pathOf = (page: string) => `${team.home}/${page.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? "")}`;

/** Where links and forms of a page lead. */
const offersOf = (page: Part) => [...page.targets, ...page.forms().map(({ target = "" }) => target)];

test.each([
  ["API keys", "settings/api-keys", ["/new", "/{key}", "/{key}/rotate", "/{key}/template"]],
  ["API tokens", "settings/api-tokens", ["/new"]],
  ["notifications", "settings/notifications", ["/new", "/{destination}", "/{destination}/change"]],
])("a member sees an explanation instead of the %s, and no link to them", async (what, list, others) => {
  for (const page of [list, ...others.map((other) => list + other)]) {
    const { status, text } = await team.member.get(pathOf(page));
    expect([status, text]).toEqual([403, expect.stringContaining(`Only owners and admins can see or manage ${what}.`)]);
    expect(text, page).not.toMatch(/private|sk_/i);
  }
  for (const role of ["owner", "admin", "member"] as const) {
    const { targets } = await team[role].read(`${team.home}/signals`);
    expect(targets.includes(pathOf(list)), role).toBe(role !== "member");
  }
});

test.each([
  ["accounts", "Ask an owner or admin", ["settings/api-keys/new?endpoint_type=product_org"]],
  ["people", "ann@example.com", ["people/export?records=people&format=csv"]],
  ["people/ann%40example.com", "Timeline", ["people/ann%40example.com/delete"]],
  ["rules", "Demo", ["rules/new", "rules/import", "rules/{rule}/disable"]],
  [
    "rules/{rule}",
    "properties.n is one of 1, <b>",
    ["rules/new?copy={rule}", "rules/{rule}/apply", "rules/{rule}/delete"],
  ],
  ["rules/{rule}/versions/1", "Restoring creates version 3", ["rules/{rule}/versions/1/restore"]],
  ["rules/{gone}", "Its scoring signals stay with their points.", ["rules/{gone}/delete"]],
  [
    "rules/exclusions",
    "Own staff",
    ["/new", "/apply", "/restore", "/{exclusion}"].map((path) => `rules/exclusions${path}`),
  ],
  ["rules/exclusions?done=exclusions_saved", "Own staff", ["rules/exclusions/apply"]],
  ["settings/activity", "Mapping rule created", ["settings/api-keys/{key}", "settings/notifications/{destination}"]],
  [
    "settings/members",
    "Only owners and admins can change this list.",
    ["settings/members", "settings/members/role", "settings/members/remove"],
  ],
  ["signals/group?event=E&source=web", "Latest payloads", ["rules/new?from=sig_1"]],
  ["signals/dead-letters", "SyntaxError", ["signals/dead-letters/replay"]],
  ["signals/sig_1", "ann@example.com", ["rules/new?from=sig_1", "settings/api-keys/{key}"]],
  ["signals/sig_2", "An address stands at buyer.email", ["settings/api-keys/{key}/template?signal=sig_2"]],
  ["signals/sig_dead", "SyntaxError", ["signals/dead-letters/replay"]],
  ["usage/plan", "Owners and admins can change the plan", ["usage/plan", "usage/overages", "usage/release"]],
])("%s is read by members, and offers changes to owners and admins only", async (page, text, offers) => {
  const changes = offers.map(pathOf);
  for (const role of ["owner", "admin"] as const)
    expect(offersOf(await team[role].read(pathOf(page))), role).toEqual(expect.arrayContaining(changes));
  const seen = await team.member.read(pathOf(page));
  expect(seen.text).toContain(text);
  expect(seen.text).not.toContain("Private");
  expect(seen.forms(/^\/w\//)).toEqual([]);
  expect(offersOf(seen).filter((target) => target !== pathOf(page) && changes.includes(target))).toEqual([]);
});
