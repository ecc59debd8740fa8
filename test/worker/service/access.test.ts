/**
 * Access: calls every route of the Worker anonymously, as the owner of another workspace, in each role and with the
 * operator token. API tokens of each scope, and of another workspace, call every route too. The routes come from the
 * routers; a route without a row here fails.
 */
import { env } from "cloudflare:workers";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { TOKEN_SCOPES, type TokenScope } from "../../../src/domain/keys/api-token.ts";
import { ingestApp } from "../../../src/ingest/routes.ts";
import { otherRoutes } from "../../../src/operator-and-pages.ts";
import { ACCESS } from "../../support/access.ts";
import { stopClock } from "../../support/clock.ts";
import { expectLogged } from "../../support/logged.ts";
import { newMembers, Browser, type Members } from "../../support/members.ts";
import { call, newPlan, newWorkspace } from "../../support/workspace.ts";

const ACTORS = ["nobody", "stranger", "member", "admin", "owner", "operator"] as const;
/** `program`: an API token. */
const SUBJECTS = [...ACTORS, "program"] as const;
type Actor = (typeof SUBJECTS)[number];

/** Values of path parameters: records of this workspace, separate ones for each actor. */
type Subject = Record<string, string>;

let team: Members;
let subjects: Map<Actor, Subject>;
/** An API token of each scope, one with all scopes, and one of another workspace with all scopes. */
let tokens: Record<TokenScope | "all" | "foreign", string>;

beforeAll(async () => {
  team = await newMembers();
  const { workspace } = team;
  await workspace.send({ event: "Visit", email: "gone@example.com" });
  for (const actor of SUBJECTS) await workspace.send({ event: "Visit", email: `of-${actor}@example.com` });
  await workspace.settled();
  const { items } = await workspace.operator<{ items: { id: string }[] }>("GET", "/signals");
  const deletion = await workspace.operator<{ id: string }>("DELETE", "/people/gone@example.com");
  subjects = new Map();
  for (const actor of SUBJECTS) subjects.set(actor, await newSubject(actor, items[0]?.id ?? "", deletion.id));
  const [read, rules, keys, exports, deletes] = await Promise.all(
    TOKEN_SCOPES.map(async (scope) => (await workspace.newToken([scope])).token),
  );
  const all = await workspace.newToken(TOKEN_SCOPES);
  const foreign = await (await newWorkspace({ key: null })).newToken(TOKEN_SCOPES);
  const ofScopes = { read, rules, keys, export: exports, delete: deletes } as Record<TokenScope, string>;
  tokens = { ...ofScopes, all: all.token, foreign: foreign.token };
});

/** The calls of a test use the workspace's share of pages and API calls. Some seconds later it is full again. */
let nowMs = Date.now();
beforeEach(() => stopClock((nowMs += 10_000)));

