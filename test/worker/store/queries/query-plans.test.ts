/**
 * Design §3: no statement of the Durable Objects scans or sorts a table that grows with traffic. So the cost of a call
 * does not depend on the amount of stored data. Exception: a look-up by event reads the narrow rows of segments, one
 * for hundreds of signals. Add each new call to CALLS.
 */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { afterEach, expect, vi } from "vitest";
import { dayOf } from "../../../../src/domain/duration.ts";
import { PERSON_MAX_IDS } from "../../../../src/limits.ts";
import { QuotaCounter } from "../../../../src/quota/quota-counter.ts";
import { notificationTypes } from "../../../../src/domain/notifications/notification.ts";
import { SignalStore } from "../../../../src/store/signal-store.ts";
import { ring } from "../../../support/cold.ts";
import { TestCounter, lose } from "../../../support/counter.ts";
import { DAY, MINUTE, deliver, type Delivered } from "../../../support/deliver.ts";
import { applyExclusions, applyRule, ruleApplied } from "../../../support/rules.ts";
import { oneLine, recordStatements, wholeReads, type Plan, type Statements } from "../../../support/statements.ts";
import { newPlan, newWorkspace, type TestWorkspace } from "../../../support/workspace.ts";
import { wanting } from "../../../support/wanting.ts";
import { testStored } from "../../../support/log.ts";

const NEXT_COLD = `SELECT EXISTS (SELECT 1 FROM cold_scrubs) OR EXISTS (SELECT 1 FROM cold_objects WHERE state = 'removing')
    AS at_once, (SELECT min(at) FROM cold_objects WHERE state = 'writing') AS writing,
    (SELECT received_to FROM signals_payloads JOIN signals_segments USING (first_seq) ORDER BY first_seq LIMIT 1) AS received`;

/** Tables that stay small and may be read whole, and other permitted statements. */
const EXCEPTIONS = {
  ledger: "one row",
  rejections: "200 rows",
  calls: "31 rows for each of 1,000 API keys, for the list of keys",
  deactivated_keys: "a row for each API key",
  public_keys: "a row for each API key that a browser has used",
  closed_periods: "a row for each billing period",
  rule_jobs: "a row for each mapping rule",
  key_days: "a row for each API key",
  retention: "one row",
  resend_jobs: "a row for each release and replay of the last day; 20 rows in the counter",
  "SELECT * FROM resend_jobs WHERE logged_at IS NULL AND due_at <= ? ORDER BY ended_at IS NOT NULL, due_at, rowid LIMIT 1":
    "the same",
  "SELECT period_start, sum(count) AS count FROM (SELECT period_start, count FROM outbox WHERE bytes > 0 UNION ALL SELECT period_start, count FROM unreadable_rows) GROUP BY period_start":
    "once after a start, which sends all of these rows again",
  unreadable_rows: "rows that cannot be read because of a bug",
  "SELECT row, at AS atMs FROM outbox WHERE bytes > 0 ORDER BY row LIMIT 1": "the first row with signals",
  rule_outcomes: "a row for each version of a mapping rule that has scored, when an operator reconciles a workspace",
  signals_segments: "a narrow row for hundreds of signals",
  held_segments: "the same of held signals",
  destinations: "a few rows",
  deleted_people: "a row for each person who was deleted lately",
  notifications: "the latest notifications, when a person is deleted",
  deliveries: "the same",
  "SELECT id, external_id, substr(name, 1, ?) FROM accounts": "at most 10,000 accounts",
  "SELECT id, score FROM accounts": "the same",
  sqlite_sequence: "a row for each table",
  wanted_notifications: "one row",
  cold_scrubs: "segments with payloads to delete from R2",
  [NEXT_COLD]: "the first row of each",
  "SELECT min(row) AS row FROM outbox": "the primary key",
  "SELECT max(row) AS row FROM outbox": "the primary key",
  "UPDATE ledger SET held = 1, next_row = (SELECT max(row) + 1 FROM outbox)": "of the test",
};

