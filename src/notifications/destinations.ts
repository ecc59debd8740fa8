/**
 * Destinations: one Durable Object per workspace. It stores the destinations, the notifications that wait for delivery, and the result of
 * each delivery. The queue consumer sends, outside of any object. "Sources" are the workspace's Signal Store and Quota Counter, which raise
 * notifications.
 *
 * Reliability: a notification and its deliveries are written in one transaction, and so are the changes of a report. No call resolves
 * before its writes are durable. The queue only transports. A delivery that was passed to the queue becomes due again after a lease
 * if its attempt is not reported. So a lost message or a crashed consumer only delays the delivery. The delivery's row marks an attempt in progress, so that
 * attempts never overlap. All attempts carry the same id and body, so an unreported attempt can repeat a notification but never change it.
 */
import type * as Calls from "./destination-calls.ts";
import type { AttemptResult } from "../domain/events/attempts.ts";
import { changedHeaders } from "../domain/events/custom-header.ts";
import { wantedBy, type Destination } from "../domain/events/destination.ts";
import type { ScoreThresholds, WorkspaceEvent } from "../domain/events/workspace-event.ts";
import type { FailingDestination } from "../domain/health/alarm.ts";
import type { JsonObject } from "../domain/json/json-value.ts";
import { ok, refuse, type Result } from "../domain/result.ts";
import { configuredLeaseMs } from "../env.ts";
import { CALL_TIMEOUT_MS, DESTINATIONS_MAX, RETRY_MIN_SECONDS, SAFETY_ALARM_MS } from "../limits.ts";
import type { Page, PageOf } from "../platform/list-page.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { Alarm } from "../platform/alarm.ts";
import { WorkspaceObject } from "../platform/in-jurisdiction.ts";
import { within } from "../platform/time-limit.ts";
import { DeletedPeople, Deliveries, LANES, shownDelivery } from "./deliveries.ts";
import { Dispatch, TAKEN_MS } from "./dispatch.ts";
import { HourlyChore } from "./hourly-chore.ts";
import { newEvent } from "./raised-events.ts";
import {
  failingDestination,
  NO_FAILURES,
  Roster,
  Settings,
  shownDestination,
  type StoredDestination,
} from "./roster.ts";

export class Destinations extends WorkspaceObject {
  readonly #sql: SqlStorage;
  readonly #roster: Roster;
  readonly #settings: Settings;
  readonly #deliveries: Deliveries;
  readonly #deletedPeople: DeletedPeople;
  readonly #dispatch: Dispatch;
  readonly #chore: HourlyChore;
  readonly #alarm: Alarm;
  /** Resolves when no source is being informed. Never rejects. */
  #informing: Promise<void> = Promise.resolve();

