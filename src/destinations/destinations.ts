/**
 * Destinations: one Durable Object per workspace. It holds who is told what of the workspace, the events that wait to be
 * delivered, and what became of each delivery. It delivers nothing itself: the queue's consumer does, outside of any object.
 *
 * Why this is correct on the platform: an event, its deliveries and what a report changes are each written in one
 * transaction, and no call resolves before its writes are durable. The queue only transports: a delivery that was handed to
 * it stays due, a lease later, until its attempt has been reported, so a message that is lost, or a consumer that dies,
 * delays. All attempts carry the event's id, so one that was made and not reported repeats an event and never invents one.
 */
import { DurableObject } from "cloudflare:workers";
import type { AttemptResult } from "../domain/events/attempts.ts";
import type { Destination } from "../domain/events/destination.ts";
import type { WorkspaceEvent } from "../domain/events/workspace-event.ts";
import { ok, refuse, type Result } from "../domain/result.ts";
import { configuredLeaseMs } from "../env.ts";
import { DESTINATIONS_MAX, RETRY_MIN_SECONDS, SAFETY_ALARM_MS } from "../limits.ts";
import { Alarm } from "../platform/alarm.ts";
import type { Page, PageOf } from "../platform/list-page.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { Courier } from "./courier.ts";
import { Deliveries, KINDS } from "./deliveries.ts";
import { Erasure } from "./erasure.ts";
import { EventFlow } from "./event-flow.ts";
import type {
  CreatedDestination,
  Delivery,
  DeliveryDetail,
  DestinationChange,
  DestinationRefusal,
  DueDelivery,
  NewDestination,
  Parcel,
} from "./protocol.ts";
import { Roster, shown, type StoredDestination } from "./roster.ts";
import { createTables } from "./schema.ts";
import { isWanted, ScoredEvents } from "./scored.ts";
import { newSecret } from "./secret.ts";
import { Settings } from "./settings.ts";
import { Upkeep } from "./upkeep.ts";

