/** The examples of docs/scores.md. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { deliver } from "../../support/deliver.ts";
import { ringUntilQuiet } from "../../support/cold.ts";
import { newWorkspace, type TestWorkspace } from "../../support/workspace.ts";

const [JANE, TOM] = ["jane@example.com", "tom@example.com"];
const PRICES = { event: "Looked at the prices", points: 5, points_last_days: 30 };
const DEMO = { event: "Asked for a demo", points: 20 };
const WEBINAR = { event: "Attended", points: 10 };

let workspace: TestWorkspace;
let ordinal = 0;

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2026, 2, 31) });
  workspace = await newWorkspace();
  for (const rule of [PRICES, DEMO, WEBINAR]) {
    await workspace.operator("POST", "/rules", { name: rule.event, scoring_signal: rule.event, ...rule });
  }
});

afterEach(() => {
  vi.useRealTimers();
});

/** Sets the clock, such as to `04-01` or `05-02T23:59:59Z`, and lets points lapse. */
async function onDay(day: string): Promise<void> {
  vi.setSystemTime(new Date(`2026-${day}`));
  await ringUntilQuiet(workspace.id);
}

/** Delivers a signal that is received now. */
async function receive(payload: object): Promise<string> {
  const id = `sig_${++ordinal}`;
  await deliver(workspace.id, [{ id, at: Date.now(), ordinal, payload }]);
  return id;
}

async function scoreOf(email: string): Promise<unknown> {
  const [person] = await workspace.list(`/people?email=${email}`);
  return person?.["score"];
}

async function accountScores(): Promise<Record<string, unknown>> {
  const accounts = await workspace.list("/accounts?order=score");
  return Object.fromEntries(accounts.map((account) => [account["external_id"], account["score"]]));
}

test("an imported signal occurred on its own day and was received on the day of the import", async () => {
  await onDay("05-10T09:00:00Z");
  const id = await receive({ event: WEBINAR.event, email: JANE, timestamp: "2026-03-03T15:00:00Z" });
  expect(await workspace.operator("GET", `/signals/${id}`)).toMatchObject({
    occurred_at: "2026-03-03T15:00:00.000Z",
    received_at: "2026-05-10T09:00:00.000Z",
  });
});

test("points count on their whole last day and lapse at the start of the next; a visit that is too old adds none", async () => {
  await onDay("04-01T10:00:00Z");
  await receive({ event: DEMO.event, email: JANE });
  expect(await scoreOf(JANE)).toBe(20);
  await onDay("04-02T10:00:00Z");
  await receive({ event: PRICES.event, email: JANE });
  expect(await scoreOf(JANE)).toBe(25);
  await onDay("05-02T23:59:59Z");
  expect(await scoreOf(JANE)).toBe(25);
  await onDay("05-03T00:00:00Z");
  expect(await scoreOf(JANE)).toBe(20);
  await onDay("05-04T10:00:00Z");
  await receive({ event: PRICES.event, email: JANE, timestamp: "2026-04-01T10:00:00Z" });
  expect(await scoreOf(JANE)).toBe(20);
});

test("an account has the sum of its members' scores; it vanishes with its last member", async () => {
  await onDay("04-02T10:00:00Z");
  for (const [email, events] of [
    [JANE, [DEMO, PRICES]],
    [TOM, [WEBINAR]],
  ] as const) {
    await receive({ type: "identify", userId: email, traits: { email, company: { id: "acme" } } });
    for (const { event } of events) await receive({ event, userId: email });
  }
  expect(await accountScores()).toEqual({ acme: 35 });
  await receive({ type: "group", userId: TOM, groupId: "globex" });
  expect(await accountScores()).toEqual({ acme: 25, globex: 10 });
  await onDay("05-03T00:00:00Z");
  expect(await accountScores()).toEqual({ acme: 20, globex: 10 });
  await workspace.operator("DELETE", `/people/${TOM}`);
  await ringUntilQuiet(workspace.id);
  expect(await accountScores()).toEqual({ acme: 20 });
});
