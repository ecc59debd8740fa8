/** Design §9: the operator API on the real D1 and Durable Objects; keys and members by spec §2.1, §3.1 and §5.6. */
import { createExecutionContext, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { Hono } from "hono";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { findKey } from "../../../src/d1/api-keys.ts";
import { controlDatabase } from "../../../src/d1/database.ts";
import { createKey } from "../../../src/d1/new-keys.ts";
import { loadRules, rulesVersion } from "../../../src/d1/stored-rules.ts";
import type { AppEnv } from "../../../src/env.ts";
import { requestLog } from "../../../src/http/request-log.ts";
import worker from "../../../src/index.ts";
import { validationFailed } from "../../../src/operator/operation.ts";
import { digestHex } from "../../../src/platform/hashes.ts";
import { deactivateApiKey } from "../../../src/use-cases/manage-keys.ts";
import { d1Failing } from "../../support/faults.ts";
import { until } from "../../support/until.ts";
import {
  askOperator,
  call,
  gzip,
  newWorkspace,
  type OperatorAnswer,
  type TestWorkspace,
} from "../../support/workspace.ts";

const db = controlDatabase(env.DB);

type Json = Record<string, unknown>;

const items = ({ body }: OperatorAnswer) => body["items"] as Json[];
const actions = async (workspace: TestWorkspace) => (await workspace.audit()).map(({ action }) => action);

/** Fields that a 422 names. */
function rejectedFields(answer: OperatorAnswer): string[] {
  expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 422, body: { code: "validation_failed" } });
  return (answer.body["errors"] as { path: string }[]).map(({ path }) => path);
}

/** A workspace on a plan, without a key. */
const onPlan = (plan = "free", fields: object = {}) => newWorkspace({ plan, key: null, ...fields });

const SIGNAL = { email: "jane@example.com", event: "Filled Out Form" };

describe("authorisation", () => {
  test.each([
    ["no token", ""],
    ["a wrong token", "Bearer test-operatos"],
    ["an empty token", "Bearer "],
    ["another scheme", "Basic test-operator"],
  ])("rejects %s with a 401 that asks for a bearer token", async (_, authorization) => {
    const answer = await askOperator("GET", "/workspaces", undefined, { authorization });
    expect(answer).toMatchObject({ status: 401, body: { code: "operator_unauthorized", status: 401 } });
    expect(answer.headers.get("www-authenticate")).toMatch(/^Bearer\b/);
    expect(answer.headers.get("content-type")).toBe("application/problem+json");
  });

  test("accepts two tokens during an exchange; without any token the routes do not exist", async () => {
    const { operatorRoutes } = await import("../../../src/operator/operator-api.ts");
    const app = new Hono<AppEnv>().use(requestLog).route("/operator", operatorRoutes);
    const statuses = (
      OPERATOR_TOKEN: string | undefined,
      OPERATOR_TOKEN_NEXT: string | undefined,
      ...tokens: string[]
    ) =>
      Promise.all(
        tokens.map(async (token) => {
          const headers = { authorization: `Bearer ${token}` };
          const bindings = { ...env, OPERATOR_TOKEN, OPERATOR_TOKEN_NEXT };
          return (await app.request("/operator/workspaces", { headers }, bindings)).status;
        }),
      );
    const wrong = ["oldnew", "old,new", "undefined"];
    expect(await statuses("old", "new", "old", "new", ...wrong)).toEqual([200, 200, 401, 401, 401]);
    expect(await statuses("new", undefined, "new", "old")).toEqual([200, 401]);
    expect(await statuses("old", "", "new")).toEqual([401]);
    for (const nothing of ["", undefined]) {
      expect(await statuses(nothing, "new", "new", "x")).toEqual([200, 401]);
      expect(await statuses(nothing, nothing, "", "undefined", "x")).toEqual([404, 404, 404]);
    }
  });
});

