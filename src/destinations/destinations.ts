/**
 * Destinations: one Durable Object per workspace. It holds who is told what of the workspace, the events that wait to be
 * delivered, and what became of each delivery. It delivers nothing itself: the queue's consumer does, outside of any object.
 *
 * Why this is correct on the platform: an event, its deliveries and what a report changes are each written in one
 * transaction, and no call resolves before its writes are durable. The queue only transports: a delivery that was handed to
 * it stays due, a lease later, until its attempt has been reported, so a message that is lost, or a consumer that dies,
 * delays. All attempts carry the event's id, so one that was made and not reported repeats an event and never invents one.
 */
import type { AttemptResult } from "../domain/events/attempts.ts";
import type { Destination } from "../domain/events/destination.ts";
import type { WorkspaceEvent } from "../domain/events/workspace-event.ts";
import type { FailingDestination } from "../domain/health/alarm.ts";
import { ok, refuse, type Result } from "../domain/result.ts";
import { configuredLeaseMs } from "../env.ts";
import { DESTINATIONS_MAX, SAFETY_ALARM_MS } from "../limits.ts";
import type { Page, PageOf } from "../platform/list-page.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { RestorableObject } from "../platform/restorable-object.ts";
import { Changes } from "./changes.ts";
import { Courier } from "./courier.ts";
import type * as Calls from "./destination-calls.ts";
import { EventFlow } from "./event-flow.ts";
import { failingDestination, type StoredDestination } from "./roster.ts";
import { isWanted } from "./scored-events.ts";
import { KINDS } from "./stored-delivery.ts";
import { StoredParts } from "./stored-parts.ts";
import { Upkeep } from "./upkeep.ts";

