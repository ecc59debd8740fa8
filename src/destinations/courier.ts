/**
 * Hands what is due to the queue, and to its consumer what to send. Which deliveries are under way is known in memory only:
 * after a restart a few more may be.
 */
import { FULL_BUCKET, takeRequest } from "../domain/quota/request-rate.ts";
import { DELIVERY_TIMEOUT_MS, GATHER_EVERY_MS } from "../limits.ts";
import type { Deliveries } from "./deliveries.ts";
import type { Parcel } from "./destination-calls.ts";
import type { OldSecrets } from "./old-secrets.ts";
import type { Roster, StoredDestination } from "./roster.ts";
import { KINDS, type Kind } from "./stored-delivery.ts";

/** Deliveries of a workspace that begin in a second, and at once: beside a receiver that is slow, others still get theirs. */
const DELIVERY_RATE = { perSecond: 20, burst: 40 } as const;
/** Deliveries that are under way to one destination: one that hangs takes no more of the rate than this. */
export const DELIVERIES_UNDER_WAY = 5;

/** A consumer that has not reported after so long does so no more; most likely it has died. */
const TAKEN_MS = DELIVERY_TIMEOUT_MS + 5_000;

interface UnderWay {
  destinationId: string;
  untilMs: number;
  takenMs: number;
}

export class Courier {
  readonly #roster: Roster;
  readonly #oldSecrets: OldSecrets;
  readonly #deliveries: Deliveries;
  readonly #leaseMs: number;
  readonly #underWay = new Map<string, UnderWay>();
  /** When gathered events were last sent, by destination. */
  readonly #gatheredMs = new Map<string, number>();
  #bucket = FULL_BUCKET;
  /** The destination whose turn comes first. It moves on, so that none is always last when the rate is used up. */
  #turn = 0;

  constructor(
    { roster, oldSecrets, deliveries }: { roster: Roster; oldSecrets: OldSecrets; deliveries: Deliveries },
    leaseMs: number,
  ) {
    this.#roster = roster;
    this.#oldSecrets = oldSecrets;
    this.#deliveries = deliveries;
    this.#leaseMs = leaseMs;
  }

  /**
   * Takes the deliveries that may go now. Each is due again when its lease is over, unless its attempt has been reported by
   * then.
   */
  takeDue(nowMs: number): { id: string; attempt: number }[] {
    for (const [id, { untilMs }] of this.#underWay) if (untilMs <= nowMs) this.#underWay.delete(id);
    const all = this.#roster.all();
    const taken: { id: string; attempt: number }[] = [];
    const first = this.#turn++ % Math.max(1, all.length);
    for (const destination of [...all.slice(first), ...all.slice(0, first)]) {
      for (const kind of kindsOf(destination)) {
        for (const one of this.#deliveries.due(destination.id, kind, nowMs, this.#room(destination.id, kind, nowMs))) {
          const decision = takeRequest(this.#bucket, nowMs, DELIVERY_RATE);
          if (!decision.allowed) return taken;
          this.#bucket = decision.bucket;
          const untilMs = nowMs + this.#leaseMs;
          this.#deliveries.dueAt(one.id, untilMs);
          this.#underWay.set(one.id, { destinationId: destination.id, untilMs, takenMs: 0 });
          if (kind === KINDS.gathered) this.#gatheredMs.set(destination.id, nowMs);
          taken.push(one);
        }
      }
    }
    return taken;
  }

  /** When there will be something to take, in milliseconds since 1970; infinity: never, as things stand. */
  nextMs(nowMs: number): number {
    const { allowed, retryAfterMs } = takeRequest(this.#bucket, nowMs, DELIVERY_RATE);
    const rateMs = allowed ? 0 : nowMs + Math.ceil(retryAfterMs);
    const dues = this.#roster.all().flatMap((destination) =>
      kindsOf(destination).map((kind) => {
        const dueMs = this.#deliveries.nextDueMs(destination.id, kind);
        if (dueMs === Number.POSITIVE_INFINITY || this.#room(destination.id, kind, Math.max(nowMs, dueMs)) > 0)
          return dueMs;
        return kind === KINDS.gathered && this.#free(destination.id) > 0
          ? Math.max(dueMs, this.#gatheredAgainMs(destination.id))
          : Math.max(dueMs, this.#firstLeaseMs(destination.id));
      }),
    );
    return Math.max(rateMs, Math.min(...dues, Number.POSITIVE_INFINITY));
  }

  /** Takes back a delivery that the queue has refused; it is due again at `againMs`. */
  failed(id: string, againMs: number): void {
    this.#underWay.delete(id);
    this.#deliveries.dueAt(id, againMs);
  }

  /** What the consumer is to send. Null: nothing, for the delivery was reported, ended or taken by another meanwhile. */
  takeParcel(id: string, attempt: number, nowMs: number): Parcel | null {
    const one = this.#deliveries.find(id);
    const destination = one && this.#roster.find(one.destinationId);
    if (one === null || destination === null || one.dueMs === null || one.attempt !== attempt) return null;
    if (destination.state !== "active" && one.kind !== KINDS.test) return null;
    const event = this.#deliveries.event(one.message);
    if (event === null) this.#deliveries.end(one, "failed", "erased");
    if (event === null || !this.#begin(id, destination.id, nowMs)) return null;
    const { type, target, secret, pagesUrl } = destination;
    const old = this.#oldSecrets.of(destination.id, nowMs).map((before) => before.secret);
    const secrets = secret === null ? [] : [secret, ...old];
    return { destinationId: destination.id, type, target, secrets, pagesUrl, event };
  }

  ended(id: string): void {
    this.#underWay.delete(id);
  }

  /** Whether this consumer may make the attempt. False: another has it already, for a queue may deliver twice. */
  #begin(id: string, destinationId: string, nowMs: number): boolean {
    const known = this.#underWay.get(id);
    if (known !== undefined && nowMs - known.takenMs < TAKEN_MS) return false;
    const untilMs = known?.untilMs ?? nowMs + TAKEN_MS;
    this.#underWay.set(id, { destinationId, untilMs, takenMs: nowMs });
    return true;
  }

  #room(destinationId: string, kind: Kind, nowMs: number): number {
    const free = this.#free(destinationId);
    if (kind !== KINDS.gathered) return free;
    return nowMs >= this.#gatheredAgainMs(destinationId) ? Math.min(1, free) : 0;
  }

  #free(destinationId: string): number {
    let free: number = DELIVERIES_UNDER_WAY;
    for (const one of this.#underWay.values()) if (one.destinationId === destinationId) free--;
    return Math.max(0, free);
  }

  #gatheredAgainMs(destinationId: string): number {
    return (this.#gatheredMs.get(destinationId) ?? 0) + GATHER_EVERY_MS;
  }

  #firstLeaseMs(destinationId: string): number {
    const leases = [...this.#underWay.values()].filter((one) => one.destinationId === destinationId);
    return Math.min(...leases.map(({ untilMs }) => untilMs));
  }
}

/** The kinds that a destination is sent: a test whatever its state, so that it can be tried at any time. */
function kindsOf({ state }: StoredDestination): Kind[] {
  return state === "active" ? [KINDS.test, KINDS.event, KINDS.gathered] : [KINDS.test];
}
