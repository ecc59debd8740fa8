/** API tokens of a workspace (design §9): a program calls the operator API within its scopes, until its token ends. */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createToken } from "../../../src/d1/api-tokens.ts";
import { composeToken, isWellFormedToken } from "../../../src/domain/keys/api-key.ts";
import { TOKEN_SCOPES } from "../../../src/domain/keys/api-token.ts";
import worker from "../../../src/index.ts";
import {
  ACTOR_MAX_CHANGES_A_DAY,
  WORKSPACE_MAX_ACTIVE_TOKENS,
  WORKSPACE_MAX_TOKENS_A_DAY,
} from "../../../src/limits.ts";
import { TOKEN_CALLS_PER_PERIOD } from "../../../src/operator/authorise.ts";
import { newId } from "../../../src/platform/ids.ts";
import { TEST_AUTH_FAILURES_PER_MINUTE } from "../../support/auth-failures.ts";
import { stopClock } from "../../support/clock.ts";
import { d1Failing } from "../../support/faults.ts";
import { expectLogged } from "../../support/logged.ts";
import { newMembers, type Members } from "../../support/members.ts";
import { until } from "../../support/until.ts";
import {
  askOperator,
  concurrently,
  newWorkspace,
  type TestToken,
  type TestWorkspace,
} from "../../support/workspace.ts";

const DAY_MS = 24 * 3_600_000;
const RULE = { name: "Visits", event: "Visit", scoring_signal: "visit", points: 1 };

let workspace: TestWorkspace;

beforeEach(async () => {
  workspace = await newWorkspace({ key: null });
});

afterEach(() => {
  vi.useRealTimers();
});

const unknownToken = () => composeToken((n) => crypto.getRandomValues(new Uint8Array(n)));
const read = async (token: TestToken, of = workspace) => (await of.askWith(token, "GET", "/rules")).status;
const listed = async (token: TestToken) =>
  (await workspace.list<{ id: string }>("/tokens")).find(({ id }) => id === token.id);

/** Status of a call while D1 rejects the matching statements. */
async function readWithout(failing: RegExp, token: string): Promise<number> {
  const bindings = { ...env, DB: d1Failing(failing, "D1_ERROR: out of order") };
  const headers = { authorization: `Bearer ${token}`, "cf-connecting-ip": "203.0.113.2" };
  const url = `https://signals.example/operator/workspaces/${workspace.id}/rules`;
  const context = createExecutionContext();
  const { status } = await worker.fetch(new Request(url, { headers }), bindings, context);
  await waitOnExecutionContext(context);
  return status;
}

async function actorsOf(action: string): Promise<string[]> {
  const query = "SELECT actor FROM audit_log WHERE workspace_id = ? AND action = ? ORDER BY id";
  const { results } = await env.DB.prepare(query).bind(workspace.id, action).all<{ actor: string }>();
  return results.map(({ actor }) => actor);
}

describe("a new token", () => {
  test("is shown once, and stored as a hash", async () => {
    const expiresAt = new Date(Date.now() + DAY_MS).toISOString();
    const body = { name: "Nightly export", scopes: ["read", "export"], expires_at: expiresAt };
    const created = await workspace.ask("POST", "/tokens", body);
    const { token, ...shown } = created.body as { token: string; id: string };
    expect(created.status).toBe(201);
    expect(isWellFormedToken(token)).toBe(true);
    expect(shown).toEqual({
      ...body,
      id: expect.stringMatching(/^tok_/),
      masked_token: `${token.slice(0, 8)}…${token.slice(-4)}`,
      created_at: expect.any(String),
      created_by: "operator",
      status: "Active",
      revoked_at: null,
      revoked_reason: null,
      last_used_at: null,
    });
    expect(await workspace.list("/tokens")).toEqual([shown]);
    const row = await env.DB.prepare("SELECT * FROM api_tokens WHERE id = ?").bind(shown.id).first();
    expect(JSON.stringify(row)).not.toContain(token.slice(8, -4));
    const detail = { name: body.name, scopes: body.scopes, expires_at: expiresAt };
    expect(await workspace.audit("token.")).toEqual([{ action: "token.created", target: shown.id, detail }]);
  });

  test.each([
    ["without a scope", { scopes: [] }, "scopes"],
    ["with an unknown scope", { scopes: ["admin"] }, "scopes.0"],
    ["with a scope twice", { scopes: ["read", "read"] }, "scopes"],
    ["without a name", { name: " " }, "name"],
    ["with a token as its name", { name: unknownToken() }, "name"],
    ["that has expired", { expires_at: "2020-01-01T00:00:00Z" }, "expires_at"],
  ])("%s is rejected", async (_, wrong, path) => {
    const answer = await workspace.ask("POST", "/tokens", { name: "A", scopes: ["read"], ...wrong });
    expect(answer).toMatchObject({ status: 422, body: { errors: [{ path }] } });
    expect(await workspace.list("/tokens")).toEqual([]);
  });
});

