/** Design §8.5: rules that score one person each time, once a UTC day of receipt, or once ever. */
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { RETENTION_MIN_DAYS } from "../../../../src/limits.ts";
import { newId } from "../../../../src/platform/ids.ts";
import { signalStore } from "../../../../src/workspace/objects.ts";
import { ring, ringUntilQuiet } from "../../../support/cold.ts";
import { expectDaysToAddUp, expectToAddUp, readStore, heldIn } from "../../../support/read-store.ts";
import { DAY, deliver } from "../../../support/deliver.ts";
import type { Delivered } from "../../../support/deliver.ts";
import { newPlan, newWorkspace, operator } from "../../../support/workspace.ts";
import type { TestWorkspace } from "../../../support/workspace.ts";

/** The beginning of a UTC day, some days ago. */
const MIDNIGHT = Math.floor(Date.now() / DAY) * DAY - 5 * DAY;
/** Older than the shortest retention. */
const OLD = Date.now() - (RETENTION_MIN_DAYS + 2) * DAY;
const JANE = "jane@example.com";

let workspace: TestWorkspace;
let hasDropped = false;
/** Lines that count for a day: neither dropped nor deleted. */
let haveDaysLines = true;
beforeEach(async () => {
  workspace = await newWorkspace();
  hasDropped = false;
  haveDaysLines = true;
});
afterEach(async () => {
  vi.useRealTimers();
  await expectToAddUp(workspace.id, { hasDropped });
  if (haveDaysLines) await expectDaysToAddUp(workspace.id);
});

const store = () => signalStore(env, workspace.id);

async function newRule(frequency: string, more: object = {}): Promise<string> {
  const rule = { name: "r", event: "Visit", match: "all", conditions: [], scoring_signal: "visited", points: 5 };
  return (await workspace.operator<{ id: string }>("POST", "/rules", { ...rule, frequency, ...more })).id;
}

let sent = 0;
function visit(at: number, who: object = { email: JANE }, properties: object = {}): Delivered & { id: string } {
  const number = ++sent;
  const payload = { type: "track", event: "Visit", messageId: `m-${number}`, ...who, properties };
  return { id: newId("sig", at), at, ordinal: number, payload };
}
function identify(at: number, ids: object, email: string): Delivered {
  const payload = { type: "identify", messageId: `m-${++sent}`, ...ids, traits: { email } };
  return { id: newId("sig", at), at, ordinal: sent, payload };
}
const send = (...signals: Delivered[]) => deliver(workspace.id, signals);

async function scoreOf(email: string): Promise<number | undefined> {
  return (await store().people({ email }, { cursor: null, limit: 1 })).items[0]?.score;
}

/** Keeps signals as short as possible from now on. */
async function dropOldSignals(): Promise<void> {
  [hasDropped, haveDaysLines] = [true, false];
  const plan = await newPlan(1_000);
  const kept = { name: plan, signal_limit: 1_000, paid: true, retention_days: RETENTION_MIN_DAYS };
  await operator("PUT", `/plans/${plan}`, kept);
  await workspace.operator("PATCH", "", { plan });
  await ringUntilQuiet(workspace.id);
}

async function apply(ruleId: string) {
  await workspace.operator("POST", `/rules/${ruleId}/apply`);
  await ringUntilQuiet(workspace.id);
  return workspace.operator("GET", `/rules/${ruleId}/apply`);
}

const rows = () =>
  readStore(workspace.id, ({ sql }) => sql.exec("SELECT * FROM once ORDER BY person_id, rule_id, day").toArray());