async function newSubject(actor: Actor, signalId: string, deletionId: string): Promise<Subject> {
  const { workspace, slug } = team;
  const rule = { name: actor, event: "Never", scoring_signal: "never", points: 1 };
  const destination = {
    name: actor,
    type: "webhook",
    target: "https://receiver.example.com/in",
    notifications: ["period.closed"],
  };
  const email = `of-${actor}@example.com`;
  await workspace.operator("POST", "/members", { email, role: "member" });
  const [{ id: key }, { id: token }, made, { id: destinationId }] = [
    await workspace.newKey(),
    await workspace.newToken(["read"]),
    await workspace.operator<{ id: string }>("POST", "/rules", rule),
    await workspace.operator<{ id: string }>("POST", "/destinations", destination),
  ];
  return {
    slug,
    workspace_id: workspace.id,
    key_id: key,
    token_id: token,
    rule_id: made.id,
    email,
    person_email: email,
    id: destinationId,
    destination_id: destinationId,
    delivery_id: "whd_none",
    export_id: "exp_none",
    entry: "none",
    part: "1",
    deletion_id: deletionId,
    exclusion_id: "exc_none",
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
  const headers = new Headers();
  if (actor === "operator") headers.set("authorization", `Bearer ${env.OPERATOR_TOKEN}`);
  // Sign in again for each route, because one of them signs out.
  else if (actor !== "nobody" && actor !== "program") {
    headers.set("cookie", await new Browser(team[actor].email).cookie());
  }
  return (await answerTo({ method, path }, actor, headers)).status;
}

async function answerTo({ method, path }: Pick<Route, "method" | "path">, actor: Actor, headers: Headers) {
  headers.set("cf-connecting-ip", crypto.randomUUID());
  headers.set("origin", "https://signals.example");
  const init: RequestInit = { method, headers, redirect: "manual" };
  if (method !== "GET") {
    const isForm = !path.startsWith("/operator/") && !path.startsWith("/api/");
    headers.set("content-type", isForm ? "application/x-www-form-urlencoded" : "application/json");
    init.body = "";
  }
  const answer = await call(pathFor(path, actor) + (QUERY[path] ?? ""), init);
  return { status: answer.status, text: await answer.text() };
}

/** The status and the code of the answer to an API token. */
async function withToken(route: Route, token: string): Promise<string> {
  const { status, text } = await answerTo(route, "program", new Headers({ authorization: `Bearer ${token}` }));
  const { code = "", scope = "" } = status < 400 ? {} : (JSON.parse(text) as { code?: string; scope?: string });
  return [status, ...(status === 403 || status === 404 ? [code, scope] : [])].join(" ").trim();
}

/** The statuses of a row, and the scope of a route of the operator API. */
function rowOf({ name }: Route): { statuses: string[]; scope: string | undefined } {
  const words = ACCESS[name]?.split(" ") ?? [];
  return { statuses: words.slice(0, ACTORS.length), scope: words[ACTORS.length] };
}

test("every route is in the access table, and every row of the table is a route", () => {
  const names = routes().map(({ name }) => name);
  expect(Object.keys(ACCESS).toSorted()).toEqual(names.toSorted());
});

test.each(routes().map((route) => [route.name, route] as const))(
  "%s answers each actor as its row says",
  async (_, route) => {
    expectLogged("sign_in_failed");
    const statuses: number[] = [];
    for (const actor of ACTORS) statuses.push(await statusFor(route, actor));
    expect(statuses.map(String)).toEqual(rowOf(route).statuses);
  },
);

const isOfOperatorApi = ({ path }: Route) => path.startsWith("/operator/");

test.each(
  routes()
    .filter(isOfOperatorApi)
    .map((route) => [route.name, route] as const),
)("%s answers an API token with the scope of its row, and no other token", async (_, route) => {
  const { statuses, scope } = rowOf(route);
  const isOfWorkspace = route.path.includes("/:workspace_id");
  const rejection = scope === "none" ? "403 operator_only" : `403 insufficient_scope ${scope}`;
  expect(await withToken(route, tokens.foreign)).toBe(isOfWorkspace ? "404 not_found" : rejection);
  for (const wrong of TOKEN_SCOPES.filter((name) => name !== scope))
    expect(await withToken(route, tokens[wrong]), wrong).toBe(rejection);
  if (scope === "none") expect(await withToken(route, tokens.all)).toBe(rejection);
  else expect((await withToken(route, tokens[scope as TokenScope])).split(" ")[0]).toBe(statuses.at(-1));
});

test.each(
  routes()
    .filter((route) => !isOfOperatorApi(route))
    .map((route) => [route.name, route] as const),
)("%s answers a program with an API token like a stranger", async (_, route) => {
  expectLogged("sign_in_failed");
  const headers = new Headers({ authorization: `Bearer ${tokens.all}` });
  expect(String((await answerTo(route, "program", headers)).status)).toBe(rowOf(route).statuses[0]);
});

test("rejected callers leave nothing in the activity log", async () => {
  const { results } = await env.DB.prepare("SELECT DISTINCT actor FROM audit_log WHERE workspace_id = ?")
    .bind(team.workspace.id)
    .all<{ actor: string }>();
  const people = ["operator", team.admin.email, team.owner.email];
  const programs = results.map(({ actor }) => actor).filter((actor) => actor.startsWith("token "));
  expect(results.map(({ actor }) => actor).toSorted()).toEqual([...people, ...programs].toSorted());
  // Tokens with other scopes than `read` have made changes in their name.
  expect(programs).toHaveLength(TOKEN_SCOPES.length - 1);
});
