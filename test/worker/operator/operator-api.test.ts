/** Design §9: the operator API on the real D1 and Durable Objects; keys and members by spec §2.1, §3.1 and §5.6. */
import { createExecutionContext } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { controlDatabase } from "../../../src/control/database.ts";
import { Hono } from "hono";
import { findKeyFacts } from "../../../src/control/key-facts.ts";
import { digestHex } from "../../../src/platform/hashes.ts";
import { findKey, listKeys } from "../../../src/control/api-keys.ts";
import { endKey } from "../../../src/workspace/manage-keys.ts";
import type { AppEnv } from "../../../src/env.ts";
import { AUTH_FAILURES_PER_MINUTE } from "../../../src/http/auth-failures.ts";
import { requestLog } from "../../../src/http/request-log.ts";
import { createKey } from "../../../src/control/new-keys.ts";
import { loadRules, rulesVersion } from "../../../src/control/stored-rules.ts";
import worker from "../../../src/index.ts";
import { d1Failing } from "../../support/faults.ts";
import { validationFailed } from "../../../src/operator/operation.ts";
import { until } from "../../support/until.ts";

const ORIGIN = "https://signals.example";
const db = controlDatabase(env.DB);

type Json = Record<string, unknown>;
interface Answer {
  status: number;
  headers: Headers;
  body: Json;
}

async function call(
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const request = new Request(`${ORIGIN}${path}`, {
    method,
    headers: { authorization: "Bearer test-operator", ...headers },
    body: body === undefined ? null : typeof body === "string" ? body : JSON.stringify(body),
  });
  const response = await exports.default.fetch(request);
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === "" ? {} : (JSON.parse(text) as Json) };
}

const get = (path: string) => call("GET", path);
const post = (path: string, body?: unknown) => call("POST", path, body);
const patch = (path: string, body?: unknown) => call("PATCH", path, body);
const put = (path: string, body?: unknown) => call("PUT", path, body);
const del = (path: string) => call("DELETE", path);

let created = 0;
/** A new workspace, as its path. */
async function newWorkspace(fields: Json = {}): Promise<string> {
  const answer = await post("/operator/workspaces", { slug: `ws-${++created}`, name: "Acme", plan: "free", ...fields });
  expect(answer.status, JSON.stringify(answer.body)).toBe(201);
  return `/operator/workspaces/${String(answer.body["id"])}`;
}

const idOf = (workspace: string) => workspace.split("/").at(-1) ?? "";
const items = (answer: Answer) => answer.body["items"] as Json[];
const errors = (answer: Answer) => answer.body["errors"] as { path: string; message: string }[];
/** Fields that a 422 names. */
function complaints(answer: Answer): string[] {
  expect(answer.status, JSON.stringify(answer.body)).toBe(422);
  expect(answer.body["code"]).toBe("validation_failed");
  return errors(answer).map((error) => error.path);
}

async function auditOf(workspace: string): Promise<string[]> {
  const { results } = await env.DB.prepare("select action from audit_log where workspace_id = ? order by id")
    .bind(idOf(workspace))
    .all<{ action: string }>();
  return results.map((row) => row.action);
}

