/** Spec §8 and design §6, invariants 2 and 3, as senders see them: kept and rejected signals, and their answers. */
import { describe, expect, test, vi } from "vitest";
import { linesOf } from "../../support/adds-up.ts";
import { stopClock } from "../../support/clock.ts";
import { readStore } from "../../support/read-store.ts";
import {
  concurrently,
  newPlan,
  newWorkspace,
  type BatchAnswer,
  type Problem,
  type TestWorkspace,
} from "../../support/workspace.ts";

const CALLERS = 64;
/** Ten and a half days before the end of a period that began at ANCHOR. */
const ANCHOR = "2031-01-01T00:00:00.000Z";
const NOW = Date.parse("2031-01-21T12:00:00.000Z");
const PERIOD_LEFT_S = 10.5 * 86_400;
const TEMPLATE = [{ target: "external_id", path: "id", type: "string" }];

/** Different each time, so that none is a duplicate. */
let sent = 0;
const signal = () => ({ event: "x", properties: { n: ++sent } });
const signals = (count: number) => Array.from({ length: count }, signal);

const usageOf = (workspace: TestWorkspace) => workspace.operator("GET", "/usage");

/** The answer to one call: `accepted`, `held`, or the rejection's code. */
async function verdictOf(response: Response): Promise<string> {
  const body = await response.json<{ status: string | number; code?: string }>();
  expect(response.status).toBe(body.code === undefined ? 202 : body.status);
  return body.code ?? String(body.status);
}

const verdict = async (workspace: TestWorkspace) => verdictOf(await workspace.send(signal()));

async function resultsOf(workspace: TestWorkspace, items: unknown[]) {
  const { results = [] } = await (await workspace.send(items)).json<BatchAnswer | Problem>();
  return results.map(({ id, code, status }) => ({ id, verdict: code ?? status }));
}

async function verdicts(workspace: TestWorkspace, items: unknown[]): Promise<string[]> {
  return (await resultsOf(workspace, items)).map((result) => result.verdict);
}

function tally(values: string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const value of values) counts[value] = (counts[value] ?? 0) + 1;
  return counts;
}

const times = (count: number, value: string) => Array.from({ length: count }, () => value);

/** Verdicts of all stored signals, in the order of their ordinals. */
async function storedOrdinals(workspace: TestWorkspace): Promise<{ ordinal: number; verdict: string }[]> {
  return (await storedAdmissions(workspace)).map(({ ordinal, verdict: stored }) => ({ ordinal, verdict: stored }));
}

async function storedAdmissions(workspace: TestWorkspace) {
  await workspace.settled();
  return readStore(workspace.id, (state) =>
    [...linesOf(state.signals), ...linesOf(state.held)]
      .map(({ facts: { admission } }) => admission)
      .sort((a, b) => a.ordinal - b.ordinal),
  );
}

/** Ordinals without gaps or repetitions, accepted up to the limit and held after it. */
const ordinals = (limit: number, last: number) =>
  Array.from({ length: last }, (_, index) => ({ ordinal: index + 1, verdict: index < limit ? "accepted" : "held" }));

