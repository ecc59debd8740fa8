/**
 * A deleted person is found nowhere: searches every column of every table for their names, before and after the
 * deletion. A new column fails here until the test has seen the person in it, or lists it as unable to hold one.
 */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { DAY_MS } from "../../../src/domain/duration.ts";
import { startLinkJob } from "../../../src/store/people/linking.ts";
import type { StoreState } from "../../../src/store/state/store-state.ts";
import { ringUntilQuiet } from "../../support/cold.ts";
import { TestCounter } from "../../support/counter.ts";
import { consumeMessages, deliver, type Delivered, messageOf } from "../../support/deliver.ts";
import { textOfBucket, textsOfColumns, textsOfD1 } from "../../support/everything.ts";
import { Receiver, listen, crossed, scored } from "../../support/destination-harness.ts";
import { until } from "../../support/until.ts";
import { newPlan, newWorkspace, type TestWorkspace } from "../../support/workspace.ts";
import { sealSignalLogs } from "../../support/log.ts";
import { STEPS } from "../../../src/store/steps.ts";

const START = Date.UTC(2031, 5, 10, 12);
const JANE = "jane.doe@example.com";
const SOURCE = `Newsletter for ${JANE}`;
const NAMES = /jane|doe(@|%40)/iu;
const IDS = { anonymousId: "V-Jane", userId: "U-Jane" };

/** Places that hold a person's names while they exist. Each must be seen with a name before the deletion. */
const HOLD_NAMES = {
  bucket: placesOf("objects"),
  counter: placesOf("outbox: body"),
  store: placesOf(`
    heads: facts payloads
    signals_facts: facts.source facts.email facts.userId facts.anonymousId facts.traits facts.topic
    signals_payloads: payloads
    held_facts: facts.source facts.email facts.userId facts.anonymousId facts.traits facts.topic
    held_facts: facts.pathSource facts.idempotencyKey facts.around
    held_payloads: payloads
    identities: key
    pairs: key other_key
    people: email name company title names base
    timelines: list
    link_jobs: key
    dead_letters: admission payload
    raised_notifications: body`),
  destinations: placesOf(`
    notifications: data
    deliveries: attempts`),
  d1: [],
};

/**
 * Places that cannot hold a person's names: numbers, ids, hashes, the service's words, and texts of admins. Members
 * and sessions are users of the pages; accounts belong to no person; an unreadable row cannot be assigned.
 */
const HOLD_NONE = {
  bucket: [],
  counter: placesOf(`
    key tables
    ledger: budgets budget_use
    outbox: budget_use
    unreadable_rows: body
    deactivated_keys: key_id
    raised_notifications: body
    wanted_notifications: wanted
    calls: key_id
    key_ends: key_id
    public_keys: key_id origin
    rejections: cause code detail key_id request_id
    released: id
    resend_jobs: job`),
  store: placesOf(`
    key tables
    accounts: external_id name plan user_count recurring_revenue trial_status feature_flags attributes claims histories
    account_changes: field signal_id before after before_signal_id
    heads: meta
    signals_segments: statuses cold groups
    signals_facts: hashes facts.id facts.event facts.keyId facts.outcomes facts.excludedBy facts.duplicateOf facts.pathSource facts.idempotencyKey facts.problems facts.around
    signals_late: id
    held_segments: statuses cold groups
    held_facts: hashes facts.id facts.event facts.keyId facts.outcomes facts.excludedBy facts.duplicateOf facts.problems
    held_late: id
    cold_objects: key state
    people: trait_orders recent account lapses
    timelines: entries
    link_jobs: counts
    dead_letters: id status reason problems
    deleted_names: hash
    deletions: id email_hash step
    event_groups: event source sample_id days
    single_scores: rule_id signal_id
    replacements: rule_id
    rule_days: rule_id days
    key_days: key_id days
    rule_jobs: rule_id rule status crossings
    rule_outcomes: rule_id scoring_signal frequency
    resend_jobs: id scope joined`),
  destinations: placesOf(`
    key tables
    destinations: id name type target notifications headers pages_url state disabled_reason secret confirmation
    old_secrets: destination_id secret
    failed_not_kept: destination_id
    notifications_seen: id
    notifications: id type
    deliveries: id destination_id notification_id type notifications state end_reason
    settings: name value
    key_notices: key_id notice of
    deleted_people: email_hash
    switched_off: destination_id detail`),
  d1: placesOf(`
    api_tokens: id workspace_id name token_hash token_first8 token_last4 scopes created_at created_by expires_at revoked_at
    api_tokens: revoked_reason last_used_at form_token
    api_keys: id workspace_id name endpoint_type key_hash key_first8 key_last4 secret_hash template_id created_at created_by
    api_keys: expires_at overlap_ends_at deactivated_at first_key_id successor_of form_token misfits
    key_budgets: first_key_id workspace_id
    audit_log: id workspace_id at actor action target detail
    mapping_rules: id workspace_id name event match conditions scoring_signal created_at updated_at frequency updated_by
    imported_rows: workspace_id table_name row
    workspace_imports: workspace_id source_id manifest parts continued_at
    health_reports: workspace_id reported_at
    open_alarms: workspace_id alarm since
    ended_workspaces: workspace_id slug requested_at finished_at counts
    members: workspace_id email role created_at
    payload_templates: id workspace_id template replaced_at
    plan_versions: plan_id
    plans: id name offered_to overage_price
    exclusion_versions: workspace_id at by exclusions
    rule_versions: workspace_id rule_id at by name event match scoring_signal frequency conditions
    sessions: token_hash email driver created_at expires_at
    sign_in_attempts: token_hash state nonce code_verifier target expires_at
    workspace_versions: workspace_id plan_id
    workspaces: id slug name plan_id anchor created_at jurisdiction state
    deletions: id workspace_id requested_at email_hash`),
};

