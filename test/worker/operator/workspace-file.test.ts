/** The file of a workspace: export, import, and the same workspace again. */
import { abortAllDurableObjects, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { createHash } from "node:crypto";
import { gunzipSync, gzipSync } from "node:zlib";
import { afterEach, describe, expect, test, vi } from "vitest";
import { hashOfName } from "../../../src/domain/signal/identity.ts";
import { PAUSE_MAX_MS } from "../../../src/store/transfer/export-jobs.ts";
import { controlDatabase } from "../../../src/d1/database.ts";
import { beginImport as begin, finishImport, importPart } from "../../../src/use-cases/import-workspace.ts";
import { textOfTables } from "../../support/everything.ts";
import { intercept } from "../../support/intercept.ts";
import { Interruption, type Harm } from "../../support/interruption.ts";
import { bucketWith, ring, withBindings } from "../../support/cold.ts";
import { consumeMessages, messageOf } from "../../support/deliver.ts";
import { expectLogged } from "../../support/logged.ts";
import { newMembers } from "../../support/members.ts";
import { restart } from "../../support/restart.ts";
import { until } from "../../support/until.ts";
import { newPlan, newWorkspace, operator, TestWorkspace } from "../../support/workspace.ts";
import { beginImport, exportOf, linesOf, moved, sendPart, type WorkspaceFile } from "../../support/workspace-file.ts";

const DAY_MS = 24 * 3_600_000;
/** More calls than an export or an import makes. */
const MOST_CALLS = 30;
const RULE = { name: "R", event: "E", conditions: [], scoring_signal: "s", points: 5 };

afterEach(() => vi.useRealTimers());

interface ExportAnswer {
  state: string;
  error: string | null;
}

/** With rules, people, a visitor, held signals, dead letters, a deletion, an account, a destination, and an object in R2. */
async function fullWorkspace() {
  const { workspace, owner } = await newMembers({
    signalLimit: 12,
    anchor: new Date(Date.now() - DAY_MS).toISOString(),
  });
  await workspace.operator("POST", "/rules", { ...RULE, frequency: "once_ever", points_last_days: 30 });
  const { id } = await workspace.operator<{ id: string }>("POST", "/rules", { ...RULE, scoring_signal: "t" });
  await workspace.operator("PATCH", `/rules/${id}`, { points: 6, points_last_days: 30 });
  const payload_template = [{ target: "external_id", path: "id", type: "string", required: true }];
  const accounts = await workspace.newKey({ endpoint_type: "product_org", payload_template });
  const target = "https://receiver.example.com/";
  const headers = [{ name: "X-Token", value: "receiver-token" }];
  await workspace.operator("POST", "/destinations", {
    name: "d",
    type: "webhook",
    target,
    headers,
    notifications: ["period.closed"],
  });
  await workspace.operator("PUT", "/thresholds", { thresholds: [20], account_thresholds: [200] });
  for (const name of ["jane", "sam", "gone"])
    await workspace.send({ email: `${name}@example.com`, event: "E", id: name });
  await workspace.send({ type: "track", event: "E", anonymousId: "a-1", messageId: "m-1" });
  await workspace.send({ id: "c-1" }, { path: "/api/product-orgs/webhook/{key}", key: accounts.key });
  await workspace.settled();
  await workspace.operator("DELETE", "/people/gone@example.com");
  await consumeMessages([messageOf(workspace.id, [{ id: "sig_dead", payload: { event: "E" }, row: 1 }])], {
    queue: "signals-dlq",
  }).catch(() => undefined);
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 2 * DAY_MS });
  await ring(workspace.id);
  for (let n = 0; n < 10; n++) await workspace.send({ email: "held@example.com", event: "E", id: `h-${n}` });
  await workspace.settled();
  return { workspace, owner };
}

async function rowsOf(table: string, { id }: TestWorkspace): Promise<number> {
  const counted = env.DB.prepare(`SELECT count(*) AS rows FROM ${table} WHERE workspace_id = ?`).bind(id);
  return (await counted.first<number>("rows")) ?? 0;
}

async function scoresOn(workspace: TestWorkspace, days: readonly number[]): Promise<unknown[]> {
  const nowMs = Date.now();
  const found: unknown[] = [];
  for (const day of days) {
    vi.setSystemTime(nowMs + day * DAY_MS);
    // oxlint-disable-next-line no-await-in-loop
    const { items } = await workspace.operator<{ items: { email: string; score: number }[] }>(
      "GET",
      "/people?limit=200",
    );
    found.push(items.map(({ email, score }) => [email, score]).toSorted());
  }
  vi.setSystemTime(nowMs);
  return found;
}

