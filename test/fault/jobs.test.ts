/**
 * Invariants 1, 2 and 7 across `kill -9` in the middle of a job: the runtime is killed while earlier signals are
 * linked, a rule is applied to the past, a person is deleted, and so on. The job ends nevertheless and has its effect
 * once.
 */
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { DAY_MS } from "../../src/domain/duration.ts";
import { ROW_MAX_BYTES } from "../../src/limits.ts";
import { COLD_ABANDONED_MS } from "../../src/store/log/cold.ts";
import { expectStateToAddUp } from "../support/adds-up.ts";
import { Service, chances } from "../support/service.ts";
import { VISIT_RULE } from "../bench/rules.ts";
import { readStored } from "./support/stored.ts";
import type { ProvisionedWorkspace } from "../bench/operator-api.ts";
import type { BooksAnswer } from "../../src/dev/operator-client.ts";

/** Kills of each job, at random moments. */
const KILLS = 3;
const LATEST_KILL_MS = 50;
/** Time to send some thousand signals through the queue again here. */
const LATEST_PRESSED_MS = 300;
/** Time to write an object to R2 here. */
const WRITING_MS = 15;
/** So long ago that the shortest retention is over. */
const LONG_AGO_MS = -40 * DAY_MS;
const RETENTION_DAYS = 31;
/** An alarm resends the messages on their way to the consumer after ten seconds. */
const PATIENCE = { timeout: 40_000, interval: 50 };
/** The poll interval, short enough to catch a job in progress. */
const BEGUN = { timeout: 20_000, interval: 1 };
const PEOPLE = 20;
const LARGE_TEXT_BYTES = 6_800;

type Workspace = Pick<ProvisionedWorkspace, "id" | "key" | "home">;

interface Exported {
  id: string;
  status: string;
  email: string | null;
  payload: { properties?: { n?: number; text?: string } } | null;
}

type Stage = "before" | "under way" | "done";

const random = chances("kill -9 in the middle of jobs");
let service: Service;

/** Workspaces with signals from long ago. */
let old: Record<"deletion" | "retention" | "cold", Workspace>;
/** All workspaces by their slug. */
const provisioned = new Map<string, Workspace>();
const sentLongAgo = { deletion: [] as string[], retention: [] as string[], cold: [] as string[] };
const GONE = { email: "gone@example.com", userId: "gone-user", anonymousId: "gone-browser" };
const GONE_SIGNALS = 6_000;
/** Ten steps of retention, so that the kill hits a running job. */
const EXPIRED_SIGNALS = 20_000;
const EXPIRED_BULKS = 2;
/** Ten objects in R2, so that the kill hits the move. */
const texts = Array.from({ length: 3_000 }, () => randomBytes(LARGE_TEXT_BYTES * 0.75).toString("base64"));
/** As many as fit into a bulk call. */
const LARGE_IN_BULK = 1_000;

beforeAll(async () => {
  service = await Service.makeShifted();
  await service.start({ aheadMs: LONG_AGO_MS });
  old = {
    deletion: await provision("deletion"),
    retention: await provision("retention"),
    cold: await provision("cold"),
  };
  const identify = { type: "identify", ...GONE, email: undefined, traits: { email: GONE.email, name: "Zoe Gone" } };
  const signals = visits(GONE_SIGNALS, { type: "track", userId: GONE.userId });
  sentLongAgo.deletion = [
    ...(await send(old.deletion, [identify])),
    ...(await send(old.deletion, [...signals, ...visits(1_000)])),
  ];
  for (let bulks = 0; bulks < EXPIRED_BULKS; bulks++) {
    sentLongAgo.retention.push(
      ...(await send(old.retention, visits(EXPIRED_SIGNALS / EXPIRED_BULKS, undefined, bulks))),
    );
  }
  const large = texts.map((text, n) => ({ email: "large@example.com", event: "Visit", properties: { n, text } }));
  const bulks = [0, 1, 2].map((bulk) => large.slice(bulk * LARGE_IN_BULK, (bulk + 1) * LARGE_IN_BULK));
  sentLongAgo.cold = await send(old.cold, ...bulks);
  await service.start();
});

afterAll(() => service.remove());

/** By the real clock again. */
afterEach(async () => void (await service.start()));

test("spec §6: after kill -9 during the linking of a visitor's earlier signals, each belongs to the person and scores once", async () => {
  const workspace = await provision("link");
  const [email, anonymousId] = ["visitor@example.com", "visitor-browser"];
  const sent = 20_000;
  const ids = await send(workspace, ...[0, 1].map((bulk) => visits(sent / 2, { type: "track", anonymousId }, bulk)));
  const score = async () => (await scores(workspace)).get(email) ?? 0;
  const identify = { type: "identify", messageId: "once", anonymousId, traits: { email } };
  await killWhileUnderWay(
    () => service.post(`signal-staging/webhook/${workspace.key}`, identify),
    async () => stageOf(await score(), sent),
  );
  await expect.poll(score, PATIENCE).toBe(sent);
  const all = await expectBooks(workspace, ids, { accepted: sent + 1, processed: sent + 1 });
  expect(all.filter((signal) => signal.status !== "processed" || signal.email !== email)).toEqual([]);
}, 120_000);

