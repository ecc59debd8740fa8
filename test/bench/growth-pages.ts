/** The response times of the pages of a large workspace, signed in as its owner. */
import * as z from "zod";
import { EVENTS, emailOf, signalIdOf } from "./growth-traffic.ts";
import type { FilledWorkspace } from "./growth-workspaces.ts";
import type { LoadCall, LoadResult } from "./load.ts";
import { OperatorApi } from "./operator-api.ts";
import { groupIn } from "./traffic.ts";

export interface PageTime {
  name: string;
  p50Ms: number;
}

/** Median from the request to the last byte, on one connection. */
export const MAX_PAGE_MS = 50;
/** Requests per page. */
const PAGE_CALLS = 31;
const OWNER = "owner@example.com";
const RulesAnswer = z.object({ items: z.array(z.object({ id: z.string() })).min(1) });

interface Known {
  workspace: FilledWorkspace;
  ruleId: string;
}

/** Paths under /w/{workspace}, each time for another record if that matters. */
const PAGES: { name: string; path: (known: Known, index: number) => string }[] = [
  { name: "Signal queue", path: () => "signals" },
  { name: "Signal queue, names that contain something rare", path: () => "signals?q=Tried%20Report" },
  { name: "Signal queue, most signals", path: () => "signals?sort=count" },
  { name: "Event group", path: ({ workspace }, index) => `signals/group?${groupOf(workspace, index)}` },
  { name: "All signals", path: () => "signals/all" },
  { name: "All signals of an event and a status", path: () => `signals/all?event=${eventOf(7)}&status=held` },
  {
    name: "All signals of a person",
    path: ({ workspace }, index) => `signals/all?email=${emailAt(workspace, index)}`,
  },
  { name: "Signal", path: ({ workspace }, index) => `signals/${signalIdOf(some(workspace, index), workspace.order)}` },
  { name: "Dead letters", path: () => "signals/dead-letters" },
  { name: "Mapping rules", path: () => "rules" },
  { name: "New rule", path: () => `rules/new?event=${eventOf(0)}` },
  { name: "Rule editor", path: ({ ruleId }) => `rules/${ruleId}` },
  { name: "People", path: () => "people" },
  { name: "People, last seen", path: () => "people?sort=last_seen" },
  { name: "People, highest score", path: () => "people?sort=score" },
  { name: "People, last seen the longest ago", path: () => "people?sort=last_seen_up" },
  { name: "People of a part of a name, highest score", path: (_, index) => `people?q=ane%20${index}&sort=score` },
  { name: "People of a part of an email that most have", path: () => "people?q=example&sort=last_seen" },
  { name: "People of a part of an email that nobody has", path: () => "people?q=nobody-has-this" },
  { name: "People of a score, last seen", path: () => "people?score=1&sort=last_seen" },
  { name: "Person", path: ({ workspace }, index) => `people/${emailAt(workspace, index)}` },
  { name: "Accounts", path: () => "accounts" },
  { name: "Usage", path: () => "usage" },
  { name: "Rejections", path: () => "rejections" },
  { name: "Live", path: () => "live" },
  { name: "API keys", path: () => "settings/api-keys" },
  { name: "Connect", path: () => "connect" },
  { name: "Members", path: () => "settings/members" },
  { name: "Activity", path: () => "settings/activity" },
];

/** Signs in at a service with local sign-in. */
export async function measurePages(
  workspace: FilledWorkspace,
  origin: string,
  operatorToken: string,
  load: (calls: LoadCall[]) => Promise<LoadResult>,
): Promise<PageTime[]> {
  const api = new OperatorApi(origin, operatorToken);
  await api.call("POST", `workspaces/${workspace.id}/members`, { email: OWNER, role: "owner" });
  const rules = RulesAnswer.parse(await api.call("GET", `workspaces/${workspace.id}/rules?limit=1`));
  const known = { workspace, ruleId: rules.items[0]?.id ?? "" };
  const cookie = await signIn(origin);
  const times: PageTime[] = [];
  for (const { name, path } of PAGES) {
    const calls = Array.from({ length: PAGE_CALLS }, (_, index) => ({
      method: "GET" as const,
      path: `/w/${workspace.slug}/${path(known, index)}`,
      cookie,
    }));
    times.push({ name, p50Ms: (await load(calls)).p50Ms });
  }
  return times;
}

/** Pages above the time limit. */
export function tooSlow(pages: readonly PageTime[]): string[] {
  return pages.flatMap(({ name, p50Ms }) =>
    p50Ms <= MAX_PAGE_MS ? [] : [`growth: ${name}: ${p50Ms.toFixed(0)} ms, more than ${MAX_PAGE_MS}`],
  );
}

/** The session's cookie. */
async function signIn(origin: string): Promise<string> {
  const response = await fetch(`${origin}/sign-in/local`, {
    method: "POST",
    headers: { origin, "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams({ email: OWNER }).toString(),
    redirect: "manual",
  });
  const [cookie] = response.headers.getSetCookie().map((header) => header.split(";")[0]);
  if (cookie === undefined) throw new Error(`sign-in: ${response.status} ${await response.text()}`);
  return cookie;
}

function emailAt({ size }: FilledWorkspace, index: number): string {
  return encodeURIComponent(emailOf((index * 7_919 + 17) % size.people));
}

/** A scattered signal. */
function some({ size }: FilledWorkspace, index: number): number {
  return (index * 7_919 + 17) % size.signals;
}

function eventOf(index: number): string {
  return encodeURIComponent(EVENTS[index] ?? "");
}

function groupOf({ order }: FilledWorkspace, index: number): string {
  return new URLSearchParams({ ...groupIn(index, order) }).toString();
}
