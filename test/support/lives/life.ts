/**
 * A random life of a workspace's Signal Store: calls at random moments, and jobs that stop midway. After each step the store and the
 * model (model.ts) must agree.
 */
import { expect, vi } from "vitest";

import { DAY_MS, dayOf } from "../../../src/domain/duration.ts";
import { newId } from "../../../src/platform/ids.ts";
import { DELETION_REMEMBERED_MS } from "../../../src/store/state/due.ts";
import { ALL_RULES } from "../../../src/store/rules/rule-jobs.ts";
import { KEPT, STEPS } from "../../../src/store/steps.ts";
import { expectStateToAddUp } from "../adds-up.ts";
import { inStore } from "../store.ts";
import { isPlain } from "../log.ts";
import type { SignalToRecord } from "../../../src/store/protocol/stored-signals.ts";
import { Balance } from "./balance.ts";
import {
  expectAccounts,
  expectPeople,
  expectScoringSignals,
  expectSettled,
  followIds,
  followSignals,
  isIdOfDeletedDropped,
  peopleOf,
  type Look,
} from "./compare.ts";
import { expectNobodyNamed } from "./deleted-names.ts";
import { Model, type Exclusion, type ModelSignal, type Rule } from "./model.ts";
import { JOBS, Real, setClock, type Job, type Shown } from "./real.ts";
import { contentOf, EMAILS, type Content, type Draft } from "./signals.ts";

export type Sent = Draft | { again: number };

/** `flight`: recorded later. `dead`, `misfit`: a dead letter. `heldMisfit`: held, and a dead letter if it fits no template at its release. */
export type How = "now" | "flight" | "held" | "dead" | "misfit" | "heldMisfit";

/** What happens: a call, a delivery, a step of a job, a change of a setting, or time that passes. */
export type Happening =
  /** Signals of one call. */
  | { does: "send"; signals: Sent[]; how?: How }
  /** Signals whose recording may stop after a number of writes. Then they are recorded later. */
  | { does: "stumble"; signals: Sent[]; writes: number }
  /** Records some of the signals on their way, in one batch. */
  | { does: "deliver"; from: number; count: number }
  /** Held signals or dead letters come back. `flight`: they are recorded later. `again`: misfits still fit no template. */
  | { does: "release" | "replay"; from: number; count: number; flight?: boolean; again?: boolean }
  | { does: "step"; job: Job; times: number }
  /** A step of a job while R2 does not answer. */
  | { does: "outage"; job: Job }
  /** A step of a job stops after a number of writes. */
  | ({ does: "crash"; job: Job } & Crash)
  /** Takes steps of all jobs until nothing is left to do. */
  | { does: "finish" }
  | { does: "delete"; person: number }
  /** Changes a rule, for new signals only or for the past too. */
  | {
      does: "rule";
      rule: number;
      change: Partial<Pick<Rule, "points" | "isEnabled" | "of" | "frequency" | "lastDays">>;
      past: boolean;
    }
  /**
   * A rule changes between the evaluation of a batch and its recording, for the past too or not. `signals` are recorded by the newer rules
   * before it.
   */
  | { does: "overtake"; late: Sent[]; rule: number; change: Partial<Rule>; signals: Sent[]; past?: boolean }
  /** Changes the exclusions, for new signals only or for the past too. */
  | { does: "exclude"; exclusions: Exclusion[]; past: boolean }
  /** Applies exclusions to the past. The scores must be as the preview says. */
  | { does: "preview"; exclusions: Exclusion[] }
  /** Applies several exclusions to the past, one after the other, then removes them. The scores must be the same as before. */
  | { does: "detour"; by: Stop[] }
  /** Time passes; negative: the clock is set back. */
  | { does: "wait"; ms: number }
  /** The store is full, or has room again: it records nothing, and what arrives waits. */
  | { does: "fill"; isFull: boolean }
  | { does: "keep"; days: number | null }
  /** R2 has lost all objects, and the store marks the payloads as lost. */
  | { does: "lose" }
  /** `import`: the store becomes a file, and the file an empty store. */
  | { does: "seal" | "restart" | "import" };

