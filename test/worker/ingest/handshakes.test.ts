/** Before a sender delivers, it asks whether the address is ours (domain/template/handshake.ts). */
import { describe, expect, test } from "vitest";
import { call, newWorkspace, unknownKey, type TestKey, type TestWorkspace } from "../../support/workspace.ts";

const TEMPLATE = [{ target: "event", path: "trigger" }];
const templated = (more: object = {}) => newWorkspace({ key: { payload_template: TEMPLATE, ...more } });

const ask = (key: string, method = "GET", { query = "", place = "", headers = {} } = {}) =>
  call(`/api/signal-staging/webhook/${place}${key}${query}`, {
    method,
    headers: { "cf-connecting-ip": crypto.randomUUID(), ...headers },
  });

async function expectNothingCounted(workspace: TestWorkspace): Promise<void> {
  expect(await workspace.settled()).toMatchObject({ accepted: 0, balanced: true });
  const [key] = await workspace.list("/keys");
  expect(key).toMatchObject({ last_used_at: null });
  expect(await workspace.list("/rejections")).toEqual([]);
}

describe("a handshake", () => {
  test.each(["GET", "HEAD"])("by %s is answered with 200 and no body, with and without a source", async (method) => {
    const workspace = await templated();
    for (const place of ["", "trello/"]) {
      const answer = await ask(workspace.key.key, method, { place });
      expect([answer.status, await answer.text()]).toEqual([200, ""]);
    }
    await expectNothingCounted(workspace);
  });

  test("by GET returns its challenge as text", async () => {
    const workspace = await templated();
    const answer = await ask(workspace.key.key, "GET", { query: "?hub.mode=subscribe&hub.challenge=1158201444" });
    expect([answer.status, await answer.text()]).toEqual([200, "1158201444"]);
    expect(answer.headers.get("content-type")).toBe("text/plain; charset=utf-8");
    expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
    await expectNothingCounted(workspace);
  });

  test.each(["<script>", "a".repeat(257), ""])("does not return the challenge %j", async (challenge) => {
    const workspace = await templated();
    const query = `?hub.challenge=${encodeURIComponent(challenge)}`;
    expect(await (await ask(workspace.key.key, "GET", { query })).text()).toBe("");
    const answer = await workspace.send({ type: "url_verification", challenge });
    expect(answer.status).toBe(422);
  });

  test.each([
    [{ type: "url_verification", token: "t", challenge: "3eZbrw1aB" }, { challenge: "3eZbrw1aB" }],
    [{ challenge: "3eZbrw1aB" }, { challenge: "3eZbrw1aB" }],
  ])("by POST of %j returns its challenge as JSON", async (body, expected) => {
    const workspace = await templated();
    const answer = await workspace.send(body);
    expect([answer.status, await answer.json()]).toEqual([200, expected]);
    expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
    await expectNothingCounted(workspace);
  });

  test("is no signal that names a challenge", async () => {
    const workspace = await templated();
    expect((await workspace.send({ trigger: "quiz", challenge: "3eZbrw1aB" })).status).toBe(202);
    expect(await workspace.settled()).toMatchObject({ accepted: 1, processed: 1 });
  });

  test("is answered only with a known key, its secret, and a template for signals", async () => {
    const workspace = await templated({ secret: true });
    const { key, secret = "" } = workspace.key;
    const statusOf = async (...args: Parameters<typeof ask>) => (await ask(...args)).status;
    expect(await statusOf(key)).toBe(401);
    expect(await statusOf(key, "HEAD", { headers: { "x-api-secret": "wrong" } })).toBe(401);
    expect(await statusOf(key, "GET", { headers: { "x-api-secret": secret } })).toBe(200);
    expect((await workspace.send({ challenge: "3eZbrw1aB" })).status).toBe(401);
    expect(await statusOf(unknownKey())).toBe(401);
    const plain = await workspace.newKey();
    const accounts = await workspace.newKey({
      endpoint_type: "product_org",
      payload_template: [{ target: "external_id", path: "id", type: "string" }],
    });
    for (const other of [plain, accounts]) {
      const answer = await ask(other.key);
      expect([answer.status, answer.headers.get("allow")]).toEqual([405, "POST"]);
    }
    expect((await workspace.send({ challenge: "3eZbrw1aB" }, { key: plain.key })).status).toBe(422);
  });

  test("is a 401 as soon as the key is deactivated or has expired", async () => {
    const workspace = await templated();
    expect((await ask(workspace.key.key)).status).toBe(200);
    await workspace.deactivate();
    for (const method of ["GET", "HEAD"]) expect((await ask(workspace.key.key, method)).status).toBe(401);
    expect((await workspace.send({ challenge: "3eZbrw1aB" })).status).toBe(401);
    const other: TestKey = await workspace.newKey({ payload_template: TEMPLATE });
    await workspace.deactivate(other);
    expect((await workspace.send({ challenge: "3eZbrw1aB" }, { key: other.key })).status).toBe(401);
  });

  test("is a 401 as soon as the workspace has ended, a 503 while it moves", async () => {
    const [ended, moving] = [await templated(), await templated()];
    // The isolate knows both keys.
    for (const { key } of [ended, moving]) expect((await ask(key.key)).status).toBe(200);
    const { slug } = await ended.operator<{ slug: string }>("GET", "");
    await ended.operator("DELETE", "", { slug });
    await moving.operator("POST", "/close", {});
    for (const [{ key }, status] of [
      [ended.key, 401],
      [moving.key, 503],
    ] as const) {
      expect((await ask(key)).status).toBe(status);
      const options = { method: "POST", body: JSON.stringify({ challenge: "3eZbrw1aB" }) };
      expect((await call(`/api/signal-staging/webhook/${key}`, options)).status).toBe(status);
    }
  });
});