describe("the file of a workspace", () => {
  test("imported and exported again is the same file, with the same books, scores and keys", async () => {
    const { workspace } = await fullWorkspace();
    const before = await exportOf(workspace);
    const [books, scores] = [await workspace.books(), await scoresOn(workspace, [0, 10, 27, 29, 60, 400])];
    const after = await moved(workspace, before);
    expect(await after.books()).toEqual(books);
    const again = await exportOf(after);
    expect(linesOf(again)).toEqual(linesOf(before));
    const header = { exportId: "", exportedAtMs: 0, parts: [] };
    const place = { id: "", slug: "" };
    const comparable = ({ manifest }: WorkspaceFile) => ({
      ...manifest,
      ...header,
      workspace: { ...manifest.workspace, ...place },
    });
    expect(comparable(again)).toEqual(comparable(before));
    expect(await scoresOn(after, [0, 10, 27, 29, 60, 400])).toEqual(scores);
  });

  test("has every kind of line, and no secret, token or waiting notification", async () => {
    const { workspace } = await fullWorkspace();
    const token = await workspace.newToken(["read"]);
    const file = await exportOf(workspace);
    const lines = linesOf(file);
    expect([...new Set(lines.map(({ from }) => from))].toSorted()).toEqual([
      "counter",
      "d1",
      "destinations",
      "r2",
      "store",
    ]);
    const text = JSON.stringify(lines);
    for (const secret of [workspace.key.key, token.token, "receiver-token", "whsec_"])
      expect(text).not.toContain(secret);
    // The audit log names the workspace as the target of changes.
    const others = lines.filter(({ table }) => table !== "audit_log");
    expect(JSON.stringify(others)).not.toContain(workspace.id);
    expect(file.manifest.leftOut).toContain("API tokens");
  });

  test("has objects of R2 that lost segments, and counts objects that R2 lost", async () => {
    const { workspace } = await fullWorkspace();
    await runInDurableObject(workspace.store, (_, { storage }) => {
      storage.sql.exec("UPDATE cold_objects SET state = 'gaps'");
    });
    const objects = (file: WorkspaceFile) => linesOf(file).filter(({ from }) => from === "r2").length;
    const file = await exportOf(workspace);
    expect([objects(file), file.manifest.payloadsMissing]).toEqual([1, 0]);
    expect(file.manifest.exportedAtMs).toBe(Date.now());
    const stored = await env.COLD.list({ prefix: `cold/${workspace.id}/` });
    await env.COLD.delete(stored.objects.map(({ key }) => key));
    const later = await exportOf(workspace);
    expect([objects(later), later.manifest.payloadsMissing]).toEqual([0, 1]);
  });

  test("keeps senders going: the old key gets 202 in the same isolate, duplicates are found, people go on", async () => {
    const { workspace } = await fullWorkspace();
    await workspace.operator("PATCH", "", { overages: true });
    const file = await exportOf(workspace);
    const after = await moved(workspace, file);
    expect((await workspace.send({ email: "jane@example.com", event: "E", id: "jane" })).status).toBe(202);
    expect((await workspace.send({ email: "new@example.com", event: "E", id: "new" })).status).toBe(202);
    const books = await after.settled();
    expect(books).toMatchObject({ balanced: true, duplicates: 1 });
  });

  test("has signals under way, which the new workspace records", async () => {
    const workspace = await newWorkspace();
    await workspace.operator("POST", "/rules", RULE);
    await workspace.send({ event: "first", email: "jane@example.com" });
    await workspace.settled();
    await runInDurableObject(workspace.counter, (counter) => {
      vi.spyOn((counter as unknown as { env: Env }).env.SIGNALS, "sendBatch").mockResolvedValue(undefined as never);
    });
    expect((await workspace.send({ event: "E", email: "jane@example.com" })).status).toBe(202);
    const file = await exportOf(workspace);
    expect(linesOf(file).filter(({ table }) => table === "outbox")).toHaveLength(1);
    vi.restoreAllMocks();
    const after = await moved(workspace, file);
    await runDurableObjectAlarm(after.counter);
    expect(await after.settled()).toMatchObject({ processed: 2, balanced: true });
    const people = await after.operator<{ items: unknown[] }>("GET", "/people");
    expect(people.items).toMatchObject([{ email: "jane@example.com", score: 5 }]);
  });

  test("repeats deletions that were requested after the export, from D1 or from hashes", async () => {
    const workspace = await newWorkspace();
    for (const name of ["jane", "sam", "eve"]) await workspace.send({ email: `${name}@example.com`, event: "E" });
    await workspace.settled();
    const file = await exportOf(workspace);
    await workspace.operator("DELETE", "/people/jane@example.com");
    await workspace.operator("DELETE", "", { slug: file.manifest.workspace.slug });
    const { body } = await beginImport(file);
    const after = new TestWorkspace(String(body["workspace_id"]), workspace.key);
    for (const [part, bytes] of file.parts) await sendPart(after.id, part, bytes);
    const deleted_people = [hashOfName({ kind: "email", value: "sam@example.com" })];
    expect(await after.operator("POST", "/import/finish", { deleted_people })).toMatchObject({ deletions_repeated: 2 });
    await ring(after.id);
    const people = await after.operator<{ items: unknown[] }>("GET", "/people");
    expect(people.items).toMatchObject([{ email: "eve@example.com" }]);
    // The next import of either workspace repeats it again, and nothing of this one is left in D1.
    expect(await rowsOf("deletions", after)).toBe(1);
    expect(await rowsOf("imported_rows", after)).toBe(0);
  });

  test("counts the silence of a key from the import, because the calls before it are not in the file", async () => {
    const workspace = await newWorkspace();
    const target = "https://receiver.example.com/";
    const destination = { name: "d", type: "webhook", target, notifications: ["key.silent"] };
    const { id } = await workspace.operator<{ id: string }>("POST", "/destinations", destination);
    await workspace.operator("PATCH", `/keys/${workspace.key.id}`, { silent_after_days: 2 });
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 10 * DAY_MS });
    await workspace.send({ event: "E", email: "jane@example.com" });
    await workspace.settled();
    const after = await moved(workspace, await exportOf(workspace));
    await after.operator("POST", `/destinations/${id}/resume`);
    const noticesIn = async (days: number) => {
      vi.setSystemTime(Date.now() + days * DAY_MS);
      await runDurableObjectAlarm(after.destinations);
      return runInDurableObject(after.destinations, (_, { storage: { sql } }) =>
        sql.exec("SELECT key_id, notice FROM key_notices").toArray(),
      );
    };
    expect(await noticesIn(1)).toEqual([]);
    expect(await noticesIn(2)).toEqual([{ key_id: workspace.key.id, notice: "key.silent" }]);
  });

  test("leaves destinations paused, with new secrets and without header values", async () => {
    const { workspace } = await fullWorkspace();
    const secretOf = (of: TestWorkspace) =>
      runInDurableObject(of.destinations, (_, { storage }) =>
        storage.sql.exec("SELECT secret, headers, pages_url FROM destinations").one(),
      );
    const before = await secretOf(workspace);
    const after = await moved(workspace, await exportOf(workspace));
    const [destination] = await after.list("/destinations");
    expect(destination).toMatchObject({ state: "paused", name: "d" });
    const now = await secretOf(after);
    expect(now["secret"]).toMatch(/^whsec_/);
    expect(now["secret"]).not.toBe(before["secret"]);
    expect(JSON.stringify(now)).not.toContain("receiver-token");
  });

  test("keeps keys deactivated that were deactivated after the export, if the source was closed", async () => {
    const workspace = await newWorkspace();
    const another = await workspace.newKey();
    const file = await exportOf(workspace);
    await workspace.operator("POST", "/close");
    expect((await workspace.send({ event: "E" })).status).toBe(503);
    await workspace.deactivate(another);
    const begun = await beginImport(file, `copy-${crypto.randomUUID()}`);
    const after = new TestWorkspace(String(begun.body["workspace_id"]), workspace.key);
    for (const [part, bytes] of file.parts) await sendPart(after.id, part, bytes);
    await after.operator("POST", "/import/finish", {});
    expect((await workspace.send({ event: "E" })).status).toBe(202);
    expect((await workspace.send({ event: "E" }, { key: another.key })).status).toBe(401);
    expect((await after.list<{ id: string }>("/keys")).find(({ id }) => id === another.id)).toMatchObject({
      status: "Inactive",
    });
    expect(await after.settled()).toMatchObject({ accepted: 1 });
    await workspace.operator("DELETE", "", { slug: file.manifest.workspace.slug });
    expect((await workspace.send({ event: "F" })).status).toBe(202);
    await after.settled();
  });
});

