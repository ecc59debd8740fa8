/**
 * Invariant 6: keys, secrets, the operator's token and API tokens appear in no log, table, message or answer, except
 * the answer that shows them once. Runs good and bad calls, then searches everything stored.
 */
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { StoreState } from "../../../src/store/state/store-state.ts";
import { linesOf } from "../../support/adds-up.ts";
import { textsOfColumns, textsOfD1 } from "../../support/everything.ts";
import { readStore } from "../../support/read-store.ts";
import { until } from "../../support/until.ts";
import { textOf } from "../../support/wire.ts";
import { call, newWorkspace, unknownKey, type TestKey, type TestWorkspace } from "../../support/workspace.ts";
import { sealSignalLogs } from "../../support/log.ts";

const WEBHOOK = "/api/signal-staging/webhook/{key}";
const TEMPLATE = [{ target: "external_id", path: "id", type: "string" }];
const WRONG_SECRET = "wrong-Secret-that-somebody-tried-4711";
const UNKNOWN_KEY = unknownKey();

/** Forbidden texts by name. */
const forbidden = new Map<string, string>([
  ["the operator's token", env.OPERATOR_TOKEN],
  ["an unknown key", UNKNOWN_KEY],
  ["a wrong secret", WRONG_SECRET],
]);
const logged: string[] = [];
const queued: string[] = [];
const answered: string[] = [];
let workspace: TestWorkspace;
let withSecret: TestKey;

function mustStayHidden(name: string, { key, secret }: Pick<TestKey, "key" | "secret">): void {
  forbidden.set(name, key);
  // The part that the masked form hides.
  forbidden.set(`the middle of ${name}`, key.slice(8, -4));
  if (secret !== undefined) forbidden.set(`the secret of ${name}`, secret);
}

/** As plain text, URL-encoded, base64 or hexadecimal. */
function found(text: string): string[] {
  return [...forbidden].flatMap(([name, value]) => {
    const bytes = Buffer.from(value);
    const forms = [value, bytes.toString("base64"), bytes.toString("hex"), encodeURIComponent(value)];
    return forms.some((form) => text.toLowerCase().includes(form.toLowerCase())) ? [name] : [];
  });
}

/** The texts of an object's tables, by `table.column`, compressed data uncompressed. */
function textsOf(stub: TestWorkspace["counter"] | TestWorkspace["store"]): Promise<Map<string, string>> {
  return runInDurableObject(stub as DurableObjectStub, (_, { storage }) => textsOfColumns(storage.sql));
}

function tableIn(texts: ReadonlyMap<string, string>, table: string): string {
  return [...texts].flatMap(([place, text]) => (place.startsWith(`${table}.`) ? [text] : [])).join("\n");
}

function expectNothingIn(texts: ReadonlyMap<string, string>): void {
  for (const [place, text] of texts) expect(found(text), place).toEqual([]);
}

async function read(response: Response | Promise<Response>): Promise<number> {
  const answer = await response;
  answered.push(JSON.stringify([...answer.headers]), await answer.text());
  return answer.status;
}

/** Calls that an API token may not make, and one that it makes. */
async function readWithToken(token: string): Promise<number[]> {
  const ask = (path: string, method = "GET") =>
    read(call(`/operator/workspaces/${path}`, { method, headers: { authorization: `Bearer ${token}` } }));
  await ask(`${workspace.id}/rules`);
  return [await ask(token), await ask(`${workspace.id}/rules`, "POST"), await ask(`${workspace.id}/${token}`)];
}

/** Everything that the counter passes to the queue. */
async function listenToQueue(of: TestWorkspace): Promise<void> {
  await runInDurableObject(of.counter, (counter) => {
    const { SIGNALS } = (counter as unknown as { env: Env }).env;
    const sendBatch = SIGNALS.sendBatch.bind(SIGNALS);
    vi.spyOn(SIGNALS, "sendBatch").mockImplementation((messages, options) => {
      const batch = [...messages];
      queued.push(...batch.map(({ body }) => textOf(body as Uint8Array)));
      return sendBatch(batch, options);
    });
  });
}