describe("§8.2 to §8.4: 64 concurrent callers (invariants 2 and 3)", () => {
  test("with single signals get exactly L accepted, L held and the rest rejected until the period ends", async () => {
    stopClock(NOW);
    const workspace = await newWorkspace({ signalLimit: 50, anchor: ANCHOR });
    const answers = await concurrently(CALLERS, 150, () => workspace.send(signal()));
    for (const answer of answers.filter((rejected) => rejected.status === 429)) {
      expect(answer.headers.get("retry-after")).toBe(String(PERIOD_LEFT_S));
    }
    expect(tally(await Promise.all(answers.map(verdictOf)))).toEqual({
      accepted: 50,
      held: 50,
      extra_room_exceeded: 50,
    });
    expect(await usageOf(workspace)).toMatchObject({ accepted: 50, held: 50, rejected: 50 });
    // Each 202 is durable and can be found.
    expect(await storedOrdinals(workspace)).toEqual(ordinals(50, 100));
    expect(await workspace.books()).toMatchObject({ accepted: 100, processed: 50, held: 50, balanced: true });
  });

  test("with batches get the same counts, item by item", async () => {
    const workspace = await newWorkspace({ signalLimit: 50 });
    const answers = await concurrently(CALLERS, 70, (index) => resultsOf(workspace, signals(1 + (index % 5))));
    const results = answers.flat();
    expect(tally(results.map((result) => result.verdict))).toEqual({
      accepted: 50,
      held: 50,
      extra_room_exceeded: 210 - 100,
    });
    const order = ["accepted", "held", "extra_room_exceeded"];
    for (const answer of answers) {
      const ranks = answer.map((result) => order.indexOf(result.verdict));
      expect(ranks).toEqual(ranks.toSorted((a, b) => a - b));
    }
    expect(await storedOrdinals(workspace)).toEqual(ordinals(50, 100));
    const stored = new Map((await storedAdmissions(workspace)).map(({ id, verdict: kept }) => [id, kept]));
    for (const { id = "", verdict: answered } of results) expect(stored.get(id) ?? order[2]).toBe(answered);
  });

  test("count one for each signal, account update and identify, on every endpoint", async () => {
    const workspace = await newWorkspace({ signalLimit: 4 });
    const accounts = await workspace.newKey({ endpoint_type: "product_org", payload_template: TEMPLATE });
    await workspace.send(signal(), { path: "/api/signal-staging/webhook/web/{key}" });
    await workspace.send(`{"event":"a"}\n{"event":"b"}`, { path: "/api/signal-staging/bulk/{key}" });
    await workspace.send({ id: "1" }, { path: "/api/product-orgs/webhook/{key}", key: accounts.key });
    expect(await verdictOf(await workspace.send({ type: "identify", userId: "u", anonymousId: "a" }))).toBe("held");
    expect(await usageOf(workspace)).toMatchObject({ accepted: 4, held: 1 });
  });

  test("count a duplicate, because it was accepted", async () => {
    const workspace = await newWorkspace({ signalLimit: 1 });
    const same = { event: "x", messageId: "m" };
    expect(await verdictOf(await workspace.send(same))).toBe("accepted");
    expect(await verdictOf(await workspace.send(same))).toBe("held");
  });
});

describe("§8.2 to §8.4: a batch across a boundary", () => {
  test("is kept as far as it fits", async () => {
    stopClock(NOW);
    const workspace = await newWorkspace({ signalLimit: 10, anchor: ANCHOR });
    expect(await verdicts(workspace, signals(7))).toEqual(times(7, "accepted"));
    expect(await verdicts(workspace, signals(7))).toEqual([...times(3, "accepted"), ...times(4, "held")]);

    const across = await workspace.send(signals(9));
    expect([across.status, across.headers.get("retry-after")]).toEqual([202, null]);
    const { results, ...counts } = await across.json<BatchAnswer>();
    expect(counts).toEqual({ status: "partial", accepted: 0, held: 6, rejected: 3 });
    expect(results.map((result) => result.code ?? result.status)).toEqual([
      ...times(6, "held"),
      ...times(3, "extra_room_exceeded"),
    ]);

    const rejected = await workspace.send(signals(2));
    expect([rejected.status, rejected.headers.get("retry-after")]).toEqual([429, String(PERIOD_LEFT_S)]);
    expect(await rejected.json()).toMatchObject({
      code: "extra_room_exceeded",
      accepted: 0,
      held: 0,
      rejected: 2,
      results: [{ index: 0 }, { index: 1 }],
    });
    expect(await usageOf(workspace)).toMatchObject({ accepted: 10, held: 10, rejected: 5 });
    expect(await storedOrdinals(workspace)).toEqual(ordinals(10, 20));
  });

  test("gives its invalid items no ordinal", async () => {
    const workspace = await newWorkspace({ signalLimit: 2 });
    const items = [signal(), {}, signal(), {}, signal(), signal(), {}, signal()];
    expect(await verdicts(workspace, items)).toEqual([
      "accepted",
      "event_missing",
      "accepted",
      "event_missing",
      "held",
      "held",
      "event_missing",
      "extra_room_exceeded",
    ]);
    expect(await usageOf(workspace)).toMatchObject({ accepted: 2, held: 2 });
    expect(await storedOrdinals(workspace)).toEqual(ordinals(2, 4));
  });

  test("of megabytes is decided as a whole", async () => {
    const workspace = await newWorkspace({ signalLimit: 30 });
    const large = signals(100).map((small) => ({ ...small, padding: "x".repeat(40_000) }));
    expect(await verdicts(workspace, large)).toEqual([
      ...times(30, "accepted"),
      ...times(30, "held"),
      ...times(40, "extra_room_exceeded"),
    ]);
    expect(await storedOrdinals(workspace)).toEqual(ordinals(30, 60));
  });
});