/** Sends all parts of a new import. */
async function importing(file: WorkspaceFile, { key }: TestWorkspace): Promise<TestWorkspace> {
  const { body } = await beginImport(file, `copy-${crypto.randomUUID()}`);
  const after = new TestWorkspace(String(body["workspace_id"]), key);
  for (const [part, bytes] of file.parts) await sendPart(after.id, part, bytes);
  return after;
}

async function emailsOf(workspace: TestWorkspace): Promise<string[]> {
  await ring(workspace.id);
  const { items } = await workspace.operator<{ items: { email: string }[] }>("GET", "/people");
  return items.map(({ email }) => email).toSorted();
}

/** D1 with a test's work around the batch that moves the rows of an import. */
function aroundMove(around: (make: () => unknown) => unknown): D1Database {
  return intercept(env.DB, ({ statements, make }) =>
    statements.some(({ query }) => query.startsWith('insert into "api_keys"')) ? around(make) : make(),
  );
}

function finish(workspace: TestWorkspace, DB: D1Database) {
  const context = workspace.context({ env: { ...env, DB } as Env, db: controlDatabase(DB) });
  return finishImport(context, { deletedPeople: null, withoutDeletions: false });
}

describe("an import of a file that is older than a change of its workspace", () => {
  async function source() {
    const workspace = await newWorkspace();
    const another = await workspace.newKey();
    for (const name of ["jane", "sam"]) await workspace.send({ email: `${name}@example.com`, event: "E" });
    await workspace.settled();
    return { workspace, another, file: await exportOf(workspace) };
  }

  test("repeats deletions and deactivations also after an import that was interrupted and deleted", async () => {
    const { workspace, another, file } = await source();
    await workspace.operator("DELETE", "/people/jane@example.com");
    await workspace.deactivate(another);
    await workspace.operator("POST", "/close");
    const interrupted = await importing(file, workspace);
    const DB = aroundMove(async (make) => {
      await make();
      throw new Error("interrupted");
    });
    await expect(finish(interrupted, DB)).rejects.toThrow("interrupted");
    const { slug } = await interrupted.operator<{ slug: string }>("GET", "");
    await interrupted.operator("DELETE", "", { slug });
    const after = await importing(file, workspace);
    await after.operator("POST", "/import/finish", {});
    expect(await emailsOf(after)).toEqual(["sam@example.com"]);
    expect((await workspace.send({ event: "E" }, { key: another.key })).status).toBe(401);
    expect((await workspace.send({ event: "E" })).status).toBe(202);
    await after.settled();
  });

  test("repeats deletions in a workspace that was imported from it", async () => {
    const { workspace, file } = await source();
    const first = await moved(workspace, file);
    await first.operator("DELETE", "/people/jane@example.com");
    const again = await exportOf(first);
    const second = await moved(first, again);
    await second.operator("DELETE", "/people/sam@example.com");
    const { slug } = await second.operator<{ slug: string }>("GET", "");
    await second.operator("DELETE", "", { slug });
    const after = await importing(file, workspace);
    expect(await after.operator("POST", "/import/finish", {})).toMatchObject({ deletions_repeated: 2 });
    expect(await emailsOf(after)).toEqual([]);
  });

  test("asks for a confirmation if D1 has forgotten deletions since", async () => {
    const { workspace, file } = await source();
    await workspace.operator("DELETE", "", { slug: file.manifest.workspace.slug });
    vi.useFakeTimers({ toFake: ["Date"], now: file.manifest.exportedAtMs + 31 * DAY_MS });
    const after = await importing(file, workspace);
    expect(await after.ask("POST", "/import/finish", {})).toMatchObject({ body: { code: "deletions_unknown" } });
    await after.operator("POST", "/import/finish", { without_deletions: true });
  });

  test("leaves a rotated key its end, to the millisecond", async () => {
    const { workspace, file } = await source();
    await workspace.operator("POST", `/keys/${workspace.key.id}/rotate`, { overlap: "1h" });
    const endsAt = async (of: TestWorkspace) => {
      const keys = await of.list<{ id: string; expires_at: string }>("/keys");
      return keys.find(({ id }) => id === workspace.key.id)?.expires_at ?? "";
    };
    const ends = await endsAt(workspace);
    await workspace.operator("POST", "/close");
    const after = await importing(file, workspace);
    await after.operator("POST", "/import/finish", {});
    expect(await endsAt(after)).toBe(ends);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.parse(ends) - 1 });
    expect((await workspace.send({ event: "E" })).status).toBe(202);
    vi.setSystemTime(Date.parse(ends));
    expect((await workspace.send({ event: "E" })).status).toBe(401);
    await after.settled();
  });

  test("leaves a rotated key its end also after an import that was interrupted and deleted", async () => {
    const { workspace, another, file } = await source();
    await workspace.operator("POST", `/keys/${workspace.key.id}/rotate`, { overlap: "1h" });
    await workspace.operator("POST", "/close");
    const interrupted = await importing(file, workspace);
    await openedOnly(interrupted);
    const { slug } = await interrupted.operator<{ slug: string }>("GET", "");
    await interrupted.operator("DELETE", "", { slug });
    const after = await importing(file, workspace);
    await after.operator("POST", "/import/finish", {});
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 3_600_000 });
    expect((await workspace.send({ event: "E" })).status).toBe(401);
    expect((await workspace.send({ event: "E" }, { key: another.key })).status).toBe(202);
    await after.settled();
  });

  test("gives everything back to its source if it is deleted half-way: the source can be opened again", async () => {
    const { workspace } = await source();
    const { id: ruleId } = await workspace.operator<{ id: string }>("POST", "/rules", RULE);
    const complete = await exportOf(workspace);
    await workspace.operator("POST", "/close");
    const before = { keys: await workspace.list("/keys"), audit: await rowsOf("audit_log", workspace) };
    const interrupted = await importing(complete, workspace);
    await openedOnly(interrupted);
    expect(await rowsOf("api_keys", workspace)).toBe(0);
    const { slug } = await interrupted.operator<{ slug: string }>("GET", "");
    await interrupted.operator("DELETE", "", { slug });
    await until(async () => expect(await interrupted.operator("GET", "/end")).toMatchObject({ complete: true }));
    await workspace.operator("POST", "/open");
    expect(await workspace.list("/keys")).toEqual(before.keys);
    expect(await rowsOf("audit_log", workspace)).toBe(before.audit + 1);
    expect(await workspace.operator("GET", `/rules/${ruleId}`)).toMatchObject({ points: 5 });
    expect((await workspace.send({ email: "eve@example.com", event: "E" })).status).toBe(202);
    await workspace.settled();
  });

  test("keeps a key deactivated that is deactivated while its row moves", async () => {
    const { workspace, another, file } = await source();
    await workspace.operator("POST", "/close");
    const after = await importing(file, workspace);
    const DB = aroundMove(async (make) => {
      await workspace.deactivate(another);
      return make();
    });
    await finish(after, DB);
    expect((await workspace.send({ event: "E" }, { key: another.key })).status).toBe(401);
    expect((await after.list<{ id: string }>("/keys")).find(({ id }) => id === another.id)).toMatchObject({
      status: "Inactive",
    });
  });
});

