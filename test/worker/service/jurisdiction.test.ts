/**
 * A deployment in a jurisdiction. The local runtime has no jurisdictions: it throws on each. So some tests replace the
 * namespaces by ones that note the requested jurisdiction and return the objects of the local runtime.
 */
import {
  createExecutionContext,
  createMessageBatch,
  runInDurableObject,
  waitOnExecutionContext,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import worker, { Destinations, QuotaCounter, SignalStore } from "../../../src/index.ts";
import { messageOf } from "../../support/deliver.ts";
import { expectLogged } from "../../support/logged.ts";
import { TestWorkspace, unknownKey, type Problem } from "../../support/workspace.ts";

const CLASSES = ["QUOTA_COUNTER", "SIGNAL_STORE", "DESTINATIONS"] as const;
const SIGNAL = { email: "a@example.com", event: "Visit" };

/** The bindings of a deployment with this JURISDICTION, and what it asks of its namespaces. */
function deployment(jurisdiction: string) {
  const asked = new Set<string>();
  const namespaces = CLASSES.map((name) => {
    const getByName = (): never => {
      throw new Error(`${name} was used without a jurisdiction`);
    };
    return [name, { getByName, jurisdiction: (wanted: string) => (asked.add(`${name} in ${wanted}`), env[name]) }];
  });
  const bindings = { ...env, JURISDICTION: jurisdiction, ...Object.fromEntries(namespaces) } as object as Env;
  return { bindings, asked };
}

async function answer(bindings: Env, path: string, body?: unknown): Promise<{ status: number; body: unknown }> {
  const headers = { authorization: `Bearer ${env.OPERATOR_TOKEN}` };
  const init = body === undefined ? { headers } : { headers, method: "POST", body: JSON.stringify(body) };
  const context = createExecutionContext();
  const response = await worker.fetch(new Request(`https://signals.example${path}`, init), bindings, context);
  const json: unknown = await response.json();
  await waitOnExecutionContext(context);
  return { status: response.status, body: json };
}

async function consume(bindings: Env, queue: string, body: string | Uint8Array) {
  const batch = createMessageBatch(queue, [{ id: "0", timestamp: new Date(), attempts: 1, body }]);
  const [ack, retry] = [vi.fn(), vi.fn()];
  for (const message of batch.messages) Object.assign(message, { ack, retry });
  const context = createExecutionContext();
  await worker.queue(batch, bindings, context);
  await waitOnExecutionContext(context);
  return { acknowledged: ack.mock.calls.length, retried: retry.mock.calls.length };
}

const deliveryOf = (workspaceId: string) =>
  JSON.stringify({ workspaceId, destinationId: "dst_1", id: "dlv_1", attempt: 1 });
const messageFor = (workspaceId: string, id: string) => messageOf(workspaceId, [{ id, payload: SIGNAL }]);

test("rejects an unknown JURISDICTION before the first workspace is created", async () => {
  expectLogged("error");
  const first = { slug: "first", name: "First", plan: "free" };
  expect(await answer(deployment("mars").bindings, "/operator/workspaces", first)).toMatchObject({
    status: 503,
    body: {
      detail: expect.stringContaining('JURISDICTION is "mars", which is none of "eu", "us" and "". Correct it.'),
    },
  });
});

/** The file's only workspace, created in the EU. */
let workspace: TestWorkspace;
const inEu = deployment("eu");

afterEach(() => {
  vi.restoreAllMocks();
});

const send = (bindings: Env, { key } = workspace.key) => answer(bindings, `/api/signal-staging/webhook/${key}`, SIGNAL);

/** The lines that the service logs meanwhile. */
function logLines(): string[] {
  const lines: string[] = [];
  vi.spyOn(console, "log").mockImplementation((line: string) => void lines.push(line));
  return lines;
}

describe("a deployment in the EU", () => {
  beforeAll(async () => {
    const created = await answer(inEu.bindings, "/operator/workspaces", { slug: "eu", name: "EU", plan: "free" });
    expect(created.status).toBe(201);
    const { id } = created.body as { id: string };
    const key = await answer(inEu.bindings, `/operator/workspaces/${id}/keys`, { name: "Website" });
    workspace = new TestWorkspace(id, key.body as TestWorkspace["key"]);
  });

  test("uses all objects in the EU, from the key to the delivery", async () => {
    inEu.asked.clear();
    expect(await send(inEu.bindings)).toMatchObject({ status: 202 });
    expect(await consume(inEu.bindings, "signals", messageFor(workspace.id, "sig_1"))).toMatchObject({ retried: 0 });
    await consume(inEu.bindings, "deliveries", deliveryOf(workspace.id));
    expect(
      await answer(inEu.bindings, `/operator/workspaces/${workspace.id}/people?email=a@example.com`),
    ).toMatchObject({ status: 200, body: { items: [{ email: "a@example.com" }] } });
    expect([...inEu.asked].toSorted()).toEqual(["DESTINATIONS in eu", "QUOTA_COUNTER in eu", "SIGNAL_STORE in eu"]);
  });

  test("gets only objects that the platform keeps there: the local runtime, which cannot, rejects", async () => {
    const lines = logLines();
    const key = await newKey();
    expect(await send({ ...env, JURISDICTION: "eu" }, key)).toMatchObject({ status: 503 });
    expect(lines.join("\n")).toContain("Jurisdiction restrictions are not implemented in workerd.");
  });

  test.each([
    ["Quota Counter", QuotaCounter, "QUOTA_COUNTER"],
    ["Signal Store", SignalStore, "SIGNAL_STORE"],
    ["Destinations", Destinations, "DESTINATIONS"],
  ] as const)(
    "has a %s that finds the others in its own jurisdiction, whatever JURISDICTION is",
    async (_, Class, name) => {
      const wrong = deployment("us");
      const read = vi.fn();
      const bindings = new Proxy(wrong.bindings, {
        get: (target, property) => (read(property), Reflect.get(target, property) as unknown),
      });
      await runInDurableObject<Rpc.DurableObjectBranded, void>(env[name].getByName(`ws_of_${name}`), (__, state) => {
        const { name: itsName } = state.id;
        Object.defineProperty(state, "id", { value: { name: itsName, jurisdiction: "eu", toString: () => itsName } });
        const object = new Class(state, bindings);
        const { env: itsOwn } = object as object as { env: Env };
        for (const className of CLASSES) itsOwn[className].getByName("ws_x");
      });
      expect([...wrong.asked].toSorted()).toEqual(["DESTINATIONS in eu", "QUOTA_COUNTER in eu", "SIGNAL_STORE in eu"]);
      // Each namespace was read once, to restrict it: no constructor keeps an unrestricted one.
      const reads = read.mock.calls.flat().filter((property) => (CLASSES as readonly unknown[]).includes(property));
      expect(reads.toSorted()).toEqual([...CLASSES].toSorted());
    },
  );
});

/** A new key: an isolate does not know it, as after a deployment. */
async function newKey() {
  const { body } = await answer(inEu.bindings, `/operator/workspaces/${workspace.id}/keys`, { name: "After" });
  return body as TestWorkspace["key"];
}

const PROBLEMS = {
  us: 'JURISDICTION is "us", but this deployment\'s data is in "eu". Set JURISDICTION = "eu" again',
  "": 'JURISDICTION is "", but this deployment\'s data is in "eu". Set JURISDICTION = "eu" again',
  EU: 'JURISDICTION is "EU", which is none of "eu", "us" and "". Correct it.',
};

describe.each(Object.entries(PROBLEMS))("JURISDICTION %j on data in the EU", (jurisdiction, says) => {
  // Objects elsewhere would be empty, so none may be used.
  const use = (): never => {
    throw new Error("an object was used");
  };
  const untouched = Object.fromEntries(CLASSES.map((name) => [name, { getByName: use, jurisdiction: use }]));
  const bindings = { ...env, JURISDICTION: jurisdiction, ...untouched } as object as Env;

  test("answers 503 to senders, with the reason, for known and new keys; the log has the reason too", async () => {
    const lines = logLines();
    for (const key of [workspace.key, await newKey()]) {
      const rejected = await send(bindings, key);
      expect(rejected).toMatchObject({ status: 503, body: { code: "unavailable" } });
      expect((rejected.body as Problem).detail).toContain(says);
    }
    expect(lines.filter((line) => line.includes(JSON.stringify(says).slice(1, -1)))).not.toEqual([]);
    // The same answer as ever, which needs no object.
    expect(await send(bindings, { id: "", key: unknownKey() })).toMatchObject({ status: 401 });
  });

  test("keeps accepted signals waiting: their messages are retried, also the dead letters", async () => {
    const lines = logLines();
    for (const queue of ["signals", "signals-dlq"]) {
      const result = await consume(bindings, queue, messageFor(workspace.id, `sig_${queue}_${jurisdiction}`));
      expect(result).toEqual({ acknowledged: 0, retried: 1 });
    }
    expect(lines.filter((line) => line.includes("batch_failed"))).toHaveLength(2);
    expect(lines.join("\n")).toContain(JSON.stringify(says).slice(1, -1));
  });

  test("is explained by health, and rejects every call about a workspace and every new workspace", async () => {
    expectLogged("error");
    const health = await answer(bindings, "/operator/health");
    expect(health).toMatchObject({
      status: 200,
      body: {
        status: "stuck",
        says: expect.stringContaining(says),
        items: [{ workspace_id: workspace.id, alarms: [{ alarm: "wrong_jurisdiction", status: "stuck" }] }],
      },
    });
    const calls = [
      answer(bindings, `/operator/workspaces/${workspace.id}/books`),
      answer(bindings, `/operator/workspaces/${workspace.id}/keys/${workspace.key.id}/deactivate`, {}),
      answer(bindings, "/operator/workspaces", { slug: `new-${jurisdiction.toLowerCase()}0`, name: "N", plan: "free" }),
    ];
    for (const call of calls) {
      expect(await call).toMatchObject({ status: 503, body: { detail: expect.stringContaining(says) } });
    }
  });

  test("has no page of the workspace, and says that the operator must correct it", async () => {
    expectLogged("error");
    await env.DB.prepare("INSERT INTO members VALUES (?, 'owner@example.com', 'owner', '') ON CONFLICT DO NOTHING")
      .bind(workspace.id)
      .run();
    const access = { getIdentity: async () => ({ email: "owner@example.com" }), aud: "aud" };
    const context = Object.assign(createExecutionContext(), { access });
    const signedIn = { ...bindings, SIGN_IN: "access", ACCESS_AUD: "aud" };
    const response = await worker.fetch(new Request("https://signals.example/w/eu"), signedIn, context);
    expect(response.status).toBe(503);
    expect(await response.text()).toContain("only its operator can correct");
  });
});
