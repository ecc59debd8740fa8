/**
 * Access: calls every route of the Worker anonymously, as the owner of another workspace, in each role and with the
 * operator token. The routes come from the routers; a route without a row here fails.
 */
import { env } from "cloudflare:workers";
import { beforeAll, expect, test } from "vitest";
import { ingestApp } from "../../../src/ingest/routes.ts";
import { otherRoutes } from "../../../src/other-routes.ts";
import { ACCESS } from "../../support/access.ts";
import { newMembers, Browser } from "../../support/members.ts";
import type { Members } from "../../support/members.ts";
import { call, newPlan } from "../../support/workspace.ts";

const ACTORS = ["nobody", "stranger", "member", "admin", "owner", "operator"] as const;
type Actor = (typeof ACTORS)[number];

/** Values of path parameters: records of this workspace, separate ones for each actor. */
type Subject = Record<string, string>;

let team: Members;
let subjects: Map<Actor, Subject>;

beforeAll(async () => {
  team = await newMembers();
  const { workspace } = team;
  await workspace.send({ event: "Visit", email: "gone@example.com" });
  for (const actor of ACTORS) await workspace.send({ event: "Visit", email: `of-${actor}@example.com` });
  await workspace.settled();
  const { items } = await workspace.operator<{ items: { id: string }[] }>("GET", "/signals");
  const deletion = await workspace.operator<{ id: string }>("DELETE", "/people/gone@example.com");
  subjects = new Map();
  for (const actor of ACTORS) subjects.set(actor, await newSubject(actor, items[0]?.id ?? "", deletion.id));
});

async function newSubject(actor: Actor, signalId: string, deletionId: string): Promise<Subject> {
  const { workspace, slug } = team;
  const rule = { name: actor, event: "Never", scoring_signal: "never", points: 1 };
  const destination = {
    name: actor,
    type: "webhook",
    target: "https://receiver.example.com/in",
    events: ["period.closed"],
  };
  const email = `of-${actor}@example.com`;
  await workspace.operator("POST", "/members", { email, role: "member" });
  const [{ id: key }, made, { id: destinationId }] = [
    await workspace.newKey(),
    await workspace.operator<{ id: string }>("POST", "/rules", rule),
    await workspace.operator<{ id: string }>("POST", "/destinations", destination),
  ];
  return {
    slug,
    workspace_id: workspace.id,
    key_id: key,
    rule_id: made.id,
    email,
    person_email: email,
    id: destinationId,
    destination_id: destinationId,
    delivery_id: "whd_none",
    restore_id: "rst_none",
    deletion_id: deletionId,
    external_id: "acme",
    signal_id: signalId,
    version: "1",
    plan_id: await newPlan(1_000),
    apiKey: "sk_none",
    sourceOrKey: "web",
    keyOrBatch: "sk_none",
  };
}

/** The query that a path requires. */
const QUERY: Record<string, string> = { "/w/:slug/signals/group": "?event=Visit&source=unknown" };

interface Route {
  method: string;
  path: string;
  /** Its row. */
  name: string;
}

/** Routes that end records come last, because each actor has one record of each kind. */
const ENDS = /^DELETE|\/(delete|deactivate|rotate|rotate-secret|remove)$/;

function routes(): Route[] {
  const all = [...ingestApp.routes, ...otherRoutes.routes]
    .filter(({ method }) => method !== "ALL")
    // Names of assets contain a hash of their content.
    .map(({ method, path }) => ({ method, path, name: `${method} ${path.replace(/^\/assets\/\w+\./, "/assets/….")}` }));
  const unique = [...new Map(all.map((route) => [route.name, route])).values()];
  return unique.sort((a, b) => Number(ENDS.test(a.name)) - Number(ENDS.test(b.name)));
}

function pathFor(path: string, actor: Actor): string {
  const subject = subjects.get(actor) ?? {};
  return path.replaceAll(/:(\w+)(\{.*?\}(?=\/|$))?/g, (_, name: string) => {
    const value = subject[name];
    if (value === undefined) throw new Error(`${path}: nothing stands for ${name}`);
    return encodeURIComponent(value);
  });
}

async function statusFor({ method, path }: Route, actor: Actor): Promise<number> {
  const headers = new Headers({ "cf-connecting-ip": crypto.randomUUID(), origin: "https://signals.example" });
  if (actor === "operator") headers.set("authorization", `Bearer ${env.OPERATOR_TOKEN}`);
  // Sign in again for each route, because one of them signs out.
  else if (actor !== "nobody") headers.set("cookie", await new Browser(team[actor].email).cookie());
  const init: RequestInit = { method, headers, redirect: "manual" };
  if (method !== "GET") {
    const isForm = !path.startsWith("/operator/") && !path.startsWith("/api/");
    headers.set("content-type", isForm ? "application/x-www-form-urlencoded" : "application/json");
    init.body = "";
  }
  const answer = await call(pathFor(path, actor) + (QUERY[path] ?? ""), init);
  await answer.body?.cancel();
  return answer.status;
}

test("every route is in the access table, and every row of the table is a route", () => {
  const names = routes().map(({ name }) => name);
  expect(Object.keys(ACCESS).toSorted()).toEqual(names.toSorted());
});

test.each(routes().map((route) => [route.name, route] as const))(
  "%s answers each actor as its row says",
  async (_, route) => {
    const statuses: number[] = [];
    for (const actor of ACTORS) statuses.push(await statusFor(route, actor));
    expect(statuses.join(" ")).toBe(ACCESS[route.name]);
  },
);

test("refused callers leave nothing in the activity log", async () => {
  const { results } = await env.DB.prepare("SELECT DISTINCT actor FROM audit_log WHERE workspace_id = ?")
    .bind(team.workspace.id)
    .all<{ actor: string }>();
  expect(results.map(({ actor }) => actor).toSorted()).toEqual(
    ["operator", team.admin.email, team.owner.email].toSorted(),
  );
});
