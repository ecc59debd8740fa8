/** Invariant 8 on the pages: a workspace finds nothing by the ids of another workspace. */
import { beforeAll, expect, test } from "vitest";
import { pageRoutes } from "../../../src/pages/page-routes.tsx";
import { newMembers, type Members } from "../../support/members.ts";

let mine: Members;
let ids: Record<string, string>;

beforeAll(async () => {
  mine = await newMembers();
  const { workspace } = await newMembers();
  const sent = await workspace.send({ event: "Visit", email: "theirs@example.com" });
  const { id: signal } = await sent.json<{ id: string }>();
  const rule = { name: "theirs", event: "Visit", scoring_signal: "visit", points: 1 };
  const destination = {
    name: "theirs",
    type: "webhook",
    target: "https://a.example.com/",
    notifications: ["usage.level"],
  };
  const created = (path: string, body: object) => workspace.operator<{ id: string }>("POST", path, body);
  const [rules, destinations] = [await created("/rules", rule), await created("/destinations", destination)];
  await workspace.settled();
  const deletion = await workspace.operator<{ id: string }>("DELETE", "/people/theirs@example.com");
  await workspace.send({ event: "Visit", email: "also-theirs@example.com" });
  await workspace.settled();
  const token = await workspace.newToken(["read"]);
  ids = {
    token_id: token.id,
    slug: mine.slug,
    key_id: workspace.key.id,
    rule_id: rules.id,
    version: "1",
    id: destinations.id,
    delivery_id: "dlv_none",
    signal_id: signal,
    email: "also-theirs@example.com",
    deletion_id: deletion.id,
  };
});

const withIds = [
  ...new Map(pageRoutes.routes.map((route) => [`${route.method} ${route.path}`, route])).values(),
].filter(({ method, path }) => method !== "ALL" && /^\/w\/:slug\/.*:/.test(path));

test.each(withIds.map(({ method, path }) => [method, path]))(
  "%s %s finds no record of another workspace",
  async (method, route) => {
    const path = route.replaceAll(/:(\w+)(\{.*?\}(?=\/|$))?/g, (_, name: string) =>
      encodeURIComponent(ids[name] ?? "-"),
    );
    const form = {
      form_token: crypto.randomUUID(),
      overlap: "none",
      lifetime: "never",
      version: "1",
      email: ids["email"] ?? "",
    };
    const rule = { name: "mine", event: "Visit", match: "all", scoring_signal: "visit", points: "2", enabled: "on" };
    const answer = method === "GET" ? await mine.owner.get(path) : await mine.owner.post(path, { ...rule, ...form });
    expect(answer.status).toBe(404);
  },
);

test("Connect, a copied rule, a proposed rule and the rejections show nothing of another workspace", async () => {
  for (const path of [`connect?key=${ids["key_id"]}`, `rules/new?copy=${ids["rule_id"]}`])
    expect((await mine.owner.get(`${mine.home}/${path}`)).status).toBe(404);
  const rule = await mine.owner.read(`${mine.home}/rules/new?from=${ids["signal_id"]}`);
  expect(rule.field("event").value).toBe("");
  expect(rule.all("datalist option").map(({ value }) => value)).not.toContain("Visit");
  expect((await mine.owner.read(`${mine.home}/rejections?key=${ids["key_id"]}`)).text).toContain("No rejected calls");
});