export class Destinations extends RestorableObject {
  readonly #stored: StoredParts;
  readonly #flow: EventFlow;
  readonly #courier: Courier;
  readonly #upkeep: Upkeep;
  readonly #changes: Changes;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const stored = new StoredParts(ctx.storage.sql);
    this.#stored = stored;
    this.#flow = new EventFlow(stored);
    this.#courier = new Courier(stored, configuredLeaseMs(env));
    this.#upkeep = new Upkeep(env, stored);
    this.#changes = new Changes(ctx, env, { stored, flow: this.#flow, courier: this.#courier, upkeep: this.#upkeep });
  }

  /** Takes over what has happened: durable when it resolves. An event that was raised before is ignored. */
  raise(events: WorkspaceEvent[]): void {
    this.#changes.run((nowMs) => this.#flow.raise(this.#stored.deletion.withoutDeleted(events), nowMs));
  }

  // --- Who is told what ---

  /** All destinations, the oldest first. */
  list(): Destination[] {
    return this.#stored.roster.all().map((one) => this.#shown(one));
  }

  /** Those that fail, or that the service has switched off, the oldest first. */
  failing(): FailingDestination[] {
    return this.#stored.roster.all().flatMap(failingDestination);
  }

  find(id: string): Destination | null {
    const one = this.#stored.roster.find(id);
    return one && this.#shown(one);
  }

  /** Creates a destination. Called again with the same id it changes nothing, and shows no secret. */
  async create(destination: Calls.NewDestination): Promise<Result<Calls.CreatedDestination, Calls.DestinationRefusal>> {
    const before = this.find(destination.id);
    if (before !== null) return ok({ destination: before, secret: null, isNew: false });
    if (this.#stored.roster.all().length >= DESTINATIONS_MAX) return refuse("too_many");
    const secret = destination.type === "webhook" ? newSecret() : null;
    const { roster, scored } = this.#stored;
    await this.#changes.runAndTell((nowMs) => roster.add(destination, secret, scored.lastSeq, nowMs));
    return this.#answered(destination.id, (created) => ({ destination: created, secret, isNew: true }));
  }

  /** Changes a destination; deliveries that wait for it go to its new target. */
  update(id: string, change: Calls.DestinationChange): Promise<Result<Destination, Calls.DestinationRefusal>> {
    return this.#changeOne(id, (one) => {
      const changed = { ...one, ...change };
      return isWanted(changed) && !isWanted(one) ? { ...changed, gatheredTo: this.#stored.scored.lastSeq } : changed;
    });
  }

  /** Pauses a destination. Events of the time until it is resumed are not told it; deliveries that wait already go then. */
  pause(id: string): Promise<Result<Destination, Calls.DestinationRefusal>> {
    return this.#changeOne(id, (one, nowMs) =>
      one.state === "active" ? { ...this.#flow.gatherAll(one, nowMs), state: "paused" } : one,
    );
  }

  /** Resumes a destination that is paused, or that the service has switched off. */
  resume(id: string): Promise<Result<Destination, Calls.DestinationRefusal>> {
    return this.#changeOne(id, (one) => {
      if (one.state === "active") return one;
      return { ...one, state: "active", disabledReason: null, failing: null, gatheredTo: this.#stored.scored.lastSeq };
    });
  }

  /** Removes a destination with all its deliveries. Null: it was not there. */
  async remove(id: string): Promise<Destination | null> {
    const before = this.find(id);
    if (before === null) return null;
    await this.#changes.runAndTell(() => this.#stored.removeDestination(id));
    return before;
  }

  /** Makes a new secret for a webhook. The old one, and what signs beside it, sign too for another `overlapMs` at most. */
  rotateSecret(id: string, overlapMs: number): Result<Calls.CreatedDestination, Calls.DestinationRefusal> {
    const one = this.#stored.roster.find(id);
    if (one === null) return refuse("not_found");
    if (one.secret === null) return refuse("not_a_webhook");
    const secret = newSecret();
    const [before, nowMs] = [one.secret, Date.now()];
    this.ctx.storage.transactionSync(() => {
      this.#stored.oldSecrets.add(id, before, nowMs + overlapMs, nowMs);
      this.#stored.roster.put({ ...one, secret });
    });
    return this.#answered(id, (destination) => ({ destination, secret, isNew: true }));
  }

  thresholds(): number[] {
    return this.#stored.settings.thresholds;
  }

  /** Sets the scores whose crossing is told. @param thresholds ascending, at most THRESHOLDS_MAX. */
  async setThresholds(thresholds: number[]): Promise<void> {
    await this.#changes.runAndTell(() => {
      this.#stored.settings.thresholds = thresholds;
    });
  }

  /** Tells the sources once more what is wanted: they may have forgotten it. */
  async tellSources(): Promise<void> {
    await this.#changes.runAndTell(() => undefined);
  }

  // --- Deliveries ---

  /** Sends a test at once and once, whatever state the destination is in. */
  sendTest(id: string, message: string): Result<Calls.Delivery, Calls.DestinationRefusal> {
    if (this.#stored.roster.find(id) === null) return refuse("not_found");
    const deliveryId = this.#changes.run((nowMs) => this.#flow.test(id, message, nowMs));
    return this.#deliveryNow(deliveryId);
  }

  /** A destination's deliveries, the latest first. Null: no such destination. */
  listDeliveries(destinationId: string, page: Page): PageOf<Calls.Delivery> | null {
    return this.#stored.roster.find(destinationId) && this.#stored.deliveries.list(destinationId, page);
  }

  delivery(destinationId: string, id: string): Calls.DeliveryDetail | null {
    const destination = this.#stored.roster.find(destinationId);
    const one = this.#stored.deliveries.find(id);
    if (one === null || destination === null || one.destinationId !== destinationId) return null;
    return {
      delivery: this.#stored.deliveries.shown(one),
      destination: this.#shown(destination),
      event: this.#stored.deliveries.event(one.message),
      pagesUrl: destination.pagesUrl,
    };
  }

  /**
   * Delivers once more, at once, and by the whole schedule if need be; the receiver knows the event by its id. A delivery
   * that waits does not wait longer.
   */
  deliverAgain(destinationId: string, id: string): Result<Calls.Delivery, Calls.DestinationRefusal> {
    const detail = this.delivery(destinationId, id);
    const one = this.#stored.deliveries.find(id);
    if (one === null || detail === null || detail.event === null) return refuse("not_found");
    if (detail.destination.state !== "active" && one.kind !== KINDS.test) return refuse("not_active");
    this.#changes.run((nowMs) => this.#stored.deliveries.startOver(one, nowMs));
    return this.#deliveryNow(id);
  }

  /** What the consumer is to send. Null: nothing, for the delivery was reported, ended or taken by another meanwhile. */
  take(id: string, attempt: number): Calls.Parcel | null {
    return this.#courier.takeParcel(id, attempt, Date.now());
  }

  /** Takes in how the attempt that was taken ended. A report that is repeated changes nothing. */
  async report(id: string, attempt: number, result: AttemptResult): Promise<void> {
    this.#courier.ended(id);
    const one = this.#stored.deliveries.find(id);
    if (one === null || one.dueMs === null || one.attempt !== attempt) return;
    this.#changes.run((nowMs) => this.#flow.judge(one, result, nowMs));
    if (this.#stored.settings.untold !== null) await this.#changes.tell();
  }

  /**
   * Deletes a person's data from what waits to be delivered and from what is kept. Repeating it is harmless.
   *
   * @param atMs events of the person up to this time are refused.
   */
  deletePerson(email: string, atMs: number): void {
    this.ctx.storage.transactionSync(() => this.#stored.deletion.deletePerson(email, atMs));
  }

  /** Does what is due. Never throws: an alarm that throws six times is gone. */
  override async alarm(): Promise<void> {
    this.#changes.alarm.rang();
    try {
      const beganMs = Date.now();
      const isLookDue = this.#upkeep.beginLook(beganMs);
      // Deliveries that are due go first: they wait for none of the other work.
      this.#changes.run(() => undefined);
      await this.#changes.tell();
      if (!isLookDue) return;
      const notices = await this.#upkeep.look(this.#workspaceId, beganMs);
      this.#changes.run((nowMs) => {
        this.#flow.raise(this.#upkeep.looked(notices, beganMs), nowMs);
        this.#stored.deletion.clearAway(nowMs);
      });
    } catch (error) {
      logEvent("destinations_alarm_failed", { workspace: this.#workspaceId, error: errorText(error) });
      this.#upkeep.putOff(Date.now() + SAFETY_ALARM_MS);
      this.#changes.alarm.by(Date.now() + SAFETY_ALARM_MS);
    }
  }

  get #workspaceId(): string {
    return this.ctx.id.name ?? "";
  }

  #shown(one: StoredDestination): Destination {
    return this.#stored.shown(one, Date.now());
  }

  #answered<T>(id: string, answer: (destination: Destination) => T): Result<T, Calls.DestinationRefusal> {
    const one = this.find(id);
    return one === null ? refuse("not_found") : ok(answer(one));
  }

  #deliveryNow(id: string): Result<Calls.Delivery, Calls.DestinationRefusal> {
    const one = this.#stored.deliveries.find(id);
    return one === null ? refuse("not_found") : ok(this.#stored.deliveries.shown(one));
  }

  async #changeOne(
    id: string,
    change: (one: StoredDestination, nowMs: number) => StoredDestination,
  ): Promise<Result<Destination, Calls.DestinationRefusal>> {
    const one = this.#stored.roster.find(id);
    if (one === null) return refuse("not_found");
    await this.#changes.runAndTell((nowMs) => this.#stored.roster.put(change(one, nowMs)));
    return this.#answered(id, (changed) => changed);
  }
}

// The secret that a webhook's deliveries are signed with, in the form of the Standard Webhooks specification.

/** The specification allows 24 to 64 bytes. */
const SECRET_BYTES = 32;

function newSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(SECRET_BYTES));
  return `whsec_${btoa(String.fromCharCode(...bytes))}`;
}
