/**
 * Concurrent actions have the same result as sequential ones: the end of a billing period under load, two admins on
 * the same record, and recording, linking, rules and deletion on the same lines. `npm run test:longer -- races --trials
 * 1000` for longer; a failed trial names its seed, which repeats it. Deactivation under load is in
 * fault/deactivation.
 */
import { env } from "cloudflare:workers";
import { afterEach, expect, test, vi } from "vitest";
import type { UsageAnswer } from "../../src/dev/operator-client.ts";
import { QuotaCounter } from "../../src/quota/quota-counter.ts";
import { amount, seedOr, note } from "../support/amount.ts";
import { ring, ringUntilQuiet } from "../support/cold.ts";
import { Chance } from "../support/hostile/chance.ts";
import { newMembers, type Members, type Browser } from "../support/members.ts";
import { expectToAddUp } from "../support/read-store.ts";
import { concurrently, newPlan, newWorkspace } from "../support/workspace.ts";
import { expectLogged } from "../support/logged.ts";
import { restart } from "../support/restart.ts";

// Calls meet restarts and ends of periods.
expectLogged();

const TRIALS = Number(env.RACES_TRIALS ?? amount(1, 5));
const FIRST_SEED = seedOr(env.RACES_SEED);
const SENDERS = 32;
const TIMEOUT_MS = 60_000 + TRIALS * 10_000;

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** Runs the trials one after the other, each with its own seed. */
function trials(says: string, run: (chance: Chance) => Promise<void>): void {
  test(
    `${says}, in ${TRIALS} trials`,
    async () => {
      expect.hasAssertions();
      for (let seed = FIRST_SEED; seed < FIRST_SEED + TRIALS; seed++) {
        // Log lines of concurrent calls would reach the test runner from other requests.
        vi.spyOn(console, "log").mockImplementation(() => undefined);
        try {
          await run(new Chance(seed));
        } catch (error) {
          throw new Error(`repeat it with npm run test:longer -- races --trials 1 --seed ${seed}`, { cause: error });
        } finally {
          vi.restoreAllMocks();
          vi.useRealTimers();
        }
      }
      note(`races: seeds ${FIRST_SEED} to ${FIRST_SEED + TRIALS - 1}: ${says}`);
    },
    TIMEOUT_MS,
  );
}

/** Starts all actions at once, in an order determined by the seed, some after a few turns of the event loop. */
async function atOnce<T>(chance: Chance, actions: readonly (() => Promise<T>)[]): Promise<T[]> {
  const order = actions.map((action, index) => ({
    action,
    index,
    at: chance.below(1_000),
    turns: chance.below(4) * 3,
  }));
  const answers: T[] = [];
  await Promise.all(
    order
      .toSorted((a, b) => a.at - b.at)
      .map(async ({ action, index, turns }) => {
        for (let turn = 0; turn < turns; turn++) await Promise.resolve();
        answers[index] = await action();
      }),
  );
  return answers;
}

const statusesOf = (answers: readonly { status: number }[]): number[] => answers.map(({ status }) => status).toSorted();

trials(
  "each signal is in exactly one billing period, and each period takes exactly L and holds exactly L",
  async (chance) => {
    const limit = 5 + chance.below(20);
    const anchor = Date.UTC(2031, chance.below(12), 1 + chance.below(28), chance.below(24));
    const endMs = new Date(anchor).setUTCMonth(new Date(anchor).getUTCMonth() + 1);
    vi.useFakeTimers({ toFake: ["Date"], now: endMs - 1_000 });
    const workspace = await newWorkspace({ signalLimit: limit, anchor: new Date(anchor).toISOString() });
    // The clock passes the end of the period during the calls: when the first period is full, or long before.
    const isFull = chance.oneIn(2);
    const passesAt = isFull ? 2 * limit + SENDERS + chance.below(limit) : chance.below(2 * limit);
    const calls = passesAt + 2 * limit + SENDERS + chance.below(limit);
    const statuses = await concurrently(SENDERS, calls, async (nth) => {
      if (nth === passesAt) vi.setSystemTime(endMs);
      const answer = await workspace.send({ event: "Visit", email: `p${nth}@example.com` });
      await answer.body?.cancel();
      return answer.status;
    });
    expect(new Set(statuses)).toEqual(new Set([202, 429]));
    const taken = statuses.filter((status) => status === 202).length;
    const ofFirst = taken - 2 * limit;
    if (isFull) expect(ofFirst).toBe(2 * limit);

    const usage = await workspace.operator<UsageAnswer & { history: UsageAnswer[] }>("GET", "/usage");
    expect(usage).toMatchObject({ accepted: limit, held: limit });
    const accepted = Math.min(limit, ofFirst);
    expect(usage.history).toMatchObject([{ accepted, held: ofFirst - accepted }]);
    expect(usage.rejected + (usage.history[0]?.rejected ?? 0)).toBe(calls - taken);
    const books = await workspace.settled();
    expect(books).toMatchObject({ accepted: taken, processed: limit + accepted, balanced: true });
    expect(books.held + books.purged).toBe(taken - limit - accepted);
    await expectToAddUp(workspace.id);
  },
);