export class Destinations extends DurableObject<Env> {
  readonly #roster: Roster;
  readonly #deliveries: Deliveries;
  readonly #scored: ScoredEvents;
  readonly #settings: Settings;
  readonly #erasure: Erasure;
  readonly #flow: EventFlow;
  readonly #courier: Courier;
  readonly #upkeep: Upkeep;
  readonly #alarm: Alarm;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { sql } = ctx.storage;
    createTables(sql);
    this.#roster = new Roster(sql);
    this.#deliveries = new Deliveries(sql);
    this.#scored = new ScoredEvents(sql);
    this.#settings = new Settings(sql);
    this.#erasure = new Erasure(sql);
    const stored = {
      sql,
      roster: this.#roster,
      deliveries: this.#deliveries,
      scored: this.#scored,
      settings: this.#settings,
    };
    this.#flow = new EventFlow(stored);
    this.#courier = new Courier(this.#roster, this.#deliveries, configuredLeaseMs(env));
    this.#upkeep = new Upkeep(env, stored);
    this.#alarm = new Alarm(ctx);
  }

  /** Takes over what has happened: durable when it resolves. An event that was raised before is ignored. */
  raise(events: WorkspaceEvent[]): void {
    this.#change((nowMs) => this.#flow.raise(this.#erasure.withoutErased(events), nowMs));
  }

  // --- Who is told what ---

  /** All destinations, the oldest first. */
  list(): Destination[] {
    return this.#roster.all().map((one) => this.#shown(one));
  }

  find(id: string): Destination | null {
    const one = this.#roster.find(id);
    return one && this.#shown(one);
  }

  /** Creates a destination. Called again with the same id it changes nothing, and shows no secret. */
  async create(destination: NewDestination): Promise<Result<CreatedDestination, DestinationRefusal>> {
    const before = this.find(destination.id);
    if (before !== null) return ok({ destination: before, secret: null, isNew: false });
    if (this.#roster.all().length >= DESTINATIONS_MAX) return refuse("too_many");
    const secret = destination.type === "webhook" ? newSecret() : null;
    this.#change((nowMs) => this.#roster.add(destination, secret, this.#scored.lastSeq, nowMs), true);
    await this.#tell();
    return this.#answered(destination.id, (created) => ({ destination: created, secret, isNew: true }));
  }

  /** Changes a destination; deliveries that wait for it go to its new target. */
  update(id: string, change: DestinationChange): Promise<Result<Destination, DestinationRefusal>> {
    return this.#changeOne(id, (one) => {
      const changed = { ...one, ...change };
      return isWanted(changed) && !isWanted(one) ? { ...changed, gatheredTo: this.#scored.lastSeq } : changed;
    });
  }

  /** Pauses a destination. Events of the time until it is resumed are not told it; deliveries that wait already go then. */
  pause(id: string): Promise<Result<Destination, DestinationRefusal>> {
    return this.#changeOne(id, (one, nowMs) =>
      one.state === "active" ? { ...this.#flow.gatherAll(one, nowMs), state: "paused" } : one,
    );
  }

  /** Resumes a destination that is paused, or that the service has switched off. */
  resume(id: string): Promise<Result<Destination, DestinationRefusal>> {
    return this.#changeOne(id, (one) => {
      if (one.state === "active") return one;
      return { ...one, state: "active", disabledReason: null, failing: null, gatheredTo: this.#scored.lastSeq };
    });
  }

  /** Removes a destination with all its deliveries. Null: it was not there. */
  async remove(id: string): Promise<Destination | null> {
    const before = this.find(id);
    if (before === null) return null;
    this.#change(() => {
      this.#roster.remove(id);
      this.#deliveries.remove(id);
    }, true);
    await this.#tell();
    return before;
  }

  /** Makes a new secret for a webhook. The old one signs too for another `overlapMs`. */
  rotateSecret(id: string, overlapMs: number): Result<CreatedDestination, DestinationRefusal> {
    const one = this.#roster.find(id);
    if (one === null) return refuse("not_found");
    if (one.secret === null) return refuse("not_a_webhook");
    const secret = newSecret();
    const oldSecret = overlapMs === 0 ? null : { secret: one.secret, endsMs: Date.now() + overlapMs };
    this.#roster.put({ ...one, secret, oldSecret });
    return this.#answered(id, (destination) => ({ destination, secret, isNew: true }));
  }

  thresholds(): number[] {
    return this.#settings.thresholds;
  }

  /** Sets the scores whose crossing is told. @param thresholds ascending, at most THRESHOLDS_MAX. */
  async setThresholds(thresholds: number[]): Promise<void> {
    this.#change(() => {
      this.#settings.thresholds = thresholds;
    }, true);
    await this.#tell();
  }

  /** Tells the sources once more what is wanted: they may have forgotten it. */
  async tellSources(): Promise<void> {
    this.#change(() => undefined, true);
    await this.#tell();
  }

  // --- Deliveries ---

  /** Sends a test at once and once, whatever state the destination is in. */
  sendTest(id: string, message: string): Result<Delivery, DestinationRefusal> {
    if (this.#roster.find(id) === null) return refuse("not_found");
    const deliveryId = this.#change((nowMs) => this.#flow.test(id, message, nowMs));
    return this.#deliveryNow(deliveryId);
  }

  /** A destination's deliveries, the latest first. Null: no such destination. */
  listDeliveries(destinationId: string, page: Page): PageOf<Delivery> | null {
    return this.#roster.find(destinationId) && this.#deliveries.list(destinationId, page);
  }

  delivery(destinationId: string, id: string): DeliveryDetail | null {
    const destination = this.#roster.find(destinationId);
    const one = this.#deliveries.find(id);
    if (one === null || destination === null || one.destinationId !== destinationId) return null;
    return {
      delivery: this.#deliveries.shown(one),
      destination: this.#shown(destination),
      event: this.#deliveries.event(one.message),
      pagesUrl: destination.pagesUrl,
    };
  }

  /**
   * Delivers once more, at once, and by the whole schedule if need be; the receiver knows the event by its id. A delivery
   * that waits does not wait longer.
   */
  deliverAgain(destinationId: string, id: string): Result<Delivery, DestinationRefusal> {
    const detail = this.delivery(destinationId, id);
    const one = this.#deliveries.find(id);
    if (one === null || detail === null || detail.event === null) return refuse("not_found");
    if (detail.destination.state !== "active" && one.kind !== KINDS.test) return refuse("not_active");
    this.#change((nowMs) => this.#deliveries.startOver(one, nowMs));
    return this.#deliveryNow(id);
  }

  /** What the consumer is to send. Null: nothing, for the delivery was reported, ended or taken by another meanwhile. */
  take(id: string, attempt: number): Parcel | null {
    const one = this.#deliveries.find(id);
    const destination = one && this.#roster.find(one.destinationId);
    if (one === null || destination === null || one.dueMs === null || one.attempt !== attempt) return null;
    if (destination.state !== "active" && one.kind !== KINDS.test) return null;
    const event = this.#deliveries.event(one.message);
    const nowMs = Date.now();
    if (event === null) this.#deliveries.end(one, "failed", "erased");
    if (event === null || !this.#courier.begin(id, destination.id, nowMs)) return null;
    const { type, target, secret, oldSecret, pagesUrl } = destination;
    const old = oldSecret !== null && oldSecret.endsMs > nowMs ? oldSecret.secret : null;
    const secrets = [secret, old].filter((known) => known !== null);
    return { destinationId: destination.id, type, target, secrets, pagesUrl, event };
  }

  /** Takes in how the attempt that was taken ended. A report that is repeated changes nothing. */
  async report(id: string, attempt: number, result: AttemptResult): Promise<void> {
    this.#courier.ended(id);
    const one = this.#deliveries.find(id);
    if (one === null || one.dueMs === null || one.attempt !== attempt) return;
    this.#change((nowMs) => this.#flow.judge(one, result, nowMs));
    if (this.#settings.untold !== null) await this.#tell();
  }

  /** Deletes a person's data from what waits to be delivered and from what is kept. Repeating it is harmless. */
  erase(email: string): void {
    this.ctx.storage.transactionSync(() => this.#erasure.erase(email, Date.now()));
  }

  /** Does what is due. Never throws: an alarm that throws six times is gone. */
  override async alarm(): Promise<void> {
    this.#alarm.rang();
    try {
      // Deliveries that are due go first: they wait for none of the other work.
      this.#change(() => undefined);
      await this.#tell();
      const notices = await this.#upkeep.look(this.#workspaceId, Date.now());
      if (notices === null) return;
      this.#change((nowMs) => {
        this.#flow.raise(this.#upkeep.looked(notices, nowMs), nowMs);
        this.#erasure.clearAway(nowMs);
      });
    } catch (error) {
      logEvent("destinations_alarm_failed", { workspace: this.#workspaceId, error: errorText(error) });
      this.#upkeep.putOff(Date.now() + SAFETY_ALARM_MS);
      this.#alarm.by(Date.now() + SAFETY_ALARM_MS);
    }
  }

  get #workspaceId(): string {
    return this.ctx.id.name ?? "";
  }

  #shown(one: StoredDestination): Destination {
    return shown(one, this.#deliveries.waiting(one.id), Date.now());
  }

  #answered<T>(id: string, answer: (destination: Destination) => T): Result<T, DestinationRefusal> {
    const one = this.find(id);
    return one === null ? refuse("not_found") : ok(answer(one));
  }

  #deliveryNow(id: string): Result<Delivery, DestinationRefusal> {
    const one = this.#deliveries.find(id);
    return one === null ? refuse("not_found") : ok(this.#deliveries.shown(one));
  }

  async #changeOne(
    id: string,
    change: (one: StoredDestination, nowMs: number) => StoredDestination,
  ): Promise<Result<Destination, DestinationRefusal>> {
    const one = this.#roster.find(id);
    if (one === null) return refuse("not_found");
    this.#change((nowMs) => this.#roster.put(change(one, nowMs)), true);
    await this.#tell();
    return this.#answered(id, (changed) => changed);
  }

  /** Runs a change in one transaction, all or nothing; then what is due goes on its way. */
  #change<T>(change: (nowMs: number) => T, mayChangeWanted = false): T {
    const nowMs = Date.now();
    try {
      return this.ctx.storage.transactionSync(() => {
        if (mayChangeWanted) this.#settings.changed();
        const changed = change(nowMs);
        this.#flow.gather(nowMs);
        return changed;
      });
    } catch (error) {
      this.#deliveries.rolledBack();
      this.#scored.rolledBack();
      throw error;
    } finally {
      this.#send(nowMs);
    }
  }

  /** Hands deliveries that are due to the queue; those that it refuses are due again soon. */
  #send(nowMs: number): void {
    const due = this.#courier.take(nowMs);
    this.#alarm.by(Math.min(this.#courier.nextMs(nowMs), this.#flow.nextMs(), this.#upkeep.nextMs()));
    // The alarm is set in case the object is killed before the sources have been told of a change.
    if (this.#settings.untold !== null) this.#alarm.by(nowMs + SAFETY_ALARM_MS);
    if (due.length === 0) return;
    const workspaceId = this.#workspaceId;
    const messages = due.map(({ id, attempt }) => ({
      body: JSON.stringify({ workspaceId, deliveryId: id, attempt } satisfies DueDelivery),
    }));
    const failed = (error: unknown) => {
      logEvent("deliveries_not_sent", { workspace: workspaceId, deliveries: due.length, error: errorText(error) });
      const againMs = Date.now() + RETRY_MIN_SECONDS * 1_000;
      for (const { id } of due) this.#courier.failed(id, againMs);
      this.#alarm.by(againMs);
    };
    this.ctx.waitUntil(this.env.DELIVERIES.sendBatch(messages).catch(failed));
  }

  /** Tells whoever must know of a change. Never throws: what cannot be told now is told by the alarm. */
  async #tell(): Promise<void> {
    try {
      await this.#upkeep.tell(this.#workspaceId);
    } catch (error) {
      logEvent("wanted_not_told", { workspace: this.#workspaceId, error: errorText(error) });
      this.#alarm.by(Date.now() + SAFETY_ALARM_MS);
    }
  }
}
