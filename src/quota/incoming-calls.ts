/**
 * Decides calls: deactivated key, then request rate, then quota. Calls that arrive within a few milliseconds share a commit
 * (design §6, §7). The object decides again what the edge has decided from its caches.
 */
import type { Refusal, RefusedCalls } from "../domain/keys/refusal.ts";
import { decideQuotaRun, ordinalsTaken, overageOfRun, quotaCeiling } from "../domain/quota/quota.ts";
import {
  FULL_BUCKET,
  requestsLeft,
  takeRequest,
  type RateBucket,
  type RateDecision,
  type RateState,
  type RequestRate,
} from "../domain/quota/request-rate.ts";
import { storedDetail } from "../http/problem.ts";
import { errorText, logEvent } from "../platform/log.ts";
import type { AcceptedCall, CallCounts } from "./call-counts.ts";
import type { LedgerState } from "./ledger-state.ts";
import type { Ledger } from "./ledger.ts";
import { RowPacker, type PackedRow } from "./outbox.ts";
import type { AdmitCall, AdmitResult, PeriodState, RefusedCall, RefusedResult } from "./protocol.ts";

interface IncomingCallsOptions {
  workspaceId: string;
  storage: DurableObjectStorage;
  revoked: RevokedKeys;
  state: LedgerState;
  counts: CallCounts;
  isOutboxFull: () => boolean;
}

export class IncomingCalls {
  readonly #options: IncomingCallsOptions;
  readonly #buckets: RequestBuckets;
  readonly #commits: SharedCommits<CountedCall, AdmitResult>;

  /** @param rate requests per second and burst of each key. */
  constructor(rate: RequestRate, options: IncomingCallsOptions) {
    this.#options = options;
    this.#buckets = new RequestBuckets(rate);
    this.#commits = new SharedCommits(
      (calls) => this.#commit(calls),
      () => options.storage.sync(),
    );
  }

  /** @throws if the commit fails; then no call of the commit has been counted. */
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

  /** Handles a call that the edge refused. */
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
        const { rows, ...rest } = decideAdmissions(ledger, calls, {
          nowMs,
          revoked: revoked.ids,
          full: isOutboxFull(),
        });
        decided = rest;
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

  /** The period after closing an ended one. */
  #period(nowMs: number): PeriodState | null {
    const { state } = this.#options;
    const { ledger } = state;
    const now = ledger !== null && ledger.periodEndMs <= nowMs ? state.ledgerAt(nowMs) : ledger;
    return now && periodState(now);
  }
}

/** Request rate of each key, in memory only: an object that was idle long enough to be evicted has full buckets anyway. */
export class RequestBuckets {
  readonly #rate: RequestRate;
  readonly #buckets = new Map<string, RateBucket>();

  constructor(rate: RequestRate) {
    this.#rate = rate;
  }

  /** @param requests number of requests that the call counts as. */
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

/** Minimum time between two shared commits. The wait is short compared with the way from a sender, and a commit costs a row. */
export const COMMIT_INTERVAL_MS = 8;
/** Time for which calls share commits after two calls have overlapped. */
export const SHARE_MS = 100;

interface WaitingCall<Call, Result> {
  call: Call;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}

/**
 * Commits calls. A sender that waits for each answer never has two calls at the same time, and each of its calls is
 * committed at once. Calls overlap if one arrives before another is durable: then there are several senders. For the next
 * SHARE_MS, calls within COMMIT_INTERVAL_MS of a commit share the next one.
 */
export class SharedCommits<Call, Result> {
  readonly #commit: (calls: Call[]) => Result[];
  readonly #durable: () => Promise<unknown>;
  #waiting: WaitingCall<Call, Result>[] = [];
  #isScheduled = false;
  #lastCommitMs = 0;
  /** Number of commits that are not durable yet. */
  #inProgress = 0;
  #overlapMs = Number.NEGATIVE_INFINITY;

  /**
   * @param commit returns a result for each call; if it throws, all of these calls fail.
   * @param durable resolves when all earlier writes are durable.
   */
  constructor(commit: (calls: Call[]) => Result[], durable: () => Promise<unknown>) {
    this.#commit = commit;
    this.#durable = durable;
  }