const START = Date.now() - 60 * MINUTE;
const DAYS = dayOf(START);
const GROUP_PLACE = [DAYS, ["e", "s"], [START, "e", "s"]];
/** The start of a part of an export. */
const EXPORTED = {
  signals: [null, { in: "held", after: 0, lastDead: 0, ends: { signals: 1, held: 9 } }],
  people: [null, { person: 1, lastPerson: 9, list: null }],
  scoring_signals: [null, { person: 1, after: 3, lastPerson: 9, lastSeq: 9 }],
};
const RULE = { name: "rule", match: "all", conditions: [], scoring_signal: "seen", points: 3 };
const TEMPLATE = [
  { target: "external_id", path: "account", type: "string" },
  { target: "plan", path: "plan", type: "string" },
];

/** Records created so far, for the later calls. */
interface Made {
  workspace: TestWorkspace;
  ruleId: string;
  accountKeyId: string;
}

type Call = (made: Made) => Promise<unknown>;

const form = (n: number) => ({ event: "Form", email: "ann@example.com", properties: { n } });
const visit = { type: "track", event: "Visit", anonymousId: "a-1", userId: "u-1" };
const identify = (visitor: object, email: string) => ({ type: "identify", ...visitor, traits: { email, name: "Ann" } });

const get =
  (path: string): Call =>
  ({ workspace }) =>
    workspace.operator("GET", path);

const post =
  (path: string, body?: object): Call =>
  ({ workspace }) =>
    workspace.operator("POST", path, body);

const delivered =
  (...signals: Delivered[]): Call =>
  ({ workspace }) =>
    deliver(workspace.id, signals);

