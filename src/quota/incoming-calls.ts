/**
 * What comes of a call: key deactivated → request rate → a commit, which it shares with the calls that arrive meanwhile →
 * what is counted of it. Everything from the first look at the key on is decided here, whatever the edge knew.
 */
import {
  FULL_BUCKET,
  type RateBucket,
  type RateDecision,
  type RateState,
  type RequestRate,
  requestsLeft,
  takeRequest,
} from "../domain/quota/request-rate.ts";
import { errorText, logEvent } from "../platform/log.ts";
import type { CallCounts } from "./call-counts.ts";
import {
  type CommitDecisions,
  type CountedCall,
  countSignals,
  decideAdmissions,
  periodState,
  refusedCall,
  refusedFor,
} from "./commit-decisions.ts";
import type { LedgerState } from "./ledger-state.ts";
import type { AdmitCall, AdmitResult, PeriodState, RefusedCall, RefusedResult } from "./protocol.ts";
import type { RevokedKeys } from "./revoked-keys.ts";

export interface IncomingCallsOptions {
  workspaceId: string;
  revoked: RevokedKeys;
  state: LedgerState;
  counts: CallCounts;
  isOutboxFull: () => boolean;
  /** Resolves when all that was written so far is durable. */
  durable: () => Promise<unknown>;
}

export class IncomingCalls {
  readonly #options: IncomingCallsOptions;
  readonly #buckets: RequestBuckets;
  readonly #commits: GroupCommit<CountedCall, AdmitResult>;

  /** @param rate of each key. */
  constructor(rate: RequestRate, options: IncomingCallsOptions) {
    this.#options = options;
    this.#buckets = new RequestBuckets(rate);
    this.#commits = new GroupCommit((calls) => this.#commit(calls), options.durable);
  }

  /** @throws when the commit fails; then nothing of the whole group has been counted. */
  admit(call: AdmitCall, nowMs: number): Promise<AdmitResult> | AdmitResult {
    const { state, revoked, counts } = this.#options;
    if (state.ledger === null) return { outcome: "unconfigured" };
    if (revoked.ids.has(call.keyId)) return this.#refuseDeactivated(call, nowMs);
    counts.used(call.keyId, nowMs);
    if (!call.firstSlice) return this.#commits.submit({ call, rate: this.#buckets.left(call.keyId, nowMs) });
    counts.called(call.keyId, 1, nowMs);
    const { taken, rate } = this.#buckets.take(call.keyId, nowMs, call.requests ?? 1);
    if (taken.allowed) return this.#commits.submit({ call, rate });
    const { retryAfterMs } = taken;
    counts.refused([refusedCall(call, { code: "rate_limited", retryAfterMs }, countSignals(call), nowMs)], nowMs);
    return { outcome: "rate_limited", retryAfterMs, rate, period: this.#period(nowMs) };
  }

  /** A call that the edge refused. */
  refused(call: RefusedCall, nowMs: number): RefusedResult {
    const { revoked, counts } = this.#options;
    if (revoked.ids.has(call.keyId)) return this.#refuseDeactivated(call, nowMs);
    counts.used(call.keyId, nowMs);
    counts.called(call.keyId, 1, nowMs);
    const { taken, rate } = this.#buckets.take(call.keyId, nowMs, call.requests ?? 1);
    const { retryAfterMs } = taken;
    const refused = taken.allowed
      ? refusedFor(call, { ...call, cause: null }, call.signals, nowMs)
      : refusedCall(call, { code: "rate_limited", retryAfterMs }, call.signals, nowMs);
    counts.refused([refused], nowMs);
    const period = this.#period(nowMs);
    return taken.allowed ? { outcome: "noted", rate, period } : { outcome: "rate_limited", retryAfterMs, rate, period };
  }

  #commit(calls: CountedCall[]): AdmitResult[] {
    const { workspaceId, revoked, state, counts, isOutboxFull } = this.#options;
    const nowMs = Date.now();
    let decided: Omit<CommitDecisions, "rows"> = { results: [], refused: [], accepted: [] };
    try {
      state.update(nowMs, (ledger) => {
        const { rows, ...others } = decideAdmissions(ledger, calls, {
          nowMs,
          revoked: revoked.ids,
          full: isOutboxFull(),
        });
        decided = others;
        return { rows };
      });
    } catch (error) {
      logEvent("commit_failed", { workspace: workspaceId, calls: calls.length, error: errorText(error) });
      throw error;
    }
    counts.accepted(decided.accepted, nowMs);
    counts.refused(decided.refused, nowMs);
    return decided.results;
  }

  #refuseDeactivated(call: Pick<AdmitCall, "keyId" | "requestId">, nowMs: number): { outcome: "key_deactivated" } {
    const { counts } = this.#options;
    counts.called(call.keyId, 1, nowMs);
    counts.refused([refusedCall(call, { code: "unauthorized", cause: "key_deactivated" }, 1, nowMs)], nowMs);
    return { outcome: "key_deactivated" };
  }

  /** Where the workspace stands now; a period that has ended is closed first. */
  #period(nowMs: number): PeriodState | null {
    const { state } = this.#options;
    const { ledger } = state;
    const now = ledger !== null && ledger.periodEndMs <= nowMs ? state.ledgerAt(nowMs) : ledger;
    return now && periodState(now);
  }
}