describe("every answer", () => {
  test("is a 404 for an unknown path, and a 405 with the allowed methods for a wrong method", async () => {
    const workspace = await onPlan();
    expect(await askOperator("GET", "/nothing")).toMatchObject({ status: 404, body: { code: "not_found" } });
    expect((await workspace.ask("GET", "/nothing")).status).toBe(404);
    const wrong = [await askOperator("PUT", "/workspaces", {}), await workspace.ask("PUT", "", {})];
    const type = "/docs/api/codes#method_not_allowed";
    for (const answer of wrong)
      expect(answer).toMatchObject({ status: 405, body: { code: "method_not_allowed", type } });
    expect(wrong.map(({ headers }) => headers.get("allow"))).toEqual(["POST, GET, HEAD", "GET, HEAD, PATCH, DELETE"]);
  });

  test("to an error has type, title, status, detail, code and request id", async () => {
    const answer = await askOperator("GET", "/workspaces/ws_nobody");
    expect(answer.body).toEqual({
      type: "/docs/api/codes#not_found",
      title: "Not found",
      status: 404,
      detail: "There is no such workspace.",
      code: "not_found",
      request_id: answer.headers.get("x-request-id"),
    });
  });

  test("forbids caching, also to a rotation and to an error", async () => {
    const workspace = await newWorkspace();
    const rotated = await workspace.ask("POST", `/keys/${workspace.key.id}/rotate`, { overlap: "1h" });
    expect(rotated.body["key"]).toMatch(/^sk_/);
    const answers = [rotated, await workspace.ask("GET", "/people"), await workspace.ask("GET", "/nothing")];
    expect(answers.map(({ status, headers }) => [status, headers.get("cache-control")])).toEqual([
      [201, "no-store"],
      [200, "no-store"],
      [404, "no-store"],
    ]);
  });

  test("to a list has pages without gaps or repetitions", async () => {
    for (let made = 0; made < 21; made++) await onPlan();
    const all = items(await askOperator("GET", "/workspaces?limit=200")).map(({ id }) => id);
    const seen: unknown[] = [];
    let query = "limit=7";
    for (let next: unknown; next !== null; query = `limit=7&cursor=${encodeURIComponent(String(next))}`) {
      const page = await askOperator("GET", `/workspaces?${query}`);
      expect(items(page).length).toBeLessThanOrEqual(7);
      seen.push(...items(page).map(({ id }) => id));
      next = page.body["next"];
    }
    expect(seen).toEqual(all);
    expect((await askOperator("GET", `/workspaces?limit=${all.length}`)).body["next"]).toBeNull();
  });

  test("to each list of a workspace has its newest entries first, in pages without gaps", async () => {
    const workspace = await newWorkspace();
    const rule = { event: "Visit", scoring_signal: "visit", points: 1 };
    for (const name of ["one", "two", "three"]) {
      await workspace.operator("POST", "/rules", { ...rule, name });
      await workspace.newKey({ name });
      await workspace.newToken(["keys"], { name });
    }
    for (const path of ["/rules", "/keys", "/tokens"]) {
      const seen: string[] = [];
      let cursor = "";
      for (let next: string | null = ""; next !== null; cursor = `&cursor=${next}`) {
        const page: { items: { name: string }[]; next: string | null } = await workspace.operator(
          "GET",
          `${path}?limit=2${cursor}`,
        );
        seen.push(...page.items.map(({ name }) => name));
        next = page.next;
      }
      expect([path, seen.slice(0, 3)]).toEqual([path, ["three", "two", "one"]]);
    }
  });

  test("to a failed query keeps the query's parameters out of the log", async () => {
    const log = vi.spyOn(console, "log").mockImplementation(() => {});
    const bindings = { ...env, DB: d1Failing(/from "workspaces"/, "D1_ERROR: out of order") };
    const headers = { authorization: `Bearer ${env.OPERATOR_TOKEN}` };
    const request = new Request("https://signals.example/operator/workspaces/ws_jane-at-home", { headers });
    const answer = await worker.fetch(request, bindings, createExecutionContext());
    const lines = log.mock.calls.flat().join("\n");
    log.mockRestore();
    expect(answer.status).toBe(503);
    expect(lines).toContain("D1_ERROR: out of order");
    expect(lines).not.toContain("jane-at-home");
  });
});