/** In this order on one workspace, because some calls use the records of earlier ones. */
const CALLS: Record<string, Call> = {
  "an object without anything": get("/usage"),
  "a rule": async (made) => {
    made.ruleId = (await made.workspace.operator<{ id: string }>("POST", "/rules", { ...RULE, event: "F*" })).id;
  },
  "wanted notifications": async ({ workspace }) => {
    const wanted = wanting({ types: [...notificationTypes], thresholds: [1, 5] });
    await workspace.store.wantNotifications(wanted);
    await workspace.counter.wantNotifications(wanted);
  },
  "a key for accounts": async (made) => {
    const key = await made.workspace.newKey({ endpoint_type: "product_org", payload_template: TEMPLATE });
    made.accountKeyId = key.id;
  },

  // Admission: signals, rejected calls, a revoked key.
  "a signal through the front door": async ({ workspace }) => {
    await workspace.send(form(0));
    await workspace.send("{");
    await workspace.counter.countRejected([]);
    await workspace.counter.keyCalls(workspace.key.id);
    await workspace.settled();
  },
  "a deactivated key": async ({ workspace }) => {
    const { id, key } = await workspace.newKey();
    await workspace.operator("POST", `/keys/${id}/deactivate`);
    expect((await workspace.send(form(0), { key })).status).toBe(401);
  },
  "a full store and a waiting outbox": async ({ workspace: { id, counter } }) => {
    await counter.storeFull();
    await counter.backlog();
    await evictDurableObject(counter);
    await new TestCounter(id).sendTo(lose);
  },
  "a workspace that is reconciled": ({ workspace }) => workspace.operator("POST", "/reconcile"),
  "another plan": async ({ workspace }) => workspace.operator("PATCH", "", { plan: await newPlan(2_000) }),

  // Recording: new, out of order, anonymous, linked from both ids, held, displaced, dead, accounts.
  "a visit and a form": delivered(
    { id: "sig_1", payload: visit, at: START + 8 * MINUTE },
    { id: "sig_2", payload: form(1), at: START },
  ),
  "an earlier duplicate of the visit": delivered({ id: "sig_3", payload: visit, at: START }),
  "payloads moved to R2 and rewritten there": async ({ workspace }) => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 40 * DAY });
    await ring(workspace.id);
    await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
      sql.exec("INSERT INTO cold_scrubs (first_seq) SELECT first_seq FROM signals_segments WHERE cold IS NOT NULL");
    });
    await ring(workspace.id);
    vi.useRealTimers();
  },
  "the visitor identified": delivered({ id: "sig_4", payload: identify({ anonymousId: "a-1" }, "b@example.com") }),
  "the user identified": delivered({ id: "sig_5", payload: identify({ userId: "u-1" }, "c@example.com") }),
  "an earlier duplicate of the user's visit": delivered({ id: "sig_5a", payload: visit, at: START - 9 * MINUTE }),
  "more ids than a person keeps": async ({ workspace }) => {
    await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
      sql.exec("UPDATE people SET anonymous_ids = ? WHERE email = 'b@example.com'", PERSON_MAX_IDS);
    });
    await deliver(workspace.id, [{ id: "sig_5b", payload: identify({ anonymousId: "a-2" }, "b@example.com") }]);
  },
  "a held signal": delivered({ id: "sig_6", payload: form(2), verdict: "held", at: START, periodEnd: START + DAY }),
  "the same, accepted": delivered({ id: "sig_7", payload: form(2), at: START }),
  "a dead letter": delivered({ id: "sig_8", payload: "{" }),
  "an account": async ({ workspace, accountKeyId }) => {
    const head = { endpoint: "product_org", key: accountKeyId, template: 1 } as const;
    await deliver(workspace.id, [{ id: "sig_9", payload: { account: "acme", plan: "pro" }, head, at: START }]);
    await deliver(workspace.id, [{ id: "sig_a", payload: { account: "acme", plan: "free" }, head, at: START - 1 }]);
  },
  "a member of the account whose match is being replaced": async ({ workspace }) => {
    await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
      const ofMember = "FROM people WHERE email = 'b@example.com'";
      sql.exec("UPDATE people SET account = 'acme', score_before = score WHERE email = 'b@example.com'");
      sql.exec(
        `UPDATE accounts SET people = 1, score_before = 0, score = (SELECT score ${ofMember}) WHERE external_id = 'acme'`,
      );
      sql.exec(`INSERT INTO replacements SELECT id, 'rule_gone', -1 ${ofMember}`);
    });
    // The object asks its jobs again.
    await evictDurableObject(workspace.store);
    await deliver(workspace.id, [{ id: "sig_b", payload: { event: "Other", email: "b@example.com" } }]);
    await ring(workspace.id);
  },

  // Every read of the operator API, first pages and later ones.
  events: get("/events"),
  "events, a later page": get(`/events?cursor=${encodeURIComponent(JSON.stringify(GROUP_PLACE))}`),
  signals: get("/signals"),
  "signals, a later page": get("/signals?cursor=5.5.5&limit=3"),
  "signals of an event": get("/signals?event=Form"),
  "signals of a person": get("/signals?email=b@example.com"),
  ...Object.fromEntries(
    ["processed", "held", "anonymous", "duplicate", "purged", "dead"].map((status) => [
      `${status} signals`,
      get(`/signals?status=${status}`),
    ]),
  ),
  "signals, all filters": get("/signals?event=Form&email=b@example.com&status=held"),
  "a signal": get("/signals/sig_1"),
  "an unknown signal": ({ workspace }) =>
    workspace.operator("GET", "/signals/sig_0190b6a4-0000-7000-8000-000000000000").catch(() => null),
  "a proposed rule": get("/signals/sig_2/proposed-rule"),
  people: get("/people"),
  "people, a later page": get("/people?cursor=5&limit=3"),
  "a person": get("/people?email=b@example.com"),
  accounts: get("/accounts"),
  "accounts, a later page": get("/accounts?cursor=5&limit=3"),
  "an account by its external id": get("/accounts?external_id=acme"),
  "people and accounts on their pages": async ({ workspace }) => {
    const seen = JSON.stringify([DAYS, [5], [START, 5]]);
    const behind = {
      newest: "5",
      last_seen: seen,
      last_seen_up: seen,
      score: "[5,5]",
      score_up: "[5,5]",
      email: '"b@"',
    };
    for (const cursor of [null, "5.5"]) {
      const page = { cursor, limit: 3 };
      for (const sort of ["newest", "last_seen", "last_seen_up", "score", "score_up", "email"] as const) {
        const place = { cursor: cursor === null ? null : behind[sort], limit: 3 };
        await workspace.store.findPeople({ sort }, place);
        await workspace.store.findPeople({ sort, text: "ann", minScore: 1, sinceDay: 1 }, place);
      }
      for (const sort of ["newest", "last_seen"] as const) await workspace.store.findAccounts({ sort }, page);
      await workspace.store.findAccounts({ sort: "score", text: "a" }, page);
      await workspace.store.accountPage("acme", { cursor: cursor === null ? null : "5.5.plan", limit: 3 });
      for (const timeline of ["all", "scores"] as const) {
        await workspace.store.personPage("b@example.com", timeline, { cursor: cursor === null ? null : "5", limit: 3 });
      }
    }
  },
  "the signal queue, a group, the latest": async ({ workspace: { store } }) => {
    for (const cursor of [null, JSON.stringify(GROUP_PLACE)]) {
      for (const filter of [{}, { search: "x" }, { only: "held" as const }, { sort: "last_seen_up" as const }]) {
        await store.queuePage(filter, { cursor, limit: 3 });
      }
    }
    await store.queuePage({ sort: "count" }, { cursor: '[-1,"e","s"]', limit: 3 });
    await store.overview(20_000, 5);
    await store.search("ann", 5);
    await store.queueGroup("Form", "unknown", "held", { cursor: "5.5.5", limit: 3 });
    await store.recentNames();
    for (const pattern of ["", "Form", "F*"]) await store.suggestForRule(pattern);
    await store.ruleResults(["rule_1"]);
    await store.latest("0.0.0", 3);
  },
  "usage by day": ({ workspace }) => workspace.counter.usageByDay(),
  "the overview": ({ workspace }) => workspace.counter.overview(),
  exports: async ({ workspace }) => {
    for (const records of ["signals", "people", "scoring_signals"] as const) {
      for (const at of EXPORTED[records]) {
        const cursor = at && JSON.stringify(at);
        await workspace.store.exportPart({ records, format: "csv", cursor });
      }
    }
  },
  "dead letters": get("/dead-letters"),
  "dead letters, a later page": get("/dead-letters?cursor=5&limit=3"),
  usage: get("/usage"),
  health: get("/health"),
  books: get("/books"),
  "books of a period": get("/books?period=current"),
  rejections: get("/rejections"),
  keys: get("/keys"),

  // Mapping rules on stored signals.
  "usage by key": get("/usage/keys"),
  "samples of a key": async ({ workspace }) => {
    await workspace.operator("POST", "/templates/propose", { key_id: workspace.key.id });
  },
  "a signal as a sample": async ({ workspace }) => {
    const [signal] = await workspace.list<{ id: string }>("/signals?limit=1");
    await workspace.store.sample(signal?.id ?? "");
  },
  "a late object of an import": async ({ workspace }) => {
    await workspace.store.hasObject("cold_1");
  },
  "a rotation": async ({ workspace }) => {
    const { id } = await workspace.newKey();
    await workspace.operator("POST", `/keys/${id}/rotate`, { overlap: "1h" });
    await workspace.counter.keepKey(id, 0, null);
    await workspace.counter.stateOfKey(id, true);
  },
  "a preview": post("/rules/preview", { ...RULE, event: "F*" }),
  "a preview of one event": post("/rules/preview", { ...RULE, event: "Form" }),
  "a rule applied": ({ workspace, ruleId }) => applyRule(workspace, ruleId),
  "exclusions previewed, applied and removed": async ({ workspace }) => {
    const items = [{ name: "Tests", conditions: [{ path: "source", operator: "equals", value: "test" }] }];
    await workspace.operator("POST", "/exclusions/preview", { items });
    for (const list of [items, []]) {
      await workspace.operator("PUT", "/exclusions", { items: list });
      await applyExclusions(workspace);
    }
  },
  "the rule edited and applied": async (made) => {
    await made.workspace.operator("PATCH", `/rules/${made.ruleId}`, { event: "Form", points: 4 });
    await applyRule(made.workspace, made.ruleId);
  },
  "the rule deleted with its scoring signals": async (made) => {
    await made.workspace.operator("DELETE", `/rules/${made.ruleId}?scoring_signals=remove`);
    await ruleApplied(made.workspace, made.ruleId);
  },

  "the scoring signals removed again after the deletion": (made) =>
    made.workspace.operator("DELETE", `/rules/${made.ruleId}?scoring_signals=remove`).catch(() => null),

  "a person deleted, and later a signal and an id of theirs": async ({ workspace }) => {
    await workspace.operator("DELETE", "/people/b@example.com");
    await ring(workspace.id);
    const receipt = await workspace.operator<{ id: string }>("GET", "/people/b@example.com/deletion");
    expect(await workspace.store.deletionById(receipt.id)).not.toBeNull();
    await deliver(workspace.id, [{ id: "sig_d", payload: { ...form(5), email: "b@example.com" }, at: START }]);
    const named = { type: "identify", messageId: "d", anonymousId: "v-late", traits: { email: "b@example.com" } };
    await deliver(workspace.id, [{ id: "sig_e", ordinal: 2, payload: named, at: START }]);
  },
  retention: async ({ workspace }) => {
    await workspace.retain(31);
    await ring(workspace.id);
  },

  // Repeated and final calls.
  "dead letters replayed": post("/dead-letters/replay", {}),
  "a dead letter replayed": post("/dead-letters/replay", { ids: ["sig_8"] }),
  "held signals released": async ({ workspace }) => {
    const usage = await workspace.counter.usage();
    const period = { periodStart: usage?.periodStartMs ?? 0, periodEnd: usage?.periodEndMs ?? 0 };
    await deliver(workspace.id, [{ id: "sig_b", payload: form(3), verdict: "held", ordinal: 7, ...period }]);
    await runInDurableObject(workspace.counter, (_, { storage: { sql } }) =>
      sql.exec("UPDATE ledger SET held = 1, next_row = (SELECT max(row) + 1 FROM outbox)"),
    );
    await evictDurableObject(workspace.counter);
    expect(await workspace.operator("POST", "/held/release")).toMatchObject({ released: 1 });
  },
  "held signals purged": async ({ workspace }) => {
    const gone = { verdict: "held", periodEnd: START + DAY } as const;
    await deliver(workspace.id, [{ id: "sig_c", payload: form(4), at: START, ...gone }]);
    vi.setSystemTime(START + 2 * DAY);
    await runInDurableObject(workspace.store, (instance) => instance.alarm());
  },
  "a period's end": async ({ workspace }) => {
    vi.setSystemTime(START + 70 * DAY);
    await runInDurableObject(workspace.counter, (instance) => instance.alarm());
  },
  "both objects restarted": async ({ workspace }) => {
    await evictDurableObject(workspace.counter);
    await evictDurableObject(workspace.store);
    await workspace.books();
  },
};