  submit(call: Call): Promise<Result> {
    return new Promise((resolve, reject) => {
      const nowMs = Date.now();
      if (this.#inProgress > 0 || this.#waiting.length > 0) this.#overlapMs = nowMs;
      this.#waiting.push({ call, resolve, reject });
      if (this.#isScheduled) return;
      const sinceLastMs = nowMs - this.#lastCommitMs;
      // A negative time means that the clock was set back.
      const isShared = nowMs - this.#overlapMs < SHARE_MS && sinceLastMs >= 0 && sinceLastMs < COMMIT_INTERVAL_MS;
      if (!isShared) return this.#commitWaiting();
      this.#isScheduled = true;
      setTimeout(() => this.#commitWaiting(), COMMIT_INTERVAL_MS - sinceLastMs);
    });
  }

  #commitWaiting(): void {
    const calls = this.#waiting;
    this.#waiting = [];
    this.#isScheduled = false;
    this.#lastCommitMs = Date.now();
    try {
      const results = this.#commit(calls.map(({ call }) => call));
      calls.forEach(({ resolve }, index) => resolve(results[index] as Result));
      void this.#untilDurable();
    } catch (error) {
      for (const { reject } of calls) reject(error);
    }
  }

  async #untilDurable(): Promise<void> {
    this.#inProgress++;
    // A failed write ends the object, so its error needs no handling here.
    await this.#durable().catch(() => undefined);
    this.#inProgress--;
  }
}

/** Interval of probes while the Signal Store is full. */
export const STORE_PROBE_MS = 60_000;

/** Refusal while the outbox is full. It suggests a retry after the next probe of the store. */
const OUTBOX_FULL = {
  code: "unavailable",
  cause: null,
  detail: "As many signals as there is room for wait to be stored.",
  retryAfterMs: STORE_PROBE_MS,
} as const;

/** A call within its key's request rate, and the state of that rate after it. */
interface CountedCall {
  call: AdmitCall;
  rate: RateState;
}

interface CommitDecisions {
  /** One result per call, in the order of the calls. */
  results: AdmitResult[];
  rows: PackedRow[];
  refused: RefusedCalls[];
  /** Calls with at least one accepted or held signal. */
  accepted: AcceptedCall[];
}

interface AdmissionTime {
  nowMs: number;
  /** Ids of deactivated keys. */
  revoked: ReadonlySet<string>;
  /** Whether the outbox is full. Later slices of a body are admitted even then if the first slice was. */
  full: boolean;
}

/**
 * Decides the calls of one commit in order of arrival. Stores nothing.
 * @param ledger its counts are changed.
 */
function decideAdmissions(
  ledger: Ledger,
  calls: readonly CountedCall[],
  { nowMs, revoked, full }: AdmissionTime,
): CommitDecisions {
  const results: AdmitResult[] = [];
  const refused: RefusedCalls[] = [];
  const accepted: AcceptedCall[] = [];
  const packer = new RowPacker(
    { at: nowMs, period_start: ledger.periodStartMs, period_end: ledger.periodEndMs, limit: ledger.signalLimit },
    ledger.nextRow,
    ordinalsTaken(ledger),
  );
  for (const { call, rate } of calls) {
    if (revoked.has(call.keyId)) {
      refused.push(refusedCall(call, { code: "unauthorized", cause: "key_deactivated" }, 1, nowMs));
      results.push({ outcome: "key_deactivated" });
      continue;
    }
    const signals = countSignals(call);
    if (full && call.firstSlice) {
      const { retryAfterMs, ...refusal } = OUTBOX_FULL;
      refused.push(refusedFor(call, refusal, signals, nowMs));
      results.push({ outcome: "full", retryAfterMs, rate, period: periodState(ledger) });
      continue;
    }
    for (const { signals: invalid, ...refusal } of call.invalid) {
      refused.push(refusedFor(call, { ...refusal, cause: null }, invalid, nowMs));
    }
    const used = ordinalsTaken(ledger);
    const run = decideQuotaRun(used, signals, ledger);
    packer.add(call.chunks, run.accepted, run.held);
    const kept = ordinalsTaken(run);
    if (kept > 0) accepted.push({ keyId: call.keyId, calls: call.firstSlice ? 1 : 0 });
    ledger.accepted += run.accepted;
    ledger.held += run.held;
    ledger.rejected += run.rejected;
    ledger.admitted += kept;
    ledger.overage += overageOfRun(used, run.accepted, ledger);
    const refusal = run.refusal && { code: run.refusal, retryAfterMs: ledger.periodEndMs - nowMs };
    if (refusal) refused.push(refusedCall(call, refusal, run.rejected, nowMs));
    const { configVersion } = ledger;
    results.push({ outcome: "counted", ...run, refusal, rate, period: periodState(ledger), configVersion });
  }
  return { results, rows: packer.rows(), refused, accepted };
}

export function countSignals(call: AdmitCall): number {
  return call.chunks.reduce((sum, chunk) => sum + chunk.count, 0);
}

function periodState(ledger: Ledger): PeriodState {
  const ceiling = quotaCeiling(ledger);
  const used = ordinalsTaken(ledger);
  return { ceiling, remaining: ceiling === null ? null : Math.max(0, ceiling - used), periodEndMs: ledger.periodEndMs };
}

type Caller = Pick<AdmitCall, "keyId" | "requestId">;

/** An entry of the rejections list. */
function refusedCall(caller: Caller, refusal: Refusal, signals: number, atMs: number): RefusedCalls {
  const cause = "cause" in refusal ? refusal.cause : null;
  return refusedFor(caller, { code: refusal.code, cause, detail: storedDetail(refusal) }, signals, atMs);
}

export function refusedFor(
  { keyId, requestId }: Caller,
  { code, cause, detail }: Pick<RefusedCalls, "code" | "cause" | "detail">,
  signals: number,
  atMs: number,
): RefusedCalls {
  return { keyId, requestId, code, cause, detail, calls: 1, signals, firstAtMs: atMs, lastAtMs: atMs };
}

/** Ids of deactivated keys (design §5). A key is added before its deactivation returns, and is never removed. */
export class RevokedKeys {
  readonly #sql: SqlStorage;
  readonly #ids = new Set<string>();

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec("CREATE TABLE IF NOT EXISTS revoked_keys (key_id TEXT PRIMARY KEY, at_ms INTEGER NOT NULL) WITHOUT ROWID");
    for (const row of sql.exec<{ key_id: string }>("SELECT key_id FROM revoked_keys")) this.#ids.add(row.key_id);
  }

  get ids(): ReadonlySet<string> {
    return this.#ids;
  }

  /** @returns the number of keys that were not revoked before. */
  add(keyIds: readonly string[], atMs: number): number {
    const news = keyIds.filter((keyId) => !this.#ids.has(keyId));
    this.#sql.exec("INSERT OR IGNORE INTO revoked_keys SELECT value, ? FROM json_each(?)", atMs, JSON.stringify(news));
    for (const keyId of news) this.#ids.add(keyId);
    return news.length;
  }
}