/** The places in a text with one line per table and its columns. */
function placesOf(text: string): string[] {
  const lines = text.split("\n").map((line) => line.trim());
  return lines.filter(Boolean).flatMap((line) => {
    const [table = "", columns] = line.split(": ");
    return columns === undefined ? [table] : columns.split(" ").map((column) => `${table}.${column}`);
  });
}

function listed(places: Readonly<Record<string, readonly string[]>>): string[] {
  return Object.entries(places)
    .flatMap(([where, here]) => here.map((place) => `${where} ${place}`))
    .sort();
}

let workspace: TestWorkspace;
let receiver: Receiver;
/** For each place seen, such as `store people.email`: whether the person stood there. */
let seen: Map<string, boolean>;
let sent: number;

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: START });
  workspace = await newWorkspace({ plan: await newPlan(1_000_000) });
  receiver = new Receiver();
  listen(receiver);
  seen = new Map();
  sent = 0;
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const destinations = () => env.DESTINATIONS.getByName(workspace.id) as DurableObjectStub;
const later = (ms: number): void => void vi.setSystemTime(Date.now() + ms);

function note(where: string, texts: ReadonlyMap<string, string>): void {
  for (const [place, text] of texts) {
    const name = `${where} ${place}`;
    seen.set(name, seen.get(name) === true || NAMES.test(text));
  }
}

/** Searches everything stored. Returns the places with the person. */
async function search(): Promise<string[]> {
  const now = new Map<string, string>();
  const objects = { counter: workspace.counter, store: workspace.store, destinations: destinations() };
  for (const [name, stub] of Object.entries(objects)) {
    const texts = await runInDurableObject(stub as DurableObjectStub, (_, { storage }) => {
      const values = Array.from(storage.kv.list(), ([key, value]) => [`key ${key}`, JSON.stringify(value)] as const);
      return new Map([...textsOfColumns(storage.sql), ...values]);
    });
    for (const [place, text] of texts) now.set(`${name} ${place}`, text);
    note(name, texts);
  }
  const shared = { d1: await textsOfD1(), bucket: new Map([["objects", await textOfBucket(workspace.id)]]) };
  for (const [name, texts] of Object.entries(shared)) {
    for (const [place, text] of texts) now.set(`${name} ${place}`, text);
    note(name, texts);
  }
  return [...now].flatMap(([place, text]) =>
    NAMES.test(text) ? [`${place}: ${/.{0,40}(?:jane|doe).{0,40}/iu.exec(text)?.[0]}`] : [],
  );
}

const call = (type: string, more: object): object => ({ type, messageId: `m-${++sent}`, ...more });
const form = (more: object = {}): object => ({
  event: "E",
  email: JANE,
  n: ++sent,
  properties: { note: "Jane", form_name: "For Jane" },
  ...more,
});
const signal = (payload: unknown, more: Partial<Delivered> = {}): Delivered => ({
  id: `sig_${++sent}`,
  ordinal: sent,
  payload,
  head: { source: SOURCE, idem: `Jane-${sent}` },
  ...more,
});