/** Exclusions that are applied. `steps` of the job, which the next exclusions restart; null: until all jobs have ended. */
export interface Stop {
  exclusions: Exclusion[];
  steps: number | null;
}

export interface Life {
  rules: Pick<Rule, "event" | "points" | "frequency" | "lastDays" | "of">[];
  /** Sizes of the steps; null: as they are. */
  steps: number | null;
  /** Ids of a kind that a person keeps; null: as many as ever. */
  personIds?: number | null;
  wantsNotifications: boolean;
  happenings: Happening[];
}

/** What a full store does not do, or does later. */
const WAITING_FOR_ROOM: ReadonlySet<Happening["does"]> = new Set([
  "stumble",
  "rule",
  "overtake",
  "exclude",
  "preview",
  "detour",
]);

export const START = Date.UTC(2026, 5, 1, 12);
const PERIOD_MS = 30 * DAY_MS;
/** Between two happenings. A prime, so that a clock that is set back meets no moment twice. */
const TICK_MS = 7;
const TURNS_MAX = 3_000;

interface Crash {
  writes: number;
  /** Whether the object starts again, or goes on. */
  isRestarted: boolean;
}

interface InFlight {
  signal: ModelSignal;
  record: SignalToRecord;
  from: "flight" | "held" | "dead";
  isHeld: boolean;
  isDead: boolean;
  isMisfit: boolean;
}

/** Runs a life in a store of its own. @throws when the store and the model differ. */
export async function runLife(life: Life): Promise<void> {
  vi.useFakeTimers({ toFake: ["Date"], now: START });
  const before = { ...STEPS };
  const keptBefore = { ...KEPT };
  const tiny = Object.fromEntries(
    Object.keys(STEPS).map((name, index) => [name, 1 + (((life.steps ?? 0) + index * 3) % 5)]),
  );
  if (life.steps !== null) Object.assign(STEPS, tiny);
  KEPT.personIds = life.personIds ?? KEPT.personIds;
  try {
    await inStore(async (store) => {
      const world = new World(life, (rules) => new Real(store, rules, life.wantsNotifications));
      for (const happening of life.happenings) {
        // oxlint-disable-next-line no-await-in-loop -- one after the other
        await world.happens(happening);
      }
      await world.end();
    });
  } finally {
    Object.assign(STEPS, before);
    Object.assign(KEPT, keptBefore);
    vi.useRealTimers();
  }
}

class World {
  readonly model: Model;
  readonly real: Real;
  readonly #balance: Balance | null;
  readonly #contents: Content[] = [];
  #inFlight: InFlight[] = [];
  #ordinal = 0;
  /** Whether what happens next depends on the moment. */
  #isOver = false;
  #latestMs = START;
  /** Whether points were due to lapse after the last happening. */
  #mayLapse = false;
  /** The day that is certain to have lapsed points, and the latest that may have. */
  #lapsedDay = 0;

  constructor({ rules, wantsNotifications }: Life, real: (rules: readonly Rule[]) => Real) {
    const named = rules.map((rule, index) => ({ ...rule, id: `rule-${index}`, isEnabled: true, version: 1 }));
    this.model = new Model(named);
    this.real = real(named);
    this.#balance = wantsNotifications ? new Balance() : null;
  }