/** An import whose last call was interrupted after the workspace had begun to take signals. */
async function openedOnly(workspace: TestWorkspace, deletedPeople: readonly string[] | null = null): Promise<void> {
  const DB = intercept(env.DB, ({ statements, make }) => {
    if (statements.some(({ query }) => query.includes('delete from "imported_rows"'))) throw new Error("interrupted");
    return make();
  });
  const context = workspace.context({ env: { ...env, DB } as Env, db: controlDatabase(DB) });
  await expect(finishImport(context, { deletedPeople, withoutDeletions: false })).rejects.toThrow("interrupted");
}

const hashOf = (email: string) => hashOfName({ kind: "email", value: email });

describe("an import that is finished again after the workspace has begun to take signals", () => {
  async function source() {
    const workspace = await newWorkspace();
    for (const name of ["jane", "sam"]) await workspace.send({ email: `${name}@example.com`, event: "E" });
    await workspace.settled();
    return { workspace, file: await exportOf(workspace) };
  }

  /** Jane and Sam are senders' people again. */
  async function returned(workspace: TestWorkspace, after: TestWorkspace): Promise<void> {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 60_000 });
    for (const name of ["jane", "sam"]) await workspace.send({ email: `${name}@example.com`, event: "F" });
    await until(async () => expect(await after.counter.books()).toMatchObject({ unsettled: 0 }));
  }

  test("deletes nobody who has come back: of a list of hashes, and of a deletion that was requested twice", async () => {
    const { workspace, file } = await source();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 60_000 });
    await workspace.operator("POST", "/close");
    const deletions = ["del_first", "del_again"].map((id) =>
      env.DB.prepare("INSERT INTO deletions (id, workspace_id, requested_at, email_hash) VALUES (?, ?, ?, ?)").bind(
        id,
        workspace.id,
        new Date().toISOString(),
        hashOf("jane@example.com"),
      ),
    );
    await env.DB.batch(deletions);
    const after = await importing(file, workspace);
    const deletedPeople = [hashOf("sam@example.com")];
    await openedOnly(after, deletedPeople);
    await returned(workspace, after);
    expect(await after.operator("POST", "/import/finish", { deleted_people: deletedPeople })).toMatchObject({
      deletions_repeated: 3,
    });
    expect(await emailsOf(after)).toEqual(["jane@example.com", "sam@example.com"]);
    expect(await after.settled()).toMatchObject({ processed: 4, balanced: true });
  });

  test("still deletes whose deletion was requested meanwhile", async () => {
    const { workspace, file } = await source();
    await workspace.operator("POST", "/close");
    const after = await importing(file, workspace);
    await openedOnly(after);
    await workspace.operator("DELETE", "/people/jane@example.com");
    await after.operator("POST", "/import/finish", { deleted_people: [hashOf("sam@example.com")] });
    expect(await emailsOf(after)).toEqual([]);
  });

  test("leaves a receipt open until Destinations have deleted the person", async () => {
    const { workspace, file } = await source();
    await workspace.operator("POST", "/close");
    await workspace.operator("DELETE", "/people/jane@example.com");
    const after = await importing(file, workspace);
    await openedOnly(after);
    const waiting = () =>
      runInDurableObject(after.store, (_, { storage }) => {
        storage.sql.exec("UPDATE deletions SET to_forward = 1, finished_at = NULL");
      });
    await waiting();
    await after.store.finishImport([], null);
    const receipt = await after.store.deletion("jane@example.com");
    expect(receipt).toMatchObject({ finishedAtMs: null });
    await after.operator("POST", "/import/finish", {});
  });
});