let statements: Statements | undefined;
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  statements?.stop();
});

testStored("no statement scans a table that grows with traffic", async () => {
  const made = { workspace: await newWorkspace(), ruleId: "", accountKeyId: "" };
  statements = await recordStatements(made.workspace.store);
  const called = [SignalStore, QuotaCounter].flatMap((target) => methodsOf(target.prototype));
  for (const [name, call] of Object.entries(CALLS)) {
    await call(made).catch((error: unknown) => {
      throw new Error(`${name}: ${String(error)}`, { cause: error });
    });
  }
  const plans = statements.plans();
  const exceptions = Object.keys(EXCEPTIONS);
  expect(readable(wholeReads(plans, exceptions))).toEqual([]);
  const isNeeded = (name: string) =>
    wholeReads(
      plans,
      exceptions.filter((exception) => exception !== name),
    ).length > 0;
  expect(exceptions.filter((name) => !isNeeded(name))).toEqual([]);

  // Complete: each method of the two objects and each index is used.
  const uncalled = called.filter(({ spy }) => spy.mock.calls.length === 0).map(({ name }) => name);
  expect(uncalled.filter((name) => !WHOLE.has(name))).toEqual([]);
  const indexes = await runInDurableObject(made.workspace.store, (_, { storage: { sql } }) =>
    sql.exec<{ name: string }>("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL").toArray(),
  );
  const used = plans.map(({ detail }) => detail).join();
  // Each index that is written with every signal is also read.
  expect(indexes.map(({ name }) => name).filter((name) => !used.includes(name))).toEqual([]);
});

/** Of exports, imports and the end of a workspace, which read everything. */
const WHOLE = new Set(
  "beginExport exportProgress exportRows beginImport importRows finishImport setClosed isClosed amounts end".split(" "),
);

function methodsOf(prototype: object) {
  return Object.getOwnPropertyNames(prototype)
    .filter((name) => name !== "constructor" && "value" in (Object.getOwnPropertyDescriptor(prototype, name) ?? {}))
    .map((name) => ({ name, spy: vi.spyOn(prototype as Record<string, () => unknown>, name) }));
}

function readable(plans: Plan[]): string[] {
  return plans.map(({ query, detail }) => `${detail} ← ${oneLine(query)}`);
}
