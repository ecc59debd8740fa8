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
import migrations from "../../migrations/destinations/migrations.js";
import type * as Calls from "./destination-calls.ts";
import { DAY_MS } from "../domain/duration.ts";
import type { AttemptResult } from "../domain/notifications/attempts.ts";
import { changedHeaders } from "../domain/notifications/custom-header.ts";
import { wantedBy, type Destination } from "../domain/notifications/destination.ts";
import type { AnyNotification, ScoreThresholds, Notification } from "../domain/notifications/notification.ts";
import { alarmsOfObject, type FailingDestination } from "../domain/health/alarm.ts";
import type { JsonObject } from "../domain/json/json-value.ts";
import { ok, reject, type Result } from "../domain/result.ts";
import { configuredLeaseMs } from "../env.ts";
import { CALL_TIMEOUT_MS, DESTINATIONS_MAX, RETRY_MIN_SECONDS, SAFETY_ALARM_MS } from "../limits.ts";
import type { ListQuery, ListPage } from "../platform/list-page.ts";
import { HealthReport } from "../platform/health-report.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { Alarm } from "../platform/alarm.ts";
import { WorkspaceObject } from "../platform/workspace-object.ts";
import { within } from "../platform/time-limit.ts";
import { DeletedPeople, Deliveries, LANES, shownDelivery } from "./deliveries.ts";
import { Dispatch, TAKEN_MS } from "./dispatch.ts";
import { type TableLine, writeRows } from "../platform/table-rows.ts";
import { fileRowsOf, importedDestination } from "./destinations-file.ts";
import { HourlyChore } from "./hourly-chore.ts";
import { newNotification } from "./raised-notifications.ts";
import {
  type Confirmation,
  failingDestination,
  isReceiving,
  NO_FAILURES,
  Roster,
  secretIdOf,
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
  readonly #report: HealthReport;
  /** Resolves when no source is being informed. Never rejects. */
  #informing: Promise<void> = Promise.resolve();

  constructor(ctx: DurableObjectState, bindings: Env) {
    super(ctx, bindings, migrations);
    const { env } = this;
    const { sql } = ctx.storage;
    this.#sql = sql;
    const roster = (this.#roster = new Roster(sql));
    const settings = (this.#settings = new Settings(sql));
    const deliveries = (this.#deliveries = new Deliveries(sql));
    const deletedPeople = (this.#deletedPeople = new DeletedPeople(sql));
    this.#dispatch = new Dispatch(sql, { roster, settings, deliveries }, configuredLeaseMs(env));
    this.#chore = new HourlyChore(env, sql, { roster, settings, deliveries, deletedPeople });
    const alarm = (this.#alarm = new Alarm(ctx));
    const alarmBy = (atMs: number): void => alarm.by(atMs);
    this.#report = new HealthReport({ workspaceId: this.#workspaceId, db: env.DB, alarmBy });
  }

  /** Notifications with known ids are ignored. */
  raise(notifications: Notification[]): void {
    if (this.ended !== null) return;
    this.#run((nowMs) => this.#addNotifications(this.#deletedPeople.withoutDeleted(notifications), nowMs));
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
  async create(
    destination: Calls.NewDestination,
  ): Promise<Result<Calls.CreatedDestination, Calls.DestinationRejection>> {
    const before = this.find(destination.id);
    if (before !== null) return ok({ destination: before, secret: null, isNew: false });
    if (this.#roster.all().length >= DESTINATIONS_MAX) return reject("too_many_destinations");
    const headers = changedHeaders({ ...destination, headers: [] }, destination);
    if (!headers.ok) return headers;
    const secret = destination.type === "webhook" ? newSecret() : null;
    if (destination.type === "email" && !this.#maySendCode(Date.now())) return reject("too_many_codes");
    await this.#runAndInform((nowMs) => {
      const confirmation = destination.type === "email" ? this.#sendCode(destination.id, nowMs).confirmation : null;
      this.#roster.add({ ...destination, headers: headers.value }, { secret, confirmation }, nowMs);
    });
    return this.#answered(destination.id, (created) => ({ destination: created, secret, isNew: true }));
  }

  /** Whether the change takes values of headers to another URL, which `update` rejects. */
  needsHeaderValues(id: string, change: Pick<Calls.DestinationChange, "target" | "headers">): boolean {
    const before = this.#roster.find(id);
    if (before === null) return false;
    const headers = changedHeaders(before, change);
    return !headers.ok && headers.rejection === "headers_for_another_url";
  }

  /**
   * Waiting deliveries go to the new target with the new headers. A new target starts without failures, and a new email
   * address without a confirmation.
   */
  async update(id: string, wanted: Calls.DestinationChange): Promise<Result<Destination, Calls.DestinationRejection>> {
    const before = this.#roster.find(id);
    if (before === null) return reject("not_found");
    const headers = changedHeaders(before, wanted);
    if (!headers.ok) return headers;
    const change = { ...wanted, headers: headers.value };
    const hasNewTarget = change.target !== undefined && change.target !== before.target;
    const needsCode = hasNewTarget && before.type === "email";
    if (needsCode && !this.#maySendCode(Date.now())) return reject("too_many_codes");
    return this.#changeOne(id, (destination, nowMs) => {
      if (!hasNewTarget) return { ...destination, ...change };
      this.#deliveries.forgetAttempts(id);
      this.#deliveries.dueNow(id, nowMs);
      const confirmation = needsCode ? this.#sendCode(id, nowMs).confirmation : null;
      return { ...destination, ...change, ...NO_FAILURES, confirmation };
    });
  }

  /** Notifications raised during the pause are never sent to it. Waiting deliveries are sent after `resume`. */
  pause(id: string): Promise<Result<Destination, Calls.DestinationRejection>> {
    return this.#changeOne(id, (destination) =>
      destination.state === "active" ? { ...destination, state: "paused" } : destination,
    );
  }

  resume(id: string): Promise<Result<Destination, Calls.DestinationRejection>> {
    return this.#changeOne(id, (destination, nowMs) => {
      if (destination.state === "active") return destination;
      // It may be switched off again before the next alarm.
      this.#report.forget("destination_off");
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

  /**
   * Earlier secrets also sign, for at most `overlapMs` more.
   *
   * @param secretId of the secret to replace. Another secret stays, because a form was sent twice. Undefined: the current one.
   */
  rotateSecret(
    id: string,
    overlapMs: number,
    secretId?: string,
  ): Result<Calls.CreatedDestination, Calls.DestinationRejection> {
    const destination = this.#roster.find(id);
    if (destination === null) return reject("not_found");
    if (destination.secret === null) return reject("destination_without_secret");
    if (secretId !== undefined && secretId !== secretIdOf(destination.secret)) {
      return ok({ destination: this.#shown(destination), secret: null, isNew: false });
    }
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

  /** Sends a test once, without retries, in any state of the destination. An address that has not confirmed gets a new code instead. */
  sendTest(id: string, message: string): Result<Calls.Delivery, Calls.DestinationRejection> {
    const destination = this.#roster.find(id);
    if (destination === null) return reject("not_found");
    if (destination.confirmation !== null) {
      if (!this.#maySendCode(Date.now())) return reject("too_many_codes");
      const sent = this.#run((nowMs) => {
        const { confirmation, deliveryId } = this.#sendCode(id, nowMs);
        this.#roster.put({ ...destination, confirmation });
        return deliveryId;
      });
      return this.#deliveryNow(id, sent);
    }
    const [deliveryId = ""] = this.#run((nowMs) =>
      this.#deliveries.add(newNotification("destination.test", { message }, nowMs), [id], nowMs),
    );
    return this.#deliveryNow(id, deliveryId);
  }

  /** A confirmed address stays so. */
  async confirm(id: string, code: string): Promise<Result<Destination, Calls.DestinationRejection>> {
    const confirmation = this.#roster.find(id)?.confirmation ?? null;
    const isRight = confirmation === null || (confirmation.code === code && isUsable(confirmation, Date.now()));
    const changed = await this.#changeOne(id, (destination, nowMs) => {
      if (isRight) this.#deliveries.dueNow(id, nowMs);
      const triesLeft = Math.max(0, (confirmation?.triesLeft ?? 0) - 1);
      return { ...destination, confirmation: isRight ? null : confirmation && { ...confirmation, triesLeft } };
    });
    return isRight || !changed.ok ? changed : reject("code_wrong");
  }

  #maySendCode(nowMs: number): boolean {
    return this.#codesOfDay(nowMs).length < CODES_A_DAY;
  }

  #codesOfDay(nowMs: number): number[] {
    return this.#settings.codesSentMs.filter((sentMs) => sentMs > nowMs - DAY_MS);
  }

  /** Adds the delivery of a new code, which no page shows: `take` writes it into the mail. */
  #sendCode(id: string, nowMs: number): { confirmation: Confirmation; deliveryId: string } {
    this.#settings.codesSentMs = [...this.#codesOfDay(nowMs), nowMs];
    const notification = newNotification("destination.test", { message: codeText("••••••••") }, nowMs);
    const [deliveryId = ""] = this.#deliveries.add(notification, [id], nowMs);
    return { confirmation: { code: newCode(), endsMs: nowMs + DAY_MS, triesLeft: CODE_TRIES }, deliveryId };
  }

  listDeliveries(destinationId: string, listQuery: ListQuery): ListPage<Calls.Delivery> | null {
    return this.#roster.find(destinationId) && this.#deliveries.list(destinationId, listQuery);
  }

  delivery(destinationId: string, id: string): Calls.DeliveryDetail | null {
    const destination = this.#roster.find(destinationId);
    const delivery = this.#deliveries.find(destinationId, id);
    if (delivery === null || destination === null) return null;
    return {
      delivery: shownDelivery(delivery),
      destination: this.#shown(destination),
      notification: this.#deliveries.notification(delivery),
      pagesUrl: destination.pagesUrl,
    };
  }

  /** Sends the delivery now, with the full retry schedule and under the same id. An attempt in progress is not duplicated. */
  deliverAgain(destinationId: string, id: string): Result<Calls.Delivery, Calls.DestinationRejection> {
    const destination = this.#roster.find(destinationId);
    const delivery = this.#deliveries.find(destinationId, id);
    if (delivery === null || destination === null || this.#deliveries.notification(delivery) === null)
      return reject("not_found");
    const isTest = delivery.lane === LANES.test && destination.confirmation === null;
    if (!isReceiving(destination) && !isTest) return reject("destination_not_active");
    this.#run(() => {
      this.#deliveries.restart(delivery);
      if (destination.notBeforeMs > 0) this.#roster.put({ ...destination, notBeforeMs: 0 });
    });
    return this.#deliveryNow(destinationId, id);
  }

  /** Counts the deliveries that `resendDeliveries` would repeat. */
  failedSince(destinationId: string, sinceMs: number): Calls.ResentDeliveries | null {
    if (this.#roster.find(destinationId) === null) return null;
    const { resent, notResent } = this.#deliveries.failedSince(destinationId, sinceMs);
    return { resent, notResent };
  }

  /**
   * Repeats the deliveries that failed at `sinceMs` or later, with the full retry schedule and under the same ids. A repeated call finds
   * them waiting and changes nothing.
   */
  resendDeliveries(destinationId: string, sinceMs: number): Result<Calls.ResentDeliveries, Calls.DestinationRejection> {
    const destination = this.#roster.find(destinationId);
    if (destination === null) return reject("not_found");
    if (destination.state !== "active") return reject("destination_not_active");
    return this.#run(() => {
      const failed = this.#deliveries.failedSince(destinationId, sinceMs);
      const { resent, notResent } = failed;
      if (resent > 0) this.#deliveries.restartAll(destinationId, failed);
      if (resent > 0 && destination.notBeforeMs > 0) this.#roster.put({ ...destination, notBeforeMs: 0 });
      return ok({ resent, notResent });
    });
  }

  /** Null: the attempt was reported, the delivery has ended, or another consumer took it. */
  take({ destinationId, id, attempt }: Calls.Due): Calls.Parcel | null {
    if (this.ended !== null) return null;
    const nowMs = Date.now();
    const delivery = this.#deliveries.find(destinationId, id);
    const destination = this.#roster.find(destinationId);
    if (delivery === null || destination === null || delivery.dueMs === null || delivery.attempt !== attempt)
      return null;
    if (!isReceiving(destination) && delivery.lane !== LANES.test) return null;
    if (delivery.takenMs !== null && nowMs - delivery.takenMs < TAKEN_MS) return null;
    const stored = this.#deliveries.notification(delivery);
    const notification = stored && withCode(stored, destination.confirmation);
    if (notification === null) {
      this.#run(() => this.#dispatch.cancel(delivery, "person_deleted", nowMs));
      return null;
    }
    this.#deliveries.take(delivery, nowMs);
    this.#dispatch.attemptBegan(delivery, nowMs);
    const { type, target, secret, headers, pagesUrl } = destination;
    const old = this.#roster.oldSecrets(destinationId, nowMs).map((before) => before.secret);
    const secrets = secret === null ? [] : [secret, ...old];
    return { destinationId, type, target, secrets, headers, pagesUrl, notification };
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

  /** Rows for the file of the workspace, without secrets, states and what waits. Headers have no values. */
  exportRows(): TableLine[] {
    return fileRowsOf(this.#sql);
  }

  /** Idempotent. Destinations are paused and have new secrets. @param pagesUrl of the new workspace. */
  importRows(lines: TableLine[], pagesUrl: string): void {
    this.#run(() => {
      for (const { table, row } of lines) {
        if (table !== "destinations") writeRows(this.#sql, [{ table, row }]);
        else this.#roster.put(importedDestination(row, { pagesUrl, secret: newSecret() }));
      }
    });
  }

  /** Tells store and counter what is wanted. */
  async finishImport(): Promise<void> {
    await this.#runAndInform(() => undefined);
  }

  /** Deletes everything. From now on nothing is delivered. Idempotent. */
  end(request: { requestedAtMs: number; actor: string }): Promise<void> {
    this.noteEnd(request);
    return this.deleteEverything();
  }

  /** Idempotent. @param atMs `raise` rejects the person's notifications up to this time. */
  deletePerson(email: string, atMs: number): void {
    if (this.ended !== null) return;
    this.ctx.storage.transactionSync(() => this.#deletedPeople.delete(email, atMs));
  }

  /** Never throws: the platform drops an alarm after six failures. */
  override async alarm(): Promise<void> {
    this.#alarm.reset();
    if (this.ended !== null) return;
    await this.#doDueWork();
    await this.#report.send(() => alarmsOfObject({ failingDestinations: this.failing() }, Date.now()));
  }

  async #doDueWork(): Promise<void> {
    try {
      const beganMs = Date.now();
      const isChoreDue = beganMs >= this.#chore.nextMs();
      if (isChoreDue) this.#chore.postpone();
      // Send due deliveries first, so that they do not wait for the other work.
      this.#run(() => undefined);
      await this.#informSources();
      if (!isChoreDue) return;
      const notices = await this.#chore.keyNotices(this.#workspaceId, beganMs);
      this.#run((nowMs) => this.#addNotifications(this.#chore.finish(notices, beganMs), nowMs));
    } catch (error) {
      if (this.ended !== null) return;
      logEvent("destinations_alarm_failed", { workspace: this.#workspaceId, error: errorText(error) });
      this.#chore.postpone(Date.now() + SAFETY_ALARM_MS);
      this.#alarm.by(Date.now() + SAFETY_ALARM_MS);
    }
  }

  get #workspaceId(): string {
    return this.ctx.id.name ?? "";
  }

  #addNotifications(notifications: readonly Notification[], nowMs: number): void {
    const active = this.#roster.active();
    const dropped = new Map<string, number>();
    for (const notification of notifications) {
      const ids = active
        .filter((destination) => destination.notifications.includes(notification.type))
        .map(({ id }) => id);
      if (ids.length === 0 || !this.#isNew(notification.id)) continue;
      const isStored = this.#deliveries.add(notification, ids, nowMs).length > 0;
      for (const id of ids) dropped.set(id, (dropped.get(id) ?? 0) + Number(!isStored));
    }
    for (const destination of active.filter(({ id }) => dropped.has(id))) {
      const count = (dropped.get(destination.id) ?? 0) + this.#deliveries.giveUpAboveLimits(destination.id, nowMs);
      if (count > 0) this.#roster.put({ ...destination, dropped: destination.dropped + count });
    }
  }

  #isNew(notificationId: string): boolean {
    const insert = "INSERT INTO notifications_seen (id) VALUES (?) ON CONFLICT DO NOTHING RETURNING id";
    return this.#sql.exec(insert, notificationId).toArray().length > 0;
  }

  #shown(destination: StoredDestination): Destination {
    const [last] = this.#roster.oldSecrets(destination.id, Date.now());
    const waiting = this.#deliveries.waiting(destination.id);
    return shownDestination(destination, { waiting, oldSecretEndsAtMs: last?.endsMs ?? null });
  }

  #answered<T>(id: string, answer: (destination: Destination) => T): Result<T, Calls.DestinationRejection> {
    const destination = this.find(id);
    return destination === null ? reject("not_found") : ok(answer(destination));
  }

  #deliveryNow(destinationId: string, id: string): Result<Calls.Delivery, Calls.DestinationRejection> {
    const delivery = this.#deliveries.find(destinationId, id);
    return delivery === null ? reject("not_found") : ok(shownDelivery(delivery));
  }

  async #changeOne(
    id: string,
    change: (destination: StoredDestination, nowMs: number) => StoredDestination,
  ): Promise<Result<Destination, Calls.DestinationRejection>> {
    const destination = this.#roster.find(id);
    if (destination === null) return reject("not_found");
    await this.#runAndInform((nowMs) => this.#roster.put(change(destination, nowMs)));
    return this.#answered(id, (changed) => changed);
  }

  /** Runs a change in one transaction, then sends due deliveries and sets the alarm. */
  #run<T>(change: (nowMs: number) => T): T {
    if (this.ended !== null) throw new Error("the workspace has ended");
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
      this.env.SIGNAL_STORE.getByName(this.#workspaceId).wantNotifications(wanted),
      this.env.QUOTA_COUNTER.getByName(this.#workspaceId).wantNotifications(wanted),
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
      import("../d1/audit.ts"),
      import("../d1/database.ts"),
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

  /** Passes due deliveries to the queue. Deliveries that the queue rejects become due again soon. */
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
      for (const { id } of due) this.#dispatch.queueRejected(id, againMs);
      this.#alarm.by(againMs);
    };
    this.ctx.waitUntil(this.env.DELIVERIES.sendBatch(messages).catch(failed));
  }
}