test("design §8.5: after kill -9 during the application of a rule to the past, every signal has its points once", async () => {
  const workspace = await provision("rule");
  const sent = 8_000;
  const ids = await send(workspace, visits(sent));
  const rule = { ...VISIT_RULE, name: "On the past", scoring_signal: "looked_back", points: 3 };
  const { id } = await service.api.post<{ id: string }>(`${workspace.home}/rules`, rule);
  const path = `${workspace.home}/rules/${id}/apply`;
  const job = () => service.api.get<{ status: string; scanned: number; added: number }>(path);
  await service.api.post(path);
  await killWhileUnderWay(
    () => Promise.resolve(),
    async () => {
      const { status, scanned } = await job();
      return status === "done" ? "done" : stageOf(scanned, sent + 1);
    },
  );
  await expect.poll(async () => (await job()).status, PATIENCE).toBe("done");
  expect(await job()).toMatchObject({ scanned: sent, added: sent });
  await expectBooks(workspace, ids, { accepted: sent, processed: sent });
  expect(new Set((await scores(workspace)).values())).toEqual(
    new Set([(sent / PEOPLE) * (VISIT_RULE.points + rule.points)]),
  );
}, 120_000);

test("design §8: after kill -9 during a person's deletion, all of their data is gone, and all other data is intact", async () => {
  const { deletion: workspace } = old;
  const before = await scores(workspace);
  const person = `${workspace.home}/people/${GONE.email}`;
  await service.api.call("DELETE", person);
  const receipt = () => service.api.get<{ complete: boolean; signals: number }>(`${person}/deletion`);
  await killWhileUnderWay(
    () => Promise.resolve(),
    async () => ((await receipt()).complete ? "done" : "under way"),
  );
  await waitForAbandoned("deletion");
  await expect.poll(async () => (await receipt()).complete, PATIENCE).toBe(true);
  expect((await receipt()).signals).toBe(GONE_SIGNALS + 1);

  const sent = sentLongAgo.deletion.length;
  const all = await expectBooks(workspace, sentLongAgo.deletion, { accepted: sent, processed: sent });
  const text = JSON.stringify(all);
  for (const name of [...Object.values(GONE), "Zoe"]) expect(text).not.toContain(name);
  expect(all.filter(({ payload }) => payload !== null)).toHaveLength(sent - GONE_SIGNALS - 1);
  before.delete(GONE.email);
  expect(await scores(workspace)).toEqual(before);
}, 120_000);

test("after kill -9 during retention, expired data is gone, all other data is there, and scores stay", async () => {
  const { retention: workspace } = old;
  const fresh = await send(workspace, visits(1_000));
  const [first, last] = [sentLongAgo.retention[0] ?? "", sentLongAgo.retention.at(-1) ?? ""];
  const isThere = async (id: string) => (await service.get(`${workspace.home}/signals/${id}`)).status === 200;
  await killWhileUnderWay(
    () => setPlan("retention", { retention_days: RETENTION_DAYS }),
    async () => {
      if (await isThere(first)) return "before";
      return (await isThere(last)) ? "under way" : "done";
    },
  );
  await expect.poll(() => isThere(last), PATIENCE).toBe(false);
  const sent = EXPIRED_SIGNALS + fresh.length;
  const all = await expectBooks(workspace, fresh, { accepted: sent, processed: sent }, { hasDropped: true });
  expect(all).toHaveLength(fresh.length);
  expect(new Set((await scores(workspace)).values())).toEqual(new Set([sent / PEOPLE]));
}, 120_000);

test("design §6: after kill -9 during the release of held signals, each is released, scored and metered once", async () => {
  const workspace = await provision("held");
  const limit = 1_500;
  await setPlan("held", { signal_limit: limit });
  const ids = await send(workspace, visits(2 * limit));
  expect(await service.api.books(workspace.id)).toMatchObject({ processed: limit, held: limit });
  await service.api.call("PATCH", workspace.home, { overages: true });
  const release = () => service.api.post<{ still_held: number }>(`${workspace.home}/held/release`);
  await killOncePressed(release);
  await expect.poll(async () => (await release()).still_held, PATIENCE).toBe(0);
  const all = await expectBooks(workspace, ids, { accepted: 2 * limit, processed: 2 * limit, held: 0 });
  expect(all).toHaveLength(2 * limit);
  expect(new Set((await scores(workspace)).values())).toEqual(new Set([(2 * limit) / PEOPLE]));
  const usage = await service.api.get(`${workspace.home}/usage`);
  expect(usage).toMatchObject({ accepted: 2 * limit, held: 0, overage: limit });
}, 120_000);