describe("§8.6: overages and upgrades", () => {
  test("take effect with the next signal in both directions; held signals stay held", async () => {
    const workspace = await newWorkspace({ signalLimit: 1 });
    expect(await verdicts(workspace, signals(3))).toEqual(["accepted", "held", "extra_room_exceeded"]);
    const set = (overages: boolean) => workspace.operator("PATCH", "", { overages });
    await set(true);
    expect(await verdict(workspace)).toBe("accepted");
    await set(false);
    expect(await verdict(workspace)).toBe("extra_room_exceeded");
    expect(await usageOf(workspace)).toMatchObject({ accepted: 2, held: 1, rejected: 2, overage: 1 });
  });

  test("apply a new plan with the next signal, up and down", async () => {
    const workspace = await newWorkspace({ signalLimit: 2 });
    expect(await verdicts(workspace, signals(5))).toEqual([
      ...times(2, "accepted"),
      ...times(2, "held"),
      "extra_room_exceeded",
    ]);
    await workspace.operator("PATCH", "", { plan: await newPlan(6) });
    // Ordinals 5 and 6 are within the new limit.
    expect(await verdicts(workspace, signals(3))).toEqual(["accepted", "accepted", "held"]);
    await workspace.operator("PATCH", "", { plan: await newPlan(4) });
    expect(await verdicts(workspace, signals(2))).toEqual(["held", "extra_room_exceeded"]);
    expect(await usageOf(workspace)).toMatchObject({ accepted: 4, held: 4, signal_limit: 4 });
  });
});

describe("§8.5: the extra room ends", () => {
  const months = ["01", "02", "03", "04"].map((month) => Date.parse(`2031-${month}-10`));

  async function drive(workspace: TestWorkspace): Promise<string[][]> {
    const answers: string[][] = [];
    for (const monthMs of months) {
      vi.setSystemTime(monthMs);
      answers.push(await verdicts(workspace, signals(3)));
    }
    return answers;
  }

  const withRoom = ["accepted", "accepted", "held"];

  test("after three paid periods in a row over the allowance, for good", async () => {
    stopClock(months[0] ?? 0);
    const workspace = await newWorkspace({ signalLimit: 2, anchor: ANCHOR });
    expect(await drive(workspace)).toEqual([
      withRoom,
      withRoom,
      withRoom,
      ["accepted", "accepted", "allowance_exceeded"],
    ]);
    const rejected = await workspace.send(signal());
    expect([rejected.status, rejected.headers.get("retry-after")]).toEqual([429, String(21 * 86_400)]);
    expect(rejected.headers.get("ratelimit-policy")).toContain('"billing-period";q=2');
    expect(await verdictOf(rejected)).toBe("allowance_exceeded");
    expect(await usageOf(workspace)).toMatchObject({ streak: 3, extra_room_removed: true, held: 0 });

    vi.setSystemTime(Date.parse("2031-07-10"));
    expect(await verdicts(workspace, signals(3))).toEqual(["accepted", "accepted", "allowance_exceeded"]);
    await workspace.operator("PATCH", "", { plan: await newPlan(3) });
    expect(await verdicts(workspace, signals(2))).toEqual(["accepted", "allowance_exceeded"]);
    await workspace.operator("PATCH", "", { overages: true });
    expect(await verdict(workspace)).toBe("accepted");
  });
});