describe("an interrupted import", () => {
  const { DB, QUOTA_COUNTER, SIGNAL_STORE, DESTINATIONS, COLD } = env;

  /** Fails after the effect of one call, or before. */
  function failing(at: number, isAfter: boolean): { bindings: Env; hasHappened: () => boolean } {
    let calls = 0;
    const harmed = <T extends object>(binding: T): T =>
      intercept(binding, async ({ make }) => {
        const isHarmed = calls++ === at;
        if (isHarmed && !isAfter) throw new Error("interrupted before the call");
        const answer = await make();
        if (isHarmed) throw new Error("interrupted after the call");
        return answer;
      });
    const objects = {
      QUOTA_COUNTER: harmed(QUOTA_COUNTER),
      SIGNAL_STORE: harmed(SIGNAL_STORE),
      DESTINATIONS: harmed(DESTINATIONS),
    };
    return {
      bindings: { ...env, DB: harmed(DB), COLD: harmed(COLD), ...objects } as Env,
      hasHappened: () => calls > at,
    };
  }

  test.each([true, false])(
    "of which each call fails (after its effect: %s) is complete when it is repeated",
    async (isAfter) => {
      expectLogged();
      const { workspace } = await fullWorkspace();
      let source = workspace;
      for (let at = 0; at < MOST_CALLS; at++) {
        const file = await exportOf(source);
        await source.operator("DELETE", "", { slug: file.manifest.workspace.slug });
        const { body } = await beginImport(file);
        const after = new TestWorkspace(String(body["workspace_id"]), workspace.key);
        const { bindings, hasHappened } = failing(at, isAfter);
        const context = {
          ...after.context({ env: bindings, db: controlDatabase(bindings.DB) }),
          pagesUrl: "https://signals.example/w/x",
        };
        for (const [part, bytes] of file.parts) {
          await importPart(context, part, bytes).catch(() => undefined);
          await importPart({ ...context, env, db: controlDatabase(env.DB) }, part, bytes);
        }
        const options = { deletedPeople: null, withoutDeletions: false };
        await finishImport(context, options).catch(() => undefined);
        await after.ask("POST", "/import/finish", {});
        expect(await after.operator("GET", "")).toMatchObject({ state: "active" });
        expect(linesOf(await exportOf(after))).toEqual(linesOf(file));
        source = after;
        if (!hasHappened()) {
          expect(at).toBeGreaterThan(10);
          return;
        }
      }
      throw new Error("more calls than expected");
    },
    240_000,
  );
});

describe("a part of an import whose call", () => {
  const { DB, QUOTA_COUNTER, SIGNAL_STORE, DESTINATIONS, COLD } = env;

  /** The call with this number waits until `arrive`. */
  function late(at: number) {
    let calls = 0;
    let arrive = (): void => undefined;
    const arrived = new Promise<void>((resolve) => (arrive = resolve));
    const held = <T extends object>(binding: T): T =>
      intercept(binding, async ({ make }) => {
        if (calls++ === at) await arrived;
        return make();
      });
    const objects = {
      QUOTA_COUNTER: held(QUOTA_COUNTER),
      SIGNAL_STORE: held(SIGNAL_STORE),
      DESTINATIONS: held(DESTINATIONS),
    };
    const bindings = { ...env, DB: held(DB), COLD: held(COLD), ...objects } as Env;
    return { bindings, arrive, hasHappened: () => calls > at };
  }

  /** @param meanwhile what happens to the workspace before the late call arrives. */
  async function eachCallLate(
    meanwhile: (after: TestWorkspace, file: WorkspaceFile) => Promise<unknown>,
    check: (after: TestWorkspace) => Promise<unknown>,
  ): Promise<void> {
    expectLogged();
    const { workspace } = await fullWorkspace();
    const file = await exportOf(workspace);
    await end(workspace);
    for (let at = 0; at < MOST_CALLS; at++) {
      const { body } = await beginImport(file);
      const after = new TestWorkspace(String(body["workspace_id"]), workspace.key);
      const { bindings, arrive, hasHappened } = late(at);
      const context = {
        ...after.context({ env: bindings, db: controlDatabase(bindings.DB) }),
        pagesUrl: "https://signals.example/w/x",
      };
      const parts = [...file.parts].map(([part, bytes]) => importPart(context, part, bytes));
      const sent = Promise.all(parts).catch(() => undefined);
      await Promise.race([sent, scheduler.wait(150)]);
      await meanwhile(after, file);
      arrive();
      await sent;
      await check(after);
      await end(after);
      if (!hasHappened()) {
        expect(at).toBeGreaterThan(7);
        return;
      }
    }
    throw new Error("more calls than expected");
  }

  async function end(workspace: TestWorkspace): Promise<void> {
    const found = await workspace.ask("GET", "");
    if (found.status === 200) await workspace.operator("DELETE", "", { slug: found.body["slug"] });
    await until(async () => expect(await workspace.operator("GET", "/end")).toMatchObject({ complete: true }));
  }

  test("arrives after the import was finished changes nothing", async () => {
    await eachCallLate(
      async (after, file) => {
        for (const [part, bytes] of file.parts) await sendPart(after.id, part, bytes);
        await after.operator("POST", "/import/finish", {});
        await env.DB.prepare("DELETE FROM members WHERE workspace_id = ?").bind(after.id).run();
        await env.COLD.delete((await env.COLD.list({ prefix: `cold/${after.id}/` })).objects.map(({ key }) => key));
        await runInDurableObject(after.store, (_, { storage }) => void storage.sql.exec("DELETE FROM cold_objects"));
      },
      async (after) => {
        expect(await after.operator("GET", "")).toMatchObject({ state: "active" });
        expect(await after.counter.isClosed()).toBe(false);
        expect(await rowsOf("members", after)).toBe(0);
        expect(await rowsOf("imported_rows", after)).toBe(0);
        expect((await env.COLD.list({ prefix: `cold/${after.id}/` })).objects).toEqual([]);
        await expect(after.store.record([])).resolves.toMatchObject({ outcome: "recorded" });
      },
    );
  }, 240_000);

  test("arrives after the workspace has ended leaves nothing of it", async () => {
    await eachCallLate(end, async (after) => {
      expect(await rowsOf("members", after)).toBe(0);
      expect(await rowsOf("imported_rows", after)).toBe(0);
      expect((await env.COLD.list({ prefix: `cold/${after.id}/` })).objects).toEqual([]);
      for (const stub of [after.counter, after.store, after.destinations] as DurableObjectStub[]) {
        expect(await runInDurableObject(stub, (_, { storage }) => textOfTables(storage.sql))).toBe("");
      }
    });
  }, 240_000);
});

