/** The real side of a random life: drives a Signal Store step by step, and reads what its public queries show. */
import { vi } from "vitest";
import { DAY_MS, dayOf } from "../../../src/domain/duration.ts";
import type { Exclusion as StoredExclusion } from "../../../src/domain/rules/exclusion.ts";
import type { MappingRule } from "../../../src/domain/rules/mapping-rule.ts";
import { hashOfName } from "../../../src/domain/signal/identity.ts";
import { readRows, writeRows, type TableLine, type TablePlace } from "../../../src/platform/table-rows.ts";
import { STORE_TABLES } from "../../../src/wire/workspace-file.ts";
import type { Notification } from "../../../src/domain/notifications/notification.ts";
import {
  beginDeletion,
  findDeletion,
  noteForwarded,
  stepDeletions,
} from "../../../src/store/deletion/person-deletions.ts";
import { deleteExpired, purgeHeld, setRetention } from "../../../src/store/deletion/retention.ts";
import { stepLapses } from "../../../src/store/people/lapse-run.ts";
import { LINK_ALARM_MS } from "../../../src/store/people/linking.ts";
import { visitorKey, visitorOfKey } from "../../../src/store/people/timelines.ts";
import { stepMisfits } from "../../../src/store/state/dead-letters.ts";
import { isHeldMisfit } from "../../../src/store/log/line.ts";
import { stepReplacements } from "../../../src/store/people/replacements.ts";
import type { AccountSummary } from "../../../src/store/protocol/people-and-accounts.ts";
import type { DeletionReceipt, ExportedRecords } from "../../../src/store/protocol/store-operations.ts";
import type { SignalToRecord } from "../../../src/store/protocol/stored-signals.ts";
import { findAccounts, readAccountPage } from "../../../src/store/queries/account-page.ts";
import { previewExclusionsPart } from "../../../src/store/queries/exclusions-preview.ts";
import { Sums } from "../../../src/use-cases/exclusions-on-history.ts";
import { exportPart } from "../../../src/store/queries/exports.ts";
import { listEventGroups } from "../../../src/store/queries/event-groups.ts";
import { findSignals, latestSignals, traceSignal } from "../../../src/store/queries/newest-signals.ts";
import { findPeople } from "../../../src/store/queries/people-search.ts";
import { readPersonPage } from "../../../src/store/queries/person-page.ts";
import { deadSignals, heldSignals, type StoredSignal } from "../../../src/store/resend-jobs.ts";
import { findRuleJob, startExclusionsJob, startRuleJob, stepRuleJob } from "../../../src/store/rules/rule-jobs.ts";
import * as due from "../../../src/store/state/due.ts";
import { isStale } from "../../../src/store/state/rule-outcomes.ts";
import { wantNotifications } from "../../../src/store/state/raise-notifications.ts";
import { transact } from "../../../src/store/state/store-state.ts";
import { updateGroups } from "../../../src/store/state/status-change.ts";
import { linesOf } from "../adds-up.ts";
import type { ReceivedOrder } from "../../../src/wire/message.ts";
import { bucketWith, losePayloads } from "../cold.ts";
import { textOfBucket } from "../everything.ts";
import type { TestStore } from "../store.ts";
import { wanting } from "../wanting.ts";
import type { Exclusion, ModelSignal, Rule } from "./model.ts";
import { misfitOf, type Content, type Id } from "./signals.ts";

export const JOBS = ["link", "rule", "delete", "retain", "purge", "lapse", "replace", "cold", "misfits"] as const;
export type Job = (typeof JOBS)[number];

export const PERSON_THRESHOLDS = [5, 12];
export const ACCOUNT_THRESHOLDS = [8];

/** A row of an export: each value as it is in the file. */
type ExportRow = Record<string, unknown>;

export interface Shown {
  signals: Map<string, ExportRow>;
  people: Map<string, ExportRow>;
  scoring: ExportRow[];
  accounts: Map<string, AccountSummary>;
}

/** Scores by email, and by external id. */
export interface ComparedScores {
  people: Map<string, number>;
  accounts: Map<string, number>;
}

