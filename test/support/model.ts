/**
 * A plain model of a workspace, as the specification says it and not as the service does it: one list of signals, no rows,
 * no segments, no messages. It predicts every answer and every count.
 */

export interface Plan {
  signalLimit: number;
  paid: boolean;
  overages: boolean;
}

/** What a sender says. Each person has one email and one anonymous id, their number. */
export interface Said {
  kind: "signal" | "identify";
  person: number;
  /** By email, by anonymous id, or by both; an identify names both. */
  names: "email" | "anonymous" | "both";
  event: string;
}

/** `accepted` is on its way, or has taken its effect; `deleted` has, and belongs to a person who was deleted since. */
type Place = "accepted" | "held" | "purged" | "deleted";

interface ModelSignal extends Said {
  id: string;
  period: number;
  place: Place;
}

export interface ModelPeriod {
  accepted: number;
  held: number;
  rejected: number;
  overage: number;
  streak: number;
}

export type ModelAnswer = { accepted: number; held: number; rejected: number; code: string | null } | "key_deactivated";

/** The first billing period begins here, and each with a month. */
export const MODEL_ANCHOR = Date.UTC(2026, 0, 1);

export function startOfPeriod(period: number): number {
  return Date.UTC(2026, period, 1);
}

export class Model {
  plan: Plan = { signalLimit: 5, paid: true, overages: false };
  readonly points = new Map([
    ["opened", 1],
    ["clicked", 10],
  ]);
  readonly revoked = new Set<string>();
  readonly signals: ModelSignal[] = [];
  readonly closed: (ModelPeriod & { signalLimit: number; overages: boolean })[] = [];
  extraRoomRemoved = false;
  streak = 0;
  /** Months since the anchor. */
  period = 0;
  current = { accepted: 0, held: 0, rejected: 0, overage: 0 };

  /** Spec §8, signal by signal. */
  admit(key: string, ids: readonly string[], said: readonly Said[]): ModelAnswer {
    if (this.revoked.has(key)) return "key_deactivated";
    const answer = { accepted: 0, held: 0, rejected: 0, code: null as string | null };
    said.forEach((one, index) => {
      const verdict = this.#verdict();
      const id = ids[index] ?? "";
      if (verdict === "accepted" || verdict === "held") {
        answer[verdict]++;
        this.current[verdict]++;
        this.signals.push({ ...one, id, period: this.period, place: verdict });
        const ordinal = this.current.accepted + this.current.held;
        if (verdict === "accepted" && ordinal > this.plan.signalLimit) this.current.overage++;
      } else {
        answer.rejected++;
        this.current.rejected++;
        answer.code = verdict;
      }
    });
    return answer;
  }

  #verdict(): string {
    const n = this.current.accepted + this.current.held + 1;
    if (this.plan.overages || n <= this.plan.signalLimit) return "accepted";
    if (this.extraRoomRemoved) return "allowance_exceeded";
    return n <= 2 * this.plan.signalLimit ? "held" : "extra_room_exceeded";
  }

  /** §8.5: three paid periods in a row beyond the allowance, with overages off, end the extra room. */
  endPeriod(): void {
    const { paid, overages, signalLimit } = this.plan;
    const beyond = this.current.accepted + this.current.held > signalLimit;
    this.streak = beyond && paid && !overages ? this.streak + 1 : 0;
    if (this.streak === 3) this.extraRoomRemoved = true;
    this.closed.unshift({ ...this.current, streak: this.streak, signalLimit, overages });
    this.current = { accepted: 0, held: 0, rejected: 0, overage: 0 };
    this.period++;
    for (const signal of this.signals) if (signal.place === "held") signal.place = "purged";
  }

  /** The oldest held signals that now fit are accepted. */
  release(): { released: number; still_held: number } {
    const held = this.signals.filter(({ place }) => place === "held");
    let released = 0;
    for (const signal of held) {
      if (!this.plan.overages && this.current.accepted >= this.plan.signalLimit) break;
      signal.place = "accepted";
      this.current.held--;
      this.current.accepted++;
      if (this.plan.overages && this.current.accepted > this.plan.signalLimit + this.current.overage) {
        this.current.overage++;
      }
      released++;
    }
    return { released, still_held: held.length - released };
  }

  /** Deletes a person with all that is theirs: what was accepted is deleted, what is held is purged. */
  deletePerson(person: number): void {
    const isLinked = this.isLinked(person);
    for (const signal of this.signals) {
      if (signal.person !== person) continue;
      if (!isLinked && signal.names === "anonymous" && signal.kind === "signal") continue;
      if (signal.place === "accepted") signal.place = "deleted";
      if (signal.place === "held") signal.place = "purged";
    }
  }

  /** Whether the anonymous id is known to be the person's. */
  isLinked(person: number): boolean {
    return this.signals.some((one) => one.kind === "identify" && one.person === person && one.place === "accepted");
  }

  /** People by number with their scores, once everything has arrived and the rules have been applied to all of it. */
  scores(): Map<number, number> {
    const scores = new Map<number, number>();
    for (const { person, names, place, kind, event } of this.signals) {
      if (place !== "accepted" || (names === "anonymous" && !this.isLinked(person))) continue;
      const points = kind === "signal" ? (this.points.get(event) ?? 0) : 0;
      scores.set(person, (scores.get(person) ?? 0) + points);
    }
    return scores;
  }

  count(...places: Place[]): number {
    return this.signals.filter(({ place }) => places.includes(place)).length;
  }
}
