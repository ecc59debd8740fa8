/**
 * Destinations: one Durable Object per workspace. It holds who is told what of the workspace, the events that wait to be
 * delivered, and what became of each delivery. It delivers nothing itself: the queue's consumer does, outside of any object.
 *
 * Why this is correct on the platform: an event and its deliveries, and what a report changes, are each written in one
 * transaction, and no call resolves before its writes are durable. The queue only transports: a delivery that was handed to
 * it stays due, a lease later, until its attempt has been reported, so a message that is lost, or a consumer that dies,
 * delays. The delivery's row says that an attempt is under way, so that no other begins. All attempts carry the event's id
 * and the same body, so one that was made and not reported repeats an event and never invents one.
 */
import type * as Calls from "./destination-calls.ts";
import type { AttemptResult } from "../domain/events/attempts.ts";
import { wantedBy } from "../domain/events/destination.ts";
import type { Destination } from "../domain/events/destination.ts";
import type { WorkspaceEvent } from "../domain/events/workspace-event.ts";
import type { FailingDestination } from "../domain/health/alarm.ts";
import type { JsonObject } from "../domain/json/json-object.ts";
import { ok, refuse } from "../domain/result.ts";
import type { Result } from "../domain/result.ts";
import { configuredLeaseMs } from "../env.ts";
import { CALL_TIMEOUT_MS, DESTINATIONS_MAX, RETRY_MIN_SECONDS, SAFETY_ALARM_MS } from "../limits.ts";
import type { Page, PageOf } from "../platform/list-page.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { Alarm, RestorableObject } from "../platform/restorable-object.ts";
import { within } from "../platform/time-limit.ts";
import { DeletedPeople } from "./deleted-people.ts";
import { Deliveries, LANES, shownDelivery } from "./deliveries.ts";
import { Dispatch, TAKEN_MS } from "./dispatch.ts";
import { HourlyChore } from "./hourly-chore.ts";
import { ownEvent, Reports } from "./reports.ts";
import { failingDestination, NO_FAILURES, OldSecrets, Roster, Settings, shownDestination } from "./roster.ts";
import type { StoredDestination } from "./roster.ts";