describe("a token", () => {
  test("finds no other workspace: the answer is that for a missing one", async () => {
    const token = await workspace.newToken(TOKEN_SCOPES);
    const neighbour = await newWorkspace({ key: null });
    expect(await read(token)).toBe(200);
    const { request_id: _a, ...foreign } = (await neighbour.askWith(token, "GET", "/rules")).body;
    const { request_id: _b, ...missing } = (
      await askOperator("GET", "/workspaces/ws_none/rules", undefined, { authorization: `Bearer ${token.token}` })
    ).body;
    const { request_id: _c, ...asOperator } = (await askOperator("GET", "/workspaces/ws_none/rules")).body;
    expect(foreign).toEqual(missing);
    expect(foreign).toEqual(asOperator);
  });

  test("sees payloads only with `read`, and names of keys only with `keys`", async () => {
    workspace = await newWorkspace();
    const sent = await workspace.send({ event: RULE.event, email: "jane@example.com", source: "web" });
    const { id } = await sent.json<{ id: string }>();
    await workspace.settled();
    const [rules, reader, all] = [
      await workspace.newToken(["rules"]),
      await workspace.newToken(["read"]),
      await workspace.newToken(["read", "rules", "keys"]),
    ];
    const samples = async (token: typeof rules) =>
      (await workspace.askWith(token, "POST", "/rules/preview", RULE)).body["samples"];
    expect(await samples(rules)).toEqual([]);
    expect(await samples(all)).toMatchObject([{ id, payload: { email: "jane@example.com" } }]);
    const keyNameFor = async (token: typeof rules) =>
      (await workspace.askWith(token, "GET", `/signals/${id}`)).body["key_name"];
    expect([await keyNameFor(reader), await keyNameFor(all)]).toEqual([null, expect.any(String)]);
    await workspace.send("{ broken");
    const rejections = async (token: typeof rules) =>
      (await workspace.askWith(token, "GET", "/rejections")).body["items"] as {
        key_id: string;
        key_name: string | null;
      }[];
    expect((await rejections(reader))[0]).toMatchObject({ key_id: workspace.key.id, key_name: null });
    expect((await rejections(all))[0]).toMatchObject({
      key_id: workspace.key.id,
      key_name: expect.any(String) as string,
    });
  });

  test("without the scope gets a 403 that names the scope and the page of tokens", async () => {
    const { slug } = await workspace.operator<{ slug: string }>("GET", "");
    const answer = await workspace.askWith(await workspace.newToken(["read"]), "POST", "/rules", RULE);
    expect(answer).toMatchObject({ status: 403, body: { code: "insufficient_scope", scope: "rules" } });
    expect(answer.body["detail"]).toContain("`rules`");
    expect(answer.body["detail"]).toContain(`https://signals.example/w/${slug}/settings/api-tokens`);
    expect(answer.headers.get("www-authenticate")).toContain('error="insufficient_scope", scope="rules"');
  });

  test("neither creates, lists nor revokes tokens, with any scope", async () => {
    const token = await workspace.newToken(TOKEN_SCOPES);
    for (const answer of [
      await workspace.askWith(token, "POST", "/tokens", { name: "B", scopes: ["read"] }),
      await workspace.askWith(token, "GET", "/tokens"),
      await workspace.askWith(token, "POST", `/tokens/${token.id}/revoke`),
    ])
      expect(answer).toMatchObject({ status: 403, body: { code: "operator_only" } });
    expect(await read(token)).toBe(200);
  });

  test("makes changes in its name", async () => {
    const token = await workspace.newToken(["rules", "keys"], { name: "Rules (from Git)" });
    const actor = `token ${token.id} (Rules (from Git))`;
    const { id } = (await workspace.askWith(token, "POST", "/rules", RULE)).body;
    await workspace.askWith(token, "PATCH", `/rules/${String(id)}`, { points: 2 });
    await workspace.askWith(token, "POST", "/keys", { name: "Website" });
    for (const action of ["rule.created", "rule.updated", "key.created"])
      expect(await actorsOf(action)).toEqual([actor]);
    expect(await workspace.list(`/rules/${String(id)}/versions`)).toMatchObject([{ by: actor }, { by: actor }]);
  });

  test("records its last use at most once a minute", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
    const token = await workspace.newToken(["read"]);
    const used = async (...atMs: number[]) =>
      until(async () =>
        expect((await listed(token))?.["last_used_at" as "id"]).toBe(new Date(atMs[0] ?? 0).toISOString()),
      );
    const firstMs = Date.now();
    await read(token);
    await used(firstMs);
    vi.setSystemTime(firstMs + 59_999);
    await read(token);
    vi.setSystemTime(firstMs + 60_000);
    expect(await listed(token)).toMatchObject({ last_used_at: new Date(firstMs).toISOString() });
    // A rejected call is a use too.
    await workspace.askWith(token, "POST", "/rules", RULE);
    await used(firstMs + 60_000);
  });

  test("is answered although its use cannot be stored, and rejected while it cannot be looked up", async () => {
    expectLogged("error", "token_use_failed");
    const { token } = await workspace.newToken(["read"]);
    expect(await readWithout(/^update "api_tokens"/, token)).toBe(200);
    expect(await readWithout(/from "api_tokens"/, token)).toBe(503);
  });
});