trials(
  "a key's budget holds exactly in both periods, with rotations, restarts and a changed limit during the calls",
  async (chance) => {
    const [before, after] = [3 + chance.below(20), 3 + chance.below(20)];
    const anchor = Date.UTC(2031, chance.below(12), 1 + chance.below(28));
    const endMs = new Date(anchor).setUTCMonth(new Date(anchor).getUTCMonth() + 1);
    vi.useFakeTimers({ toFake: ["Date"], now: endMs - 1_000 });
    const workspace = await newWorkspace({ anchor: new Date(anchor).toISOString(), key: { signal_limit: before } });
    const keys = [workspace.key];
    const sendAll = (calls: number, during: readonly (() => Promise<unknown>)[]) => {
      const at = during.map(() => chance.below(calls));
      return concurrently(SENDERS, calls, async (nth) => {
        for (const [index, act] of during.entries()) if (at[index] === nth) await act();
        const key = keys[nth % keys.length] ?? workspace.key;
        const answer = await workspace.send({ event: "Visit", n: nth }, { key: key.key });
        await answer.body?.cancel();
        return answer.status;
      });
    };
    const rotate = async () => {
      const old = keys.at(-1) ?? workspace.key;
      keys.push(await workspace.operator("POST", `/keys/${old.id}/rotate`, { overlap: "7d" }));
    };
    const restarts = () => restart(workspace.counter);
    const kept = (statuses: readonly number[]) => statuses.filter((status) => status === 202).length;
    // A call that meets the restart may be counted without an answer, so only those that got one are exact in sum.
    const first = await sendAll(before + 2 * SENDERS, [rotate]);
    expect(kept(first)).toBe(before);
    await restarts();
    const larger = before + after;
    const change = () => workspace.operator("PATCH", `/keys/${workspace.key.id}`, { signal_limit: larger });
    const more = await sendAll(after + 2 * SENDERS, [change, rotate]);
    const rest = await sendAll(after + SENDERS, []);
    expect(kept(more) + kept(rest)).toBe(after);
    vi.setSystemTime(endMs);
    const next = await sendAll(larger + 2 * SENDERS, [rotate, restarts]);
    const { budgetUse } = (await workspace.counter.usage()) ?? { budgetUse: {} };
    expect(budgetUse).toEqual({ [workspace.key.id]: larger });
    expect(kept(next)).toBeLessThanOrEqual(larger);
    await workspace.settled();
    await expectToAddUp(workspace.id);
  },
);

/** Owner and admin, in either order. */
function twoOf({ owner, admin }: Members, chance: Chance): [Browser, Browser] {
  return chance.oneIn(2) ? [owner, admin] : [admin, owner];
}

const RULE: [string, string][] = [
  ["name", "r"],
  ["event", "Visit"],
  ["match", "all"],
  ["scoring_signal", "s"],
  ["frequency", "every_time"],
  ["enabled", "on"],
];

trials(
  "of two concurrent edits of a rule version, one is rejected and the rule has the content of the other",
  async (chance) => {
    const team = await newMembers();
    const rule = { name: "r", event: "Visit", scoring_signal: "s", points: 1 };
    const { id } = await team.workspace.operator<{ id: string }>("POST", "/rules", rule);
    const points = twoOf(team, chance).map((browser, nth) => ({ browser, points: 10 + nth }));
    const answers = await atOnce(
      chance,
      points.map(
        ({ browser, points: wanted }) =>
          () =>
            browser.post(`${team.home}/rules/${id}`, [
              ...RULE,
              ["points", String(wanted)],
              ["version", "1"],
              ["do", "save"],
            ]),
      ),
    );
    expect(statusesOf(answers)).toEqual([303, 409]);
    const won = points[answers.findIndex(({ status }) => status === 303)]?.points;
    expect(await team.workspace.operator("GET", `/rules/${id}`)).toMatchObject({ points: won, version: 2 });
  },
);