test("design §8: after kill -9 during a replay of dead letters, requested twice each time, each is recorded once", async () => {
  const workspace = await provision("dead");
  const attributes = Array.from({ length: 24 }, (_, n) => `a${n}`);
  const { key } = await service.api.newKey(workspace.id, {
    endpoint_type: "product_org",
    payload_template: [
      { target: "external_id", path: "id", type: "string" },
      ...[...attributes, "extra"].map((name) => ({ target: `attributes.${name}`, path: name, type: "string" })),
    ],
  });
  const update = (values: object[]) =>
    service.post(
      `product-orgs/webhook/${key}`,
      values.map((value) => ({ id: "acme", ...value })),
    );
  const bytesEach = Math.floor(ROW_MAX_BYTES / attributes.length) - 400;
  expect((await update(attributes.map((name) => ({ [name]: "x".repeat(bytesEach) })))).status).toBe(202);
  await service.api.settled(workspace.id);
  // None of these updates fits until another attribute becomes smaller.
  const dead = 1_000;
  const extra = (n: number) => `${n} ${"y".repeat(ROW_MAX_BYTES - attributes.length * bytesEach)}`;
  const answers = [];
  for (let from = 0; from < dead; from += 250) {
    const answer = await update(Array.from({ length: 250 }, (_, n) => ({ extra: extra(from + n) })));
    answers.push((await answer.json()) as { results: { id: string }[] });
  }
  await service.api.settled(workspace.id);
  expect(await service.api.books(workspace.id)).toMatchObject({ dead_lettered: dead });
  await update([{ a0: "small" }]);
  await service.api.settled(workspace.id);

  const replay = () => service.api.post(`${workspace.home}/dead-letters/replay`);
  const twice = () => Promise.all([replay(), replay()]);
  await killOncePressed(twice);
  await twice();
  await expect.poll(async () => (await service.api.books(workspace.id)).dead_lettered, PATIENCE).toBe(0);
  const ids = answers.flatMap(({ results }) => results.map(({ id }) => id));
  const sent = attributes.length + dead + 1;
  const all = await expectBooks(workspace, ids, { accepted: sent, processed: sent, dead_lettered: 0 });
  expect(all).toHaveLength(sent);
  const { items } = await service.api.get<{ items: { attributes: Record<string, string> }[] }>(
    `${workspace.home}/accounts?external_id=acme`,
  );
  expect(items).toHaveLength(1);
  expect(items[0]?.attributes).toMatchObject({ a0: "small", extra: extra(dead - 1) });
}, 120_000);

test("spec §6.1: after kill -9 during the move of payloads to R2, every payload is readable, and R2 has no orphaned object", async () => {
  const { cold: workspace } = old;
  const moved = () =>
    readStored(service, workspace.id, ({ sql }) => ({
      left: sql.exec<{ n: number }>("SELECT count(*) AS n FROM signals_payloads").one().n,
      objects: sql.exec<{ key: string; state: string }>("SELECT key, state FROM cold_objects").toArray(),
    }));
  await killWhileUnderWay(
    () => setPlan("cold", {}),
    async () => {
      const { left, objects } = await moved();
      return left === 0 ? "done" : stageOf(objects.length, Number.POSITIVE_INFINITY);
    },
    WRITING_MS,
  );
  await expect.poll(async () => (await moved()).left, PATIENCE).toBe(0);
  await waitForAbandoned("cold");
  await expect
    .poll(async () => (await moved()).objects.filter(({ state }) => state !== "stored"), PATIENCE)
    .toEqual([]);
  const bucket = await service.running.miniflare.getR2Bucket("COLD", "worker");
  const { objects } = await bucket.list({ prefix: `cold/${workspace.id}/` });
  const stored = (await moved()).objects.map(({ key }) => `cold/${workspace.id}/${key}`);
  expect(objects.map(({ key }) => key)).toEqual(stored.sort());
  expect(stored.length).toBeGreaterThan(1);
  const sent = texts.length;
  const all = await expectBooks(workspace, sentLongAgo.cold, { accepted: sent, processed: sent });
  expect(all.map(({ payload }) => payload?.properties?.text)).toEqual(texts);
}, 120_000);