  async happens(happening: Happening): Promise<void> {
    this.#tick(TICK_MS);
    if (this.#isOver) return;
    if (this.real.isFull && WAITING_FOR_ROOM.has(happening.does)) return;
    switch (happening.does) {
      case "send":
        await this.#send(happening.signals, happening.how ?? "now");
        break;
      case "stumble":
        await this.#stumble(happening.signals, happening.writes);
        break;
      case "deliver":
        await this.#deliver(happening.from, happening.count);
        break;
      case "release":
        await this.#resend("held", happening);
        break;
      case "replay":
        await this.#resend("dead", happening);
        break;
      case "step":
        for (let n = 0; n < happening.times; n++) {
          // oxlint-disable-next-line no-await-in-loop -- one after the other
          await this.#step(happening.job);
        }
        return;
      case "outage":
        return this.#step(happening.job, () => this.real.stepWithoutR2(happening.job));
      case "crash": {
        const { job, writes, isRestarted } = happening;
        return this.#step(job, () => this.real.crash(job, writes, isRestarted));
      }
      case "finish":
        return this.#finish();
      case "delete":
        return this.#delete(EMAILS[happening.person % EMAILS.length] ?? "");
      case "rule":
        this.#changeRule(happening);
        break;
      case "overtake":
        return this.#overtake(happening);
      case "exclude":
        this.#exclude(happening);
        break;
      case "preview":
        return this.#preview(happening.exclusions);
      case "detour":
        return this.#detour(happening.by);
      case "wait":
        return this.#wait(happening.ms);
      case "fill":
        // Rules are applied to the past only while there is room.
        await this.#finishJob("rule");
        if (!this.#isWaiting) this.real.fill(happening.isFull);
        break;
      case "keep":
        this.real.keepFor(happening.days);
        break;
      case "lose":
        return this.#lose();
      case "seal":
        this.real.store.seal();
        break;
      case "restart":
        this.real.store.restart();
        break;
      case "import":
        // The plain log has no tables that a file could have.
        if (!isPlain) this.real.import();
    }
    await this.#look();
  }

  #tick(ms: number): void {
    setClock(Date.now() + ms);
    this.#latestMs = Math.max(this.#latestMs, Date.now());
  }

  // Signals.

  async #send(sent: readonly Sent[], how: How): Promise<void> {
    const items = sent.map((one) => this.#admit(this.#contentOf(one), how));
    if (how === "flight") this.#inFlight.push(...items);
    else await this.#record(items);
  }

  async #stumble(sent: readonly Sent[], writes: number): Promise<void> {
    const items = sent.map((one) => this.#admit(this.#contentOf(one), "flight"));
    if (items.some(({ signal }) => this.model.isToLearn(signal))) await this.#finishJob("delete");
    const records = items.map((item) => this.#evaluated(item));
    if (await this.real.recordAndCrash(records, writes)) this.#inFlight.push(...items);
    else this.model.record(items, Date.now());
  }

  /** A new content, or one that was sent before. */
  #contentOf(sent: Sent): Content {
    const last =
      "again" in sent ? this.#contents.at(-1 - (sent.again % Math.max(1, this.#contents.length))) : undefined;
    if (last !== undefined) return last;
    const content = contentOf(
      "again" in sent ? { kind: "track", event: 0, user: 0 } : sent,
      this.#contents.length,
      Date.now(),
    );
    this.#contents.push(content);
    return content;
  }

  #admit(content: Content, how: How): InFlight {
    const nowMs = Date.now();
    const signal: ModelSignal = {
      id: newId("sig", nowMs),
      content,
      order: { receivedAtMs: nowMs, ordinal: ++this.#ordinal },
      occurredMs: Math.min(content.sentTimeMs ?? nowMs, nowMs),
      periodEndMs: (Math.floor(nowMs / PERIOD_MS) + 1) * PERIOD_MS,
      place: "flight",
      recorded: 0,
      person: null,
      isByDevice: false,
      outcomes: new Map(),
      isExcluded: false,
      rulesVersion: 0,
      named: false,
      leaves: null,
      isDropped: false,
      deletion: null,
      isLearned: false,
      isLost: false,
      misfitMs: null,
    };
    this.model.signals.push(signal);
    const isMisfit = (how === "misfit" || how === "heldMisfit") && content.kind !== "account";
    const isHeld = how === "held" || how === "heldMisfit";
    const isDead = how === "dead" || how === "misfit";
    const item = { signal, from: "flight" as const, isHeld, isDead, isMisfit };
    return { ...item, record: this.#recordOf(item) };
  }

  #recordOf({ signal, isHeld, isDead, isMisfit }: Omit<InFlight, "record">): SignalToRecord {
    const unread = isDead ? "dead" : null;
    return this.real.toRecord(signal, isHeld ? "held" : "accepted", isMisfit ? "misfit" : unread);
  }

  #deliver(from: number, count: number): Promise<void> {
    const first = from % Math.max(1, this.#inFlight.length);
    return this.#record(this.#inFlight.splice(first, count));
  }

  async #record(items: readonly InFlight[]): Promise<void> {
    if (items.length === 0) return;
    if (this.real.isFull) return void this.#inFlight.push(...items);
    // Whether an id that a deletion has still to learn gets another person before depends on the moment.
    if (items.some(({ signal }) => this.model.isToLearn(signal))) await this.#finishJob("delete");
    // A replay or a release may overtake a deletion that would have taken the dead letter or the misfit. Then the claims decide.
    for (const { signal, from } of items) if (from !== "flight") this.#keepLetter(signal);
    // The consumer evaluates the rules when it delivers.
    this.real.record(items.map((item) => this.#evaluated(item)));
    this.model.record(items, Date.now());
  }

  /** What an earlier deletion has still to take is in its place. */
  #keepLetter(signal: ModelSignal): void {
    const place = signal.place === "deleted" ? this.real.letterPlace(signal.id) : null;
    if (place !== null) this.model.keepLetter(signal, place);
  }

  #evaluated(item: InFlight): SignalToRecord {
    const { signal, record, from, isMisfit } = item;
    if (from === "flight") return { ...this.#recordOf(item), admission: record.admission };
    const { resent } = record.admission;
    if (resent === undefined) return record;
    return this.real.resent(signal, { admission: record.admission, payload: record.payload, ...resent }, isMisfit);
  }

  async #resend(
    from: "held" | "dead",
    { from: first, count, flight = false, again = false }: Happening & { does: "release" | "replay" },
  ): Promise<void> {
    const waiting = this.model.signals.filter((signal) => signal.place === from && !this.#isInFlight(signal));
    const start = first % Math.max(1, waiting.length);
    const items = waiting.slice(start, start + count).flatMap((signal): InFlight[] => {
      const stored = this.real.toResend(signal, from);
      if (stored === null) return [];
      const isMisfit = again && signal.misfitMs !== null;
      const record = this.real.resent(signal, stored, isMisfit);
      return [{ signal, record, from, isHeld: false, isDead: isMisfit, isMisfit }];
    });
    if (flight) this.#inFlight.push(...items);
    else await this.#record(items);
  }

  #isInFlight(signal: ModelSignal): boolean {
    return this.#inFlight.some((item) => item.signal === signal);
  }