/** Codes that a workspace may send in 24 hours: so that no address gets many mails, and few codes can be guessed. */
const CODES_A_DAY = 10;
const CODE_TRIES = 5;

function newCode(): string {
  const [number = 0] = crypto.getRandomValues(new Uint32Array(1));
  return String(number % 1e8).padStart(8, "0");
}

function isUsable({ endsMs, triesLeft }: Confirmation, nowMs: number): boolean {
  return nowMs < endsMs && triesLeft > 0;
}

/** Holds no text of a workspace, because anybody may get it. */
function codeText(code: string): string {
  return (
    `The code for notifications is ${code}. Somebody wants to send notifications to this address. If you agree, enter the code ` +
    "on the page below, or give it to an owner or admin of the workspace, within 24 hours. Otherwise ignore this message."
  );
}

/** An address that has not confirmed gets only its code, instead of any notification. */
function withCode(notification: AnyNotification, confirmation: Confirmation | null): AnyNotification {
  if (confirmation === null) return notification;
  return { ...notification, type: "destination.test", data: { message: codeText(confirmation.code) } };
}

/** The Standard Webhooks specification allows 24 to 64 bytes. */
const SECRET_BYTES = 32;

function newSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(SECRET_BYTES));
  return `whsec_${btoa(String.fromCharCode(...bytes))}`;
}
