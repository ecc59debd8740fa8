/** The pages in each state of the usage bar, which real signals of workspaces with small limits bring about. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CLOCK_AHEAD, clockAheadMs } from "../../src/dev/clock-ahead.ts";
import { setClock, WORKER_WITH_CLOCK } from "../../src/dev/local-service.ts";
import { OperatorClient } from "../../src/dev/operator-client.ts";
import { DAY_MS } from "../../src/domain/duration.ts";
import { SERVICE_CONFIG, build } from "../bench/build.ts";
import { startEmpty, type RunningWorker } from "../bench/start.ts";
import { browserForFile } from "./support/browser.ts";
import { problems } from "./support/problems.ts";

const TOKEN = "bar-operator";
const OWNER = "owner@example.com";
const LIMIT = 10;
/** A list, a form, and the page that shows the state in full. */
const PATHS = ["signals", "rules/new", "usage"] as const;

interface State {
  slug: string;
  /** The bar's title; null: no bar. */
  title: string | null;
  /** Signals of the current billing period. */
  signals: number;
  overages?: boolean;
  /** Whether each of the three periods before ended over the limit. */
  extraRoomGone?: boolean;
}

const STATES: State[] = [
  { slug: "none", signals: 7, title: null },
  { slug: "at-80", signals: 8, title: "You've used 80% of your signal limit." },
  { slug: "at-100", signals: 10, title: "You've reached your signal limit." },
  { slug: "over-100", signals: 12, title: "You're over your signal limit: new signals are held." },
  { slug: "at-200", signals: 21, title: "You've reached twice your signal limit: signals are rejected." },
  { slug: "no-room-80", signals: 9, extraRoomGone: true, title: "You've used 90% of your signal limit." },
  {
    slug: "no-room",
    signals: 11,
    extraRoomGone: true,
    title: "You've reached your signal limit: signals are rejected.",
  },
  { slug: "overages-80", signals: 8, overages: true, title: "You've used 80% of your signal limit." },
  {
    slug: "overages-200",
    signals: 20,
    overages: true,
    title: "You're at 200% of your limit. Overages are on, so signals are still accepted.",
  },
];

let scratch: string;
let running: RunningWorker | undefined;
let operator: OperatorClient;
const { open } = browserForFile();

beforeAll(async () => {
  scratch = await mkdtemp(path.join(tmpdir(), "signal-ingestion-bar-"));
  const built = await build(SERVICE_CONFIG, path.join(scratch, "worker"), WORKER_WITH_CLOCK);
  const vars = { OPERATOR_TOKEN: TOKEN, SIGN_IN: "local", [CLOCK_AHEAD]: String(clockAheadMs) };
  running = await startEmpty(built, { stateDir: path.join(scratch, "state"), vars });
  operator = new OperatorClient(running.origin, TOKEN);
  await bringAbout(running.origin, STATES);
});

afterAll(async () => {
  await running?.stop();
  await rm(scratch, { recursive: true, force: true });
});

/** Three billing periods, in which a part of the workspaces exceeds the limit, and the signals of the current one. */
async function bringAbout(origin: string, states: State[]): Promise<void> {
  const nowMs = Date.now();
  await operator.call("PUT", "plans/bar", { name: "Bar", signal_limit: LIMIT, paid: true });
  const senders = new Map<State, string>();
  // In the middle of the first three billing periods, whatever the lengths of the months. Now is in the fourth.
  for (const daysAgo of [95, 50, 20]) {
    await setClock(origin, nowMs - daysAgo * DAY_MS);
    for (const state of states) {
      const key = senders.get(state) ?? (await createWorkspace(state));
      senders.set(state, key);
      if (state.extraRoomGone === true) await sendSignals(origin, key, LIMIT + 1);
    }
  }
  await setClock(origin, "now");
  for (const [state, key] of senders) await sendSignals(origin, key, state.signals);
}

/** @returns a key of the workspace. */
async function createWorkspace({ slug, overages = false }: State): Promise<string> {
  const { id } = await operator.post<{ id: string }>("workspaces", { slug, name: slug, plan: "bar" });
  await operator.post(`workspaces/${id}/members`, { email: OWNER, role: "owner" });
  if (overages) await operator.call("PATCH", `workspaces/${id}`, { overages });
  // A request for the usage makes sure that the counter has the plan.
  await operator.get(`workspaces/${id}/usage`);
  return (await operator.post<{ key: string }>(`workspaces/${id}/keys`, { name: "Test" })).key;
}

async function sendSignals(origin: string, key: string, count: number): Promise<void> {
  const signals = Array.from({ length: count }, (_, n) => ({ event: `Visit ${n}`, email: `p${n}@example.com` }));
  const url = `${origin}/api/signal-staging/webhook/${key}/batch`;
  const answer = await fetch(url, { method: "POST", body: JSON.stringify(signals) });
  await answer.body?.cancel();
  expect(answer.status).toBe(202);
}

const openPage = (to: string): Promise<Page> =>
  open(OWNER, to, { baseURL: running?.origin ?? "", reducedMotion: "reduce" });

/** The title of the bar, or of the usage page's notice. */
async function shownTitle(page: Page): Promise<string | null> {
  const title = page.locator(".notice > strong, .notice.bar strong");
  return (await title.count()) === 0 ? null : title.first().innerText();
}

test.each(STATES)("$slug: the bar shows the state, and its pages have no problem", async ({ slug, title }) => {
  const page = await openPage(`/w/${slug}/signals`);
  for (const at of PATHS) {
    await page.goto(`/w/${slug}/${at}`);
    expect(await shownTitle(page), at).toBe(title);
    expect(await problems(page), at).toEqual([]);
  }
});

test("a dismissed bar is gone from every page of its workspace, and stays in others", async () => {
  const page = await openPage("/w/at-100/signals");
  await page.getByRole("button", { name: "Dismiss usage notice" }).click();
  for (const at of ["signals", "rules/new"]) {
    await page.goto(`/w/at-100/${at}`);
    expect(await shownTitle(page), at).toBe(null);
    expect(await problems(page), at).toEqual([]);
  }
  await page.goto("/w/at-80/signals");
  expect(await shownTitle(page)).not.toBe(null);
});

test("the bar leads to the usage", async () => {
  const page = await openPage("/w/at-80/rules/new");
  await page.getByRole("link", { name: "View usage" }).click();
  await page.getByRole("heading", { name: "Usage", level: 1 }).waitFor();
  expect(new URL(page.url()).pathname).toBe("/w/at-80/usage");
});
