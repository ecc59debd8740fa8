/**
 * Journeys through the code, from the address to the effect (docs/code.md). Each has its own workspace with a person, a rule, and stored
 * signals of which the older half has its payloads in R2.
 */
import { randomBytes } from "node:crypto";
import { DAY_MS } from "../../src/domain/duration.ts";
import type { BooksAnswer } from "../../src/dev/operator-client.ts";
import { signIn, type ProvisionedWorkspace } from "../bench/operator-api.ts";
import { VISIT_RULE } from "../bench/rules.ts";
import type { Service } from "../support/service.ts";

export interface Journey {
  name: string;
  from: "webhook" | "operator API" | "page";
  /** The files that run; more fail the command. docs/code.md prints the same figures. */
  files: number;
  /** Creates what must exist before. */
  prepare?(world: World): Promise<void>;
  run(world: World): Promise<void>;
  /** Time until the effect, in milliseconds. The journey waits, because a look at the effect would run functions too. */
  waitMs: number;
  /** Throws unless the effect has come. */
  verify(world: World): Promise<void>;
}

export interface World extends ProvisionedWorkspace {
  service: Service;
  /** Cookie of the workspace's owner. */
  cookie: string;
  /** Number of the round. Each round has its own person, key and rule. */
  nth: number;
  /** The rule or key that `prepare` has created. */
  created: { id: string; key?: string };
}

/** One round to warm up, one that counts, and more if an alarm came that belongs to none. */
export const ROUNDS = 6;
/** So long ago that payloads are in R2 now. */
export const LONG_AGO_MS = -3 * DAY_MS;
/** The queue waits a second for more messages. */
const PROCESSED_MS = 2_500;
/** The store's alarm follows at once. */
const JOB_MS = 1_500;

const OWNER = "owner@example.com";
/** Random text of a signal: those of six people fill a segment, so that the store seals it and moves its payloads to R2. */
const TEXT_BYTES = 20_000;
/** Of the new rule that is applied to the past. */
const PAST_POINTS = 10;
/** Stored signals of a person: an identify and a track from long ago, and both from today. */
const STORED = 4;
const VISITS = STORED / 2;

/** Creates a workspace with stored signals. Called LONG_AGO_MS. */
export async function beginWorld(service: Service, slug: string): Promise<World> {
  const workspace = await service.api.provision({ slug, rules: [VISIT_RULE] });
  await service.api.post(`${workspace.home}/members`, { email: OWNER, role: "owner" });
  const world: World = { ...workspace, service, cookie: "", nth: 0, created: { id: "" } };
  await sendOfEachPerson(world);
  return world;
}

/** Sends signals of today, and signs in. */
export async function continueWorld(world: World): Promise<World> {
  await sendOfEachPerson(world);
  return { ...world, cookie: await signIn(world.service.origin, OWNER) };
}

async function sendOfEachPerson(world: World): Promise<void> {
  const people = Array.from({ length: ROUNDS }, (_, nth) => {
    const of = { email: email({ nth }), userId: `user-${nth}`, anonymousId: `browser-${nth}` };
    const properties = { n: nth, text: randomBytes(TEXT_BYTES).toString("base64") };
    return [
      { type: "identify", ...of, traits: { email: of.email, name: "Jane Doe" } },
      { type: "track", event: "Visit", userId: of.userId, properties },
    ];
  });
  await expectStatus(await send(world, people.flat()), 202);
  await world.service.api.settled(world.id);
}

const email = ({ nth }: { nth: number }): string => `person-${nth}@example.com`;

const personPath = (world: World): string => `${world.home}/people/${encodeURIComponent(email(world))}`;

function send(world: World, signal: object, key = world.key): Promise<Response> {
  return world.service.post(`signal-staging/webhook/${key}`, signal);
}