test("§8: a new period accepts its first signal, to the millisecond", async () => {
  stopClock(Date.parse("2031-01-31T23:59:59.999Z"));
  const workspace = await newWorkspace({ signalLimit: 1, anchor: ANCHOR });
  expect(await verdicts(workspace, signals(3))).toEqual(["accepted", "held", "extra_room_exceeded"]);
  expect((await workspace.send(signal())).headers.get("retry-after")).toBe("1");
  vi.setSystemTime(Date.parse("2031-02-01T00:00:00.000Z"));
  expect(await verdict(workspace)).toBe("accepted");
  expect(await usageOf(workspace)).toMatchObject({
    period_start: "2031-02-01T00:00:00.000Z",
    accepted: 1,
    held: 0,
    rejected: 0,
    history: [{ accepted: 1, held: 1, rejected: 2 }],
  });
});

test("§7: 401, 403 and every 4xx leave the usage unchanged and take no ordinal", async () => {
  const workspace = await newWorkspace({ signalLimit: 1 });
  const withSecret = await workspace.newKey({ secret: true });
  const statuses = [
    await workspace.send(signal(), { key: "sk_nothing" }),
    await workspace.send(signal(), { key: withSecret.key }),
    await workspace.send(signal(), { path: "/api/product-orgs/webhook/{key}" }),
    await workspace.send("{ broken"),
    await workspace.send({}),
    await workspace.send([{}, 7]),
    await workspace.send({ event: "x", a: "x".repeat(70_000) }),
    await workspace.send(signal(), { headers: { "content-encoding": "br" } }),
  ].map((response) => response.status);
  expect(statuses).toEqual([401, 401, 403, 400, 422, 422, 413, 415]);
  expect(await usageOf(workspace)).toMatchObject({ accepted: 0, held: 0, rejected: 0 });
  expect(await verdict(workspace)).toBe("accepted");
  expect(await storedOrdinals(workspace)).toEqual(ordinals(1, 1));
});

describe("design §9: RateLimit headers", () => {
  const limits = (response: Response) => [response.headers.get("ratelimit-policy"), response.headers.get("ratelimit")];
  const policy = '"request-rate";q=1000;w=2, "billing-period";q=20';
  const state = (requests: number, left: number, resetS = 1) =>
    `"request-rate";r=${requests};t=${resetS}, "billing-period";r=${left};t=${PERIOD_LEFT_S}`;

  test("show the remaining requests and signals until the first rejection, on accepted and rejected calls", async () => {
    stopClock(NOW);
    const workspace = await newWorkspace({ signalLimit: 10, anchor: ANCHOR });
    expect(limits(await workspace.send(signal()))).toEqual([policy, state(999, 19)]);
    expect(limits(await workspace.send(signals(4)))).toEqual([policy, state(998, 15)]);
    const rejectedCalls = [
      await workspace.send("{ broken"),
      await workspace.send({}),
      await workspace.send(signal(), { path: "/api/product-orgs/webhook/{key}" }),
    ];
    for (const [index, rejected] of rejectedCalls.entries()) {
      expect(rejected.status).toBeGreaterThanOrEqual(400);
      expect(limits(rejected)).toEqual([policy, state(997 - index, 15)]);
    }
    await workspace.send(signals(30));
    const rejected = await workspace.send(signal());
    expect(rejected.status).toBe(429);
    expect(limits(rejected)).toEqual([policy, state(993, 0)]);
  });

  test("omit the period with overages enabled, because no signal is rejected", async () => {
    stopClock(NOW);
    const workspace = await newWorkspace({ signalLimit: 10, anchor: ANCHOR, overages: true });
    expect(limits(await workspace.send(signal()))).toEqual(['"request-rate";q=1000;w=2', '"request-rate";r=999;t=1']);
  });

  test("show the new period on a rejection that is its first call", async () => {
    stopClock(NOW);
    const workspace = await newWorkspace({ signalLimit: 10, anchor: ANCHOR });
    await workspace.send(signals(15));
    vi.setSystemTime(Date.parse("2031-02-02T00:00:00.000Z"));
    const [, rejectedState] = limits(await workspace.send({}));
    expect(rejectedState).toContain(`"billing-period";r=20;t=${27 * 86_400}`);
  });
});