trials("if two owners remove each other or leave at the same time, one stays", async (chance) => {
  const team = await newMembers({ key: null });
  const { home, owner, workspace } = team;
  await workspace.operator("PATCH", `/members/${team.admin.email}`, { role: "owner" });
  const change = (by: Browser, of: Browser) => () =>
    chance.oneIn(2)
      ? by.post(`${home}/settings/members/remove`, { email: of.email })
      : by.post(`${home}/settings/members/role`, { email: of.email, role: "member" });
  const isMutual = chance.oneIn(2);
  const answers = await atOnce(chance, [
    change(owner, isMutual ? team.admin : owner),
    change(team.admin, isMutual ? owner : team.admin),
  ]);
  expect(answers.every(({ status }) => status < 500)).toBe(true);
  const { items } = await workspace.operator<{ items: { role: string }[] }>("GET", "/members");
  expect(items.filter(({ role }) => role === "owner")).toHaveLength(1);
});

trials("after two concurrent changes of plan and overages the counter has the stored configuration", async (chance) => {
  const team = await newMembers({ key: null });
  const plans = [await newPlan(10 + chance.below(90)), await newPlan(100 + chance.below(900))];
  const { workspace } = team;
  slowDown(chance);
  await atOnce<unknown>(chance, [
    ...plans.map((plan) => () => workspace.operator("PATCH", "", { plan })),
    ...twoOf(team, chance).map(
      (browser, nth) => () => browser.post(`${team.home}/usage/overages`, { overages: nth === 0 ? "on" : "off" }),
    ),
  ]);
  const { plan, overages } = await workspace.operator<{ plan: string; overages: boolean }>("GET", "");
  const limits = await Promise.all(plans.map((id) => limitOf(id)));
  expect(await workspace.counter.usage()).toMatchObject({ signalLimit: limits[plans.indexOf(plan)], overages });
});

/** Each configuration reaches the counter with a delay, so that one may overtake another. */
function slowDown(chance: Chance): void {
  const configure = Reflect.get(QuotaCounter.prototype, "configure");
  vi.spyOn(QuotaCounter.prototype, "configure").mockImplementation(async function (this: QuotaCounter, config) {
    await scheduler.wait(chance.below(30));
    configure.call(this, config);
  });
}

async function limitOf(plan: string): Promise<number | undefined> {
  const found = await env.DB.prepare("SELECT signal_limit FROM plans WHERE id = ?")
    .bind(plan)
    .first<{ signal_limit: number }>();
  return found?.signal_limit;
}

trials("two concurrent releases release held signals once", async (chance) => {
  const limit = 5 + chance.below(10);
  const team = await newMembers({ signalLimit: limit });
  const { workspace } = team;
  await workspace.send(
    Array.from({ length: 2 * limit }, (_, nth) => ({ event: "Visit", email: `p${nth}@example.com` })),
  );
  await workspace.settled();
  // There is room for some of them, or for all of them twice.
  const isRoomForAll = chance.oneIn(2);
  const room = isRoomForAll ? 3 * limit : 1 + chance.below(limit - 1);
  await workspace.operator("PATCH", "", { plan: await newPlan(limit + room) });
  await atOnce<unknown>(chance, [
    ...twoOf(team, chance).map(
      (browser) => () => browser.post(`${team.home}/usage/release`, { most: "1000000", overages: "off" }),
    ),
    () => workspace.operator("POST", "/held/release"),
    () => workspace.send({ event: "Late", email: "late@example.com" }),
  ]);
  const books = await workspace.settled();
  const { accepted, held } = (await workspace.counter.usage()) ?? {};
  // The late signal is held behind the others if not all fit, whichever was faster.
  const counts = isRoomForAll ? [2 * limit + 1, 0] : [limit + room, limit - room + 1];
  expect([accepted, held]).toEqual(counts);
  expect(books).toMatchObject({ accepted: 2 * limit + 1, processed: counts[0], held: counts[1], balanced: true });
  await expectToAddUp(workspace.id);
});