describe("an interrupted export", () => {
  test.each<Harm>(["fails", "is the last before a crash"])(
    "goes on by itself, whichever call %s, and is the same file",
    async (harm) => {
      expectLogged();
      // Far from midnight, when the counter's day ends. What is due daily is due a day after the workspace was made.
      vi.useFakeTimers({ toFake: ["Date"], now: Math.ceil(Date.now() / DAY_MS) * DAY_MS + 3_600_000 });
      const { workspace } = await fullWorkspace();
      // Any call ends the day before.
      await workspace.operator("GET", "/usage");
      const lines = linesOf(await exportOf(workspace));
      for (let at = 0; at < MOST_CALLS; at++) {
        const interruption = new Interruption(at, harm, { withR2: true });
        await interruption.run(workspace.id, () => workspace.operator("POST", "/exports"));
        const file = await exportOf(workspace, async () => {
          vi.setSystemTime(Date.now() + 60_000);
          await runDurableObjectAlarm(workspace.store);
        });
        expect(linesOf(file)).toEqual(lines);
        if (!interruption.hasHappened) {
          expect(at).toBeGreaterThan(6);
          return;
        }
      }
      throw new Error("more calls than expected");
    },
    240_000,
  );
});

describe("what happens while an export is written, after its rows of D1 were read", () => {
  /** The file of the workspace, whose rows of D1 are read before this happens, and the rows of its counter afterwards. */
  async function exportDuring(workspace: TestWorkspace, meanwhile: () => Promise<unknown>): Promise<WorkspaceFile> {
    const DB = intercept(env.DB, async ({ statements, make }) => {
      if (statements.some(({ query }) => query.startsWith("SELECT * FROM audit_log"))) {
        await meanwhile();
        await scheduler.wait(5);
      }
      return make();
    });
    await restart(workspace.store);
    await withBindings(workspace.id, { DB });
    const file = await exportOf(workspace);
    await withBindings(workspace.id);
    return file;
  }

  test("the deletion of a person, answered 503, is repeated by the import", async () => {
    expectLogged("error");
    const workspace = await newWorkspace();
    for (const name of ["jane", "sam"]) await workspace.send({ email: `${name}@example.com`, event: "E" });
    await workspace.settled();
    await workspace.operator("DELETE", "/people/sam@example.com");
    await workspace.send({ email: "sam@example.com", event: "F" });
    await until(async () => expect(await workspace.counter.books()).toMatchObject({ unsettled: 0 }));
    let status = 0;
    const file = await exportDuring(workspace, async () => {
      ({ status } = await workspace.ask("DELETE", "/people/jane@example.com"));
    });
    expect(status).toBe(503);
    expect(await emailsOf(await moved(workspace, file))).toEqual(["sam@example.com"]);
  });

  test("a change of the configuration is not the file's: counter and D1 have the same one", async () => {
    expectLogged("configure_failed");
    const workspace = await newWorkspace();
    const file = await exportDuring(workspace, () => workspace.operator("PATCH", "", { overages: true }));
    const after = await moved(workspace, file);
    const { overages } = await after.operator<{ overages: boolean }>("GET", "");
    expect([overages, (await after.counter.usage())?.overages]).toEqual([false, false]);
  });

  test("the deactivation of a key holds in the new workspace", async () => {
    const workspace = await newWorkspace();
    const another = await workspace.newKey();
    const file = await exportDuring(workspace, () => workspace.deactivate(another));
    const after = await moved(workspace, file);
    expect((await workspace.send({ event: "E" }, { key: another.key })).status).toBe(401);
    expect((await after.list<{ id: string }>("/keys")).find(({ id }) => id === another.id)).toMatchObject({
      status: "Inactive",
    });
  });
});

test("an import of a workspace whose counter has no ledger counts the first call, also before the counter is configured", async () => {
  const workspace = await newWorkspace();
  await runInDurableObject(workspace.counter, (_, { storage }) => {
    for (const table of ["ledger", "configurations"]) storage.sql.exec(`DELETE FROM ${table}`);
  });
  await restart(workspace.counter);
  const file = await exportOf(workspace);
  expect(linesOf(file).filter(({ from }) => from === "counter")).toEqual([]);
  await workspace.operator("DELETE", "", { slug: file.manifest.workspace.slug });
  const after = await importing(file, workspace);
  const QUOTA_COUNTER = intercept(env.QUOTA_COUNTER, ({ method, make }) => {
    if (method === "configVersion") throw new Error("interrupted");
    return make();
  });
  const context = after.context({ env: { ...env, QUOTA_COUNTER } as Env });
  const options = { deletedPeople: null, withoutDeletions: false };
  await expect(finishImport(context, options)).rejects.toThrow("interrupted");
  expect((await workspace.send({ event: "E", email: "jane@example.com" })).status).toBe(202);
  await after.operator("POST", "/import/finish", {});
  expect(await after.settled()).toMatchObject({ accepted: 1, processed: 1, balanced: true });
  expect(await after.operator("GET", "/usage")).toMatchObject({ accepted: 1, signal_limit: 1_000_000 });
});