  constructor(ctx: DurableObjectState, bindings: Env) {
    super(ctx, bindings);
    const { env } = this;
    const { sql } = ctx.storage;
    createTables(sql);
    this.#sql = sql;
    const roster = (this.#roster = new Roster(sql));
    const settings = (this.#settings = new Settings(sql));
    const deliveries = (this.#deliveries = new Deliveries(sql));
    const deletedPeople = (this.#deletedPeople = new DeletedPeople(sql));
    this.#dispatch = new Dispatch(sql, { roster, settings, deliveries }, configuredLeaseMs(env));
    this.#chore = new HourlyChore(env, sql, { roster, settings, deliveries, deletedPeople });
    this.#alarm = new Alarm(ctx);
  }

  /** Notifications with known ids are ignored. */
  raise(events: WorkspaceEvent[]): void {
    this.#run((nowMs) => this.#addEvents(this.#deletedPeople.withoutDeleted(events), nowMs));
  }

  list(): Destination[] {
    return this.#roster.all().map((destination) => this.#shown(destination));
  }

  /** Destinations that fail while deliveries wait, and destinations that the service switched off, oldest first. */
  failing(): FailingDestination[] {
    return this.#roster
      .all()
      .flatMap((destination) => failingDestination(destination, this.#deliveries.waiting(destination.id)));
  }

  find(id: string): Destination | null {
    const destination = this.#roster.find(id);
    return destination && this.#shown(destination);
  }

  /** A repeated call with the same id changes nothing and returns no secret. */
  async create(destination: Calls.NewDestination): Promise<Result<Calls.CreatedDestination, Calls.DestinationRefusal>> {
    const before = this.find(destination.id);
    if (before !== null) return ok({ destination: before, secret: null, isNew: false });
    if (this.#roster.all().length >= DESTINATIONS_MAX) return refuse("too_many_destinations");
    const headers = changedHeaders({ ...destination, headers: [] }, destination);
    if (!headers.ok) return headers;
    const secret = destination.type === "webhook" ? newSecret() : null;
    await this.#runAndInform((nowMs) => {
      this.#roster.add({ ...destination, headers: headers.value }, secret, nowMs);
    });
    return this.#answered(destination.id, (created) => ({ destination: created, secret, isNew: true }));
  }

  /** Waiting deliveries go to the new target with the new headers. A new target starts without failures. */
  async update(id: string, wanted: Calls.DestinationChange): Promise<Result<Destination, Calls.DestinationRefusal>> {
    const before = this.#roster.find(id);
    if (before === null) return refuse("not_found");
    const headers = changedHeaders(before, wanted);
    if (!headers.ok) return headers;
    const change = { ...wanted, headers: headers.value };
    return this.#changeOne(id, (destination, nowMs) => {
      if (change.target === undefined || change.target === destination.target) return { ...destination, ...change };
      this.#deliveries.dueNow(id, nowMs);
      return { ...destination, ...change, ...NO_FAILURES };
    });
  }

  /** Notifications raised during the pause are never sent to it. Waiting deliveries are sent after `resume`. */
  pause(id: string): Promise<Result<Destination, Calls.DestinationRefusal>> {
    return this.#changeOne(id, (destination) =>
      destination.state === "active" ? { ...destination, state: "paused" } : destination,
    );
  }

  resume(id: string): Promise<Result<Destination, Calls.DestinationRefusal>> {
    return this.#changeOne(id, (destination, nowMs) => {
      if (destination.state === "active") return destination;
      this.#deliveries.dueNow(id, nowMs);
      return { ...destination, state: "active", disabledReason: null, ...NO_FAILURES };
    });
  }

