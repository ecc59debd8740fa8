/** Design §8.5: rules that score a person each time, once a UTC day, or once ever. */
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { newId } from "../../../../src/platform/ids.ts";
import { signalStore } from "../../../../src/use-cases/objects.ts";
import { ringUntilQuiet } from "../../../support/cold.ts";
import { expectDaysToAddUp, expectToAddUp, heldIn } from "../../../support/read-store.ts";
import { DAY, deliver, type Delivered } from "../../../support/deliver.ts";
import { newWorkspace, type TestWorkspace } from "../../../support/workspace.ts";

/** The beginning of a UTC day, some days ago. */
const MIDNIGHT = Math.floor(Date.now() / DAY) * DAY - 5 * DAY;
const JANE = "jane@example.com";

let workspace: TestWorkspace;
beforeEach(async () => {
  workspace = await newWorkspace();
});
afterEach(async () => {
  await expectToAddUp(workspace.id);
  await expectDaysToAddUp(workspace.id);
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

describe("a rule that scores", () => {
  test.each([
    ["every_time", 30],
    ["once_per_day", 15],
    ["once_ever", 5],
  ])("%s gets %i points from six signals at the limits of three UTC days", async (frequency, score) => {
    await newRule(frequency);
    const times = [0, 1, DAY - 1, DAY, 2 * DAY - 1, 2 * DAY];
    await send(...times.slice(0, 4).map((ms) => visit(MIDNIGHT + ms)));
    for (const ms of times.slice(4)) await send(visit(MIDNIGHT + ms));
    await send(visit(MIDNIGHT, { email: "other@example.com" }));
    expect(await scoreOf(JANE)).toBe(score);
    expect(await scoreOf("other@example.com")).toBe(5);
  });

  test("once shows on the traces of other signals which signal has scored", async () => {
    const ruleId = await newRule("once_per_day");
    await newRule("once_ever", { points: 100 });
    const [first, second, third] = [visit(MIDNIGHT), visit(MIDNIGHT + 1), visit(MIDNIGHT + DAY)];
    await send(first, second, third);
    type Trace = { points: number; rules_matched: { points: number; scored: boolean; scored_by: string | null }[] };
    const trace = async ({ id }: { id: string }) => {
      const { points, rules_matched: matched } = await workspace.operator<Trace>("GET", `/signals/${id}`);
      return [points, ...matched.map((match) => `${match.points} ${match.scored} ${match.scored_by}`)];
    };
    expect(await trace(first)).toEqual([105, "5 true null", "100 true null"]);
    expect(await trace(second)).toEqual([0, `5 false ${first.id}`, `100 false ${first.id}`]);
    expect(await trace(third)).toEqual([5, "5 true null", `100 false ${first.id}`]);

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
      (await store().exportPart({ records, format: "ndjson", cursor: null })).text
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => (JSON.parse(line) as { points: number }).points);
    expect(await exported("signals")).toEqual([105, 0, 5]);
    expect(await exported("scoring_signals")).toEqual([5, 100, 5]);
    const facts = await store().ruleResults([ruleId]);
    expect(facts).toMatchObject([{ days: `${MIDNIGHT / DAY + 1},1,1` }]);
  });

  test("once ignores held signals until their release, and repeated releases", async () => {
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

test("linked signals count once together with earlier signals, in either order", async () => {
  await newRule("once_per_day");
  const anonymous = [visit(MIDNIGHT, { anonymousId: "a-1" }), visit(MIDNIGHT + DAY, { anonymousId: "a-1" })];
  await send(...anonymous, visit(MIDNIGHT + 1));
  await send(identify(MIDNIGHT + 2 * DAY, { anonymousId: "a-1" }, JANE));
  await ringUntilQuiet(workspace.id);
  expect(await scoreOf(JANE)).toBe(10);
});