export class Destinations extends RestorableObject {
  readonly #sql: SqlStorage;
  readonly #roster: Roster;
  readonly #oldSecrets: OldSecrets;
  readonly #settings: Settings;
  readonly #deliveries: Deliveries;
  readonly #deletedPeople: DeletedPeople;
  readonly #dispatch: Dispatch;
  readonly #reports: Reports;
  readonly #sources: TellSources;
  readonly #chore: HourlyChore;
  readonly #alarm: Alarm;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { sql } = ctx.storage;
    createTables(sql);
    const parts = {
      roster: new Roster(sql),
      settings: new Settings(sql),
      deliveries: new Deliveries(sql),
      deletedPeople: new DeletedPeople(sql),
    };
    this.#sql = sql;
    this.#oldSecrets = new OldSecrets(sql);
    this.#roster = parts.roster;
    this.#settings = parts.settings;
    this.#deliveries = parts.deliveries;
    this.#deletedPeople = parts.deletedPeople;
    this.#dispatch = new Dispatch(parts, configuredLeaseMs(env));
    this.#reports = new Reports(sql, parts);
    this.#sources = new TellSources(env, sql, parts);
    this.#chore = new HourlyChore(env, sql, parts);
    this.#alarm = new Alarm(ctx);
  }

  /** Takes over what has happened: durable when it resolves. An event that was raised before is ignored. */
  raise(events: WorkspaceEvent[]): void {
    this.#run((nowMs) => this.#addEvents(this.#deletedPeople.withoutDeleted(events), nowMs));
  }

  // --- Who is told what ---

  /** All destinations, the oldest first. */
  list(): Destination[] {
    return this.#roster.all().map((one) => this.#shown(one));
  }

  /** Those that fail while something waits for them, or that the service has switched off, the oldest first. */
  failing(): FailingDestination[] {
    return this.#roster.all().flatMap((one) => failingDestination(one, this.#deliveries.waiting(one.id)));
  }

  find(id: string): Destination | null {
    const one = this.#roster.find(id);
    return one && this.#shown(one);
  }

  /** Creates a destination. Called again with the same id it changes nothing, and shows no secret. */
  async create(destination: Calls.NewDestination): Promise<Result<Calls.CreatedDestination, Calls.DestinationRefusal>> {
    const before = this.find(destination.id);
    if (before !== null) return ok({ destination: before, secret: null, isNew: false });
    if (this.#roster.all().length >= DESTINATIONS_MAX) return refuse("too_many");
    const secret = destination.type === "webhook" ? newSecret() : null;
    await this.#runAndTell((nowMs) => this.#roster.add(destination, secret, nowMs));
    return this.#answered(destination.id, (created) => ({ destination: created, secret, isNew: true }));
  }

  /** Changes a destination; deliveries that wait for it go to its new target, which begins without failures. */
  update(id: string, change: Calls.DestinationChange): Promise<Result<Destination, Calls.DestinationRefusal>> {
    return this.#changeOne(id, (one, nowMs) => {
      if (change.target === undefined || change.target === one.target) return { ...one, ...change };
      this.#deliveries.dueNow(id, nowMs);
      return { ...one, ...change, ...NO_FAILURES };
    });
  }

  /** Pauses a destination. Events of the time until it is resumed are not told it; deliveries that wait already go then. */
  pause(id: string): Promise<Result<Destination, Calls.DestinationRefusal>> {
    return this.#changeOne(id, (one) => (one.state === "active" ? { ...one, state: "paused" } : one));
  }

  /** Resumes a destination that is paused, or that the service has switched off. */
  resume(id: string): Promise<Result<Destination, Calls.DestinationRefusal>> {
    return this.#changeOne(id, (one, nowMs) => {
      if (one.state === "active") return one;
      this.#deliveries.dueNow(id, nowMs);
      return { ...one, state: "active", disabledReason: null, ...NO_FAILURES };
    });
  }

  /** Removes a destination with all its deliveries. Null: it was not there. */
  async remove(id: string): Promise<Destination | null> {
    const before = this.find(id);
    if (before === null) return null;
    await this.#runAndTell(() => {
      this.#roster.remove(id);
      this.#oldSecrets.remove(id);
      this.#deliveries.remove(id);
    });
    return before;
  }

  /** Makes a new secret for a webhook. The old one, and what signs beside it, sign too for another `overlapMs` at most. */
  rotateSecret(id: string, overlapMs: number): Result<Calls.CreatedDestination, Calls.DestinationRefusal> {
    const one = this.#roster.find(id);
    if (one === null) return refuse("not_found");
    if (one.secret === null) return refuse("not_a_webhook");
    const secret = newSecret();
    const [before, nowMs] = [one.secret, Date.now()];
    this.ctx.storage.transactionSync(() => {
      this.#oldSecrets.add(id, before, nowMs + overlapMs, nowMs);
      this.#roster.put({ ...one, secret });
    });
    return this.#answered(id, (destination) => ({ destination, secret, isNew: true }));
  }

  thresholds(): number[] {
    return this.#settings.thresholds;
  }

  /** Sets the scores whose crossing is told. @param thresholds ascending, at most THRESHOLDS_MAX. */
  async setThresholds(thresholds: number[]): Promise<void> {
    await this.#runAndTell(() => {
      this.#settings.thresholds = thresholds;
    });
  }

  /** Tells the sources once more what is wanted: they may have forgotten it. */
  async tellSources(): Promise<void> {
    await this.#runAndTell(() => undefined);
  }

  // --- Deliveries ---

  /** Sends a test at once and once, whatever state the destination is in. */
  sendTest(id: string, message: string): Result<Calls.Delivery, Calls.DestinationRefusal> {
    if (this.#roster.find(id) === null) return refuse("not_found");
    const [deliveryId = ""] = this.#run((nowMs) =>
      this.#deliveries.add(ownEvent("destination.test", { message }, nowMs), [id], nowMs),
    );
    return this.#deliveryNow(id, deliveryId);
  }

  /** A destination's deliveries, the latest first. Null: no such destination. */
  listDeliveries(destinationId: string, page: Page): PageOf<Calls.Delivery> | null {
    return this.#roster.find(destinationId) && this.#deliveries.list(destinationId, page);
  }

  delivery(destinationId: string, id: string): Calls.DeliveryDetail | null {
    const destination = this.#roster.find(destinationId);
    const one = this.#deliveries.find(destinationId, id);
    if (one === null || destination === null) return null;
    return {
      delivery: shownDelivery(one),
      destination: this.#shown(destination),
      event: this.#deliveries.event(one),
      pagesUrl: destination.pagesUrl,
    };
  }

  /**
   * Delivers once more, at once, and by the whole schedule if need be; the receiver knows the event by its id. A delivery
   * that waits does not wait longer; one that is under way is not sent a second time meanwhile.
   */
  deliverAgain(destinationId: string, id: string): Result<Calls.Delivery, Calls.DestinationRefusal> {
    const destination = this.#roster.find(destinationId);
    const one = this.#deliveries.find(destinationId, id);
    if (one === null || destination === null || this.#deliveries.event(one) === null) return refuse("not_found");
    if (destination.state !== "active" && one.lane !== LANES.test) return refuse("not_active");
    this.#run(() => {
      this.#deliveries.startOver(one);
      if (destination.notBeforeMs > 0) this.#roster.put({ ...destination, notBeforeMs: 0 });
    });
    return this.#deliveryNow(destinationId, id);
  }

  /** What the consumer is to send. Null: nothing, for the delivery was reported, ended or taken by another meanwhile. */
  take({ destinationId, id, attempt }: Calls.Due): Calls.Parcel | null {
    const nowMs = Date.now();
    const one = this.#deliveries.find(destinationId, id);
    const destination = this.#roster.find(destinationId);
    if (one === null || destination === null || one.dueMs === null || one.attempt !== attempt) return null;
    if (destination.state !== "active" && one.lane !== LANES.test) return null;
    if (one.takenMs !== null && nowMs - one.takenMs < TAKEN_MS) return null;
    const event = this.#deliveries.event(one);
    if (event === null) {
      this.#dispatch.ended(id);
      this.#run(() => this.#deliveries.end(one, "failed", "person_deleted"));
      return null;
    }
    this.#deliveries.take(one, nowMs);
    this.#dispatch.began(one, nowMs);
    const { type, target, secret, pagesUrl } = destination;
    const old = this.#oldSecrets.of(destinationId, nowMs).map((before) => before.secret);
    const secrets = secret === null ? [] : [secret, ...old];
    return { destinationId, type, target, secrets, pagesUrl, event };
  }

  /**
   * Takes in how an attempt ended. A report that is repeated changes nothing. One that comes late, after the attempt was made
   * again, counts if the event has arrived.
   */
  async report({ destinationId, id, attempt }: Calls.Due, result: AttemptResult): Promise<void> {
    const one = this.#deliveries.find(destinationId, id);
    if (one === null || one.dueMs === null || (one.attempt !== attempt && result.error !== null)) return;
    this.#dispatch.ended(id);
    this.#run((nowMs) => this.#reports.judge(one, result, nowMs));
    if (this.#settings.untold !== null) await this.#tell();
  }

  /**
   * Deletes a person's data from what waits to be delivered and from what is kept. Repeating it is harmless.
   *
   * @param atMs events of the person up to this time are refused.
   */
  deletePerson(email: string, atMs: number): void {
    this.ctx.storage.transactionSync(() => this.#deletedPeople.delete(email, atMs));
  }

  /** Does what is due. Never throws: an alarm that throws six times is gone. */
  override async alarm(): Promise<void> {
    this.#alarm.rang();
    try {
      const beganMs = Date.now();
      const isChoreDue = beganMs >= this.#chore.nextMs();
      if (isChoreDue) this.#chore.putOff();
      // Deliveries that are due go first: they wait for none of the other work.
      this.#run(() => undefined);
      await this.#tell();
      if (!isChoreDue) return;
      const notices = await this.#chore.keyNotices(this.#workspaceId, beganMs);
      this.#run((nowMs) => this.#addEvents(this.#chore.finish(notices, beganMs), nowMs));
    } catch (error) {
      logEvent("destinations_alarm_failed", { workspace: this.#workspaceId, error: errorText(error) });
      this.#chore.putOff(Date.now() + SAFETY_ALARM_MS);
      this.#alarm.by(Date.now() + SAFETY_ALARM_MS);
    }
  }

  get #workspaceId(): string {
    return this.ctx.id.name ?? "";
  }

  /** Sends events on to whoever wants them now. An event that was raised before is ignored. */
  #addEvents(events: readonly WorkspaceEvent[], nowMs: number): void {
    const active = this.#roster.active();
    const dropped = new Map<string, number>();
    for (const event of events) {
      const ids = active.filter((one) => one.events.includes(event.type)).map(({ id }) => id);
      if (ids.length === 0 || !this.#isNew(event.id)) continue;
      const isStored = this.#deliveries.add(event, ids, nowMs).length > 0;
      for (const id of ids) dropped.set(id, (dropped.get(id) ?? 0) + Number(!isStored));
    }
    for (const one of active.filter(({ id }) => dropped.has(id))) {
      const count = (dropped.get(one.id) ?? 0) + this.#deliveries.giveUpBeyond(one.id);
      if (count > 0) this.#roster.put({ ...one, dropped: one.dropped + count });
    }
  }

  #isNew(eventId: string): boolean {
    const insert = "INSERT INTO notifications_seen (id) VALUES (?) ON CONFLICT DO NOTHING RETURNING id";
    return this.#sql.exec(insert, eventId).toArray().length > 0;
  }

  #shown(one: StoredDestination): Destination {
    const [last] = this.#oldSecrets.of(one.id, Date.now());
    const waiting = this.#deliveries.waiting(one.id);
    return shownDestination(one, { waiting, oldSecretEndsAtMs: last?.endsMs ?? null });
  }

  #answered<T>(id: string, answer: (destination: Destination) => T): Result<T, Calls.DestinationRefusal> {
    const one = this.find(id);
    return one === null ? refuse("not_found") : ok(answer(one));
  }

  #deliveryNow(destinationId: string, id: string): Result<Calls.Delivery, Calls.DestinationRefusal> {
    const one = this.#deliveries.find(destinationId, id);
    return one === null ? refuse("not_found") : ok(shownDelivery(one));
  }

  async #changeOne(
    id: string,
    change: (one: StoredDestination, nowMs: number) => StoredDestination,
  ): Promise<Result<Destination, Calls.DestinationRefusal>> {
    const one = this.#roster.find(id);
    if (one === null) return refuse("not_found");
    await this.#runAndTell((nowMs) => this.#roster.put(change(one, nowMs)));
    return this.#answered(id, (changed) => changed);
  }

  /** Changes what is stored, all or nothing; then what is due leaves, and the alarm is set for what is to come. */
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

  /** Changes what the sources may have to raise, and tells them. */
  async #runAndTell<T>(change: (nowMs: number) => T): Promise<T> {
    const changed = this.#run((nowMs) => {
      this.#settings.changed();
      return change(nowMs);
    });
    await this.#tell();
    return changed;
  }

  /** Tells whoever must know of a change. Never throws: what cannot be told now is told by the alarm. */
  async #tell(): Promise<void> {
    try {
      await this.#sources.tell(this.#workspaceId);
    } catch (error) {
      logEvent("wanted_not_told", { workspace: this.#workspaceId, error: errorText(error) });
      this.#alarm.by(Date.now() + SAFETY_ALARM_MS);
    }
  }

  /** Hands deliveries that are due to the queue; those that it refuses are due again soon. */
  #send(nowMs: number): void {
    const { due, nextMs } = this.#dispatch.takeDue(nowMs);
    this.#alarm.by(Math.min(nextMs, this.#chore.nextMs()));
    // The alarm is set in case the object is killed before the sources have been told of a change.
    if (this.#settings.untold !== null) this.#alarm.by(nowMs + SAFETY_ALARM_MS);
    if (due.length === 0) return;
    const workspaceId = this.#workspaceId;
    const messages = due.map(({ destinationId, id, attempt }) => {
      return { body: JSON.stringify({ workspaceId, destinationId, id, attempt } satisfies Calls.DueDelivery) };
    });
    const failed = (error: unknown) => {
      logEvent("deliveries_not_sent", { workspace: workspaceId, deliveries: due.length, error: errorText(error) });
      const againMs = Date.now() + RETRY_MIN_SECONDS * 1_000;
      for (const { id } of due) this.#dispatch.refused(id, againMs);
      this.#alarm.by(againMs);
    };
    this.ctx.waitUntil(this.env.DELIVERIES.sendBatch(messages).catch(failed));
  }
}