describe("a pause for an export", () => {
  test("is noticed by no sender, and the store records nothing meanwhile", async () => {
    const workspace = await newWorkspace();
    await workspace.send({ event: "E", email: "jane@example.com" });
    await workspace.settled();
    const pause = (state: string) =>
      runInDurableObject(workspace.store, (_, { storage }) => {
        const note = {
          id: "exp_1",
          requestedAtMs: Date.now(),
          pausedAtMs: Date.now(),
          state,
          error: null,
          place: { stage: "d1" },
        };
        storage.kv.put("exports", [{ ...note, header: null, exportedAtMs: 0, payloadsMissing: 0, parts: [] }]);
      });
    await pause("writing");
    await abortAllDurableObjects();
    expect((await workspace.send({ event: "E", email: "jane@example.com" })).status).toBe(202);
    const message = messageOf(workspace.id, [{ id: "sig_paused", payload: { event: "E" } }]);
    expect((await consumeMessages([message])).retryMessages).toHaveLength(1);
    expect((await workspace.ask("DELETE", "/people/jane@example.com")).status).toBe(503);
    await until(async () => {
      await runDurableObjectAlarm(workspace.store);
      expect(await workspace.operator("GET", "/exports/exp_1")).toMatchObject({ state: "complete" });
    });
    expect((await consumeMessages([message])).explicitAcks).toEqual(["0"]);
    expectLogged("error");
    await until(async () => expect(await workspace.counter.books()).toMatchObject({ unsettled: 0 }));
  });

  test("waits until lost payloads are marked, so that the manifest counts them or no line needs them", async () => {
    expectLogged("error");
    const workspace = await newWorkspace();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
    for (let day = 0; day < 2; day++) {
      await workspace.send({ event: "E", email: `jane-${day}@example.com` });
      await workspace.settled();
      vi.setSystemTime(Date.now() + 2 * DAY_MS);
      await ring(workspace.id);
    }
    const { objects } = await env.COLD.list({ prefix: `cold/${workspace.id}/` });
    expect(objects).toHaveLength(2);
    await env.COLD.delete(objects.map(({ key }) => key));
    let read = (): void => undefined;
    const isRead = new Promise<void>((resolve) => (read = resolve));
    let marked: Promise<unknown> = Promise.resolve();
    const COLD = bucketWith({
      before: async (method) => {
        if (method === "list") await Promise.race([isRead, scheduler.wait(500)]);
        if (method !== "get") return;
        read();
        await marked;
      },
    });
    await restart(workspace.store);
    await withBindings(workspace.id, { COLD });
    vi.setSystemTime(Date.now() + 60_000);
    marked = runInDurableObject(workspace.store, (store) => store.markLostPayloads()).catch(() => undefined);
    const file = await exportOf(workspace);
    await marked;
    const segments = linesOf(file).filter(({ table }) => table === "signals_segments");
    const needed = new Set(segments.flatMap(({ row }) => row["cold"] ?? []));
    expect(file.manifest.payloadsMissing).toBe(needed.size);
  });

  test("ends after five minutes, and the export says so", async () => {
    const workspace = await newWorkspace();
    await runInDurableObject(workspace.store, (_, { storage }) => {
      const note = {
        id: "exp_1",
        requestedAtMs: Date.now(),
        pausedAtMs: Date.now(),
        state: "writing",
        error: null,
        place: { stage: "d1" },
      };
      storage.kv.put("exports", [{ ...note, header: null, exportedAtMs: 0, payloadsMissing: 0, parts: [] }]);
    });
    await abortAllDurableObjects();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + PAUSE_MAX_MS + 60_000 });
    await runInDurableObject(workspace.store, (instance) => instance.alarm());
    const found = await workspace.operator<ExportAnswer>("GET", "/exports/exp_1");
    expect(found).toMatchObject({ state: "failed", error: expect.stringContaining("five minutes") as string });
    expect((await workspace.send({ event: "E" })).status).toBe(202);
    await workspace.settled();
  });

  test("leaves nothing of an export that failed after an interrupted write of a part", async () => {
    expectLogged("chore_failed");
    const workspace = await newWorkspace();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
    const COLD = bucketWith({
      after: (method) => {
        if (method === "put") throw new Error("interrupted");
      },
    });
    await restart(workspace.store);
    await withBindings(workspace.id, { COLD });
    const { id } = await workspace.operator<{ id: string }>("POST", "/exports");
    const objects = async () => (await env.COLD.list({ prefix: `exports/${workspace.id}/` })).objects.length;
    await until(async () => {
      await runDurableObjectAlarm(workspace.store);
      expect(await objects()).toBe(1);
    });
    await restart(workspace.store);
    vi.setSystemTime(Date.now() + PAUSE_MAX_MS + 60_000);
    await runInDurableObject(workspace.store, (instance) => instance.alarm());
    expect(await workspace.operator<ExportAnswer>("GET", `/exports/${id}`)).toMatchObject({ state: "failed" });
    vi.setSystemTime(Date.now() + 7 * DAY_MS);
    await runInDurableObject(workspace.store, (instance) => instance.alarm());
    expect(await objects()).toBe(0);
  });

  test("leaves an export for seven days", async () => {
    const workspace = await newWorkspace();
    const { manifest } = await exportOf(workspace);
    const objects = async () => (await env.COLD.list({ prefix: `exports/${workspace.id}/` })).objects.length;
    expect(await objects()).toBe(manifest.parts.length + 1);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 7 * DAY_MS + 60_000 });
    await runInDurableObject(workspace.store, (instance) => instance.alarm());
    expect(await objects()).toBe(0);
    expect((await workspace.ask("GET", `/exports/${manifest.exportId}`)).status).toBe(404);
  });
});