const R2_AWAY = "R2 is away";
/** Some rows, so that slices end within tables. */
const SLICE_BYTES = 700;
const PAGE = { cursor: null, limit: 1_000 };

export class Real {
  readonly store: TestStore;
  #rulesVersion = 1;
  #retentionDays: number | null = null;
  #isR2Away = false;
  isFull = false;

  constructor(store: TestStore, rules: readonly Rule[], wantsNotifications: boolean) {
    this.store = store;
    store.bucket = bucketWith({
      before: () => {
        if (this.#isR2Away) throw new Error(R2_AWAY);
      },
    });
    this.setRules(rules, 1);
    this.keepFor(null);
    if (!wantsNotifications) return;
    const types = [
      "person.score_crossed",
      "person.score_fell",
      "account.score_crossed",
      "account.score_fell",
      "people.rescored",
    ] as const;
    wantNotifications(
      store.state,
      wanting({ types: [...types], thresholds: PERSON_THRESHOLDS, accountThresholds: ACCOUNT_THRESHOLDS }),
    );
    store.state.signals.flush();
  }

  setRules(rules: readonly Rule[], version: number, exclusions: readonly Exclusion[] = []): void {
    this.#rulesVersion = version;
    this.store.rulesVersion = version;
    this.store.exclusions = exclusions.map(toExclusion);
    this.store.mappingRules = rules.filter(({ isEnabled }) => isEnabled).map(toMappingRule);
  }

  // Signals.

  toRecord(
    { id, content, order, periodEndMs }: ModelSignal,
    verdict: "accepted" | "held",
    unread: "dead" | "misfit" | null,
  ): SignalToRecord {
    const dead = unread !== null;
    const admission = { id, ...order, verdict, periodStartMs: periodEndMs - 30 * DAY_MS, periodEndMs };
    if (content.kind !== "account") {
      const record = this.store.signal(order.receivedAtMs, { ...admission, payload: content.payload, dead });
      return unread === "misfit" ? asMisfit(record, content) : record;
    }
    const { admission: whole } = this.store.signal(order.receivedAtMs, { ...admission, payload: {} });
    const fields = content.plan === undefined ? {} : { plan: content.plan };
    const account = { externalId: content.accountName ?? "", fields, attributes: {} };
    const work = { kind: "account" as const, account, contentHash: null, duplicateWindowMs: 0 };
    return {
      admission: { ...whole, endpoint: "product_org" },
      payload: content.text,
      work: dead ? { kind: "dead", reason: "Too much work" } : work,
    };
  }

  /** A held signal or a dead letter as it comes back from the queue; null: it is not in its place. */
  toResend({ id, periodEndMs }: ModelSignal, from: "held" | "dead"): StoredSignal | null {
    const { state } = this.store;
    const stored =
      from === "held"
        ? heldSignals(state, periodEndMs, 0, 1_000)
        : deadSignals(state, { cursor: 0, last: Number.MAX_SAFE_INTEGER }, 1_000);
    return stored.find(({ admission }) => admission.id === id) ?? null;
  }

  /** @param isMisfit whether its template still does not fit. */
  resent(
    { content }: ModelSignal,
    { admission, payload, from, place }: StoredSignal,
    isMisfit: boolean,
  ): SignalToRecord {
    const again = {
      ...admission,
      verdict: from === "held" ? ("accepted" as const) : admission.verdict,
      resent: { from, place },
    };
    if (content.kind !== "account") {
      const record = this.store.signal(0, { ...again, payload: content.payload });
      if (isMisfit) return asMisfit(record, content);
      const { work } = record;
      // A misfit is mapped by a template that fits by now.
      return "normalised" in work && payload !== content.text
        ? { ...record, payload, work: { ...work, mapped: true } }
        : record;
    }
    const fields = content.plan === undefined ? {} : { plan: content.plan };
    const account = { externalId: content.accountName ?? "", fields, attributes: {} };
    return {
      admission: again,
      payload: content.text,
      work: { kind: "account", account, contentHash: null, duplicateWindowMs: 0 },
    };
  }

  /** The store has no room, or has room again. */
  fill(isFull: boolean): void {
    const { store } = this;
    this.isFull = store.isHalfFull = isFull;
    this.noteFull();
    store.state.due.forget();
  }

  /** The counter asks a full store for room once a minute. */
  noteFull(): void {
    const { head, signals } = this.store.state;
    if (!this.isFull) return;
    head.fullAtMs = Date.now();
    signals.flush();
  }

  record(signals: readonly SignalToRecord[]): void {
    this.store.recordAll(Date.now(), signals);
  }

  /** Returns whether the recording stopped after a number of writes, and nothing is recorded. */
  async recordAndCrash(signals: readonly SignalToRecord[], writes: number): Promise<boolean> {
    const { store } = this;
    return store.crashAfter(writes, () => transact(store.storage, store.state, () => this.record(signals)));
  }

  /** @param rulesVersion of the rules that have evaluated the signals. */
  recordBy(rulesVersion: number, signals: readonly SignalToRecord[]): void {
    this.store.rulesVersion = rulesVersion;
    this.record(signals);
    this.store.rulesVersion = this.#rulesVersion;
  }

  /** Whether the store rejects signals that these rules have evaluated. */
  isStale(rulesVersion: number): boolean {
    return isStale(this.store.sql, rulesVersion);
  }

  // Jobs.

  beginDeletion(email: string): void {
    beginDeletion(this.store.state, `del_${crypto.randomUUID()}`, email, Date.now());
  }

  receipt(email: string): DeletionReceipt | null {
    return findDeletion(this.store.sql, email);
  }

  /** Whether a deletion had ended by this time. */
  hasDeletedBy(atMs: number): boolean {
    return this.store.sql.exec("SELECT 1 FROM deletions WHERE finished_at <= ?", atMs).toArray().length > 0;
  }

  /** @param untilMs when the deletion was requested last. */
  remembers(email: string, untilMs: number): boolean {
    const query = "SELECT 1 FROM deleted_names WHERE hash = ? AND until = ?";
    return this.store.sql.exec(query, hashOfName({ kind: "email", value: email }), untilMs).toArray().length > 0;
  }

  keepFor(days: number | null): void {
    this.#retentionDays = days;
    setRetention(this.store.state, { retentionDays: days }, Date.now());
  }

  get keptMs(): number {
    return this.#retentionDays === null ? Number.POSITIVE_INFINITY : this.#retentionDays * DAY_MS;
  }

  startJob(rule: Rule): void {
    this.#writeGroups();
    const { id: ruleId, version, isEnabled } = rule;
    const rulesVersion = this.#rulesVersion;
    const toApply = isEnabled
      ? { ruleId, rule: toMappingRule(rule), rulesVersion }
      : { ruleId, rule: null, disabledVersion: version, rulesVersion };
    startRuleJob(this.store.state, toApply, Date.now());
  }

  startExclusionsJob(): void {
    this.#writeGroups();
    const [rulesVersion, { state, exclusions }] = [this.#rulesVersion, this.store];
    startExclusionsJob(state, { exclusions, version: rulesVersion, rulesVersion }, Date.now());
  }

  #writeGroups(): void {
    const { state } = this.store;
    updateGroups(state);
    state.signals.flush();
  }

  isJobDone(ruleId: string): boolean {
    return findRuleJob(this.store.sql, ruleId)?.status === "done";
  }

  /** Whether the job has something to do now. */
  isDue(job: Job): boolean {
    const { state, sql } = this.store;
    const nowMs = Date.now();
    const dueMs = {
      link: () => due.nextLinkJobMs(sql),
      rule: () => due.nextRuleJobMs(sql),
      delete: () => due.nextDeletionMs(state),
      retain: () => due.nextRetentionMs(state),
      purge: () => due.nextPurgeMs(state),
      lapse: () => due.nextLapseMs(state),
      replace: () => due.nextReplacementMs(sql),
      misfits: () => due.nextMisfitsMs(state),
      cold: () => state.signals.workMs(nowMs),
    }[job]();
    // A link job can run before the alarm comes to it.
    return dueMs !== null && dueMs <= nowMs + (job === "link" ? LINK_ALARM_MS : 0);
  }

  async step(job: Job): Promise<void> {
    const { store } = this;
    const { state, storage } = store;
    const nowMs = Date.now();
    switch (job) {
      case "link":
        return void (await store.link());
      case "rule":
        return void (await stepRuleJob(state, storage));
      case "cold":
        try {
          return await state.signals.work(nowMs);
        } finally {
          // The alarm, which alone takes this step, asks all chores afterwards.
          state.due.by("deletion", due.nextDeletionMs(state));
        }
      default:
        return transact(storage, state, () => this.#stepAtOnce(job, nowMs));
    }
  }

  /** A step while R2 does not answer. */
  async stepWithoutR2(job: Job): Promise<void> {
    this.#isR2Away = true;
    try {
      await this.step(job);
    } catch (error) {
      // Some steps continue with other objects, and throw this at their end.
      const isOutage = String(error).includes(R2_AWAY) || String(error).includes("an object could not be read");
      if (!isOutage) throw error;
    } finally {
      this.#isR2Away = false;
    }
  }

  /** A step that stops after a number of writes. @param isRestarted whether the object starts again, or goes on. */
  async crash(job: Job, writes: number, isRestarted: boolean): Promise<void> {
    await this.store.crashAfter(writes, () => this.step(job));
    if (isRestarted) this.store.restart();
  }

  /** The objects of R2 are gone. Returns the signals that have lost their payloads. */
  async lose(): Promise<Set<string>> {
    await losePayloads(this.store);
    const { signals } = this.store.state;
    const ids: string[] = [];
    for (const portion of signals.walk({ after: 0 }))
      if (portion.payloads === "lost") ids.push(...portion.seqs.map((seq) => portion.facts(seq).admission.id));
    return new Set(ids);
  }

  /** What the rules and the exclusions say about a signal: the version of each rule that matches. */
  evaluated(id: string): { outcomes: Map<string, number>; isExcluded: boolean } {
    const { signals, outcomes } = this.store.state;
    const facts = signals.find(id)?.facts;
    const matches = (facts?.outcomes ?? []).map((outcome) => outcomes.get(outcome));
    return {
      outcomes: new Map(matches.map(({ ruleId, ruleVersion }) => [ruleId, ruleVersion])),
      isExcluded: (facts?.excludedBy ?? null) !== null,
    };
  }

  /** As an export and an import leave a store: with the rows of the file alone. Objects of R2 stay as they are. */
  import(): void {
    const { store } = this;
    const { sql } = store;
    this.#writeGroups();
    const lines: TableLine[] = [];
    for (let place: TablePlace | null = { table: 0, after: null }; place !== null;) {
      const slice = readRows(sql, STORE_TABLES, place, SLICE_BYTES);
      lines.push(...slice.lines);
      place = slice.next;
    }
    const file = JSON.stringify(lines);
    const tables = sql.exec<{ name: string }>(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB '[a-z]*'",
    );
    for (const { name } of tables.toArray()) if (!name.startsWith("sqlite_")) sql.exec(`DELETE FROM "${name}"`);
    writeRows(sql, JSON.parse(file) as TableLine[]);
    store.restart();
    setRetention(store.state, { retentionDays: this.#retentionDays }, Date.now());
  }

  #stepAtOnce(job: Exclude<Job, "link" | "rule" | "cold">, nowMs: number): void {
    const { state } = this.store;
    switch (job) {
      case "delete":
        return stepDeletions(state, nowMs);
      case "retain":
        deleteExpired(state, nowMs);
        // The alarm, which alone takes this step, asks all chores afterwards.
        return state.due.by("retention", due.nextRetentionMs(state));
      case "purge":
        return purgeHeld(state, nowMs);
      case "lapse":
        return stepLapses(state, nowMs);
      case "replace":
        return stepReplacements(state, nowMs);
      case "misfits":
        return stepMisfits(state, nowMs);
    }
  }

  /** Takes the notifications that wait, and lets Destinations have deleted people at once. */
  takeRaised(): Notification[] {
    const { state } = this.store;
    const notifications: Notification[] = [];
    for (let next = state.raised.next(); next !== null; next = state.raised.next()) {
      state.raised.forwarded(next.lastRow);
      notifications.push(...next.notifications);
      if (next.deletion !== null) noteForwarded(state, next.deletion.receiptId, Date.now());
    }
    return notifications;
  }

  /** The scores that were last compared with thresholds. */
  comparedScores(): ComparedScores {
    const { sql } = this.store;
    const people = sql.exec("SELECT email, ifnull(score_before, score) FROM people");
    const accounts = sql.exec("SELECT external_id, ifnull(score_before, score) FROM accounts");
    return { people: new Map(people.raw<[string, number]>()), accounts: new Map(accounts.raw<[string, number]>()) };
  }

  /** Scores by email, as the preview of exclusions says. */
  async previewExclusions(exclusions: readonly Exclusion[]): Promise<Map<string, number>> {
    const sums = new Sums();
    for (let beforeSeq: number | null = Number.MAX_SAFE_INTEGER; beforeSeq !== null;) {
      const range = { sinceMs: 0, today: dayOf(Date.now()), beforeSeq, limit: 3 };
      // oxlint-disable-next-line no-await-in-loop -- each part begins where the one before it ended
      const part = await previewExclusionsPart(this.store.shown, exclusions.map(toExclusion), range);
      sums.take(part);
      beforeSeq = part.next;
    }
    const points = sums.pointsOfPeople();
    const rows = this.store.sql.exec<{ id: number; email: string; score: number }>(
      "SELECT id, email, score FROM people",
    );
    return new Map([...rows].map(({ id, email, score }) => [email, score + (points.get(id) ?? 0)]));
  }

  scores(): Map<string, number> {
    return new Map(this.store.sql.exec("SELECT email, score FROM people").raw<[email: string, score: number]>());
  }

  // What the queries show.

  async shown(): Promise<Shown> {
    const [signals, people, scoring] = await Promise.all([
      this.#export("signals"),
      this.#export("people"),
      this.#export("scoring_signals"),
    ]);
    const accounts = findAccounts(this.store.shown, { sort: "newest" }, PAGE).items;
    return {
      signals: new Map(signals.map((row) => [String(row["id"]), row])),
      people: new Map(people.map((row) => [String(row["email"]), row])),
      scoring,
      accounts: new Map(accounts.map((account) => [account.externalId, account])),
    };
  }

  /** Scoring signals without their signal ids: if a rule scores once, another signal may carry the same points. */
  async scoringByRule(): Promise<string[]> {
    const scoring = await this.#export("scoring_signals");
    return scoring
      .map((row) =>
        ["email", "rule_id", "rule_version", "points", "lapses_at", "lapsed"].map((name) => row[name]).join(" "),
      )
      .sort();
  }

  async #export(records: ExportedRecords): Promise<ExportRow[]> {
    let [text, cursor]: [string, string | null] = ["", null];
    do {
      // oxlint-disable-next-line no-await-in-loop -- page by page
      const page = await exportPart(() => this.store.shown, { records, format: "ndjson", cursor });
      text += page.text;
      cursor = page.next;
    } while (cursor !== null);
    return text
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as ExportRow);
  }

  personPage(email: string) {
    return readPersonPage(this.store.shown, email, "scores", PAGE);
  }

  /** Whether the line of a signal counts for its person, although a deletion hides it. */
  isCounted(id: string): boolean {
    const line = this.store.state.signals.find(id);
    return line !== null && line.facts.deletedAtMs === null && line.facts.person !== null;
  }

  /** The place of a dead letter or a held misfit that is stored, although a deletion may hide it; null: there is none. */
  letterPlace(id: string): "dead" | "held" | null {
    const { sql, state } = this.store;
    const query = "SELECT 1 FROM dead_letters WHERE id = ? AND status = 'dead'";
    if (sql.exec(query, id).toArray().length > 0) return "dead";
    const held = state.held.find(id)?.facts;
    return held !== undefined && held.deletedAtMs === null && isHeldMisfit(held) ? "held" : null;
  }

  /** The claims of people. */
  claims(): { id: Id; order: ReceivedOrder; email: string }[] {
    const rows = this.store.sql.exec<{ key: ArrayBuffer; at: number; ordinal: number; email: string }>(
      `SELECT "key", "at", ordinal, email FROM identities CROSS JOIN people ON people.id = person_id`,
    );
    return rows.toArray().map(({ key, at: receivedAtMs, ordinal, email }) => {
      const { kind, value } = visitorOfKey(key);
      return { id: `${kind === "user_id" ? "user" : "device"} ${value}`, order: { receivedAtMs, ordinal }, email };
    });
  }

  /** Whether signals of an id wait for a link. */
  isLinking(id: Id): boolean {
    const [kind, value = ""] = id.split(" ");
    const key = visitorKey({ kind: kind === "user" ? "user_id" : "anonymous_id", value });
    return this.store.sql.exec("SELECT 1 FROM link_jobs WHERE key = ?", key).toArray().length > 0;
  }

  /** The kind of name that gave a signal to its person. */
  async namedBy(id: string): Promise<string | undefined> {
    return (await traceSignal(() => this.store.shown, id))?.person?.by;
  }

  /** Everything that any query says, as one text. */
  async everything(signals: readonly ModelSignal[], emails: readonly string[]): Promise<string> {
    this.#writeGroups();
    const { shown } = this.store;
    const all: unknown[] = [
      await this.#export("signals"),
      await this.#export("people"),
      await this.#export("scoring_signals"),
    ];
    // oxlint-disable-next-line no-await-in-loop -- one after the other
    for (const { id } of signals) all.push(await traceSignal(() => this.store.shown, id));
    all.push(findSignals(shown, {}, PAGE), latestSignals(shown, null, 100), await listEventGroups(shown, PAGE));
    all.push(shown.deadLetters.list(PAGE), findPeople(shown, { sort: "email" }, PAGE));
    for (const email of emails) all.push(readPersonPage(shown, email, "all", PAGE), this.personPage(email)?.timeline);
    for (const { externalId } of findAccounts(this.store.shown, { sort: "newest" }, PAGE).items) {
      all.push(readAccountPage(shown, externalId, PAGE));
    }
    return JSON.stringify(all);
  }

  /**
   * All text in storage: each row of each table, the lines of both logs as they are before compression, and the payloads in R2. Without
   * rules: an admin may name a person in a condition.
   */
  async storage(): Promise<string> {
    const { sql, state, workspaceId } = this.store;
    const decoder = new TextDecoder();
    const texts: string[] = [await textOfBucket(workspaceId)];
    const tables = sql.exec<{ name: string }>(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\' AND name <> 'rule_jobs'",
    );
    for (const { name } of tables.toArray()) {
      for (const row of sql.exec(`SELECT * FROM "${name}"`).raw()) {
        for (const value of row) texts.push(value instanceof ArrayBuffer ? decoder.decode(value) : String(value));
      }
    }
    for (const log of [state.signals, state.held]) {
      texts.push(JSON.stringify(linesOf(log)));
      for (const portion of log.walk({ after: 0 })) texts.push(JSON.stringify(log.payloadsOf(portion)));
    }
    return texts.join("\n");
  }
}

export function setClock(ms: number): void {
  vi.setSystemTime(ms);
}

function toExclusion(exclusion: Exclusion, index: number): StoredExclusion {
  const id = `exc_${index}`;
  return { id, name: id, match: "all", conditions: [conditionOf(exclusion)] };
}

function conditionOf(exclusion: Exclusion): StoredExclusion["conditions"][number] {
  if ("of" in exclusion) return { path: "email", operator: "equals", value: exclusion.of };
  if ("event" in exclusion) return { path: "event", operator: "equals", value: exclusion.event };
  return { path: "payload.messageId", operator: exclusion.hasId ? "exists" : "not_exists" };
}

function toMappingRule({ id, event, points, frequency, lastDays, of, version }: Rule): MappingRule {
  return {
    id,
    version,
    event,
    match: "all",
    conditions: of === null ? [] : [{ path: "email", operator: "equals", value: of }],
    scoringSignal: `scored ${id}`,
    points,
    frequency,
    pointsLastDays: lastDays,
  };
}

/** No template fits the payload, which is no call of a CDP. */
function asMisfit({ admission }: SignalToRecord, content: Content): SignalToRecord {
  const work = { kind: "dead" as const, reason: "No template fits", isMisfit: true as const };
  return { admission: { ...admission, templateVersion: 1 }, payload: misfitOf(content), work };
}