describe("a rule that scores a person", () => {
  test.each([
    ["every_time", 30],
    ["once_per_day", 15],
    ["once_ever", 5],
  ])(
    "%s: of six signals over three UTC days of receipt, to the millisecond, it makes %i points",
    async (frequency, score) => {
      await newRule(frequency);
      const times = [0, 1, DAY - 1, DAY, 2 * DAY - 1, 2 * DAY];
      await send(...times.slice(0, 4).map((ms) => visit(MIDNIGHT + ms)));
      for (const ms of times.slice(4)) await send(visit(MIDNIGHT + ms));
      await send(visit(MIDNIGHT, { email: "other@example.com" }));
      expect(await scoreOf(JANE)).toBe(score);
      expect(await scoreOf("other@example.com")).toBe(5);
    },
  );

  test("counts for each person and each rule separately", async () => {
    await newRule("once_ever");
    await newRule("once_ever", { points: 100 });
    await newRule("once_per_day", { points: 1_000, event: "V*" });
    await send(visit(MIDNIGHT), visit(MIDNIGHT), visit(MIDNIGHT + DAY), visit(MIDNIGHT, { email: "b@example.com" }));
    expect([await scoreOf(JANE), await scoreOf("b@example.com")]).toEqual([2_105, 1_105]);
  });

  test("shows on the trace of other signals which signal has scored instead", async () => {
    const ruleId = await newRule("once_per_day");
    await newRule("once_ever", { points: 100 });
    const [first, second, third] = [visit(MIDNIGHT), visit(MIDNIGHT + 1), visit(MIDNIGHT + DAY)];
    await send(first, second, third);
    type Trace = { points: number; rules_matched: { points: number; scored: boolean; scored_by: string | null }[] };
    const trace = async ({ id }: { id: string }) => {
      const { points, rules_matched: matched } = await workspace.operator<Trace>("GET", `/signals/${id}`);
      return [points, matched.map((match) => [match.points, match.scored, match.scored_by])];
    };
    expect(await trace(first)).toEqual([
      105,
      [
        [5, true, null],
        [100, true, null],
      ],
    ]);
    expect(await trace(second)).toEqual([
      0,
      [
        [5, false, first.id],
        [100, false, first.id],
      ],
    ]);
    expect(await trace(third)).toEqual([
      5,
      [
        [5, true, null],
        [100, false, first.id],
      ],
    ]);

    const { scoring_signals: listed } = (
      await workspace.operator<{ items: { scoring_signals: { signal_id: string; points: number }[] }[] }>(
        "GET",
        `/people?email=${JANE}`,
      )
    ).items[0] ?? { scoring_signals: [] };
    expect(listed.map((score) => [score.signal_id, score.points])).toEqual([
      [third.id, 5],
      [first.id, 5],
      [first.id, 100],
    ]);
    const page = await store().personPage(JANE, "scores", { cursor: null, limit: 10 });
    expect(page?.timeline.items.map(({ signal, scores }) => [signal?.id, scores.length])).toEqual([
      [third.id, 1],
      [first.id, 2],
    ]);
    expect(page?.curve).toMatchObject({ signals: 3, points: [{ score: 105 }, { score: 110 }] });
    const all = await store().personPage(JANE, "all", { cursor: null, limit: 10 });
    expect(all?.timeline.items.map(({ scores }) => scores.length)).toEqual([1, 0, 2]);
    const live = await store().latest(null, 10);
    expect(live?.signals.map(({ id, points }) => [id, points])).toEqual([
      [third.id, 5],
      [second.id, 0],
      [first.id, 105],
    ]);
    const exported = async (records: "signals" | "scoring_signals") =>
      (await store().exportPage({ records, format: "ndjson", cursor: null })).text
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => (JSON.parse(line) as { points: number }).points);
    expect(await exported("signals")).toEqual([105, 0, 5]);
    expect(await exported("scoring_signals")).toEqual([5, 100, 5]);
    const facts = await store().ruleFacts([ruleId]);
    expect(facts).toMatchObject([{ days: `${MIDNIGHT / DAY + 1},1,1` }]);
  });

  test("scores held signals only after their release, and replays only once", async () => {
    await newRule("once_ever");
    const end = Date.now() + DAY;
    const held: Delivered = { ...visit(MIDNIGHT), verdict: "held", periodEnd: end };
    await send(held, held);
    expect(await scoreOf(JANE)).toBeUndefined();
    const [place] = await heldIn(workspace.id, end);
    const again: Delivered = { ...held, verdict: "accepted", resent: { from: "held", place: place?.place ?? 0 } };
    await send(again);
    await send(again, visit(MIDNIGHT));
    expect(await scoreOf(JANE)).toBe(5);
  });
});

describe("linked signals", () => {
  test("count once together with earlier signals, in either order", async () => {
    await newRule("once_per_day");
    const anonymous = [visit(MIDNIGHT, { anonymousId: "a-1" }), visit(MIDNIGHT + DAY, { anonymousId: "a-1" })];
    await send(...anonymous, visit(MIDNIGHT + 1));
    await send(identify(MIDNIGHT + 2 * DAY, { anonymousId: "a-1" }, JANE));
    await ringUntilQuiet(workspace.id);
    expect(await scoreOf(JANE)).toBe(10);
  });

  test("leave the day of the first person to another signal when they move", async () => {
    await newRule("once_per_day");
    await newRule("once_ever", { points: 100 });
    // The anonymous id makes it Jane's until the user id, which takes precedence, is known.
    await send(identify(MIDNIGHT, { anonymousId: "a-1" }, JANE));
    await send(visit(MIDNIGHT, { anonymousId: "a-1", userId: "u-9" }));
    await send(visit(MIDNIGHT + 1), visit(MIDNIGHT + DAY));
    expect(await scoreOf(JANE)).toBe(110);
    await send(identify(MIDNIGHT + DAY, { userId: "u-9" }, "ada@example.com"));
    await ringUntilQuiet(workspace.id);
    expect([await scoreOf(JANE), await scoreOf("ada@example.com")]).toEqual([110, 105]);
  });
});