/** The request rate of each key. It is not stored: an object idle long enough to be evicted has full buckets. */
export class RequestBuckets {
  readonly #rate: RequestRate;
  readonly #buckets = new Map<string, RateBucket>();

  constructor(rate: RequestRate) {
    this.#rate = rate;
  }

  /** @param requests how many requests the call counts as. */
  take(
    keyId: string,
    nowMs: number,
    requests = 1,
  ): { taken: Pick<RateDecision, "allowed" | "retryAfterMs">; rate: RateState } {
    const decision = takeRequest(this.#buckets.get(keyId) ?? FULL_BUCKET, nowMs, this.#rate, requests);
    this.#buckets.set(keyId, decision.bucket);
    return { taken: decision, rate: { remaining: decision.remaining, resetMs: decision.resetMs } };
  }

  left(keyId: string, nowMs: number): RateState {
    return requestsLeft(this.#buckets.get(keyId) ?? FULL_BUCKET, nowMs, this.#rate);
  }
}

// Lets calls that arrive together share a commit. A call that comes alone, as those of a sender that waits for each answer
// do, is committed at once: waiting for company would double its answer time. Where commits are frequent, and of several
// senders, each gathers for some milliseconds: its rows cost more than those calls' wait.

/** Above so many commits in GATHER_COMMITS_WITHIN_MS, 50 a second, the commits of several senders gather calls. */
export const GATHER_COMMITS = 25;
const GATHER_COMMITS_WITHIN_MS = 500;
/** How long a commit gathers calls at most, which is little beside the way from the sender. */
export const GATHER_MS = 5;
/** A commit with so many calls gathers no more: more of them would not make it cheaper. */
export const GATHER_ENOUGH_CALLS = 16;
/** Commits that gather in vain before it is believed that there is one sender only, whom it would hold up. */
const GATHER_PATIENCE = 4;

interface Waiter<Call, Result> {
  call: Call;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}

export class GroupCommit<Call, Result> {
  readonly #commit: (calls: Call[]) => Result[];
  readonly #durable: () => Promise<unknown>;
  #waiting: Waiter<Call, Result>[] = [];
  /** The timer of the commit for which calls wait, or may yet come. */
  #timer: ReturnType<typeof setTimeout> | null = null;
  /** Whether the last call that was waited for had no company. */
  #alone = true;
  /** Times of the latest commits, a ring; the oldest of them at `#oldest`. */
  readonly #commitsMs: number[] = Array.from({ length: GATHER_COMMITS }, () => Number.NEGATIVE_INFINITY);
  #oldest = 0;
  /** Commits that are not known to be durable: but for the last one that is, nobody has heard of them. */
  #unheard = 0;
  /** How often a commit is to gather in vain before it is believed that there is one sender only. */
  #patience = 0;

  /**
   * @param commit gives one result for each call; when it throws, all of them fail.
   * @param durable is done when what is committed is, and the callers can hear of it.
   */
  constructor(commit: (calls: Call[]) => Result[], durable: () => Promise<unknown>) {
    this.#commit = commit;
    this.#durable = durable;
  }

  submit(call: Call): Promise<Result> {
    // Whoever waits for an answer sends nothing else, so that two unheard commits and a call are of several senders. One
    // may be unheard although its answer has just left.
    if (this.#unheard > 1) this.#patience = GATHER_PATIENCE;
    return new Promise((resolve, reject) => {
      this.#waiting.push({ call, resolve, reject });
      if (this.#timer === null) this.#gather();
      else if (this.#waiting.length === GATHER_ENOUGH_CALLS) this.#gatherNoLonger();
    });
  }

  #gather(): void {
    if (this.#patience > 0 && this.#areFrequent()) {
      this.#timer = setTimeout(() => this.#gathered(), GATHER_MS);
      return;
    }
    const alone = this.#alone;
    if (alone) this.#commitWaiting();
    this.#timer = setTimeout(() => {
      this.#timer = null;
      const company = this.#waiting.length;
      this.#alone = alone ? company === 0 : company <= 1;
      if (company > 1) this.#patience = GATHER_PATIENCE;
      if (company > 0) this.#commitWaiting();
    }, 0);
  }

  /** Commits what waits, with the calls that arrive in the same turn of the event loop. */
  #gatherNoLonger(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#gathered(), 0);
  }

  #gathered(): void {
    this.#timer = null;
    this.#patience = this.#waiting.length > 1 ? GATHER_PATIENCE : this.#patience - 1;
    this.#alone = this.#waiting.length === 1;
    this.#commitWaiting();
  }

  #commitWaiting(): void {
    const waiters = this.#waiting;
    this.#waiting = [];
    try {
      const results = this.#commit(waiters.map((waiter) => waiter.call));
      waiters.forEach((waiter, index) => waiter.resolve(results[index] as Result));
    } catch (error) {
      for (const waiter of waiters) waiter.reject(error);
    }
    this.#committed();
  }

  #committed(): void {
    this.#commitsMs[this.#oldest] = Date.now();
    this.#oldest = (this.#oldest + 1) % GATHER_COMMITS;
    if (!this.#areFrequent()) return;
    this.#unheard++;
    const heard = (): void => void this.#unheard--;
    this.#durable().then(heard, heard);
  }

  #areFrequent(): boolean {
    return Date.now() - (this.#commitsMs[this.#oldest] ?? 0) < GATHER_COMMITS_WITHIN_MS;
  }
}