  async remove(id: string): Promise<Destination | null> {
    const before = this.find(id);
    if (before === null) return null;
    await this.#runAndInform(() => {
      this.#roster.remove(id);
      this.#deliveries.remove(id);
    });
    return before;
  }

  /** Earlier secrets also sign, for at most `overlapMs` more. */
  rotateSecret(id: string, overlapMs: number): Result<Calls.CreatedDestination, Calls.DestinationRefusal> {
    const destination = this.#roster.find(id);
    if (destination === null) return refuse("not_found");
    if (destination.secret === null) return refuse("destination_without_secret");
    const secret = newSecret();
    const [before, nowMs] = [destination.secret, Date.now()];
    this.ctx.storage.transactionSync(() => {
      this.#roster.addOldSecret(id, before, nowMs + overlapMs, nowMs);
      this.#roster.put({ ...destination, secret });
    });
    return this.#answered(id, (rotated) => ({ destination: rotated, secret, isNew: true }));
  }

  thresholds(): ScoreThresholds {
    return this.#settings.thresholds;
  }

  /** Both lists are ascending. Without `accounts`, the accounts' thresholds stay. */
  setThresholds(people: number[], accounts?: number[]): Promise<ScoreThresholds> {
    return this.#runAndInform(() => {
      const before = this.#settings.thresholds;
      return (this.#settings.thresholds = { people, accounts: accounts ?? before.accounts });
    });
  }

  /** Sends a test once, without retries, in any state of the destination. */
  sendTest(id: string, message: string): Result<Calls.Delivery, Calls.DestinationRefusal> {
    if (this.#roster.find(id) === null) return refuse("not_found");
    const [deliveryId = ""] = this.#run((nowMs) =>
      this.#deliveries.add(newEvent("destination.test", { message }, nowMs), [id], nowMs),
    );
    return this.#deliveryNow(id, deliveryId);
  }

  listDeliveries(destinationId: string, page: Page): PageOf<Calls.Delivery> | null {
    return this.#roster.find(destinationId) && this.#deliveries.list(destinationId, page);
  }

  delivery(destinationId: string, id: string): Calls.DeliveryDetail | null {
    const destination = this.#roster.find(destinationId);
    const delivery = this.#deliveries.find(destinationId, id);
    if (delivery === null || destination === null) return null;
    return {
      delivery: shownDelivery(delivery),
      destination: this.#shown(destination),
      event: this.#deliveries.event(delivery),
      pagesUrl: destination.pagesUrl,
    };
  }

  /** Sends the delivery now, with the full retry schedule and under the same id. An attempt in progress is not duplicated. */
  deliverAgain(destinationId: string, id: string): Result<Calls.Delivery, Calls.DestinationRefusal> {
    const destination = this.#roster.find(destinationId);
    const delivery = this.#deliveries.find(destinationId, id);
    if (delivery === null || destination === null || this.#deliveries.event(delivery) === null)
      return refuse("not_found");
    if (destination.state !== "active" && delivery.lane !== LANES.test) return refuse("destination_not_active");
    this.#run(() => {
      this.#deliveries.restart(delivery);
      if (destination.notBeforeMs > 0) this.#roster.put({ ...destination, notBeforeMs: 0 });
    });
    return this.#deliveryNow(destinationId, id);
  }

  /** Counts the deliveries that `redeliver` would repeat. */
  failedSince(destinationId: string, sinceMs: number): Calls.Redelivery | null {
    if (this.#roster.find(destinationId) === null) return null;
    const { requeued, notRequeued } = this.#deliveries.failedSince(destinationId, sinceMs);
    return { requeued, notRequeued };
  }

  /**
   * Repeats the deliveries that failed at `sinceMs` or later, with the full retry schedule and under the same ids. A repeated call finds
   * them waiting and changes nothing.
   */
  redeliver(destinationId: string, sinceMs: number): Result<Calls.Redelivery, Calls.DestinationRefusal> {
    const destination = this.#roster.find(destinationId);
    if (destination === null) return refuse("not_found");
    if (destination.state !== "active") return refuse("destination_not_active");
    return this.#run(() => {
      const failed = this.#deliveries.failedSince(destinationId, sinceMs);
      const { requeued, notRequeued } = failed;
      if (requeued > 0) this.#deliveries.restartAll(destinationId, failed);
      if (requeued > 0 && destination.notBeforeMs > 0) this.#roster.put({ ...destination, notBeforeMs: 0 });
      return ok({ requeued, notRequeued });
    });
  }

  /** Null: the attempt was reported, the delivery has ended, or another consumer took it. */
  take({ destinationId, id, attempt }: Calls.Due): Calls.Parcel | null {
    const nowMs = Date.now();
    const delivery = this.#deliveries.find(destinationId, id);
    const destination = this.#roster.find(destinationId);
    if (delivery === null || destination === null || delivery.dueMs === null || delivery.attempt !== attempt)
      return null;
    if (destination.state !== "active" && delivery.lane !== LANES.test) return null;
    if (delivery.takenMs !== null && nowMs - delivery.takenMs < TAKEN_MS) return null;
    const event = this.#deliveries.event(delivery);
    if (event === null) {
      this.#run(() => this.#dispatch.cancel(delivery, "person_deleted", nowMs));
      return null;
    }
    this.#deliveries.take(delivery, nowMs);
    this.#dispatch.attemptBegan(delivery, nowMs);
    const { type, target, secret, headers, pagesUrl } = destination;
    const old = this.#roster.oldSecrets(destinationId, nowMs).map((before) => before.secret);
    const secrets = secret === null ? [] : [secret, ...old];
    return { destinationId, type, target, secrets, headers, pagesUrl, event };
  }

  /**
   * Records the result of an attempt. Repeated reports change nothing. A late report, after a newer attempt started, counts only if it is
   * a success.
   */
  async report({ destinationId, id, attempt }: Calls.Due, result: AttemptResult): Promise<void> {
    const delivery = this.#deliveries.find(destinationId, id);
    if (delivery === null || delivery.dueMs === null || (delivery.attempt !== attempt && result.error !== null)) return;
    this.#run((nowMs) => this.#dispatch.attemptEnded(delivery, result, nowMs));
    if (this.#settings.pendingChange !== null) await this.#informSources();
  }

  /** Idempotent. @param atMs `raise` refuses the person's notifications up to this time. */
  deletePerson(email: string, atMs: number): void {
    this.ctx.storage.transactionSync(() => this.#deletedPeople.delete(email, atMs));
  }

  /** Never throws: the platform drops an alarm after six failures. */
  override async alarm(): Promise<void> {
    this.#alarm.reset();
    try {
      const beganMs = Date.now();
      const isChoreDue = beganMs >= this.#chore.nextMs();
      if (isChoreDue) this.#chore.postpone();
      // Send due deliveries first, so that they do not wait for the other work.
      this.#run(() => undefined);
      await this.#informSources();
      if (!isChoreDue) return;
      const notices = await this.#chore.keyNotices(this.#workspaceId, beganMs);
      this.#run((nowMs) => this.#addEvents(this.#chore.finish(notices, beganMs), nowMs));
    } catch (error) {
      logEvent("destinations_alarm_failed", { workspace: this.#workspaceId, error: errorText(error) });
      this.#chore.postpone(Date.now() + SAFETY_ALARM_MS);
      this.#alarm.by(Date.now() + SAFETY_ALARM_MS);
    }
  }

  get #workspaceId(): string {
    return this.ctx.id.name ?? "";
  }

  #addEvents(events: readonly WorkspaceEvent[], nowMs: number): void {
    const active = this.#roster.active();
    const dropped = new Map<string, number>();
    for (const event of events) {
      const ids = active.filter((destination) => destination.events.includes(event.type)).map(({ id }) => id);
      if (ids.length === 0 || !this.#isNew(event.id)) continue;
      const isStored = this.#deliveries.add(event, ids, nowMs).length > 0;
      for (const id of ids) dropped.set(id, (dropped.get(id) ?? 0) + Number(!isStored));
    }
    for (const destination of active.filter(({ id }) => dropped.has(id))) {
      const count = (dropped.get(destination.id) ?? 0) + this.#deliveries.giveUpAboveLimits(destination.id, nowMs);
      if (count > 0) this.#roster.put({ ...destination, dropped: destination.dropped + count });
    }
  }

  #isNew(eventId: string): boolean {
    const insert = "INSERT INTO notifications_seen (id) VALUES (?) ON CONFLICT DO NOTHING RETURNING id";
    return this.#sql.exec(insert, eventId).toArray().length > 0;
  }

  #shown(destination: StoredDestination): Destination {
    const [last] = this.#roster.oldSecrets(destination.id, Date.now());
    const waiting = this.#deliveries.waiting(destination.id);
    return shownDestination(destination, { waiting, oldSecretEndsAtMs: last?.endsMs ?? null });
  }

  #answered<T>(id: string, answer: (destination: Destination) => T): Result<T, Calls.DestinationRefusal> {
    const destination = this.find(id);
    return destination === null ? refuse("not_found") : ok(answer(destination));
  }

  #deliveryNow(destinationId: string, id: string): Result<Calls.Delivery, Calls.DestinationRefusal> {
    const delivery = this.#deliveries.find(destinationId, id);
    return delivery === null ? refuse("not_found") : ok(shownDelivery(delivery));
  }

  async #changeOne(
    id: string,
    change: (destination: StoredDestination, nowMs: number) => StoredDestination,
  ): Promise<Result<Destination, Calls.DestinationRefusal>> {
    const destination = this.#roster.find(id);
    if (destination === null) return refuse("not_found");
    await this.#runAndInform((nowMs) => this.#roster.put(change(destination, nowMs)));
    return this.#answered(id, (changed) => changed);
  }

  /** Runs a change in one transaction, then sends due deliveries and sets the alarm. */
  #run<T>(change: (nowMs: number) => T): T {
    const nowMs = Date.now();
    try {
      return this.ctx.storage.transactionSync(() => change(nowMs));
    } catch (error) {
      this.#deliveries.rolledBack();
      throw error;
    } finally {
      this.#send(nowMs);
    }
  }

  /** For a change that affects the types that the sources must raise. */
  async #runAndInform<T>(change: (nowMs: number) => T): Promise<T> {
    const changed = this.#run((nowMs) => {
      this.#settings.markChanged();
      return change(nowMs);
    });
    await this.#informSources();
    return changed;
  }

  /**
   * Calls run one after another, so that an older change cannot overtake a newer one. Never throws: the alarm retries after a failure.
   */
  #informSources(): Promise<void> {
    this.#informing = this.#informing
      .then(() => within(CALL_TIMEOUT_MS, this.#informSourcesNow()))
      .catch((error: unknown) => {
        logEvent("sources_not_informed", { workspace: this.#workspaceId, error: errorText(error) });
        this.#alarm.by(Date.now() + SAFETY_ALARM_MS);
      });
    return this.#informing;
  }

  async #informSourcesNow(): Promise<void> {
    const change = this.#settings.pendingChange;
    if (change === null) return;
    const wanted = wantedBy(this.#roster.all(), this.#settings.thresholds);
    await Promise.all([
      this.env.SIGNAL_STORE.getByName(this.#workspaceId).wantEvents(wanted),
      this.env.QUOTA_COUNTER.getByName(this.#workspaceId).wantEvents(wanted),
    ]);
    await this.#logSwitchedOff();
    this.#settings.sourcesInformed(change);
  }

  async #logSwitchedOff(): Promise<void> {
    type Row = { destination_id: string; at_ms: number; detail: string };
    const rows = this.#sql.exec<Row>("SELECT * FROM switched_off").toArray();
    if (rows.length === 0) return;
    // Import on demand: loading the control plane's database takes most of an isolate's start-up time.
    const [{ auditEntry }, { controlDatabase }] = await Promise.all([
      import("../control/audit.ts"),
      import("../control/database.ts"),
    ]);
    const db = controlDatabase(this.env.DB);
    for (const { destination_id, at_ms, detail } of rows) {
      const entry = {
        workspaceId: this.#workspaceId,
        action: "destination.switched_off",
        target: destination_id,
      } as const;
      const by = { actor: "service", nowMs: at_ms };
      // oxlint-disable-next-line no-await-in-loop -- hardly ever more than one row
      await auditEntry(db, by, { ...entry, detail: JSON.parse(detail) as JsonObject });
      this.#sql.exec("DELETE FROM switched_off WHERE destination_id = ? AND at_ms = ?", destination_id, at_ms);
    }
  }

  /** Passes due deliveries to the queue. Deliveries that the queue refuses become due again soon. */
  #send(nowMs: number): void {
    const { due, nextMs } = this.#dispatch.takeDue(nowMs);
    this.#alarm.by(Math.min(nextMs, this.#chore.nextMs()));
    // Set the alarm now, in case the object is killed before the sources know of a change.
    if (this.#settings.pendingChange !== null) this.#alarm.by(nowMs + SAFETY_ALARM_MS);
    if (due.length === 0) return;
    const workspaceId = this.#workspaceId;
    const messages = due.map(({ destinationId, id, attempt }) => {
      return { body: JSON.stringify({ workspaceId, destinationId, id, attempt } satisfies Calls.DueDelivery) };
    });
    const failed = (error: unknown) => {
      logEvent("deliveries_not_sent", { workspace: workspaceId, deliveries: due.length, error: errorText(error) });
      const againMs = Date.now() + RETRY_MIN_SECONDS * 1_000;
      for (const { id } of due) this.#dispatch.queueRefused(id, againMs);
      this.#alarm.by(againMs);
    };
    this.ctx.waitUntil(this.env.DELIVERIES.sendBatch(messages).catch(failed));
  }
}

/** The Standard Webhooks specification allows 24 to 64 bytes. */
const SECRET_BYTES = 32;

function newSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(SECRET_BYTES));
  return `whsec_${btoa(String.fromCharCode(...bytes))}`;
}

function createTables(sql: SqlStorage): void {
  sql.exec(`
    CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS destinations (
      id TEXT PRIMARY KEY,
      name TEXT NOT NULL,
      type TEXT NOT NULL,
      target TEXT NOT NULL,
      events TEXT NOT NULL,
      headers TEXT NOT NULL,          -- JSON list of the custom headers
      pages_url TEXT NOT NULL,
      state TEXT NOT NULL,
      disabled_reason TEXT,
      created_ms INTEGER NOT NULL,
      secret TEXT,
      failing_since_ms INTEGER,
      failing_last_ms INTEGER,
      failures INTEGER NOT NULL,      -- failed attempts since the last success
      not_before_ms INTEGER NOT NULL, -- end of the pause of a failing destination; 0: no pause
      delivered_ms INTEGER,           -- time of the last success, accurate to a minute
      dropped INTEGER NOT NULL        -- events that were dropped because too many waited
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS old_secrets (destination_id TEXT NOT NULL, secret TEXT NOT NULL, ends_ms INTEGER NOT NULL,
      PRIMARY KEY (destination_id, secret)) WITHOUT ROWID;

    -- Ids of received events, to ignore repeated calls.
    CREATE TABLE IF NOT EXISTS notifications_seen (id TEXT PRIMARY KEY) WITHOUT ROWID;
    -- Events of the stored deliveries. data is null if the event was about a deleted person.
    CREATE TABLE IF NOT EXISTS notifications (
      seq INTEGER PRIMARY KEY,
      id TEXT NOT NULL,
      type TEXT NOT NULL,
      time_ms INTEGER NOT NULL,
      data TEXT
    );
    CREATE TABLE IF NOT EXISTS deliveries (
      destination_id TEXT NOT NULL,
      id TEXT NOT NULL,
      event_id TEXT NOT NULL,        -- id of its first event, sent as webhook-id
      type TEXT NOT NULL,
      lane INTEGER NOT NULL,         -- of LANES
      events TEXT NOT NULL,          -- JSON list of the seq of its events; it grows until the consumer takes the delivery
      bytes INTEGER NOT NULL,        -- bytes of its events, plus an estimate for its rows
      state TEXT NOT NULL,
      end_reason TEXT,
      due_ms INTEGER,                -- time of the next attempt; null: the delivery has ended
      taken_ms INTEGER,              -- start of the attempt in progress; null: none is in progress
      attempt INTEGER NOT NULL,      -- number of the next attempt or of the attempt in progress, from 1
      failed INTEGER NOT NULL,       -- failed attempts since the retry schedule started
      attempts TEXT NOT NULL,        -- JSON list of the results
      answers_hidden INTEGER NOT NULL, -- 1: the delivery named a deleted person, so answers are not stored
      created_ms INTEGER NOT NULL,
      ended_ms INTEGER,              -- null: it waits
      PRIMARY KEY (destination_id, id)
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS deliveries_due ON deliveries (destination_id, lane, due_ms) WHERE due_ms IS NOT NULL;

    -- Failed deliveries that are no longer stored, by the hour in which they failed.
    CREATE TABLE IF NOT EXISTS failed_not_kept (destination_id TEXT NOT NULL, hour_ms INTEGER NOT NULL,
      deliveries INTEGER NOT NULL, PRIMARY KEY (destination_id, hour_ms)) WITHOUT ROWID;

    CREATE TABLE IF NOT EXISTS key_notices (key_id TEXT NOT NULL, notice TEXT NOT NULL, of TEXT NOT NULL,
      PRIMARY KEY (key_id, notice)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS deleted_people (email_hash TEXT PRIMARY KEY, at_ms INTEGER NOT NULL) WITHOUT ROWID;
    -- Switched-off destinations that the activity log does not contain yet.
    CREATE TABLE IF NOT EXISTS switched_off (destination_id TEXT PRIMARY KEY, at_ms INTEGER NOT NULL, detail TEXT NOT NULL)
      WITHOUT ROWID;
  `);
}