function sendSignal(key: string, headers: Record<string, string> = {}): Promise<Response> {
  return exports.default.fetch(
    new Request(`${ORIGIN}/api/signal-staging/webhook/${key}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ email: "jane@example.com", event: "Filled Out Form" }),
    }),
  );
}

describe("authorisation", () => {
  test.each([
    ["no token", {}],
    ["a wrong token", { authorization: "Bearer test-operatos" }],
    ["an empty token", { authorization: "Bearer " }],
    ["another scheme", { authorization: "Basic test-operator" }],
  ])("%s is a 401 that asks for a bearer token", async (_, headers) => {
    const response = await exports.default.fetch(new Request(`${ORIGIN}/operator/workspaces`, { headers }));
    expect(response.status).toBe(401);
    expect(response.headers.get("www-authenticate")).toMatch(/^Bearer\b/);
    expect(response.headers.get("content-type")).toBe("application/problem+json");
    expect(await response.json()).toMatchObject({ code: "operator_unauthorized", status: 401 });
  });

  test.each([[undefined], [""]])("without the secret (%j) the routes do not exist", async (token) => {
    const { operatorRoutes } = await import("../../../src/operator/operator-api.ts");
    const app = new Hono<AppEnv>().route("/operator", operatorRoutes);
    const bare = { ...env, OPERATOR_TOKEN: token };
    for (const authorization of ["Bearer ", "Bearer undefined", "Bearer x"]) {
      const response = await app.request("/operator/workspaces", { headers: { authorization } }, bare);
      expect(response.status).toBe(404);
    }
  });

  test("accepts two tokens during an exchange, and a single one otherwise", async () => {
    const { operatorRoutes } = await import("../../../src/operator/operator-api.ts");
    const app = new Hono<AppEnv>().use(requestLog).route("/operator", operatorRoutes);
    const status = async (tokens: object, token: string) => {
      const headers = { authorization: `Bearer ${token}` };
      return (await app.request("/operator/workspaces", { headers }, { ...env, ...tokens })).status;
    };
    const both = { OPERATOR_TOKEN: "old", OPERATOR_TOKEN_NEXT: "new" };
    for (const token of ["old", "new"]) expect(await status(both, token)).toBe(200);
    for (const token of ["oldnew", "old,new", "undefined"]) expect(await status(both, token)).toBe(401);
    const changed = { OPERATOR_TOKEN: "new", OPERATOR_TOKEN_NEXT: undefined };
    expect([await status(changed, "new"), await status(changed, "old")]).toEqual([200, 401]);
    for (const nothing of ["", undefined]) {
      const onlyNext = { OPERATOR_TOKEN: nothing, OPERATOR_TOKEN_NEXT: "new" };
      expect([await status(onlyNext, "new"), await status(onlyNext, "x")]).toEqual([200, 401]);
    }
    expect(await status({ ...both, OPERATOR_TOKEN_NEXT: "" }, "new")).toBe(401);
  });

  test("limits wrong tokens by network with a 429, and still accepts the right one", async () => {
    const tryToken = (token: string, address = "198.51.100.7") =>
      call("GET", "/operator/plans", undefined, { authorization: `Bearer ${token}`, "cf-connecting-ip": address });
    let limited: Answer | undefined;
    for (let tries = 0; tries < 650 && limited === undefined; tries += 25) {
      const answers = await Promise.all(Array.from({ length: 25 }, (_, n) => tryToken(`guess-${tries + n}`)));
      for (const { status } of answers) expect([401, 429]).toContain(status);
      limited = answers.find(({ status }) => status === 429);
    }
    expect(limited).toMatchObject({ status: 429, body: { code: "rate_limited" } });
    expect(Number(limited?.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    expect(limited?.body["detail"]).toContain(`More than ${AUTH_FAILURES_PER_MINUTE} wrong tokens`);
    expect((await tryToken("test-operator")).status).toBe(200);
    expect((await tryToken("guess", "198.51.100.8")).status).toBe(401);
    expect((await tryToken("")).status).toBe(401);
  });

  test("answers 404 for an unknown path, and 405 with the allowed methods for a wrong method", async () => {
    expect(await get("/operator/nothing")).toMatchObject({ status: 404, body: { code: "not_found" } });
    const workspace = await newWorkspace();
    expect((await get(`${workspace}/nothing`)).status).toBe(404);
    const answer = await put("/operator/workspaces", {});
    expect(answer).toMatchObject({ status: 405, body: { code: "method_not_allowed" } });
    expect(answer.headers.get("allow")?.split(", ").sort()).toEqual(["GET", "HEAD", "POST"]);
    expect((await put(workspace, {})).headers.get("allow")?.split(", ").sort()).toEqual(["GET", "HEAD", "PATCH"]);
  });

  test("puts type, title, status, detail, code and request id into every problem", async () => {
    const answer = await get("/operator/workspaces/ws_nobody");
    expect(answer.body).toEqual({
      type: "/docs#not_found",
      title: "Not found",
      status: 404,
      detail: "There is no such workspace.",
      code: "not_found",
      request_id: answer.headers.get("x-request-id"),
    });
  });
});

test("logs a failed query without its parameters", async () => {
  const log = vi.spyOn(console, "log").mockImplementation(() => {});
  const bindings = { ...env, DB: d1Failing(/from "workspaces"/, "D1_ERROR: out of order") };
  const authorization = `Bearer ${env.OPERATOR_TOKEN}`;
  const request = new Request("https://signals.example/operator/workspaces/ws_jane-at-home", {
    headers: { authorization },
  });
  const answer = await worker.fetch(request, bindings, createExecutionContext());
  const lines = log.mock.calls.flat().join("\n");
  log.mockRestore();
  expect(answer.status).toBe(503);
  expect(lines).toContain("D1_ERROR: out of order");
  expect(lines).not.toContain("jane-at-home");
});

describe("plans", () => {
  const UNSET = { retention_days: null, offered_to: null, overage_price: null };

  test("are seeded; only the free one is unpaid", async () => {
    const plans = items(await get("/operator/plans"));
    expect(plans).toEqual(
      expect.arrayContaining([
        { id: "free", name: "Free", signal_limit: 1_000, paid: false, ...UNSET },
        { id: "starter", name: "Starter", signal_limit: 50_000, paid: true, ...UNSET },
        { id: "growth", name: "Growth", signal_limit: 500_000, paid: true, ...UNSET },
        { id: "scale", name: "Scale", signal_limit: 5_000_000, paid: true, ...UNSET },
      ]),
    );
  });

  test("are created (201) and replaced (200) by PUT", async () => {
    const plan = { name: "Tiny", signal_limit: 5, paid: true, retention_days: 90, offered_to: [], overage_price: null };
    expect(await put("/operator/plans/tiny", plan)).toMatchObject({ status: 201, body: { id: "tiny", ...plan } });
    expect(await put("/operator/plans/tiny", { ...plan, paid: false })).toMatchObject({ status: 200 });
    expect(items(await get("/operator/plans"))).toContainEqual({ id: "tiny", ...plan, paid: false });
  });

  test("take the price of overages from PUT, and lose it if it is omitted", async () => {
    const plan = { name: "Priced", signal_limit: 5, paid: true };
    const price = { overage_price: { per_thousand: 0.4, currency: "EUR" } };
    expect(await put("/operator/plans/priced", { ...plan, ...price })).toMatchObject({ status: 201, body: price });
    expect(items(await get("/operator/plans"))).toContainEqual({ id: "priced", ...plan, ...UNSET, ...price });
    expect(await put("/operator/plans/priced", plan)).toMatchObject({ body: { overage_price: null } });
  });

  test("apply a changed limit to every workspace on the plan, and to no other", async () => {
    await put("/operator/plans/shared", { name: "Shared", signal_limit: 10, paid: true });
    const on = await Promise.all(Array.from({ length: 23 }, () => newWorkspace({ plan: "shared" })));
    const otherWorkspace = await newWorkspace();
    await put("/operator/plans/shared", { name: "Shared", signal_limit: 77, paid: true });
    for (const workspace of on) expect((await get(`${workspace}/usage`)).body["signal_limit"]).toBe(77);
    expect((await get(`${otherWorkspace}/usage`)).body["signal_limit"]).toBe(1_000);
  });

  test.each([
    ["a limit of zero", { signal_limit: 0 }, ["signal_limit"]],
    ["a limit with a fraction", { signal_limit: 1.5 }, ["signal_limit"]],
    ["a limit as text", { signal_limit: "10" }, ["signal_limit"]],
    ["an unknown field", { price: 3 }, ["price"]],
    ["no name", { name: "  " }, ["name"]],
    ["a currency in words", { overage_price: { per_thousand: 1, currency: "Euro" } }, ["overage_price.currency"]],
    ["a price below nothing", { overage_price: { per_thousand: -1, currency: "EUR" } }, ["overage_price.per_thousand"]],
    ["a workspace that does not exist", { offered_to: ["ws_no-such-one"] }, ["offered_to"]],
  ])("%s is a 422 that names the field", async (_, change, fields) => {
    expect(
      complaints(await put("/operator/plans/odd", { name: "Odd", signal_limit: 1, paid: true, ...change })),
    ).toEqual(fields);
  });

  test("refuse an id that is not a slug", async () => {
    expect(complaints(await put("/operator/plans/Not%20This", { name: "Odd", signal_limit: 1, paid: true }))).toEqual([
      "plan_id",
    ]);
  });
});

describe("workspaces", () => {
  test("return the same record on creation and later", async () => {
    const answer = await post("/operator/workspaces", {
      slug: "record",
      name: " Acme & Sons ",
      plan: "growth",
      overages: true,
      anchor: "2026-01-31T10:30:00+02:00",
    });
    expect(answer.status).toBe(201);
    expect(answer.body).toEqual({
      id: expect.stringMatching(/^ws_[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
      slug: "record",
      name: "Acme & Sons",
      plan: "growth",
      overages: true,
      anchor: "2026-01-31T08:30:00.000Z",
      created_at: expect.stringMatching(/^\d{4}-.*Z$/),
      retention_days: null,
    });
    expect((await get(`/operator/workspaces/${String(answer.body["id"])}`)).body).toEqual(answer.body);
    expect(items(await get("/operator/workspaces?limit=200"))).toContainEqual(answer.body);
  });

  test("configure the Quota Counter with plan, overages and anchor at once", async () => {
    const workspace = await newWorkspace({ plan: "starter", overages: true, anchor: "2020-01-15T06:00:00Z" });
    const usage = (await get(`${workspace}/usage`)).body;
    expect(usage).toMatchObject({
      signal_limit: 50_000,
      overages: true,
      accepted: 0,
      held: 0,
      rejected: 0,
      history: [],
    });
    expect(usage["period_start"]).toMatch(/-15T06:00:00\.000Z$/);
    expect(usage["period_end"]).toMatch(/-15T06:00:00\.000Z$/);
  });

  test("refuse a taken slug with a 409 and store nothing", async () => {
    await newWorkspace({ slug: "taken" });
    const before = await env.DB.prepare("select count(*) as n from audit_log").first("n");
    expect(await post("/operator/workspaces", { slug: "taken", name: "B", plan: "free" })).toMatchObject({
      status: 409,
      body: { code: "slug_taken" },
    });
    expect(await env.DB.prepare("select count(*) as n from audit_log").first("n")).toBe(before);
  });

  test("name every invalid and every unknown field", async () => {
    const answer = await post("/operator/workspaces", {
      slug: "No Slug",
      name: "",
      anchor: "yesterday",
      colour: "red",
    });
    expect(complaints(answer).sort()).toEqual(["anchor", "colour", "name", "plan", "slug"]);
    expect(complaints(await post("/operator/workspaces", { slug: "x", name: "X", plan: "no-such-plan" }))).toEqual([
      "plan",
    ]);
    expect(complaints(await post("/operator/workspaces", [1]))).toEqual([""]);
  });

  test("name at most one hundred unknown fields, without API keys and with shortened names", async () => {
    const key = "sk_0123456789abcdefghijABCDEFGHIJ0123456789";
    const answer = await post("/operator/workspaces", { [key]: 1, ["x".repeat(9_000)]: 1 });
    expect(complaints(answer)).toEqual(["slug", "name", "plan", "•••", `${"x".repeat(60)}…`]);
    expect(JSON.stringify(answer)).not.toContain(key.slice(0, 12));
    const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, nth) => [`field_${nth}`, nth]));
    expect(complaints(await post("/operator/workspaces", many))).toHaveLength(100);
  });

  test("answer 400 for a body that is not JSON", async () => {
    for (const body of ["{", "slug=acme"]) {
      expect(await post("/operator/workspaces", body)).toMatchObject({ status: 400, body: { code: "body_not_json" } });
    }
  });

  test("treat a missing body as an empty object and name the required fields", async () => {
    const answer = await post("/operator/workspaces", "");
    expect(answer).toMatchObject({ status: 422, body: { code: "validation_failed" } });
    expect(complaints(answer)).toEqual(["slug", "name", "plan"]);
  });

  test("answer 413 for a body over the limit", async () => {
    const answer = await post("/operator/workspaces", { name: "x".repeat(1024 * 1024) });
    expect(answer).toMatchObject({ status: 413, body: { code: "body_too_large" } });
  });

  test("answer 413 with the limit for a body with too many values or levels, before parsing it", async () => {
    const workspace = await newWorkspace();
    const tooMany = await post(`${workspace}/rules/import`, `{"items":[${"1,".repeat(2_000_000)}1]}`);
    expect(tooMany).toMatchObject({ status: 413, body: { code: "body_too_large" } });
    expect(tooMany.body["detail"]).toContain("at most 50,000 values");
    const tooDeep = await post("/operator/workspaces", `{"a":${"[".repeat(64)}${"]".repeat(64)}}`);
    expect(tooDeep).toMatchObject({ status: 413, body: { code: "body_too_large" } });
    expect(tooDeep.body["detail"]).toContain("at most 64 levels");
    expect((await post(`${workspace}/rules/import`, "[".repeat(4_000_000))).status).toBe(413);
  });

  test("accept a file with the maximum number of rules and conditions", async () => {
    const rule = {
      id: "rule_1",
      event: "e",
      match: "all",
      scoring_signal: "s",
      points: 1,
      frequency: "every_time",
      enabled: true,
      version: 1,
      created_at: "x",
      updated_at: "x",
      updated_by: "x",
    };
    // Relative to the size limit of a workspace's rules, a condition with a value has the most commas and brackets.
    const conditions = Array.from({ length: 5 }, () => ({ path: "source", operator: "in", value: ["x"] }));
    const rules = Array.from({ length: 1_000 }, (_, n) => ({ ...rule, name: `r${n}`, conditions }));
    const answer = await post(`${await newWorkspace()}/rules/import?dry_run=true`, { items: rules });
    expect(answer.status, JSON.stringify(answer.body).slice(0, 500)).toBe(200);
  });

  test("answer a body with very many invalid fields quickly and briefly", async () => {
    const names = Array.from({ length: 45_000 }, (_, n) => `f${n}`);
    const unknown = (fields: string[]) => Object.fromEntries(fields.map((name) => [name, 1]));
    const workspace = await newWorkspace();
    const started = performance.now();
    for (const answer of [
      await post("/operator/workspaces", unknown(names)),
      await post("/operator/workspaces", unknown(names.slice(0, 200).map((name) => name + "\u0001".repeat(800)))),
      await post(`${workspace}/rules/import`, {
        items: Array.from({ length: 1_000 }, () => unknown(names.slice(0, 40))),
      }),
      await post(`${workspace}/rules/import`, { items: Array(40_000).fill(1) }),
    ]) {
      expect(complaints(answer).length).toBeLessThanOrEqual(100);
      expect(JSON.stringify(answer.body).length).toBeLessThan(100_000);
    }
    const context = { get: (name: string) => (name === "requestId" ? "req_1" : {}) };
    const longest = Array.from({ length: 1_000 }, () => ({
      path: "\u0001".repeat(300),
      message: "\u0001".repeat(500),
    }));
    const text = await validationFailed(context as unknown as Parameters<typeof validationFailed>[0], longest).text();
    expect(text.length).toBeLessThan(100_000);
    // Four answers of some tens of milliseconds each.
    const ms = performance.now() - started;
    process.stdout.write(`very many wrong fields: ${ms.toFixed(0)} ms for four answers\n`);
    expect(ms).toBeLessThan(10_000);
  });

  test("accept gzip; answer 400 for invalid compression and 413 for too much unpacked data", async () => {
    const send = async (body: ArrayBuffer) => {
      const headers = { authorization: "Bearer test-operator", "content-encoding": "gzip" };
      return exports.default.fetch(new Request(`${ORIGIN}/operator/workspaces`, { method: "POST", headers, body }));
    };
    const gzip = async (text: string) =>
      new Response(new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"))).arrayBuffer();
    expect((await send(await gzip("{}"))).status).toBe(422);
    expect((await send(await gzip(" ".repeat(2_000_000)))).status).toBe(413);
    expect((await send(new ArrayBuffer(20))).status).toBe(400);
  });

  test("apply plan and overages at once; omitted fields keep their value", async () => {
    const workspace = await newWorkspace({ name: "Before" });
    expect(await patch(workspace, { plan: "growth" })).toMatchObject({
      status: 200,
      body: { plan: "growth", name: "Before" },
    });
    expect((await get(`${workspace}/usage`)).body).toMatchObject({ signal_limit: 500_000, overages: false });
    await patch(workspace, { overages: true });
    expect((await get(`${workspace}/usage`)).body).toMatchObject({ signal_limit: 500_000, overages: true });
    expect((await patch(workspace, { name: "After" })).body).toMatchObject({
      plan: "growth",
      overages: true,
      name: "After",
    });
    // A change without effect is repeated at the objects, where it may have failed, and leaves no entry.
    expect(await patch(workspace, { plan: "growth", overages: true, name: "After" })).toMatchObject({ status: 200 });
    expect(complaints(await patch(workspace, { slug: "other" }))).toEqual(["slug"]);
    expect(complaints(await patch(workspace, { plan: "no-such-plan" }))).toEqual(["plan"]);
    expect(await auditOf(workspace)).toEqual(["workspace.created", ...Array(3).fill("workspace.updated")]);
  });

  test("configure an unconfigured counter when usage is requested", async () => {
    await env.DB.prepare(
      "insert into workspaces (id, slug, name, plan_id, anchor, created_at) values ('ws_bare', 'bare', 'B', 'starter', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z')",
    ).run();
    expect(await get("/operator/workspaces/ws_bare/usage")).toMatchObject({
      status: 200,
      body: { signal_limit: 50_000 },
    });
  });

  test("are listed page by page without gaps or repetitions", async () => {
    const all = items(await get("/operator/workspaces?limit=200")).map((workspace) => workspace["id"]);
    const seen: unknown[] = [];
    let next: string | null = null;
    do {
      const query: string = next === null ? "" : `&cursor=${encodeURIComponent(next)}`;
      const answer = await get(`/operator/workspaces?limit=7${query}`);
      expect(items(answer).length).toBeLessThanOrEqual(7);
      seen.push(...items(answer).map((workspace) => workspace["id"]));
      next = answer.body["next"] as string | null;
    } while (next !== null);
    expect(seen).toEqual(all);
    expect((await get(`/operator/workspaces?limit=${all.length}`)).body["next"]).toBeNull();
    expect(all.length).toBeGreaterThan(20);
  });

  test.each(["limit=0", "limit=201", "limit=ten", "limit="])("?%s is a 422", async (query) => {
    expect(complaints(await get(`/operator/workspaces?${query}`))).toEqual(["limit"]);
  });

  test("name an unknown query parameter", async () => {
    expect(complaints(await get("/operator/workspaces?page=2"))).toEqual(["page"]);
  });
});

describe("§5.6 members", () => {
  test("are added, listed by email, changed and removed, each with an audit entry", async () => {
    const workspace = await newWorkspace();
    const added = await post(`${workspace}/members`, { email: " Olga@Example.com ", role: "owner" });
    expect(added).toMatchObject({ status: 201, body: { email: "olga@example.com", role: "owner" } });
    await post(`${workspace}/members`, { email: "adam@example.com", role: "member" });
    expect(items(await get(`${workspace}/members`)).map((member) => member["email"])).toEqual([
      "adam@example.com",
      "olga@example.com",
    ]);
    expect(await patch(`${workspace}/members/adam@example.com`, { role: "admin" })).toMatchObject({
      status: 200,
      body: { email: "adam@example.com", role: "admin" },
    });
    expect((await del(`${workspace}/members/Adam%40example.com`)).status).toBe(204);
    expect(items(await get(`${workspace}/members`))).toEqual([added.body]);
    expect(await auditOf(workspace)).toEqual([
      "workspace.created",
      "member.added",
      "member.added",
      "member.role_changed",
      "member.removed",
    ]);
  });

  test("have one entry per address", async () => {
    const workspace = await newWorkspace();
    await post(`${workspace}/members`, { email: "a@example.com", role: "owner" });
    const again = await post(`${workspace}/members`, { email: "A@example.com", role: "member" });
    expect(again).toMatchObject({ status: 409, body: { code: "email_taken" } });
    expect(items(await get(`${workspace}/members`))).toMatchObject([{ role: "owner" }]);
    expect(await auditOf(workspace)).toEqual(["workspace.created", "member.added"]);
  });

  test("cannot have an address that looks like another one", async () => {
    const workspace = await newWorkspace();
    for (const email of [
      "\u212Aevin@example.com",
      "jane@example\uFF0Ecom",
      "jane\u200B@example.com",
      "j\u0430ne@example.com",
      "https://evil.example/@x.co",
      "jane",
    ]) {
      expect(complaints(await post(`${workspace}/members`, { email, role: "owner" }))).toEqual(["email"]);
    }
    expect(items(await get(`${workspace}/members`))).toEqual([]);
  });

  test("always include an owner: the last one can neither leave nor lose the role", async () => {
    const workspace = await newWorkspace();
    await post(`${workspace}/members`, { email: "only@example.com", role: "owner" });
    await post(`${workspace}/members`, { email: "admin@example.com", role: "admin" });
    for (const answer of [
      await del(`${workspace}/members/only@example.com`),
      await patch(`${workspace}/members/only@example.com`, { role: "admin" }),
    ]) {
      expect(answer).toMatchObject({ status: 409, body: { code: "last_owner" } });
    }
    expect((await patch(`${workspace}/members/only@example.com`, { role: "owner" })).status).toBe(200);
    await patch(`${workspace}/members/admin@example.com`, { role: "owner" });
    expect((await del(`${workspace}/members/only@example.com`)).status).toBe(204);
  });

  test("include one owner after two owners leave at the same time", async () => {
    const workspace = await newWorkspace();
    for (const name of ["a", "b"]) await post(`${workspace}/members`, { email: `${name}@example.com`, role: "owner" });
    const answers = await Promise.all(["a", "b"].map((name) => del(`${workspace}/members/${name}@example.com`)));
    expect(answers.map((answer) => answer.status).sort()).toEqual([204, 409]);
  });

  test("answer 404 for an unknown member and 422 for an invalid address or role", async () => {
    const workspace = await newWorkspace();
    expect((await del(`${workspace}/members/nobody@example.com`)).status).toBe(404);
    expect((await patch(`${workspace}/members/nobody@example.com`, { role: "admin" })).status).toBe(404);
    expect(complaints(await post(`${workspace}/members`, { email: "no address", role: "king" })).sort()).toEqual([
      "email",
      "role",
    ]);
  });
});

describe("§2.1 API keys", () => {
  test("forbid caching of every answer, including that to a rotation", async () => {
    const workspace = await newWorkspace();
    const first = await post(`${workspace}/keys`, { name: "Website" });
    const rotated = await post(`${workspace}/keys/${String(first.body["id"])}/rotate`, { overlap: "1h" });
    expect(rotated.body["key"]).toMatch(/^sk_/);
    const answers = [first, rotated, await get(`${workspace}/people`), await get(`${workspace}/nothing`)];
    for (const { status, headers } of answers)
      expect([status, headers.get("cache-control")]).toEqual([status, "no-store"]);
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 200, 404]);
  });

  test("show the full key and the secret once, at creation", async () => {
    const workspace = await newWorkspace();
    const answer = await post(`${workspace}/keys`, { name: "Website", secret: true });
    expect(answer.status).toBe(201);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    const { key, secret, ...record } = answer.body;
    expect(key).toMatch(/^sk_[0-9A-Za-z]{40}$/);
    expect(secret).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(record).toEqual({
      id: expect.stringMatching(/^key_/),
      name: "Website",
      endpoint_type: "signal_staging",
      masked_key: `${String(key).slice(0, 8)}…${String(key).slice(-4)}`,
      created_at: expect.stringMatching(/Z$/),
      expires_at: null,
      status: "Active",
      last_used_at: null,
      deactivated_at: null,
      has_secret: true,
      payload_template: null,
      silent_after_days: null,
      successor_of: null,
    });
    expect(items(await get(`${workspace}/keys`))).toEqual([record]);
  });

  test("are stored as hashes only, like their secrets", async () => {
    const workspace = await newWorkspace();
    const { key, secret } = (await post(`${workspace}/keys`, { name: "K", secret: true })).body;
    const tables = ["plans", "workspaces", "members", "api_keys", "mapping_rules", "audit_log"];
    const rows = await Promise.all(tables.map((table) => env.DB.prepare(`select * from ${table}`).all()));
    const everything = JSON.stringify(rows.map((result) => result.results));
    expect(everything).not.toContain(String(key));
    expect(everything).not.toContain(String(key).slice(8, -4));
    expect(everything).not.toContain(String(secret));
    expect(everything).toContain(await digestHex(String(key)));
    expect(everything).toContain(await digestHex(String(secret)));
  });

  test("have no secret without `secret: true`", async () => {
    const { body } = await post(`${await newWorkspace()}/keys`, { name: "K" });
    expect(body).not.toHaveProperty("secret");
    expect(body["has_secret"]).toBe(false);
  });

  test("work at once and show their last use", async () => {
    const workspace = await newWorkspace();
    const { key, secret } = (await post(`${workspace}/keys`, { name: "K", secret: true })).body;
    expect((await sendSignal(String(key))).status).toBe(401);
    const before = Date.now();
    expect((await sendSignal(String(key), { "x-api-secret": String(secret) })).status).toBe(202);
    const [listed] = items(await get(`${workspace}/keys`));
    expect(Date.parse(String(listed?.["last_used_at"]))).toBeGreaterThanOrEqual(before);
  });

  test("are found by their hash with the facts that the edge caches", async () => {
    const workspace = await newWorkspace();
    const expiresAt = new Date(Date.now() + 60_000).toISOString();
    const { body } = await post(`${workspace}/keys`, { name: "K", secret: true, expires_at: expiresAt });
    const { facts } = await findKeyFacts(env.DB, await digestHex(String(body["key"])));
    const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(String(body["secret"])));
    expect(facts).toEqual({
      keyId: body["id"],
      workspaceId: idOf(workspace),
      endpointType: "signal_staging",
      secretHash: new Uint8Array(hash),
      endsAtMs: Date.parse(expiresAt),
      payloadTemplate: null,
      configVersion: expect.any(Number),
    });
    expect((await findKeyFacts(env.DB, await digestHex("sk_unknown"))).facts).toBeNull();
  });

  test("are listed as Inactive after they expire", async () => {
    const workspace = await newWorkspace();
    const by = { actor: "operator", nowMs: Date.now() };
    const key = { name: "K", endpointType: "signal_staging", secret: false, payloadTemplate: null } as const;
    await createKey(db, idOf(workspace), { ...key, expiresAt: new Date(Date.now() - 1).toISOString() }, by);
    expect(items(await get(`${workspace}/keys`))).toMatchObject([{ status: "Inactive", deactivated_at: null }]);
  });

  test.each([
    ["no name", {}, ["name"]],
    ["an unknown endpoint type", { name: "K", endpoint_type: "other" }, ["endpoint_type"]],
    ["an expiration in the past", { name: "K", expires_at: "2020-01-01T00:00:00Z" }, ["expires_at"]],
    [
      "an expiration beyond the last year that a time is written with",
      { name: "K", expires_at: "9999-12-31T23:59:59-01:00" },
      ["expires_at"],
    ],
    ["an expiration that is no time", { name: "K", expires_at: "2030-02-30T00:00:00Z" }, ["expires_at"]],
    ["a secret of one's own", { name: "K", secret: "hunter2" }, ["secret"]],
    ["a name of 256 characters", { name: "é".repeat(256) }, ["name"]],
    ["an unknown field", { name: "K", expires: null }, ["expires"]],
  ])("%s is a 422 that names the field", async (_, body, fields) => {
    expect(complaints(await post(`${await newWorkspace()}/keys`, body))).toEqual(fields);
  });
});

test.each(["key", "secret"])("no name holds an API key's %s: members who see no keys see names", async (which) => {
  const workspace = await newWorkspace();
  const { body: made } = await post(`${workspace}/keys`, { name: "K", secret: true });
  const name = String((made as Record<string, unknown>)[which]);
  const rule = { event: "e", points: 1 };
  const asked = [
    post(`${workspace}/keys`, { name }),
    post(`${workspace}/rules`, { ...rule, name, scoring_signal: "s" }),
    post(`${workspace}/rules`, { ...rule, name: "r", scoring_signal: `the ${name}` }),
    post(`${workspace}/destinations`, {
      name,
      type: "webhook",
      target: "https://example.com/",
      events: ["usage.level"],
    }),
    patch(workspace, { name }),
  ];
  const fields = (await Promise.all(asked)).map(complaints);
  expect(fields).toEqual([["name"], ["name"], ["scoring_signal"], ["name"], ["name"]]);
});

describe("§2.1, §8.7 payload template", () => {
  const external = { target: "external_id", path: "company.id", type: "string" };

  async function withTemplate(template: unknown, endpointType = "product_org"): Promise<Answer> {
    return post(`${await newWorkspace()}/keys`, { name: "K", endpoint_type: endpointType, payload_template: template });
  }

  test("is stored as given, with its required fields marked", async () => {
    const template = [
      external,
      { target: "user_count", path: "seats", type: "number", required: true },
      { target: "attributes.region", path: "geo.region", type: "string", required: false },
    ];
    const answer = await withTemplate(template);
    expect(answer.status).toBe(201);
    expect(answer.body["payload_template"]).toEqual([
      { ...external, required: true },
      { target: "user_count", path: "seats", type: "number", required: true },
      { target: "attributes.region", path: "geo.region", type: "string", required: false },
    ]);
  });

  test("is required for product_org and refused for signal_staging", async () => {
    const missing = await post(`${await newWorkspace()}/keys`, { name: "K", endpoint_type: "product_org" });
    expect(complaints(missing)).toEqual(["payload_template"]);
    expect(errors(missing)[0]?.message).toContain("required when endpoint_type is product_org");
    expect(complaints(await withTemplate([external], "signal_staging"))).toEqual(["payload_template"]);
  });

  test.each([
    ["no mapping", [], "payload_template"],
    ["none of external_id", [{ target: "name", path: "n", type: "string" }], "payload_template"],
    ["an unknown target", [external, { target: "colour", path: "c", type: "string" }], "payload_template.1.target"],
    [
      "an attribute without a name",
      [external, { target: "attributes.", path: "c", type: "string" }],
      "payload_template.1.target",
    ],
    [
      "a target twice",
      [external, { target: "plan", path: "a", type: "string" }, { target: "plan", path: "b", type: "string" }],
      "payload_template.2.target",
    ],
    ["an unknown type", [external, { target: "plan", path: "a", type: "date" }], "payload_template.1.type"],
    ["an external_id that is true or false", [{ ...external, type: "boolean" }], "payload_template.0.type"],
    ["an empty path", [{ ...external, path: "" }], "payload_template.0.path"],
    ["an unknown field", [{ ...external, default: 1 }], "payload_template.0.default"],
  ])("%s is a 422 that names the place", async (_, template, place) => {
    expect(complaints(await withTemplate(template))).toEqual([place]);
  });
});

describe("§3.1 deactivation", () => {
  test("ends the key at once; a repeated call returns the same record", async () => {
    const workspace = await newWorkspace();
    const { id, key } = (await post(`${workspace}/keys`, { name: "K" })).body;
    expect((await sendSignal(String(key))).status).toBe(202);
    const first = await post(`${workspace}/keys/${String(id)}/deactivate`);
    expect(first).toMatchObject({ status: 200, body: { id, status: "Inactive" } });
    expect((await sendSignal(String(key))).status).toBe(401);
    expect((await post(`${workspace}/keys/${String(id)}/deactivate`)).body).toEqual(first.body);
    expect(items(await get(`${workspace}/keys`))).toEqual([first.body]);
    expect(await auditOf(workspace)).toEqual(["workspace.created", "key.created", "key.deactivated"]);
  });

  test("revokes the key in the Quota Counter first: if the counter does not answer, D1 is unchanged", async () => {
    const workspace = await newWorkspace();
    const { id } = (await post(`${workspace}/keys`, { name: "K" })).body;
    const end = (revoke: () => Promise<void>) => {
      const counters = { getByName: () => ({ revoke }) } as object as Env["QUOTA_COUNTER"];
      const by = { actor: "operator", nowMs: Date.now() };
      return endKey({ ...env, QUOTA_COUNTER: counters }, db, idOf(workspace), String(id), by);
    };
    const deactivatedAt = async () => (await findKey(db, idOf(workspace), String(id)))?.deactivatedAt;
    await expect(end(() => Promise.reject(new Error("no answer")))).rejects.toThrow("no answer");
    expect(await deactivatedAt()).toBeNull();
    const ended = await end(async () => expect(await deactivatedAt()).toBeNull());
    expect(ended?.deactivatedAt).not.toBeNull();
  });

  test("is completed by repeating the call after an interruption", async () => {
    const workspace = await newWorkspace();
    const { id, key } = (await post(`${workspace}/keys`, { name: "K" })).body;
    await env.QUOTA_COUNTER.getByName(idOf(workspace)).revoke(String(id));
    expect((await sendSignal(String(key))).status).toBe(401);
    expect(items(await get(`${workspace}/keys`))).toMatchObject([{ status: "Active" }]);
    expect((await post(`${workspace}/keys/${String(id)}/deactivate`)).body["status"]).toBe("Inactive");
  });

  test("answers 404 for a key of another workspace, which stays active", async () => {
    const [mine, theirs] = [await newWorkspace(), await newWorkspace()];
    const { id, key } = (await post(`${theirs}/keys`, { name: "K" })).body;
    expect((await post(`${mine}/keys/${String(id)}/deactivate`)).status).toBe(404);
    expect((await sendSignal(String(key))).status).toBe(202);
  });
});

describe("§8.5 mapping rules", () => {
  const rule = {
    name: "Asked for a demo",
    event: "Filled Out *",
    match: "any",
    conditions: [
      { path: "properties.form_name", operator: "contains", value: "demo" },
      { path: "email", operator: "exists" },
      { path: "source", operator: "in", value: ["web", "app"] },
    ],
    scoring_signal: "demo_requested",
    points: -5,
  };

  test("are created, read, changed field by field and deleted", async () => {
    const workspace = await newWorkspace();
    const answer = await post(`${workspace}/rules`, rule);
    expect(answer.status).toBe(201);
    const { id } = answer.body;
    expect(answer.body).toEqual({
      id: expect.stringMatching(/^rule_/),
      ...rule,
      frequency: "every_time",
      enabled: true,
      version: 1,
      created_at: expect.stringMatching(/Z$/),
      updated_at: answer.body["created_at"],
      updated_by: "operator",
    });
    expect((await get(`${workspace}/rules/${String(id)}`)).body).toEqual(answer.body);
    const changed = await patch(`${workspace}/rules/${String(id)}`, { points: 7 });
    expect(changed.status).toBe(200);
    const { updated_at: _, ...rest } = answer.body;
    expect(changed.body).toMatchObject({ ...rest, points: 7, version: 2 });
    expect(items(await get(`${workspace}/rules`))).toEqual([changed.body]);
    expect((await del(`${workspace}/rules/${String(id)}`)).status).toBe(204);
    expect((await get(`${workspace}/rules/${String(id)}`)).status).toBe(404);
    expect((await del(`${workspace}/rules/${String(id)}`)).status).toBe(404);
    expect(await auditOf(workspace)).toEqual(["workspace.created", "rule.created", "rule.updated", "rule.deleted"]);
  });

  test("have versions and can go back to one", async () => {
    const workspace = await newWorkspace();
    const path = `${workspace}/rules/${String((await post(`${workspace}/rules`, rule)).body["id"])}`;
    await patch(path, { points: 7, enabled: false });
    const versions = await get(`${path}/versions`);
    expect(versions.body["next"]).toBeNull();
    expect(items(versions)).toEqual([
      {
        ...rule,
        version: 2,
        at: expect.any(String),
        by: "operator",
        frequency: "every_time",
        enabled: false,
        points: 7,
      },
      { ...rule, version: 1, at: expect.any(String), by: "operator", frequency: "every_time", enabled: true },
    ]);
    const restored = await post(`${path}/versions/1/restore`, {});
    expect([restored.status, restored.body]).toEqual([200, (await get(path)).body]);
    expect(restored.body).toMatchObject({ ...rule, version: 3, enabled: true });
    expect((await post(`${path}/versions/9/restore`, {})).status).toBe(404);
    expect((await post(`${path}/versions/one/restore`, {})).status).toBe(404);
    const otherWorkspace = await newWorkspace();
    const theirs = path.replace(workspace, otherWorkspace);
    expect((await get(`${theirs}/versions`)).status).toBe(404);
    expect((await post(`${theirs}/versions/1/restore`, {})).status).toBe(404);
  });

  test("raise the workspace's rules version with each change; the consumer loads enabled rules only", async () => {
    const workspace = await newWorkspace();
    const seen = [await rulesVersion(db, idOf(workspace))];
    const { id } = (await post(`${workspace}/rules`, rule)).body;
    seen.push(await rulesVersion(db, idOf(workspace)));
    const enabled = async () => (await loadRules(db, [idOf(workspace)])).get(idOf(workspace));
    expect(await enabled()).toEqual([
      {
        id,
        version: 1,
        event: rule.event,
        match: "any",
        conditions: rule.conditions,
        scoringSignal: "demo_requested",
        points: -5,
        frequency: "every_time",
      },
    ]);
    await patch(`${workspace}/rules/${String(id)}`, { enabled: false });
    seen.push(await rulesVersion(db, idOf(workspace)));
    expect(await enabled()).toEqual([]);
    await del(`${workspace}/rules/${String(id)}`);
    seen.push(await rulesVersion(db, idOf(workspace)));
    expect(seen).toEqual([0, 1, 2, 3]);
  });

  test("answer 404 to every method for a rule of another workspace", async () => {
    const [mine, theirs] = [await newWorkspace(), await newWorkspace()];
    const { id, ...before } = (await post(`${theirs}/rules`, rule)).body;
    const path = `${mine}/rules/${String(id)}`;
    expect([(await get(path)).status, (await patch(path, { points: 1 })).status, (await del(path)).status]).toEqual([
      404, 404, 404,
    ]);
    expect((await get(`${theirs}/rules/${String(id)}`)).body).toEqual({ id, ...before });
  });

  test.each([
    [
      "a condition on a path that rules do not see",
      { conditions: [{ path: "ip", operator: "exists" }] },
      "conditions.0.path",
    ],
    [
      "an unknown operator",
      { conditions: [{ path: "event", operator: "matches", value: ".*" }] },
      "conditions.0.operator",
    ],
    ["an unknown frequency", { frequency: "once_per_hour" }, "frequency"],
    ["a missing value", { conditions: [{ path: "event", operator: "equals" }] }, "conditions.0.value"],
    [
      "a value where there is none",
      { conditions: [{ path: "event", operator: "exists", value: 1 }] },
      "conditions.0.value",
    ],
    ["in without a list", { conditions: [{ path: "event", operator: "in", value: "a" }] }, "conditions.0.value"],
    ["a list without in", { conditions: [{ path: "event", operator: "equals", value: ["a"] }] }, "conditions.0.value"],
    [
      "too many conditions",
      { conditions: Array.from({ length: 51 }, () => ({ path: "event", operator: "exists" })) },
      "conditions",
    ],
    ["an empty event", { event: " " }, "event"],
    ["points with a fraction", { points: 0.5 }, "points"],
    ["an unknown field", { score: 3 }, "score"],
  ])("%s is a 422 that names the place", async (_, change, place) => {
    const workspace = await newWorkspace();
    expect(complaints(await post(`${workspace}/rules`, { ...rule, ...change }))).toEqual([place]);
    const { id } = (await post(`${workspace}/rules`, rule)).body;
    expect(complaints(await patch(`${workspace}/rules/${String(id)}`, change))).toEqual([place]);
  });
});

describe("signals in the operator API", () => {
  let workspace: string;
  let keyId: unknown;
  let signalId: string;

  beforeAll(async () => {
    workspace = await newWorkspace();
    const { id, key } = (await post(`${workspace}/keys`, { name: "Website" })).body;
    keyId = id;
    await post(`${workspace}/rules`, { name: "Form", event: "Filled Out Form", scoring_signal: "form", points: 3 });
    signalId = ((await (await sendSignal(String(key))).json()) as { id: string }).id;
    await exports.default.fetch(
      new Request(`${ORIGIN}/api/product-orgs/webhook/${String(key)}`, { method: "POST", body: "{}" }),
    );
  });

  test("can be followed by their id as soon as they are accepted", async () => {
    const trace = await get(`${workspace}/signals/${signalId}`);
    expect(trace).toMatchObject({
      status: 200,
      body: { id: signalId, key_id: keyId, key_name: "Website", verdict: "accepted", ordinal: 1, signal_limit: 1_000 },
    });
  });

  test("end as processed, with person, rule and points", async () => {
    await until(async () => expect((await get(`${workspace}/signals/${signalId}`)).body["status"]).toBe("processed"));
    const { body } = await get(`${workspace}/signals/${signalId}`);
    expect(body).toMatchObject({
      event: "Filled Out Form",
      email: "jane@example.com",
      person: { email: "jane@example.com", by: "email" },
      rules_matched: [{ scoring_signal: "form", points: 3, rule_version: 1 }],
      points: 3,
      payload: { email: "jane@example.com", event: "Filled Out Form" },
    });
    expect(items(await get(`${workspace}/people?email=Jane@Example.com`))).toMatchObject([
      { email: "jane@example.com", score: 3 },
    ]);
    expect(items(await get(`${workspace}/people?email=other@example.com`))).toEqual([]);
    expect(items(await get(`${workspace}/events`))).toMatchObject([{ event: "Filled Out Form", count: 1 }]);
    expect(items(await get(`${workspace}/signals?status=processed&event=Filled%20Out%20Form`))).toMatchObject([
      { id: signalId },
    ]);
    expect(items(await get(`${workspace}/signals?status=held`))).toEqual([]);
    expect(items(await get(`${workspace}/dead-letters`))).toEqual([]);
  });

  test("are covered by balanced books, since the beginning and per period", async () => {
    const balanced = {
      accepted: 1,
      processed: 1,
      duplicates: 0,
      held: 0,
      purged: 0,
      dead_lettered: 0,
      in_flight: 0,
      lost: 0,
      balanced: true,
    };
    await until(async () => expect((await get(`${workspace}/books`)).body).toEqual(balanced));
    expect((await get(`${workspace}/books?period=current`)).body).toEqual(balanced);
    const start = String((await get(`${workspace}/usage`)).body["period_start"]);
    expect((await get(`${workspace}/books?period=${start}`)).body).toEqual(balanced);
  });

  test("answer 422 for a time at which no period starts", async () => {
    expect(complaints(await get(`${workspace}/books?period=2020-02-02T02:02:02Z`))).toEqual(["period"]);
    expect(complaints(await get(`${workspace}/books?period=last`))).toEqual(["period"]);
  });

  test("are listed with key, status and code if refused", async () => {
    expect(items(await get(`${workspace}/rejections`))).toMatchObject([
      { key_id: keyId, key_name: "Website", status: 403, code: "endpoint_mismatch", signals: 1 },
    ]);
  });

  test("are invisible to another workspace", async () => {
    const otherWorkspace = await newWorkspace();
    expect((await get(`${otherWorkspace}/signals/${signalId}`)).status).toBe(404);
    for (const list of ["signals", "people", "events", "rejections", "dead-letters", "keys", "rules"]) {
      expect((await get(`${otherWorkspace}/${list}`)).body, list).toEqual({ items: [], next: null });
    }
    expect((await get(`${otherWorkspace}/books`)).body).toMatchObject({ accepted: 0, balanced: true });
    expect((await listKeys(db, idOf(otherWorkspace), { cursor: null, limit: 10 })).items).toEqual([]);
  });
});