describe("a token ends", () => {
  test("at once when it is revoked, for good", async () => {
    const [token, kept] = [await workspace.newToken(["read"]), await workspace.newToken(["read"])];
    expect(await read(token)).toBe(200);
    const revoked = await workspace.operator("POST", `/tokens/${token.id}/revoke`);
    expect(revoked).toMatchObject({ status: "Revoked", revoked_reason: "requested" });
    expect([await read(token), await read(kept)]).toEqual([401, 200]);
    expect(await workspace.operator("POST", `/tokens/${token.id}/revoke`)).toEqual(revoked);
    const entry = { action: "token.revoked", target: token.id, detail: { name: "a program" } };
    expect(await workspace.audit("token.revoked")).toEqual([entry]);
  });

  test("not by the id of another workspace's token", async () => {
    const neighbour = await newWorkspace({ key: null });
    const token = await neighbour.newToken(["read"]);
    expect((await workspace.ask("POST", `/tokens/${token.id}/revoke`)).status).toBe(404);
    expect(await read(token, neighbour)).toBe(200);
  });

  test("at its expiration, to the millisecond", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
    const endMs = Date.now() + DAY_MS;
    const token = await workspace.newToken(["read"], { expires_at: new Date(endMs).toISOString() });
    vi.setSystemTime(endMs - 1);
    expect(await read(token)).toBe(200);
    vi.setSystemTime(endMs);
    expect(await read(token)).toBe(401);
    expect(await listed(token)).toMatchObject({ status: "Expired", revoked_at: null });
  });
});