beforeAll(async () => {
  for (const method of ["log", "info", "warn", "error", "debug", "trace"] as const) {
    vi.spyOn(console, method).mockImplementation((...args: unknown[]) => void logged.push(args.map(String).join(" ")));
  }
  workspace = await newWorkspace({ signalLimit: 40 });
  withSecret = await workspace.newKey({ secret: true });
  const accounts = await workspace.newKey({ endpoint_type: "product_org", payload_template: TEMPLATE });
  const dead = await workspace.newKey({ secret: true });
  const expiring = await workspace.newKey({ expires_at: new Date(Date.now() + 60_000).toISOString() });
  const keys = { "the key": workspace.key, "the key with a secret": withSecret, "the account key": accounts };
  for (const [name, key] of Object.entries({ ...keys, "the dead key": dead, "the expired key": expiring })) {
    mustStayHidden(name, key);
  }
  await workspace.operator("POST", `/keys/${dead.id}/deactivate`);
  const [token, revoked] = [await workspace.newToken(["read"]), await workspace.newToken(["read"])];
  mustStayHidden("the API token", { key: token.token });
  mustStayHidden("the revoked API token", { key: revoked.token });
  await workspace.operator("POST", `/tokens/${revoked.id}/revoke`);
  await workspace.operator("POST", "/rules", { name: "forms", event: "*", scoring_signal: "form", points: 1 });
  await listenToQueue(workspace);

  const { key } = workspace.key;
  const right = { "x-api-secret": withSecret.secret ?? "" };
  const signal = (n: number) => ({ event: "Marked Event", email: "jane@example.com", properties: { n } });
  const good = [
    await read(workspace.send(signal(1))),
    await read(workspace.send(signal(1))),
    await read(workspace.send(signal(2), { path: "/api/signal-staging/webhook/web/{key}" })),
    // The write key of an SDK is the API key.
    await read(
      workspace.send(
        { batch: [signal(3)], writeKey: key },
        { path: `${WEBHOOK}/batch`, headers: { authorization: key } },
      ),
    ),
    await read(workspace.send('{"event":"a"}\n{"event":"b"}\n{', { path: "/api/signal-staging/bulk/{key}" })),
    await read(workspace.send({ id: "1" }, { path: "/api/product-orgs/webhook/{key}", key: accounts.key })),
    await read(workspace.send(signal(4), { key: withSecret.key, headers: right })),
    await read(workspace.send({ type: "identify", anonymousId: "a", traits: { email: "a@b.co" } })),
    await read(workspace.send(Array.from({ length: 90 }, (_, n) => signal(100 + n)))),
  ];
  expect(new Set(good)).toEqual(new Set([202]));

  const wrong = { "x-api-secret": WRONG_SECRET };
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
  await read(workspace.send(signal(5), { key: expiring.key }));
  vi.setSystemTime(Date.now() + 61_000);
  const bad = [
    await read(workspace.send(signal(5))),
    await read(workspace.send(signal(5), { key: UNKNOWN_KEY, headers: wrong })),
    await read(workspace.send(signal(5), { key: `${key}x` })),
    await read(workspace.send(signal(5), { key: expiring.key })),
    await read(workspace.send(signal(5), { key: dead.key, headers: { "x-api-secret": dead.secret ?? "" } })),
    await read(workspace.send(signal(5), { key: withSecret.key, headers: wrong })),
    await read(workspace.send(signal(5), { key: withSecret.key })),
    await read(workspace.send(signal(5), { path: "/api/product-orgs/webhook/{key}" })),
    await read(workspace.send(signal(5), { path: `/api/signal-staging/webhook/${withSecret.key}/{key}` })),
    await read(workspace.send("{ broken")),
    await read(workspace.send(`apiKey=${key}`, { headers: { "content-type": "application/x-www-form-urlencoded" } })),
    await read(workspace.send({ event: "" }, { key: withSecret.key, headers: right })),
    await read(workspace.send(" ".repeat(9_000_000))),
    await read(workspace.send(signal(5), { headers: { "content-encoding": "br" } })),
    await read(workspace.send(signal(5), { headers: { "idempotency-key": `${key}\tx` } })),
    await read(workspace.send(signal(5), { path: `${WEBHOOK}/no/such/path` })),
    await read(call(WEBHOOK.replace("{key}", key))),
    await read(call(`/operator/workspaces/${key}`, { headers: { authorization: `Bearer ${env.OPERATOR_TOKEN}` } })),
    await read(call(`/operator/workspaces/${workspace.id}`, { headers: { authorization: `Bearer ${key}` } })),
    await read(call(`/operator/workspaces/${workspace.id}/keys/${key}/deactivate`, { method: "POST" })),
    ...(await readWithToken(token.token)),
    ...(await readWithToken(revoked.token)),
    await read(workspace.send({ event: token.token })),
    await read(call(`/docs/${key}?key=${key}`)),
  ];
  expect(bad.every((status) => status >= 400 && status < 500)).toBe(true);
  for (const pasted of [key, withSecret.secret ?? "", token.token, `${"x ".repeat(40)}${key}`])
    expect(await read(call(`/docs/search?q=${encodeURIComponent(pasted)}`))).toBe(200);
  vi.useRealTimers();

  await workspace.settled();
  await failing();
  // Writes what the objects keep in memory briefly.
  const listed = async () => JSON.stringify(await workspace.counter.rejections(200));
  await until(async () => expect(await listed()).toMatch(/key_expired.*secret_wrong|secret_wrong.*key_expired/));
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 600_000 });
  await runDurableObjectAlarm(workspace.counter);
  vi.useRealTimers();
});