describe("a request body", () => {
  const post = (body: unknown) => askOperator("POST", "/workspaces", body);

  test.each([
    ["no JSON", "{", 400, "body_not_json"],
    ["a form", "slug=acme", 400, "body_not_json"],
    ["more bytes than the limit", { name: "x".repeat(1024 * 1024) }, 413, "body_too_large"],
    ["more than 64 levels", `{"a":${"[".repeat(64)}${"]".repeat(64)}}`, 413, "body_too_large"],
  ])("with %s is rejected", async (_, body, status, code) => {
    expect(await post(body)).toMatchObject({ status, body: { code } });
  });

  test("that is not JSON is rejected with the place, and without a part of the body", async () => {
    const { key } = await newWorkspace();
    const { body } = await post(`{"slug": "acme",\n "name": ${key.key}}`);
    expect(body["detail"]).toContain("line 2, column 10");
    for (let at = 0; at + 6 <= key.key.length; at++)
      expect(JSON.stringify(body)).not.toContain(key.key.slice(at, at + 6));
  });

  test("with too many values is rejected before it is parsed, with the limit", async () => {
    const workspace = await onPlan();
    const tooMany = await workspace.ask("POST", "/rules/import", `{"items":[${"1,".repeat(2_000_000)}1]}`);
    expect(tooMany).toMatchObject({ status: 413, body: { code: "body_too_large" } });
    expect(tooMany.body["detail"]).toContain("at most 50,000 values");
    expect((await workspace.ask("POST", "/rules/import", "[".repeat(4_000_000))).status).toBe(413);
  });

  test("may have the maximum number of rules and conditions", async () => {
    // Relative to the size limit of a workspace's rules, a condition with a value has the most commas and brackets.
    const conditions = Array.from({ length: 5 }, () => ({ path: "source", operator: "in", value: ["x"] }));
    const times = { version: 1, created_at: "x", updated_at: "x", updated_by: "x" };
    const rule = { event: "e", match: "all", scoring_signal: "s", points: 1, frequency: "every_time", enabled: true };
    const rules = Array.from({ length: 1_000 }, (_, n) => ({
      id: "rule_1",
      ...rule,
      ...times,
      name: `r${n}`,
      conditions,
    }));
    const answer = await (await onPlan()).ask("POST", "/rules/import?dry_run=true", { items: rules });
    expect(answer.status, JSON.stringify(answer.body).slice(0, 500)).toBe(200);
  });

  test("is an empty object if it is missing; the answer names the required fields", async () => {
    expect(rejectedFields(await post(""))).toEqual(["slug", "name", "plan"]);
  });

  test("with invalid and unknown fields gets an answer that names each of them", async () => {
    const invalid = { slug: "No Slug", name: "", anchor: "yesterday", colour: "red" };
    expect(rejectedFields(await post(invalid)).sort()).toEqual(["anchor", "colour", "name", "plan", "slug"]);
    expect(rejectedFields(await post([1]))).toEqual([""]);
    const key = "sk_0123456789abcdefghijABCDEFGHIJ0123456789";
    const answer = await post({ [key]: 1, ["x".repeat(9_000)]: 1 });
    expect(rejectedFields(answer)).toEqual(["slug", "name", "plan", "•••", `${"x".repeat(60)}…`]);
    expect(JSON.stringify(answer)).not.toContain(key.slice(0, 12));
  });

  test("with very many invalid fields gets a short answer quickly, with at most one hundred of them", async () => {
    const names = Array.from({ length: 45_000 }, (_, n) => `f${n}`);
    const unknown = (fields: string[]) => Object.fromEntries(fields.map((name) => [name, 1]));
    const workspace = await onPlan();
    const started = performance.now();
    for (const answer of [
      await post(unknown(names)),
      await post(unknown(names.slice(0, 200).map((name) => name + "\u0001".repeat(800)))),
      await workspace.ask("POST", "/rules/import", {
        items: Array.from({ length: 1_000 }, () => unknown(names.slice(0, 40))),
      }),
      await workspace.ask("POST", "/rules/import", { items: Array(40_000).fill(1) }),
    ]) {
      expect(rejectedFields(answer).length).toBeLessThanOrEqual(100);
      expect(JSON.stringify(answer.body).length).toBeLessThan(100_000);
    }
    expect(rejectedFields(await post(unknown(names.slice(0, 5_000))))).toHaveLength(100);
    // Five answers of some tens of milliseconds each.
    expect(performance.now() - started).toBeLessThan(10_000);
    const context = { var: { requestId: "req_1", logFields: {} }, req: { path: "/operator/workspaces" } };
    const long = { path: "\u0001".repeat(300), message: "\u0001".repeat(500) };
    const longest = Array.from({ length: 1_000 }, () => long);
    const text = await validationFailed(context as unknown as Parameters<typeof validationFailed>[0], longest).text();
    expect(text.length).toBeLessThan(100_000);
  });

  test("may be gzip; invalid compression is a 400 and too much unpacked data a 413", async () => {
    const headers = { authorization: `Bearer ${env.OPERATOR_TOKEN}`, "content-encoding": "gzip" };
    const statusOf = async (body: BodyInit) =>
      (await call("/operator/workspaces", { method: "POST", headers, body })).status;
    expect(await statusOf(await gzip("{}"))).toBe(422);
    expect(await statusOf(await gzip(" ".repeat(2_000_000)))).toBe(413);
    expect(await statusOf(new ArrayBuffer(20))).toBe(400);
  });
});