test("an export cut off by kill -9 has no regular end; a second request returns every signal once", async () => {
  const workspace = await provision("export");
  const exported = texts.slice(0, LARGE_IN_BULK);
  const ids = await send(
    workspace,
    exported.map((text, n) => ({ email: "p@example.com", event: "Visit", properties: { n, text } })),
  );
  for (let kills = 0; kills < KILLS; kills++) {
    const reader = (await service.get(`${workspace.home}/export/signals`)).body?.getReader();
    expect((await reader?.read())?.done).toBe(false);
    await sleep(random() * LATEST_KILL_MS);
    await service.kill();
    const toTheEnd = async () => {
      while ((await reader?.read())?.done === false);
    };
    await expect(toTheEnd()).rejects.toThrow("terminated");
    await service.start();
  }
  const all = await expectBooks(workspace, ids, { accepted: ids.length, processed: ids.length });
  expect(all.map(({ payload }) => payload?.properties?.text)).toEqual(exported);
}, 120_000);

async function provision(slug: string): Promise<Workspace> {
  const workspace = await service.api.provision({ slug, rules: [VISIT_RULE], anchorMs: service.nowMs });
  provisioned.set(slug, workspace);
  return workspace;
}

/** Each workspace has its own. Setting it notifies the workspace's objects, which wakes their alarms. */
async function setPlan(slug: string, terms: { signal_limit?: number; retention_days?: number }): Promise<void> {
  await service.api.call("PUT", `plans/${slug}`, { name: slug, signal_limit: 1_000_000, paid: true, ...terms });
  const workspace = provisioned.get(slug);
  if (workspace !== undefined) await service.api.call("PATCH", workspace.home, { plan: slug });
}

/** @param bulk part of the content, so that visits of different bulk calls are not duplicates. */
function visits(count: number, ids?: object, bulk = 0): object[] {
  const whose = (n: number) => ids ?? { email: `p${n % PEOPLE}@example.com` };
  return Array.from({ length: count }, (_, n) => ({ ...whose(n), event: "Visit", properties: { n, bulk } }));
}

/** Sends each list of signals as a bulk call, and returns their ids once all are processed. */
async function send(workspace: Workspace, ...bulks: (readonly object[])[]): Promise<string[]> {
  const ids: string[] = [];
  for (const signals of bulks) {
    const body = signals.map((signal) => JSON.stringify(signal)).join("\n");
    const answer = await service.post(`signal-staging/bulk/${workspace.key}`, body);
    expect(answer.status).toBe(202);
    const { results, id } = (await answer.json()) as { results?: { id: string }[]; id?: string };
    ids.push(...(results?.map((result) => result.id) ?? [id ?? ""]));
  }
  await service.api.settled(workspace.id);
  return ids;
}

async function scores({ home }: Workspace): Promise<Map<string, number>> {
  const people = await service.api.list<{ email: string; score: number }>(`${home}/people`);
  return new Map(people.map(({ email, score }) => [email, score]));
}

/** The books agree with the lines, and each of these signals exists once. @returns all signals. */
async function expectBooks(
  workspace: Workspace,
  ids: readonly string[],
  expected: Partial<BooksAnswer>,
  { hasDropped = false } = {},
): Promise<Exported[]> {
  // Released signals are held until they are recorded.
  await expect
    .poll(() => service.api.books(workspace.id), PATIENCE)
    .toMatchObject({ ...expected, in_flight: 0, balanced: true });
  await readStored(service, workspace.id, (state) => expectStateToAddUp(state, { hasDropped }));
  const text = await (await service.get(`${workspace.home}/export/signals`)).text();
  const all = text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Exported);
  const found = Map.groupBy(all, ({ id }) => id);
  expect(ids.filter((id) => found.get(id)?.length !== 1)).toEqual([]);
  return all;
}

/** Kills at a moment between a call and its last effect, and repeats the call each time. */
async function killOncePressed(press: () => Promise<unknown>): Promise<void> {
  for (let kills = 0; kills < KILLS; kills++) {
    // The answer is lost with the process.
    press().catch(() => {});
    await sleep(random() * LATEST_PRESSED_MS);
    await service.kill();
    await service.start();
  }
}

/** Starts a job once, and kills at moments while it runs. */
async function killWhileUnderWay(
  begin: () => Promise<unknown>,
  stage: () => Promise<Stage>,
  latestMs = LATEST_KILL_MS,
): Promise<void> {
  // The answer may be lost with the process.
  begin().catch(() => {});
  for (let kills = 0; kills < KILLS; kills++) {
    const now = await vi.waitFor(async () => {
      const stageNow = await stage();
      expect(stageNow).not.toBe("before");
      return stageNow;
    }, BEGUN);
    if (now === "done") return expect(kills, "it was done before it could be killed").toBeGreaterThan(0);
    await sleep(random() * latestMs);
    await service.kill();
    await service.start();
  }
}

/** An upload to R2 in progress at the kill may still arrive, and is removed only after a while. */
async function waitForAbandoned(slug: string): Promise<void> {
  await service.start({ aheadMs: COLD_ABANDONED_MS });
  await setPlan(slug, {});
}

function stageOf(done: number, all: number): Stage {
  if (done === 0) return "before";
  return done < all ? "under way" : "done";
}