/** Records signals that name the person in every possible way. */
async function record(): Promise<void> {
  const held = { verdict: "held" } as const;
  const traits = { email: JANE, name: "Jane Doe", company: "Jane Ltd", title: "Head of Jane" };
  const twin = signal(form(), { head: { source: SOURCE } });
  const released = signal(form(), held);
  await deliver(workspace.id, [
    signal(form({ context: { traits: { name: "Jane" } } }), { at: Date.now() - 40 * DAY_MS }),
    signal(call("identify", { anonymousId: "V-Jane-2", userId: "U-Jane-2" })),
    signal(call("track", { anonymousId: "V-Jane", event: "E" })),
    signal(call("track", { ...IDS, event: "E" })),
  ]);
  await deliver(workspace.id, [
    signal(call("identify", { anonymousId: "V-Jane", traits })),
    signal(call("identify", { anonymousId: "V-Jane-2", traits })),
    twin,
    { ...twin, id: "sig_twin", ordinal: ++sent },
    released,
    signal(form(), { ...held, head: { source: SOURCE, headers: { "x-by": JANE } } }),
    signal(call("track", { ...IDS, event: "E" }), held),
    signal(call("identify", { ...IDS, traits }), held),
    ...Array.from({ length: STEPS.deletionLines }, () => signal(form())),
  ]);
  await deliver(workspace.id, [{ ...released, verdict: "accepted", resent: { from: "held", place: 1 } }]);
  const around = { headers: { "x-by": JANE } };
  const dead = [
    signal(form(), { head: around }),
    signal({ event: "E", n: ++sent }, { head: around }),
    signal(call("track", { ...IDS, event: "E" })),
  ];
  await consumeMessages([messageOf(workspace.id, dead)], { queue: "signals-dlq" });
}

/** Seals open segments and moves old ones to R2: two days pass, after which retention has dropped the oldest. */
async function age(): Promise<void> {
  await workspace.retain(31);
  await runInDurableObject(workspace.store, (instance, { storage }) => {
    const { signals, held } = (instance as unknown as { state: StoreState }).state;
    storage.transactionSync(() => sealSignalLogs({ signals, held }));
  });
  note("store", await runInDurableObject(workspace.store, (_, { storage }) => textsOfColumns(storage.sql)));
  later(2 * DAY_MS);
  await ringUntilQuiet(workspace.id);
}

/** States that last a moment only: a waiting link job, a notification to forward, a deletion in progress. */
function passThrough(): Promise<void> {
  return runInDurableObject(workspace.store, async (instance, { storage }) => {
    const { state } = instance as unknown as { state: StoreState };
    startLinkJob(state, { kind: "anonymous_id", value: "V-Jane" }, Date.now() + DAY_MS);
    storage.transactionSync(() => {
      state.raised.raise([crossed(JANE), scored(JANE)]);
      state.signals.flush();
    });
    note("store", textsOfColumns(storage.sql));
    await instance.deletePerson("del_first", JANE);
    note("store", textsOfColumns(storage.sql));
  });
}

test("a deleted person is found nowhere in storage", async () => {
  const rule = { name: "R", event: "E", match: "all", conditions: [], scoring_signal: "s", points: 5 };
  await workspace.operator("POST", "/rules", { ...rule, frequency: "once_per_day" });
  const types = ["person.scored", "person.score_crossed", "people.rescored", "dead_letters.added"];
  await workspace.operator("POST", "/destinations", {
    name: "CRM",
    type: "webhook",
    target: receiver.url,
    notifications: types,
  });
  // The receiver answers with the request's content.
  receiver.answer = () => new Response(NAMES.exec(receiver.received.at(-1)?.text ?? "") && JANE, { status: 500 });
  await record();
  await search();
  await age();
  const queue: Uint8Array[] = [];
  await new TestCounter(workspace.id).sendTo(async (messages) => void queue.push(...messages.map(({ body }) => body)));
  await workspace.send(form({ source: SOURCE }));
  await workspace.send({ event: JANE.repeat(20), email: 5, jane: JANE, source: SOURCE });
  await until(() => expect(queue).not.toEqual([]));
  await until(async () => expect((await search()).join()).toContain("destinations deliveries.attempts"));
  later(5_000);

  await passThrough();
  await workspace.operator("DELETE", `/people/${JANE}`);
  await ringUntilQuiet(workspace.id);
  await consumeMessages(queue);
  await ringUntilQuiet(workspace.id);
  expect(await search()).toEqual([]);

  const known = [...listed(HOLD_NAMES), ...listed(HOLD_NONE)].sort();
  expect([...seen.keys()].sort(), "places of which nothing is said yet").toEqual(known);
  const held = [...seen].filter(([, hasHeld]) => hasHeld).map(([place]) => place);
  expect(held.sort(), "places where the person has stood").toEqual(listed(HOLD_NAMES));
});