const RULE = {
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

describe("validation", () => {
  const external = { target: "external_id", path: "company.id", type: "string" };
  const plan = (change: object) =>
    ["PUT", "/plans/odd", { name: "Odd", signal_limit: 1, paid: true, ...change }] as const;
  const key = (change: object) => ["POST", "/workspaces/{id}/keys", { name: "K", ...change }] as const;
  const account = (template: unknown) => key({ endpoint_type: "product_org", payload_template: template });
  const rule = (change: object) => ["POST", "/workspaces/{id}/rules", { ...RULE, ...change }] as const;
  const condition = (more: object) => rule({ conditions: [{ path: "event", operator: "equals", ...more }] });
  const thresholds = (account_thresholds: number[]) =>
    ["PUT", "/workspaces/{id}/thresholds", { thresholds: [], account_thresholds }] as const;
  const member = (email: string, role = "owner") => ["POST", "/workspaces/{id}/members", { email, role }] as const;

  test.each([
    ["a page of zero items", ["GET", "/workspaces?limit=0"], "limit"],
    ["a page of too many items", ["GET", "/workspaces?limit=201"], "limit"],
    ["an empty page size", ["GET", "/workspaces?limit="], "limit"],
    ["an unknown query parameter", ["GET", "/workspaces?page=2"], "page"],
    [
      "books of a time at which no period starts",
      ["GET", "/workspaces/{id}/books?period=2020-02-02T02:02:02Z"],
      "period",
    ],
    ["books of a period in words", ["GET", "/workspaces/{id}/books?period=last"], "period"],
    [
      "a plan's id that is no slug",
      ["PUT", "/plans/Not%20This", { name: "N", signal_limit: 1, paid: true }],
      "plan_id",
    ],
    ["a limit of zero", plan({ signal_limit: 0 }), "signal_limit"],
    ["a limit with a fraction", plan({ signal_limit: 1.5 }), "signal_limit"],
    ["a blank name", plan({ name: "  " }), "name"],
    ["a currency in words", plan({ overage_price: { per_thousand: 1, currency: "Euro" } }), "overage_price.currency"],
    ["a negative price", plan({ overage_price: { per_thousand: -1, currency: "EUR" } }), "overage_price.per_thousand"],
    ["an offer to an unknown workspace", plan({ offered_to: ["ws_no-such-one"] }), "offered_to"],
    ["an unknown plan", ["POST", "/workspaces", { slug: "x", name: "X", plan: "no-such-plan" }], "plan"],
    ["a change to an unknown plan", ["PATCH", "/workspaces/{id}", { plan: "no-such-plan" }], "plan"],
    ["a change of the slug", ["PATCH", "/workspaces/{id}", { slug: "other" }], "slug"],
    ["a role that does not exist", member("jane@example.com", "king"), "role"],
    ["a text that is no address", member("no address"), "email"],
    ["a member's address with the Kelvin sign", member("\u212Aevin@example.com"), "email"],
    ["a key without a name", ["POST", "/workspaces/{id}/keys", {}], "name"],
    ["an unknown endpoint type", key({ endpoint_type: "other" }), "endpoint_type"],
    ["an expiration in the past", key({ expires_at: "2020-01-01T00:00:00Z" }), "expires_at"],
    ["an expiration in the year 10000 UTC", key({ expires_at: "9999-12-31T23:59:59-01:00" }), "expires_at"],
    ["an expiration on February 30", key({ expires_at: "2030-02-30T00:00:00Z" }), "expires_at"],
    ["a chosen secret", key({ secret: "hunter2" }), "secret"],
    ["a name of 256 characters", key({ name: "é".repeat(256) }), "name"],
    ["a product_org key without a template", key({ endpoint_type: "product_org" }), "payload_template"],
    [
      "a signal_staging key whose template reads a cookie",
      key({ payload_template: [{ target: "event", path: "@header.cookie" }] }),
      "payload_template.0.path",
    ],
    ["a template without mappings", account([]), "payload_template"],
    ["a template without external_id", account([{ target: "name", path: "n", type: "string" }]), "payload_template"],
    [
      "an unknown target",
      account([external, { target: "colour", path: "c", type: "string" }]),
      "payload_template.1.target",
    ],
    [
      "an attribute without a name",
      account([external, { target: "attributes.", path: "c", type: "string" }]),
      "payload_template.1.target",
    ],
    ["a target twice", account([external, { ...external, path: "b" }]), "payload_template.1.target"],
    ["an unknown type", account([external, { target: "plan", path: "a", type: "date" }]), "payload_template.1.type"],
    ["an unknown field of a mapping", account([{ ...external, default: 1 }]), "payload_template.0.default"],
    ["a boolean external_id", account([{ ...external, type: "boolean" }]), "payload_template.0.type"],
    ["an empty path", account([{ ...external, path: "" }]), "payload_template.0.path"],
    ["a condition on a path that rules cannot read", condition({ path: "ip", value: "x" }), "conditions.0.path"],
    ["an unknown operator", condition({ operator: "matches", value: ".*" }), "conditions.0.operator"],
    ["a condition without its value", condition({}), "conditions.0.value"],
    ["a value of an operator without one", condition({ operator: "exists", value: 1 }), "conditions.0.value"],
    ["`in` without a list", condition({ operator: "in", value: "a" }), "conditions.0.value"],
    ["a list without `in`", condition({ value: ["a"] }), "conditions.0.value"],
    [
      "51 conditions",
      rule({ conditions: Array.from({ length: 51 }, () => ({ path: "event", operator: "exists" })) }),
      "conditions",
    ],
    ["an unknown frequency", rule({ frequency: "once_per_hour" }), "frequency"],
    ["points that count for other days", rule({ points_last_days: 60 }), "points_last_days"],
    ["points that count for days as text", rule({ points_last_days: "30" }), "points_last_days"],
    [
      "a start of failures that is not ISO 8601",
      ["POST", "/workspaces/{id}/destinations/dst_1/deliveries/again", { since: "2026-11-20" }],
      "since",
    ],
    ["six thresholds for accounts", thresholds([1, 2, 3, 4, 5, 6]), "account_thresholds"],
    ["a threshold for accounts twice", thresholds([50, 50]), "account_thresholds"],
    ["a threshold for accounts with a fraction", thresholds([0.5]), "account_thresholds.0"],
    ["a threshold for accounts above a million", thresholds([1_000_001]), "account_thresholds.0"],
    ["an empty event", rule({ event: " " }), "event"],
    ["points with a fraction", rule({ points: 0.5 }), "points"],
  ] as const)("rejects %s with a 422 that names the field", async (_, [method, path, body], field) => {
    const workspace = await onPlan();
    expect(rejectedFields(await askOperator(method, path.replace("{id}", workspace.id), body))).toEqual([field]);
    if (!path.endsWith("/rules")) return;
    const { body: created } = await workspace.ask("POST", "/rules", RULE);
    expect(rejectedFields(await workspace.ask("PATCH", `/rules/${String(created["id"])}`, body))).toEqual([field]);
  });

  test.each(["key", "secret"])(
    "rejects names that contain an API key's %s, because members see names",
    async (which) => {
      const workspace = await newWorkspace({ key: { secret: true } });
      const name = String(workspace.key[which as "key" | "secret"]);
      const destination = { type: "webhook", target: "https://example.com/", notifications: ["usage.level"] };
      const answers = await Promise.all([
        workspace.ask("POST", "/keys", { name }),
        workspace.ask("POST", "/rules", { ...RULE, name }),
        workspace.ask("POST", "/rules", { ...RULE, scoring_signal: `the ${name}` }),
        workspace.ask("POST", "/destinations", { ...destination, name }),
        workspace.ask("PATCH", "", { name }),
      ]);
      expect(answers.flatMap(rejectedFields)).toEqual(["name", "name", "scoring_signal", "name", "name"]);
    },
  );
});

describe("plans", () => {
  const UNSET = { retention_days: null, offered_to: null, overage_price: null };
  const listed = async () => items(await askOperator("GET", "/plans?limit=200"));

  test("exist from the beginning; only the free plan is unpaid", async () => {
    expect(await listed()).toEqual(
      expect.arrayContaining([
        { id: "free", name: "Free", signal_limit: 1_000, paid: false, ...UNSET },
        { id: "starter", name: "Starter", signal_limit: 50_000, paid: true, ...UNSET },
        { id: "growth", name: "Growth", signal_limit: 500_000, paid: true, ...UNSET },
        { id: "scale", name: "Scale", signal_limit: 5_000_000, paid: true, ...UNSET },
      ]),
    );
  });

  test("are created (201) and replaced (200) by PUT; omitted terms are removed", async () => {
    const terms = { name: "Tiny", signal_limit: 5, paid: true };
    const more = { retention_days: 90, offered_to: [], overage_price: { per_thousand: 0.4, currency: "EUR" } };
    const plan = { id: "tiny", ...terms, ...more };
    expect(await askOperator("PUT", "/plans/tiny", { ...terms, ...more })).toMatchObject({ status: 201, body: plan });
    expect(await listed()).toContainEqual(plan);
    const replaced = await askOperator("PUT", "/plans/tiny", { ...terms, paid: false });
    expect(replaced).toMatchObject({ status: 200, body: { ...terms, paid: false, ...UNSET } });
    expect(await listed()).toContainEqual({ id: "tiny", ...terms, paid: false, ...UNSET });
    // A repeated call changes nothing, so it leaves no audit entry.
    expect((await askOperator("PUT", "/plans/tiny", { ...terms, paid: false })).status).toBe(200);
    const entries = env.DB.prepare("SELECT count(*) AS n FROM audit_log WHERE target = 'tiny'");
    expect(await entries.first("n")).toBe(2);
  });

  test("apply a changed limit to every workspace on the plan, and to no other workspace", async () => {
    const shared = (limit: number) =>
      askOperator("PUT", "/plans/shared", { name: "Shared", signal_limit: limit, paid: true });
    await shared(10);
    const workspaces = await Promise.all([...Array<string>(23).fill("shared"), "free"].map((plan) => onPlan(plan)));
    await shared(77);
    const usages = await Promise.all(workspaces.map((workspace) => workspace.operator("GET", "/usage")));
    expect(usages.map((usage) => usage["signal_limit"])).toEqual([...Array<number>(23).fill(77), 1_000]);
  });
});

describe("workspaces", () => {
  test("return the same record on creation and later, and configure the Quota Counter at once", async () => {
    const anchor = "2020-01-31T10:30:00+02:00";
    const created = { slug: "record", name: " Acme & Sons ", plan: "growth", overages: true, anchor };
    const { status, body } = await askOperator("POST", "/workspaces", created);
    expect([status, body]).toEqual([
      201,
      {
        id: expect.stringMatching(/^ws_[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
        slug: "record",
        name: "Acme & Sons",
        plan: "growth",
        overages: true,
        anchor: "2020-01-31T08:30:00.000Z",
        created_at: expect.stringMatching(/^\d{4}-.*Z$/),
        retention_days: null,
        state: "active",
      },
    ]);
    const path = `/workspaces/${String(body["id"])}`;
    expect((await askOperator("GET", path)).body).toEqual(body);
    expect(items(await askOperator("GET", "/workspaces?limit=200"))).toContainEqual(body);
    expect((await askOperator("GET", `${path}/usage`)).body).toMatchObject({
      period_start: expect.stringMatching(/T08:30:00\.000Z$/),
      period_end: expect.stringMatching(/T08:30:00\.000Z$/),
      signal_limit: 500_000,
      overages: true,
      accepted: 0,
      held: 0,
      rejected: 0,
      history: [],
    });
  });

  test("reject a taken slug with a 409 and store nothing", async () => {
    const create = () => askOperator("POST", "/workspaces", { slug: "taken", name: "B", plan: "free" });
    await create();
    const entries = () => env.DB.prepare("SELECT count(*) AS n FROM audit_log").first("n");
    const before = await entries();
    expect(await create()).toMatchObject({ status: 409, body: { code: "slug_taken" } });
    expect(await entries()).toBe(before);
  });

  test("apply plan and overages at once; omitted fields keep their value", async () => {
    const workspace = await onPlan("free", { name: "Before" });
    const change = async (body: object) => (await workspace.ask("PATCH", "", body)).body;
    expect(await change({ plan: "growth" })).toMatchObject({ plan: "growth", name: "Before" });
    expect(await workspace.operator("GET", "/usage")).toMatchObject({ signal_limit: 500_000, overages: false });
    await change({ overages: true });
    expect(await workspace.operator("GET", "/usage")).toMatchObject({ signal_limit: 500_000, overages: true });
    const last = { plan: "growth", overages: true, name: "After" };
    expect(await change({ name: "After" })).toMatchObject(last);
    // A change without effect is repeated at the objects, where it may have failed, and leaves no entry.
    expect(await change(last)).toMatchObject(last);
    expect(await actions(workspace)).toEqual(["workspace.created", ...Array<string>(3).fill("workspace.updated")]);
    const created = env.DB.prepare(
      "SELECT detail ->> 'plan' AS plan FROM audit_log WHERE target = ? AND action = 'workspace.created'",
    );
    expect(await created.bind(workspace.id).first("plan")).toBe("free");
  });

  test("configure an unconfigured counter when usage is requested", async () => {
    const { id, counter } = await newWorkspace({ plan: "starter", key: null });
    await runInDurableObject(counter, (_, { storage }) => storage.deleteAll());
    await evictDurableObject(counter);
    expect((await askOperator("GET", `/workspaces/${id}/usage`)).body).toMatchObject({ signal_limit: 50_000 });
  });
});

describe("§5.6 members", () => {
  const add = (workspace: TestWorkspace, email: string, role = "owner") =>
    workspace.ask("POST", "/members", { email, role });

  test("are added once per address, listed by email, changed and removed, with an audit entry each", async () => {
    const workspace = await onPlan();
    const { status, body: olga } = await add(workspace, " Olga@Example.com ");
    expect([status, olga]).toMatchObject([201, { email: "olga@example.com", role: "owner" }]);
    expect(await add(workspace, "OLGA@example.com", "member")).toMatchObject({
      status: 409,
      body: { code: "email_taken" },
    });
    await add(workspace, "adam@example.com", "member");
    expect(items(await workspace.ask("GET", "/members"))).toMatchObject([
      { email: "adam@example.com", role: "member" },
      { email: "olga@example.com", role: "owner" },
    ]);
    const changed = await workspace.ask("PATCH", "/members/Adam%40example.com", { role: "admin" });
    expect(changed).toMatchObject({ status: 200, body: { email: "adam@example.com", role: "admin" } });
    // The role that a member has already is no change.
    expect((await workspace.ask("PATCH", "/members/adam@example.com", { role: "admin" })).body).toEqual(changed.body);
    expect((await workspace.ask("PATCH", "/members/olga@example.com", { role: "owner" })).status).toBe(200);
    expect((await workspace.ask("DELETE", "/members/Adam%40example.com")).status).toBe(204);
    for (const gone of [
      await workspace.ask("DELETE", "/members/adam@example.com"),
      await workspace.ask("PATCH", "/members/adam@example.com", { role: "admin" }),
    ])
      expect(gone.status).toBe(404);
    expect(items(await workspace.ask("GET", "/members"))).toEqual([olga]);
    const entries = ["member.added", "member.added", "member.role_changed", "member.removed"];
    expect(await actions(workspace)).toEqual(["workspace.created", ...entries]);
  });

  test("always include an owner: the last one can neither leave nor lose the role, even concurrently", async () => {
    const workspace = await onPlan();
    const change = (email: string, role: string) => workspace.ask("PATCH", `/members/${email}`, { role });
    await add(workspace, "only@example.com");
    await add(workspace, "admin@example.com", "admin");
    for (const answer of [
      await workspace.ask("DELETE", "/members/only@example.com"),
      await change("only@example.com", "admin"),
    ])
      expect(answer).toMatchObject({ status: 409, body: { code: "last_owner" } });
    expect((await change("only@example.com", "owner")).status).toBe(200);
    expect((await change("admin@example.com", "owner")).status).toBe(200);
    const both = ["only", "admin"].map((name) => workspace.ask("DELETE", `/members/${name}@example.com`));
    expect((await Promise.all(both)).map(({ status }) => status).sort()).toEqual([204, 409]);
  });
});

describe("§2.1, §3.1 API keys", () => {
  const askToDeactivate = (workspace: TestWorkspace) => workspace.ask("POST", `/keys/${workspace.key.id}/deactivate`);

  test("show the full key and the secret once, at creation, and are stored as hashes only", async () => {
    const workspace = await onPlan();
    const answer = await workspace.ask("POST", "/keys", { name: "Website", secret: true });
    expect(answer.status).toBe(201);
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
      misfits: "reject",
      answer: 202,
      signal_limit: null,
      public_origin: null,
      successor_of: null,
    });
    expect(items(await workspace.ask("GET", "/keys"))).toEqual([record]);
    const stored = JSON.stringify(
      await env.DB.batch([env.DB.prepare("SELECT * FROM api_keys"), env.DB.prepare("SELECT * FROM audit_log")]),
    );
    for (const hidden of [String(key), String(key).slice(8, -4), String(secret)]) expect(stored).not.toContain(hidden);
    for (const shown of [key, secret]) expect(stored).toContain(await digestHex(String(shown)));
  });

  test("are listed as Inactive after they expire", async () => {
    const workspace = await onPlan();
    const key = { name: "K", endpointType: "signal_staging", secret: false, payloadTemplate: null } as const;
    await createKey(workspace.context(), { ...key, expiresAt: new Date(Date.now() - 1).toISOString() });
    const [listed] = items(await workspace.ask("GET", "/keys"));
    expect(listed).toMatchObject({ status: "Inactive", deactivated_at: null, has_secret: false });
  });

  test("end at once when they are deactivated; a repeated call returns the same record", async () => {
    const workspace = await newWorkspace();
    expect((await workspace.send(SIGNAL)).status).toBe(202);
    const first = await askToDeactivate(workspace);
    expect(first).toMatchObject({ status: 200, body: { id: workspace.key.id, status: "Inactive" } });
    expect((await workspace.send(SIGNAL)).status).toBe(401);
    expect((await askToDeactivate(workspace)).body).toEqual(first.body);
    expect(items(await workspace.ask("GET", "/keys"))).toEqual([first.body]);
    expect(await actions(workspace)).toEqual(["workspace.created", "key.created", "key.deactivated"]);
  });

  test("are deactivated in the Quota Counter before D1 changes; a repeated call completes an interrupted one", async () => {
    const workspace = await newWorkspace();
    const endWith = (answer: () => Promise<void>) => {
      const counters = { getByName: () => ({ deactivate: answer }) } as object as Env["QUOTA_COUNTER"];
      return deactivateApiKey(workspace.context({ env: { ...env, QUOTA_COUNTER: counters } }), workspace.key.id);
    };
    const isActive = async () => (await findKey(db, workspace.id, workspace.key.id))?.deactivatedAt === null;
    await expect(endWith(() => Promise.reject(new Error("no answer")))).rejects.toThrow("no answer");
    expect(await isActive()).toBe(true);
    await workspace.counter.deactivate(workspace.key.id);
    expect((await workspace.send(SIGNAL)).status).toBe(401);
    expect((await askToDeactivate(workspace)).body["status"]).toBe("Inactive");
  });
});

describe("§8.5 mapping rules", () => {
  test("are created, read, changed field by field and deleted", async () => {
    const workspace = await onPlan();
    const { status, body } = await workspace.ask("POST", "/rules", RULE);
    const path = `/rules/${String(body["id"])}`;
    expect([status, body]).toEqual([
      201,
      {
        id: expect.stringMatching(/^rule_/),
        ...RULE,
        frequency: "every_time",
        points_last_days: null,
        enabled: true,
        version: 1,
        created_at: expect.stringMatching(/Z$/),
        updated_at: body["created_at"],
        updated_by: "operator",
      },
    ]);
    expect((await workspace.ask("GET", path)).body).toEqual(body);
    const changed = await workspace.ask("PATCH", path, { points: 7 });
    expect(changed.body).toEqual({ ...body, points: 7, version: 2, updated_at: expect.any(String) });
    const lapsing = await workspace.ask("PATCH", path, { points_last_days: 90 });
    expect(lapsing.body).toMatchObject({ points: 7, points_last_days: 90, version: 3 });
    const always = await workspace.ask("PATCH", path, { points_last_days: null });
    expect(always.body).toMatchObject({ points_last_days: null, version: 4 });
    expect(items(await workspace.ask("GET", "/rules"))).toEqual([always.body]);
    const versions = items(await workspace.ask("GET", `${path}/versions`));
    expect(versions).toMatchObject([null, 90, null, null].map((points_last_days) => ({ points_last_days })));
    for (const unknown of ["9", "one"]) {
      expect((await workspace.ask("POST", `${path}/versions/${unknown}/restore`)).status).toBe(404);
    }
    expect((await workspace.ask("DELETE", path)).status).toBe(204);
    for (const method of ["GET", "DELETE"]) expect((await workspace.ask(method, path)).status).toBe(404);
    const updates = Array.from({ length: 3 }, () => "rule.updated");
    expect(await actions(workspace)).toEqual(["workspace.created", "rule.created", ...updates, "rule.deleted"]);
  });

  test("raise the workspace's rules version with each change; the consumer loads enabled rules only", async () => {
    const workspace = await onPlan();
    const rulesAre = async (version: number) => expect(await rulesVersion(db, workspace.id)).toBe(version);
    await rulesAre(0);
    const { id } = (await workspace.ask("POST", "/rules", RULE)).body;
    await rulesAre(1);
    const enabled = async () => (await loadRules(db, [workspace.id])).get(workspace.id)?.rules;
    const { name: _, scoring_signal: scoringSignal, ...content } = RULE;
    const DEFAULTS = { frequency: "every_time", pointsLastDays: null };
    expect(await enabled()).toEqual([{ id, version: 1, ...content, scoringSignal, ...DEFAULTS }]);
    await workspace.ask("PATCH", `/rules/${String(id)}`, { enabled: false });
    await rulesAre(2);
    expect(await enabled()).toEqual([]);
    await workspace.ask("DELETE", `/rules/${String(id)}`);
    await rulesAre(3);
  });
});

describe("signals", () => {
  let workspace: TestWorkspace;
  let signalId: string;

  beforeAll(async () => {
    workspace = await newWorkspace({ key: { name: "Website" }, plan: "free" });
    await workspace.ask("POST", "/rules", {
      name: "Form",
      event: "Filled Out Form",
      scoring_signal: "form",
      points: 3,
    });
    signalId = (await (await workspace.send(SIGNAL)).json<{ id: string }>()).id;
  });

  test("can be followed by id as soon as they are accepted, until they have scored", async () => {
    const trace = async () => (await workspace.ask("GET", `/signals/${signalId}`)).body;
    const admission = {
      key_id: workspace.key.id,
      key_name: "Website",
      verdict: "accepted",
      ordinal: 1,
      signal_limit: 1_000,
    };
    expect(await trace()).toMatchObject({ id: signalId, ...admission });
    await until(async () => expect((await trace())["status"]).toBe("processed"));
    expect(await trace()).toMatchObject({
      ...admission,
      ...SIGNAL,
      person: { email: "jane@example.com", by: "email" },
      rules_matched: [{ scoring_signal: "form", points: 3, rule_version: 1 }],
      points: 3,
      payload: SIGNAL,
    });
  });

  test("are listed by filters, with their people and event groups", async () => {
    await workspace.settled();
    for (const [path, found] of [
      ["/people?email=Jane@Example.com", [{ email: "jane@example.com", score: 3 }]],
      ["/people?email=other@example.com", []],
      ["/events", [{ event: "Filled Out Form", count: 1 }]],
      ["/signals?status=processed&event=Filled%20Out%20Form", [{ id: signalId }]],
      ["/signals?status=held", []],
      ["/dead-letters", []],
    ] as const)
      expect(items(await workspace.ask("GET", path)), path).toMatchObject(found);
  });
});