// The secret that a webhook's deliveries are signed with, in the form of the Standard Webhooks specification.

/** The specification allows 24 to 64 bytes. */
const SECRET_BYTES = 32;

function newSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(SECRET_BYTES));
  return `whsec_${btoa(String.fromCharCode(...bytes))}`;
}

/** The object's tables. */
export function createTables(sql: SqlStorage): void {
  sql.exec(`
    CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS destinations (
      id TEXT PRIMARY KEY,
      name TEXT NOT NULL,
      type TEXT NOT NULL,
      target TEXT NOT NULL,
      events TEXT NOT NULL,
      pages_url TEXT NOT NULL,
      state TEXT NOT NULL,
      disabled_reason TEXT,
      created_ms INTEGER NOT NULL,
      secret TEXT,
      failing_since_ms INTEGER,
      failing_last_ms INTEGER,
      failures INTEGER NOT NULL,     -- attempts that have failed since one succeeded
      not_before_ms INTEGER NOT NULL, -- nothing is sent before, while attempts fail
      delivered_ms INTEGER,          -- when a delivery last arrived, to within a minute
      dropped INTEGER NOT NULL       -- events that were given up because too much waited
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS old_secrets (destination_id TEXT NOT NULL, secret TEXT NOT NULL, ends_ms INTEGER NOT NULL,
      PRIMARY KEY (destination_id, secret)) WITHOUT ROWID;

    -- Ids of events that were taken over, so that each is taken over once.
    CREATE TABLE IF NOT EXISTS notifications_seen (id TEXT PRIMARY KEY) WITHOUT ROWID;
    -- Events that some delivery carries. Without data: it was about a person who was deleted.
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
      event_id TEXT NOT NULL,        -- of its first event: the webhook-id
      type TEXT NOT NULL,
      lane INTEGER NOT NULL,         -- of LANES
      events TEXT NOT NULL,          -- the numbers of its events, a JSON list; it grows until somebody takes the delivery
      bytes INTEGER NOT NULL,        -- of its events, and some for its rows
      state TEXT NOT NULL,
      end_reason TEXT,
      due_ms INTEGER,                -- when it is to be sent; null: it no longer waits
      taken_ms INTEGER,              -- when the consumer began the attempt that is under way; null: none is
      attempt INTEGER NOT NULL,      -- number of the next attempt, or of the one under way, from 1
      failed INTEGER NOT NULL,       -- attempts that have failed since the delivery was last asked for
      attempts TEXT NOT NULL,        -- how the attempts ended, a JSON list
      answers_hidden INTEGER NOT NULL, -- 1: a person whom it told of was deleted, so no answer to it is kept
      created_ms INTEGER NOT NULL,
      PRIMARY KEY (destination_id, id)
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS deliveries_due ON deliveries (destination_id, lane, due_ms) WHERE due_ms IS NOT NULL;

    CREATE TABLE IF NOT EXISTS key_notices (key_id TEXT NOT NULL, notice TEXT NOT NULL, of TEXT NOT NULL,
      PRIMARY KEY (key_id, notice)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS deleted_people (email_hash TEXT PRIMARY KEY, at_ms INTEGER NOT NULL) WITHOUT ROWID;
    -- Destinations that were switched off, until the activity log says so.
    CREATE TABLE IF NOT EXISTS switched_off (destination_id TEXT PRIMARY KEY, at_ms INTEGER NOT NULL, detail TEXT NOT NULL)
      WITHOUT ROWID;
  `);
}