/** Sends a form of the pages, as a browser does, but does not follow the answer. */
async function sendForm({ service, slug, cookie }: World, path: string, fields: Record<string, string> = {}) {
  const response = await fetch(`${service.origin}/w/${slug}/${path}`, {
    method: "POST",
    headers: { origin: service.origin, cookie, "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams(fields).toString(),
    redirect: "manual",
  });
  await expectStatus(response, 303);
}

async function expectStatus(response: Response, status: number): Promise<void> {
  const text = await response.text();
  if (response.status !== status) throw new Error(`${response.status} instead of ${status}: ${text}`);
}

async function score(world: World): Promise<number> {
  const path = `${world.home}/people?email=${encodeURIComponent(email(world))}`;
  const { items } = await world.service.api.get<{ items: { score: number }[] }>(path);
  return items[0]?.score ?? 0;
}

function expectEqual(actual: unknown, expected: unknown, what: string): void {
  if (actual !== expected) throw new Error(`${what}: ${String(actual)} instead of ${String(expected)}`);
}

/** POST of one track signal of a known person, which a rule scores. Ends when the score is stored and the row is settled. */
const postToScore: Journey = {
  name: "POST to score",
  from: "webhook",
  files: 69,
  run: async (world) => {
    const signal = { type: "track", messageId: `new-${world.nth}`, event: "Visit", userId: `user-${world.nth}` };
    await expectStatus(await send(world, signal), 202);
  },
  waitMs: PROCESSED_MS,
  verify: async (world) => {
    expectEqual(await score(world), (VISITS + 1) * VISIT_RULE.points, "score");
    expectEqual((await world.service.api.get<BooksAnswer>(`${world.home}/books`)).in_flight, 0, "in flight");
  },
};

const OTHER = { event: "Other", email: "other@example.com" };

/** The call that deactivates a key in use. Ends with its answer: from then on no call with the key is accepted. */
const deactivateKey: Journey = {
  name: "Deactivate a key",
  from: "operator API",
  files: 20,
  prepare: async (world) => {
    const { id, key } = await world.service.api.newKey(world.id);
    world.created = { id, key };
    await expectStatus(await send(world, OTHER, key), 202);
    await world.service.api.settled(world.id);
  },
  run: (world) => world.service.api.deactivate(world.id, world.created.id),
  waitMs: 0,
  verify: async (world) => expectStatus(await send(world, OTHER, world.created.key), 401),
};

/**
 * The call that applies a new rule to stored signals, of which half have their payloads in R2. Ends when the job is done and the
 * points are stored.
 */
const applyRule: Journey = {
  name: "Apply a rule to the past",
  from: "operator API",
  files: 55,
  prepare: async (world) => {
    const name = `past ${world.nth}`;
    const conditions = [{ path: "properties.n", operator: "equals", value: world.nth }];
    const rule = { ...VISIT_RULE, name, conditions, scoring_signal: name, points: PAST_POINTS };
    world.created = await world.service.api.post<{ id: string }>(`${world.home}/rules`, rule);
  },
  run: async (world) => void (await world.service.api.post(`${world.home}/rules/${world.created.id}/apply`)),
  waitMs: JOB_MS,
  verify: async (world) => {
    const job = await world.service.api.get<{ status: string }>(`${world.home}/rules/${world.created.id}/apply`);
    expectEqual(job.status, "done", "job");
    expectEqual(await score(world), VISITS * (VISIT_RULE.points + PAST_POINTS), "score");
  },
};

/** The call that deletes a person with signals. Ends when the receipt is complete: store, R2 and Destinations have nothing of them. */
const deletePerson: Journey = {
  name: "Delete a person",
  from: "operator API",
  files: 55,
  run: async (world) => void (await world.service.api.call("DELETE", personPath(world))),
  waitMs: JOB_MS,
  verify: async (world) => {
    const path = `${personPath(world)}/deletion`;
    const receipt = await world.service.api.get<{ complete: boolean; signals: number }>(path);
    expectEqual(receipt.complete, true, "complete");
    expectEqual(receipt.signals, STORED, "signals");
  },
};

/** Three begin in two ways. */
export const JOURNEYS: readonly Journey[] = [
  postToScore,
  deactivateKey,
  {
    ...deactivateKey,
    from: "page",
    files: 28,
    run: (world) => sendForm(world, `settings/api-keys/${world.created.id}/deactivate`),
  },
  applyRule,
  { ...applyRule, from: "page", files: 62, run: (world) => sendForm(world, `rules/${world.created.id}/apply`) },
  deletePerson,
  {
    ...deletePerson,
    from: "page",
    files: 72,
    run: (world) => sendForm(world, `people/${encodeURIComponent(email(world))}/delete`, { email: email(world) }),
  },
];