  // Jobs.

  async #step(job: Job, take = (): Promise<void> => this.real.step(job)): Promise<void> {
    // What a rule's job makes of a line that retention drops meanwhile depends on the moment.
    if (job === "retain") await this.#finishJob("rule");
    // Both wait for a deletion, but not longer than a day.
    const isLate = this.model.people.some(
      ({ untilMs, isFinished }) => !isFinished && untilMs > 0 && untilMs < Date.now() - DAY_MS,
    );
    if (isLate && ["retain", "purge", "misfits"].includes(job)) await this.#finishJob("delete");
    await take();
    await this.#afterStep(job);
  }

  async #afterStep(job: Job): Promise<void> {
    for (const ruleId of this.model.jobs.keys()) if (this.real.isJobDone(ruleId)) this.model.jobEnded(ruleId);
    if (this.real.isJobDone(ALL_RULES)) this.model.exclusionsJobEnded();
    this.#noteFinished();
    await this.#look(job === "retain");
  }

  #noteFinished(): void {
    for (const person of this.model.people.filter(({ isDeleted, isFinished }) => isDeleted && !isFinished)) {
      // The latest deletion of the email has the receipt, so an earlier one is finished with it at the latest.
      const receipt = this.real.receipt(person.email);
      if (receipt !== null && receipt.finishedAtMs !== null && !this.real.isDue("delete")) person.isFinished = true;
    }
  }

  async #finishJob(job: Job): Promise<void> {
    for (let turns = 0; this.real.isDue(job); turns++) {
      if (turns > TURNS_MAX) throw new Error(`the job ${job} does not end`);
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await this.real.step(job);
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await this.#afterStep(job);
    }
  }

  async #finish(): Promise<void> {
    for (let turns = 0; JOBS.some((job) => this.real.isDue(job)); turns++) {
      if (turns > TURNS_MAX) throw new Error(`not quiet: ${JOBS.filter((job) => this.real.isDue(job)).join()}`);
      for (const job of JOBS) {
        // oxlint-disable-next-line no-await-in-loop -- one after the other
        if (this.real.isDue(job)) await this.#step(job);
      }
      this.#tick(1);
    }
  }

  async #delete(email: string): Promise<void> {
    // After the clock was set back, which of two deletions takes a line depends on the moment.
    if (Date.now() < this.#latestMs) for (const job of ["delete", "link"] as const) await this.#finishJob(job);
    // A night does not report the thresholds that somebody passed who is deleted before its end.
    if (this.#balance !== null) await this.#finishJob("lapse");
    this.#noteFinished();
    const before = this.real.comparedScores();
    // Dead letters that an earlier deletion has still to take may name the ids of the person who is deleted now.
    for (const signal of this.model.signals) this.#keepLetter(signal);
    this.real.beginDeletion(email);
    this.model.request(email, Date.now());
    const notifications = this.real.takeRaised();
    this.#balance?.note(notifications, this.#mayLapse);
    this.#balance?.left(email, before, this.real.comparedScores(), notifications);
    await this.#afterStep("delete");
  }

  async #lose(): Promise<void> {
    // What a job has made of a signal before its payload is lost depends on the moment.
    await this.#finishJob("rule");
    const lost = await this.real.lose();
    for (const signal of this.model.signals) if (lost.has(signal.id)) signal.isLost = true;
    await this.#look();
  }

  #changeRule({ rule: number, change, past }: Happening & { does: "rule" }): void {
    const rule = this.model.changeRule(number, change);
    this.real.setRules(this.model.rules, this.model.rulesVersion, this.model.exclusions);
    if (!past) return;
    this.model.startJob(rule);
    this.real.startJob(rule);
  }

  async #overtake({ late, rule, change, signals, past = false }: Happening & { does: "overtake" }): Promise<void> {
    const items = late.map((one) => this.#admit(this.#contentOf(one), "flight"));
    const before = this.model.rulesNow;
    this.#changeRule({ does: "rule", rule, change, past });
    await this.#send(signals, "now");
    await this.#look();
    if (items.some(({ signal }) => this.model.isToLearn(signal))) await this.#finishJob("delete");
    // A rule that was applied to the past would never evaluate these signals, so the consumer evaluates them again.
    expect(this.real.isStale(before.version)).toBe(past);
    if (past) return this.#record(items).then(() => this.#look());
    const after = this.model.rulesNow;
    this.model.rulesNow = before;
    this.real.recordBy(
      before.version,
      items.map(({ record }) => record),
    );
    this.model.record(items, Date.now());
    await this.#look();
    this.model.rulesNow = after;
    await this.#look();
  }

  #exclude({ exclusions, past }: Happening & { does: "exclude" }): void {
    this.model.changeExclusions(exclusions);
    this.real.setRules(this.model.rules, this.model.rulesVersion, exclusions);
    if (!past) return;
    this.model.startExclusionsJob();
    this.real.startExclusionsJob();
  }

  /** Whether a job waits for R2. */
  get #isWaiting(): boolean {
    return this.model.jobs.size > 0 || this.model.exclusionsJob !== null;
  }

  async #preview(exclusions: readonly Exclusion[]): Promise<void> {
    await this.#finish();
    if (this.#isWaiting) return;
    const expected = await this.real.previewExclusions(exclusions);
    await this.#excludeAndBack([], exclusions);
    // A match of a line that retention has dropped may take a place. The preview reads stored lines only.
    if (this.model.dropped.length > 0) return;
    expect(this.real.scores(), "the preview says other scores").toEqual(expected);
  }

  async #detour(by: readonly Stop[]): Promise<void> {
    // Nobody is excluded, and nothing is under way.
    await this.#excludeAndBack([]);
    const isWaiting = this.#isWaiting;
    const before = await this.real.scoringByRule();
    const dropped = this.model.dropped.length;
    await this.#excludeAndBack(by);
    // Excluded lines that retention drops do not score again.
    if (isWaiting || this.model.dropped.length > dropped) return;
    expect(await this.real.scoringByRule(), "exclusions that are gone have changed what scores").toEqual(before);
  }

  /** @param last exclusions that stay. */
  async #excludeAndBack(by: readonly Stop[], last: readonly Exclusion[] = []): Promise<void> {
    for (const { exclusions, steps } of [...by, { exclusions: last, steps: null }]) {
      this.#tick(TICK_MS);
      this.#exclude({ does: "exclude", exclusions: [...exclusions], past: true });
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      for (let step = 0; step < (steps ?? 0); step++) await this.#step("rule");
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      if (steps === null) await this.#finish();
    }
  }

  /** Names of deleted people are forgotten after 30 days. Signals on their way arrive before. */
  async #wait(ms: number): Promise<void> {
    if (ms >= DAY_MS && this.real.hasDeletedBy(Date.now())) {
      await this.#deliver(0, this.#inFlight.length);
      await this.#look();
    }
    // Points that have lapsed are gone before the clock is set back, so that they stay gone.
    if (ms < 0) await this.#finishJob("lapse");
    this.#tick(ms);
    this.real.noteFull();
    if (this.real.hasDeletedBy(Date.now() - DELETION_REMEMBERED_MS)) await this.#forgetDeletions();
    await this.#look();
  }

  async #forgetDeletions(): Promise<void> {
    await this.#finishJob("delete");
    for (const person of this.model.people.filter(({ isFinished, untilMs }) => isFinished && untilMs > 0)) {
      if (!this.real.remembers(person.email, person.untilMs)) this.model.forget(person);
    }
  }

  // Comparison.

  async #look(mayDrop = false): Promise<void> {
    this.#isOver ||= isIdOfDeletedDropped(this.model, this.real);
    if (this.#isOver) return;
    const notifications = this.real.takeRaised();
    this.#balance?.note(notifications, this.#mayLapse);
    const shown = await this.real.shown();
    await followSignals(this.model, shown, this.real, mayDrop);
    followIds(this.model, this.real);
    this.#compare(shown);
    if (this.model.people.some(({ isDeleted, isFinished }) => isDeleted && !isFinished)) {
      await expectNobodyNamed(this.model, this.real);
    }
    this.#mayLapse = this.real.isDue("lapse");
  }

  get #isQuiet(): boolean {
    // A replacement waits for the jobs of rules, which a clock that was set back delays.
    if (this.#isWaiting) return false;
    return !["link", "rule", "delete", "replace"].some((job) => this.real.isDue(job as Job));
  }

  #compare(shown: Shown): void {
    const day = dayOf(Date.now());
    this.#lapsedDay = Math.max(this.#lapsedDay, day);
    const look: Look = { isQuiet: this.#isQuiet, today: { atLeast: day, atMost: this.#lapsedDay } };
    const scores = expectScoringSignals(this.model, shown, look);
    expectPeople(this.model, shown, scores, look);
    expectAccounts(this.model, shown, peopleOf(this.model, scores), this.real.isDue("lapse"));
  }

  async end(): Promise<void> {
    if (this.#isOver) return;
    if (this.real.isFull) this.real.fill(false);
    this.#tick(Math.max(0, this.#latestMs - Date.now()) + 60_000);
    await this.#deliver(0, this.#inFlight.length);
    await this.#look();
    await this.#finish();
    // Retention sweeps at least once a day.
    this.#tick(DAY_MS);
    await this.#look();
    await this.#finish();
    if (this.#isOver) return;
    expectSettled(this.model, this.real);
    const shown = await this.real.shown();
    this.#balance?.expectBalanced(shown);
    expectStateToAddUp(this.real.store.state, { hasDropped: this.model.dropped.length > 0 });
    for (const person of this.model.people.filter(({ isDeleted }) => isDeleted)) {
      expect(
        this.real.receipt(person.email)?.finishedAtMs,
        `the deletion of ${person.email} has not ended`,
      ).not.toBeNull();
    }
    await expectNobodyNamed(this.model, this.real, { inStorage: true });
  }
}