describe("a rule that is applied to stored signals", () => {
  test("changes between scores once and scores each time", async () => {
    const id = await newRule("every_time");
    const times = [0, 1, 2, DAY, DAY + 1, 2 * DAY];
    await send(...times.map((ms) => visit(MIDNIGHT + ms)));
    expect(await scoreOf(JANE)).toBe(30);
    for (const [frequency, score, changes] of [
      ["once_per_day", 15, { changed: 3, removed: 3, added: 0 }],
      ["once_ever", 5, { changed: 1, removed: 2, added: 0 }],
      ["once_per_day", 15, { changed: 1, removed: 0, added: 2 }],
      ["every_time", 30, { changed: 3, removed: 0, added: 3 }],
      ["once_ever", 5, { changed: 1, removed: 5, added: 0 }],
      ["every_time", 30, { changed: 1, removed: 0, added: 5 }],
    ] as const) {
      await workspace.operator("PATCH", `/rules/${id}`, { frequency });
      expect({ frequency, ...(await apply(id)) }).toMatchObject({ frequency, matched: 6, ...changes });
      expect([frequency, await scoreOf(JANE)]).toEqual([frequency, score]);
    }
    await workspace.operator("PATCH", `/rules/${id}`, { enabled: false });
    await apply(id);
    expect([await scoreOf(JANE), await rows()]).toEqual([0, []]);
  });

  test("keeps one score a day after an edit, of a matching signal", async () => {
    const id = await newRule("once_per_day");
    // Recorded first, and linked after the others have counted.
    await send(visit(MIDNIGHT, { anonymousId: "a-1" }, { page: "pricing" }));
    await send(visit(MIDNIGHT + 1, { email: JANE }, { page: "home" }));
    await send(identify(MIDNIGHT + 2, { anonymousId: "a-1" }, JANE));
    await ringUntilQuiet(workspace.id);
    await send(visit(MIDNIGHT + DAY, { email: JANE }, { page: "home" }));
    expect(await scoreOf(JANE)).toBe(10);
    const pricing = { conditions: [{ path: "properties.page", operator: "equals", value: "pricing" }], points: 7 };
    await workspace.operator("PATCH", `/rules/${id}`, pricing);
    // The old version of the rule has already scored the day.
    await send(visit(MIDNIGHT + DAY + 1, { email: JANE }, { page: "pricing" }));
    expect(await scoreOf(JANE)).toBe(10);
    expect(await apply(id)).toMatchObject({ status: "done", matched: 2 });
    expect(await scoreOf(JANE)).toBe(14);
  });

  test("has a preview with signals, people, and number of scores", async () => {
    await send(visit(MIDNIGHT), visit(MIDNIGHT), visit(MIDNIGHT + DAY), visit(MIDNIGHT, { email: "b@example.com" }));
    const rule = { name: "r", event: "Visit", scoring_signal: "s", points: 5 };
    const preview = (frequency: string) => workspace.operator("POST", "/rules/preview", { ...rule, frequency });
    const found = { matches: 4, people: 2 };
    expect(await preview("every_time")).toMatchObject({ ...found, scoring_signals: 4, points: 20 });
    expect(await preview("once_per_day")).toMatchObject({ ...found, scoring_signals: 3, points: 15 });
    expect(await preview("once_ever")).toMatchObject({ ...found, scoring_signals: 2, points: 10 });
  });
});

describe("a once-ever score", () => {
  test("outlives its signal, even if the rule is edited and applied", async () => {
    const id = await newRule("once_ever");
    await send(visit(OLD), visit(OLD + 1));
    await dropOldSignals();
    expect(await readStore(workspace.id, ({ signals }) => signals.firstSeq)).toBeGreaterThan(1);
    await send(visit(MIDNIGHT));
    expect(await scoreOf(JANE)).toBe(5);
    await workspace.operator("PATCH", `/rules/${id}`, { points: 50 });
    await apply(id);
    expect(await scoreOf(JANE)).toBe(5);
    await workspace.operator("DELETE", `/rules/${id}?scoring_signals=remove`);
    await ringUntilQuiet(workspace.id);
    expect([await scoreOf(JANE), await rows()]).toEqual([0, []]);
  });

  test("does not move to a signal that retention dropped", async () => {
    const id = await newRule("once_ever");
    await send(visit(MIDNIGHT, { email: JANE }, { page: "home" }));
    await send(visit(OLD));
    await dropOldSignals();
    expect(await scoreOf(JANE)).toBe(5);
    await workspace.operator("PATCH", `/rules/${id}`, {
      conditions: [{ path: "properties.page", operator: "equals", value: "pricing" }],
    });
    await apply(id);
    expect([await scoreOf(JANE), await rows()]).toEqual([0, []]);
  });

  test("is deleted with its person only", async () => {
    await newRule("once_per_day");
    await send(identify(MIDNIGHT, { anonymousId: "a-1" }, JANE));
    // Jane's only by her anonymous id so far.
    await send(
      visit(MIDNIGHT, { anonymousId: "a-1" }),
      visit(MIDNIGHT + DAY),
      visit(MIDNIGHT, { email: "b@example.com" }),
    );
    expect(await rows()).toHaveLength(3);
    haveDaysLines = false;
    await workspace.operator("DELETE", `/people/${JANE}`);
    await ringUntilQuiet(workspace.id);
    expect(await rows()).toHaveLength(1);
    await send(visit(Date.now() + 1_000));
    await ring(workspace.id);
    expect([await scoreOf(JANE), await scoreOf("b@example.com")]).toEqual([5, 5]);
  });
});