describe("an import", () => {
  test("rejects with a precise error, and nothing becomes visible", async () => {
    const plan = await newPlan(1_000);
    const workspace = await newWorkspace({ plan });
    await workspace.send({ email: "jane@example.com", event: "E" });
    await workspace.settled();
    const file = await exportOf(workspace);
    const { manifest } = file;
    const [[part = 1, bytes = new Uint8Array()] = []] = file.parts;
    const code = async (changed: object, slug = `copy-${crypto.randomUUID()}`) =>
      (await beginImport({ ...file, manifest: { ...manifest, ...changed } }, slug)).body["code"];
    expect(await code({}, manifest.workspace.slug)).toBe("slug_taken");
    expect(await code({ parts: [] })).toBe("validation_failed");
    expect(await code({ version: "9.9.9.9" })).toBe("file_version");
    expect(await code({ plan: { ...manifest.plan, id: "no-such-plan" } })).toBe("plan_differs");
    const differs = await beginImport(
      { ...file, manifest: { ...manifest, plan: { ...manifest.plan, signalLimit: 7 } } },
      "x",
    );
    expect(differs).toMatchObject({ status: 409, body: { code: "plan_differs" } });
    expect(String(differs.body["detail"])).toContain("signal_limit is 1000 instead of 7");
    const elsewhere = workspace.context({ env: { ...env, JURISDICTION: "eu" }, db: controlDatabase(env.DB) });
    await expect(begin(elsewhere, manifest, "copy-elsewhere")).rejects.toThrow('JURISDICTION is "eu"');

    const parts = manifest.parts.map((described) => ({ ...described, lines: described.lines + 1 }));
    const miscounted = await beginImport({ ...file, manifest: { ...manifest, parts } }, `copy-${crypto.randomUUID()}`);
    expect(await sendPart(String(miscounted.body["workspace_id"]), part, bytes)).toMatchObject({
      status: 409,
      body: { code: "part_differs", detail: expect.stringContaining("lines instead of") as string },
    });

    const lines = gunzipSync(bytes).toString().split("\n").with(1, '{"from":"store","table":"unknown","row":{}}');
    const other = gzipSync(lines.join("\n"));
    const sha256 = createHash("sha256").update(other).digest("hex");
    const [described, ...rest] = manifest.parts;
    const strange = {
      ...file,
      manifest: { ...manifest, parts: [{ ...described, bytes: other.length, sha256 }, ...rest] },
    };
    const begunStrange = await beginImport(strange as WorkspaceFile, `copy-${crypto.randomUUID()}`);
    const rejected = await sendPart(String(begunStrange.body["workspace_id"]), part, new Uint8Array(other));
    expect(rejected.body["detail"]).toBe(`Line 2 of part ${part} is of no table of this release.`);

    const begun = await beginImport(file, `copy-${crypto.randomUUID()}`);
    const after = new TestWorkspace(String(begun.body["workspace_id"]), workspace.key);
    expect(await after.ask("POST", "/import/finish", {})).toMatchObject({
      status: 409,
      body: { code: "import_incomplete" },
    });
    expect(await sendPart(after.id, 99, bytes)).toMatchObject({ status: 409, body: { code: "part_unknown" } });
    const changed = Uint8Array.from(bytes);
    changed[20] = (changed[20] ?? 0) ^ 1;
    expect(await sendPart(after.id, part, changed)).toMatchObject({ status: 409, body: { code: "part_differs" } });
    expect(await sendPart(after.id, part, bytes.slice(1))).toMatchObject({
      status: 409,
      body: { code: "part_differs" },
    });
    expect(await after.ask("GET", "/people")).toMatchObject({ status: 409, body: { code: "workspace_importing" } });
    expect(await after.operator("GET", "")).toMatchObject({ state: "importing" });
    for (const [n, body] of file.parts) await sendPart(after.id, n, body);
    expect(await after.operator("GET", "/import")).toMatchObject({ missing: [] });
    const inUse = await after.ask("POST", "/import/finish", {});
    expect(inUse).toMatchObject({ status: 409, body: { code: "key_in_use" } });
    expect(String(inUse.body["detail"])).toContain(`${workspace.key.key.slice(0, 8)}…`);
    expect((await workspace.send({ event: "E" })).status).toBe(202);
    await workspace.settled();
    expect(JSON.stringify(await operator("GET", "/health"))).not.toContain(after.id);
  });

  test("asks for a confirmation if nobody knows the deletions since", async () => {
    const workspace = await newWorkspace();
    const file = await exportOf(workspace);
    // Another deployment does not know the source.
    file.manifest.workspace.id = "ws_unknown";
    await workspace.operator("DELETE", "", { slug: file.manifest.workspace.slug });
    const { body } = await beginImport(file);
    const after = new TestWorkspace(String(body["workspace_id"]), workspace.key);
    for (const [part, bytes] of file.parts) await sendPart(after.id, part, bytes);
    expect(await after.ask("POST", "/import/finish", {})).toMatchObject({
      status: 409,
      body: { code: "deletions_unknown" },
    });
    await after.operator("POST", "/import/finish", { without_deletions: true });
    expect((await workspace.send({ event: "E" })).status).toBe(202);
    await after.settled();
  });

  test("of a workspace says so on its pages, and senders get 503", async () => {
    const { workspace, home, owner, slug } = await newMembers();
    await workspace.send({ event: "E" });
    await workspace.settled();
    const { key: other } = await workspace.newKey();
    const file = await exportOf(workspace);
    await workspace.operator("DELETE", "", { slug });
    const { body } = await beginImport(file);
    const after = new TestWorkspace(String(body["workspace_id"]), workspace.key);
    for (const [part, bytes] of file.parts) await sendPart(after.id, part, bytes);
    const page = await owner.get(home);
    expect(page.status).toBe(503);
    expect(page.text).toContain("This workspace is being imported");
    // A key that was used before, and one that this isolate does not know.
    for (const key of [workspace.key.key, other]) {
      const answer = await workspace.send({ event: "E" }, { path: `/api/signal-staging/webhook/${key}` });
      expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "60"]);
    }
    await after.operator("POST", "/import/finish", {});
    expect((await owner.get(home)).status).toBe(200);
    const answer = await workspace.send({ event: "E" }, { path: `/api/signal-staging/webhook/${other}` });
    expect(answer.status).toBe(202);
    await after.settled();
  });

  test("that nobody continues for a day is deleted", async () => {
    const workspace = await newWorkspace();
    const file = await exportOf(workspace);
    const { body } = await beginImport(file, `copy-${crypto.randomUUID()}`);
    const after = new TestWorkspace(String(body["workspace_id"]), workspace.key);
    for (const [part, bytes] of file.parts) await sendPart(after.id, part, bytes);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 23 * 3_600_000 });
    const alarmMs = () => runInDurableObject(after.counter, (_, { storage }) => storage.getAlarm());
    await runDurableObjectAlarm(after.counter);
    expect(await after.operator("GET", "")).toMatchObject({ state: "importing" });
    expect(await alarmMs()).toBeGreaterThan(Date.now());
    vi.setSystemTime(Date.now() + 2 * 3_600_000);
    await runInDurableObject(after.counter, (instance) => instance.alarm());
    expect(await after.operator("GET", "/end")).toMatchObject({ complete: true });
    expect((await workspace.send({ event: "E" })).status).toBe(202);
    await workspace.settled();
  });
});