describe("when the creator of a token", () => {
  let team: Members;
  let token: TestToken;
  let emails: Record<"owner" | "admin", string>;

  /** A token that a member has created on the pages. */
  async function tokenOf(email: string, of = team.workspace, expiresAt: string | null = null): Promise<TestToken> {
    const context = of.context({ by: { actor: email, nowMs: Date.now() } });
    const created = await createToken(context, { name: "theirs", scopes: ["read", "keys"], expiresAt });
    if (!created.ok) throw new Error(created.rejection.reason);
    return { id: created.value.record.id, token: created.value.value };
  }

  beforeEach(async () => {
    team = await newMembers({ key: null });
    workspace = team.workspace;
    emails = { owner: team.owner.email, admin: team.admin.email };
    token = await tokenOf(emails.admin);
  });

  const changeRole = (email: string, role: string) => workspace.ask("PATCH", `/members/${email}`, { role });
  const settings = (who: "owner" | "admin", path: string, form: Record<string, string>) =>
    team[who].post(`${team.home}/settings/members/${path}`, form);

  test.each<[what: string, lose: () => Promise<unknown>]>([
    ["is removed with the operator API", () => workspace.ask("DELETE", `/members/${emails.admin}`)],
    ["is removed on the page", () => settings("owner", "remove", { email: emails.admin })],
    ["leaves", () => settings("admin", "remove", { email: emails.admin })],
    ["becomes a member with the operator API", () => changeRole(emails.admin, "member")],
    ["becomes a member on the page", () => settings("owner", "role", { email: emails.admin, role: "member" })],
  ])("%s, the token ends and stays ended when the role returns", async (_, lose) => {
    const [ofOwner, ofOperator] = [await tokenOf(emails.owner), await workspace.newToken(["read"])];
    // An expired token has ended already and is not revoked.
    await tokenOf(emails.admin, workspace, new Date(Date.now() - 1).toISOString());
    expect(await read(token)).toBe(200);
    await lose();
    expect(await read(token)).toBe(401);
    expect(await listed(token)).toMatchObject({ status: "Revoked", revoked_reason: "role_lost" });
    expect([await read(ofOwner), await read(ofOperator)]).toEqual([200, 200]);
    const detail = { name: "theirs", reason: "role_lost" };
    expect(await workspace.audit("token.revoked")).toEqual([{ action: "token.revoked", target: token.id, detail }]);
    await workspace.ask("POST", "/members", { email: emails.admin, role: "admin" });
    await changeRole(emails.admin, "admin");
    expect(await read(token)).toBe(401);
    expect(await read(await tokenOf(emails.admin))).toBe(200);
  });

  test("loses the role in this workspace, the tokens of other workspaces stay", async () => {
    const elsewhere = await newMembers({ key: null });
    await elsewhere.workspace.operator("POST", "/members", { email: emails.admin, role: "admin" });
    const stays = await tokenOf(emails.admin, elsewhere.workspace);
    await changeRole(emails.admin, "member");
    expect([await read(token), await read(stays, elsewhere.workspace)]).toEqual([401, 200]);
  });

  test("becomes an owner or admin, or a change is rejected, the token stays", async () => {
    expect((await changeRole(emails.admin, "owner")).status).toBe(200);
    expect((await changeRole(emails.admin, "admin")).status).toBe(200);
    const ofOwner = await tokenOf(emails.owner);
    expect((await changeRole(emails.owner, "member")).body).toMatchObject({ code: "last_owner" });
    expect((await workspace.ask("DELETE", `/members/${emails.owner}`)).body).toMatchObject({ code: "last_owner" });
    expect([await read(token), await read(ofOwner)]).toEqual([200, 200]);
  });

  test("loses the role while the form is on its way, the new token is rejected", async () => {
    await changeRole(emails.admin, "member");
    await expect(tokenOf(emails.admin)).rejects.toThrow("not_manager");
    await expect(tokenOf("nobody@example.com")).rejects.toThrow("not_manager");
  });
});

describe("wrong tokens", () => {
  const callFrom = (network: string, token: string) =>
    askOperator("GET", `/workspaces/${workspace.id}`, undefined, {
      authorization: `Bearer ${token}`,
      "cf-connecting-ip": network,
    });

  test("get the same 401, whether unknown, mistyped, expired or revoked", async () => {
    const revoked = await workspace.newToken(["read"]);
    await workspace.operator("POST", `/tokens/${revoked.id}/revoke`);
    const answers = [];
    for (const token of [unknownToken(), `${unknownToken().slice(0, -1)}-`, revoked.token, "guess"])
      answers.push(await callFrom("203.0.113.1", token));
    const bodies = answers.map(({ status, body: { request_id: _id, ...body } }) => ({ status, body }));
    expect(bodies[0]).toMatchObject({ status: 401, body: { code: "operator_unauthorized" } });
    for (const body of bodies) expect(body).toEqual(bodies[0]);
  });

  test("with a typo cost no look-up", async () => {
    const { token } = await workspace.newToken(["read"]);
    const typo = (token.endsWith("0") ? "1" : "0") + token.slice(0, -1);
    const typos = [typo, `${token.slice(0, -1)}${token.endsWith("0") ? "1" : "0"}`];
    expect(await Promise.all(typos.map((wrong) => readWithout(/./, wrong)))).toEqual([401, 401]);
  });

  test("are limited by network; a token that this isolate knows continues to work", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
    const valid = await workspace.newToken(["read"]);
    const network = "203.0.113.3";
    expect((await callFrom(network, valid.token)).status).toBe(200);
    let last = 401;
    // Up to twice the limit, because a minute of the rate limiter may end between the calls.
    for (let calls = 0; calls <= 2 * TEST_AUTH_FAILURES_PER_MINUTE && last === 401; calls++)
      last = (await callFrom(network, unknownToken())).status;
    expect(last).toBe(429);
    // More look-ups than an isolate makes in a second for limited networks. A few at a time, as the share of a workspace allows.
    const answers = await concurrently(5, 60, () => callFrom(network, valid.token));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect((await callFrom("203.0.113.4", unknownToken())).status).toBe(401);
  });
});