export class TellSources {
  readonly #env: Env;
  readonly #sql: SqlStorage;
  readonly #roster: Roster;
  readonly #settings: Settings;
  /** Settles when nobody is being told any more. */
  #telling: Promise<void> = Promise.resolve();

  constructor(env: Env, sql: SqlStorage, { roster, settings }: { roster: Roster; settings: Settings }) {
    this.#env = env;
    this.#sql = sql;
    this.#roster = roster;
    this.#settings = settings;
  }

  /**
   * Tells of a change that may not have reached everybody. Repeating it is harmless. One call runs after the other: a change
   * must not be overtaken by the one before it.
   */
  tell(workspaceId: string): Promise<void> {
    const told = this.#telling.then(() => within(CALL_TIMEOUT_MS, this.#tellNow(workspaceId)));
    this.#telling = told.catch(() => undefined);
    return told;
  }

  async #tellNow(workspaceId: string): Promise<void> {
    const change = this.#settings.untold;
    if (change === null) return;
    const wanted = wantedBy(this.#roster.all(), this.#settings.thresholds);
    await Promise.all([
      this.#env.SIGNAL_STORE.getByName(workspaceId).wantEvents(wanted),
      this.#env.QUOTA_COUNTER.getByName(workspaceId).wantEvents(wanted),
    ]);
    await this.#logSwitchedOff(workspaceId);
    this.#settings.told(change);
  }

  async #logSwitchedOff(workspaceId: string): Promise<void> {
    type Row = { destination_id: string; at_ms: number; detail: string };
    const rows = this.#sql.exec<Row>("SELECT * FROM switched_off").toArray();
    if (rows.length === 0) return;
    // Loaded when it is needed: the control plane's database takes most of the time that an isolate starts in.
    const [{ writeAuditEntry }, { controlDatabase }] = await Promise.all([
      import("../control/audit.ts"),
      import("../control/database.ts"),
    ]);
    const db = controlDatabase(this.#env.DB);
    for (const { destination_id, at_ms, detail } of rows) {
      const by = { actor: "service", nowMs: at_ms };
      const entry = { workspaceId, action: "destination.switched_off", target: destination_id } as const;
      // oxlint-disable-next-line no-await-in-loop -- one at a time is all there ever is
      await writeAuditEntry(db, by, { ...entry, detail: JSON.parse(detail) as JsonObject });
      this.#sql.exec("DELETE FROM switched_off WHERE destination_id = ? AND at_ms = ?", destination_id, at_ms);
    }
  }
}