trials(
  "a key that is renamed, rotated and deactivated concurrently is deactivated, and each shown successor works",
  async (chance) => {
    const team = await newMembers();
    const { home, workspace } = team;
    const base = `${home}/settings/api-keys/${workspace.key.id}`;
    const rotate = (browser: Browser) => async () =>
      browser.post(`${base}/rotate`, { form_token: crypto.randomUUID(), overlap: "24h", lifetime: "never" });
    const [first, second] = twoOf(team, chance);
    const answers = await atOnce(chance, [
      rotate(first),
      rotate(second),
      () => first.post(base, { name: "renamed" }),
      () => second.post(`${base}/deactivate`),
      () => first.post(`${base}/deactivate`),
    ]);
    expect(answers.every(({ status }) => status < 500)).toBe(true);
    expect((await workspace.send({ event: "Visit" })).status).toBe(401);
    const shown: string[] = [];
    for (const answer of answers.slice(0, 2)) shown.push(...new Set(answer.body.match(/sk_[0-9A-Za-z]{40}/g)));
    const { items } = await workspace.operator<{ items: { id: string; status: string; name: string }[] }>(
      "GET",
      "/keys",
    );
    expect(items.filter(({ status }) => status === "Active")).toHaveLength(shown.length);
    expect(items.find(({ id }) => id === workspace.key.id)).toMatchObject({ status: "Inactive", name: "renamed" });
    for (const key of shown) expect((await workspace.send({ event: "Visit" }, { key })).status).toBe(202);
  },
);

/** People who are never deleted: their scores must be exact. */
const STAY = 4;

trials("concurrent recording, linking, rules and deletion leave the same data as sequential ones", async (chance) => {
  const workspace = await newWorkspace({ signalLimit: 1_000_000 });
  const rule = { name: "r", event: "Visit", scoring_signal: "s", points: 1 };
  const { id: ruleId } = await workspace.operator<{ id: string }>("POST", "/rules", rule);
  const visits = Array.from({ length: STAY }, () => 0);
  let sent = 0;
  const send = async (body: unknown): Promise<void> => {
    const answer = await workspace.send(body);
    await answer.body?.cancel();
    if (answer.status !== 202) throw new Error(`answered ${answer.status}`);
  };
  const visit = (person: number) => () => {
    const named = chance.oneIn(2) ? { email: `stays${person}@example.com` } : { anonymousId: `visitor-${person}` };
    const visited = { type: "track", event: "Visit", messageId: `m${sent++}`, ...named };
    visits[person] = (visits[person] ?? 0) + 1;
    return send(visited);
  };
  const identify = (person: number) => () =>
    send({
      type: "identify",
      messageId: `m${sent++}`,
      anonymousId: `visitor-${person}`,
      traits: { email: `stays${person}@example.com` },
    });
  const goes = () =>
    send([
      { event: "Visit", messageId: `m${sent++}`, anonymousId: "goer" },
      { type: "identify", messageId: `m${sent++}`, anonymousId: "goer", traits: { email: "goes@example.com" } },
      { event: "Visit", messageId: `m${sent++}`, email: "goes@example.com" },
    ]);
  const concurrent = [
    goes,
    () => workspace.operator("DELETE", "/people/goes@example.com").then(() => undefined),
    () => workspace.operator("PATCH", `/rules/${ruleId}`, { points: 1 + chance.below(9) }).then(() => undefined),
    () => workspace.operator("POST", `/rules/${ruleId}/apply`).then(() => undefined),
    () => ring(workspace.id, { seal: chance.oneIn(3) }),
    () => ring(workspace.id),
  ];
  for (let round = 0; round < 4; round++) {
    const actions = Array.from({ length: 12 }, () => {
      const person = chance.below(STAY);
      return chance.oneIn(2) ? visit(person) : chance.oneIn(3) ? identify(person) : chance.pick(concurrent);
    });
    await atOnce(chance, actions);
  }
  for (let person = 0; person < STAY; person++) await identify(person)();
  await workspace.settled();
  await workspace.operator("DELETE", "/people/goes@example.com");
  await workspace.operator("PATCH", `/rules/${ruleId}`, { points: 3 });
  await workspace.operator("POST", `/rules/${ruleId}/apply`);
  await ringUntilQuiet(workspace.id);
  const books = await workspace.settled();
  expect(books).toMatchObject({ balanced: true, dead_lettered: 0, duplicates: 0, in_flight: 0 });
  const { items } = await workspace.operator<{ items: { email: string; score: number }[] }>("GET", "/people");
  expect(items.map(({ email, score }) => [email, score]).toSorted()).toEqual(
    visits.map((count, person) => [`stays${person}@example.com`, 3 * count]),
  );
  await expectToAddUp(workspace.id);
});