describe("limits", () => {
  test("apply to the request rate of each token", async () => {
    const [busy, calm] = [await workspace.newToken(["read"]), await workspace.newToken(["read"])];
    stopClock(Date.now());
    // Until what earlier tests have used of the share of pages and API calls is free again.
    await scheduler.wait(2_000);
    const calls = Array.from({ length: TOKEN_CALLS_PER_PERIOD + 30 }, () => workspace.askWith(busy, "GET", "/rules"));
    const answers = await Promise.all(calls);
    const rejected = answers.filter(({ status }) => status === 429);
    expect(rejected.length).toBeGreaterThan(0);
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(TOKEN_CALLS_PER_PERIOD);
    expect(rejected[0]).toMatchObject({ body: { code: "rate_limited" } });
    expect(rejected[0]?.headers.get("retry-after")).toBe("10");
    // The calls have used the workspace's share of pages and API calls, which fills again at fifty a second.
    vi.setSystemTime(Date.now() + 200);
    expect(await read(calm)).toBe(200);
  });

  test("apply to the changes of a token in 24 hours, and not to reading", async () => {
    const token = await workspace.newToken(["read", "rules", "export"]);
    const atMs = Date.now() - 3_600_000;
    await env.DB.prepare(
      `INSERT INTO audit_log (id, workspace_id, at, actor, action, target, detail)
       WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
       SELECT ?2 || printf('%05d', n), ?3, ?4, ?5, 'rule.updated', 'rule_x', '{}' FROM numbers`,
    )
      .bind(
        ACTOR_MAX_CHANGES_A_DAY - 1,
        newId("aud", atMs).slice(0, -5),
        workspace.id,
        new Date(atMs).toISOString(),
        `token ${token.id} (a program)`,
      )
      .run();
    expect((await workspace.askWith(token, "POST", "/rules", RULE)).status).toBe(201);
    const rejected = await workspace.askWith(token, "POST", "/rules", RULE);
    expect([rejected.status, rejected.headers.get("retry-after")]).toEqual([429, "3600"]);
    expect((await workspace.askWith(token, "GET", "/export/people")).status).toBe(429);
    expect(await read(token)).toBe(200);
    expect((await workspace.ask("POST", "/rules", RULE)).status).toBe(201);
  });

  test("apply to the active tokens of a workspace, also for concurrent calls", async () => {
    const soon = { expires_at: new Date(Date.now() + 60_000).toISOString() };
    const ended = [await workspace.newToken(["read"]), await workspace.newToken(["read"], soon)];
    await workspace.operator("POST", `/tokens/${ended[0]?.id ?? ""}/revoke`);
    await env.DB.prepare("UPDATE api_tokens SET expires_at = '2026-01-01T00:00:00.000Z' WHERE id = ?")
      .bind(ended[1]?.id)
      .run();
    const create = () => workspace.ask("POST", "/tokens", { name: "A", scopes: ["read"] });
    const answers = await Promise.all(Array.from({ length: WORKSPACE_MAX_ACTIVE_TOKENS + 5 }, create));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(WORKSPACE_MAX_ACTIVE_TOKENS);
    expect(await create()).toMatchObject({ status: 409, body: { code: "too_many_tokens" } });
    const [active] = await workspace.list<{ id: string }>("/tokens");
    await workspace.operator("POST", `/tokens/${active?.id ?? ""}/revoke`);
    expect((await create()).status).toBe(201);
  });

  test("apply to the new tokens of a workspace in 24 hours", async () => {
    await env.DB.prepare(
      `INSERT INTO api_tokens (id, workspace_id, name, token_hash, token_first8, token_last4, scopes, created_at, created_by, revoked_at)
       WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
       SELECT ?2 || printf('%05d', n), ?3, 'Old', ?2 || n, 'wt_aaaaa', 'aaaa', '["read"]', ?4, 'operator', ?4 FROM numbers`,
    )
      .bind(
        WORKSPACE_MAX_TOKENS_A_DAY,
        newId("tok", Date.now() - DAY_MS + 60_000).slice(0, -5),
        workspace.id,
        new Date().toISOString(),
      )
      .run();
    const create = () => workspace.ask("POST", "/tokens", { name: "A", scopes: ["read"] });
    expect(await create()).toMatchObject({ status: 409, body: { code: "too_many_tokens_a_day" } });
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 61_000 });
    expect((await create()).status).toBe(201);
  });
});