/** A call answered with 503 because the counter cannot commit, and a signal that cannot be processed. */
async function failing(): Promise<void> {
  const broken = await newWorkspace();
  mustStayHidden("the key of a broken workspace", broken.key);
  await runInDurableObject(broken.counter, (_counter, state) => void state.storage.sql.exec("DROP TABLE outbox"));
  expect(await read(broken.send({ event: "x" }))).toBe(503);
}

afterAll(() => {
  vi.restoreAllMocks();
});

test("no log line contains a key or secret", () => {
  const lines = logged.join("\n");
  // The log contains requests with their route's template, batches and failures.
  expect(lines).toContain('"event":"request"');
  expect(lines).toContain("/api/signal-staging/webhook/:sourceOrKey/:keyOrBatch");
  expect(lines).toContain('"event":"batch"');
  expect(lines).toContain('"event":"commit_failed"');
  expect(lines).toContain(workspace.id);
  expect(found(lines)).toEqual([]);
  expect(lines).not.toMatch(/sk_[0-9A-Za-z]/);
});

test("every log line is one JSON object that names its event", () => {
  for (const line of logged) {
    expect(line).not.toContain("\n");
    expect(JSON.parse(line), line).toMatchObject({ event: expect.any(String) });
  }
});

test("no table of the control plane contains a key or secret", async () => {
  const texts = await textsOfD1();
  expect(tableIn(texts, "api_keys")).toContain(withSecret.id);
  expect(tableIn(texts, "api_keys")).toContain(withSecret.key.slice(0, 8));
  expect(tableIn(texts, "audit_log")).toContain("key.created");
  expectNothingIn(texts);
});

test("no table of the Quota Counter contains a key or secret, including the latest rejections", async () => {
  // The first alarm checks whether calls continue; the second writes their counts.
  for (let ring = 0; ring < 2; ring++) await runDurableObjectAlarm(workspace.counter);
  const texts = await textsOf(workspace.counter);
  for (const code of ["endpoint_mismatch", "source_invalid", "key_expired", "secret_wrong", "extra_room_exceeded"]) {
    expect(tableIn(texts, "rejections")).toContain(code);
  }
  expect(tableIn(texts, "deactivated_keys")).toContain("key_");
  expectNothingIn(texts);
});

test("no table of the Signal Store contains a key or secret, with open and with compressed lines", async () => {
  const lines = await readStore(workspace.id, ({ signals, held }) => [linesOf(signals), linesOf(held)]);
  expect(lines.map(({ length }) => length)).toEqual([40, 40]);
  const open = await textsOf(workspace.store);
  expect(tableIn(open, "heads")).toContain("Marked Event");
  await runInDurableObject(workspace.store, (store) => {
    sealSignalLogs((store as unknown as { state: StoreState }).state);
  });
  const compressed = await textsOf(workspace.store);
  expect(tableIn(compressed, "heads")).not.toContain("Marked Event");
  for (const table of ["signals_facts", "signals_payloads", "held_facts", "held_payloads"]) {
    // Payloads leave out the event of their line.
    expect(tableIn(compressed, table), table).toMatch(/Marked Event|\(event\)/);
  }
  for (const texts of [open, compressed]) {
    expect(tableIn(texts, "people")).toContain("jane@example.com");
    expectNothingIn(texts);
  }
});

test("no queue message contains a key or secret", () => {
  const messages = queued.join("\n");
  expect(messages).toContain("Marked Event");
  expect(messages).toContain(workspace.key.id);
  expect(found(messages)).toEqual([]);
});

test("no ingestion answer and no problem contains a key or secret", () => {
  const answers = answered.join("\n");
  expect(answers).toContain("unauthorized");
  expect(answers).toContain('"status":"partial"');
  expect(found(answers)).toEqual([]);
});

test("after its creation no answer of the operator API contains the key or secret", async () => {
  for (const path of ["", "/keys", "/rejections", "/usage", "/books", "/events", "/signals", "/people", "/members"]) {
    expect(found(JSON.stringify(await workspace.operator("GET", path))), path).toEqual([]);
  }
});
