/** Decides calls: deactivated key, request rate, quota. Concurrent calls share a commit (docs/inside.md). */
import type { RejectionEntry } from "../domain/keys/rejection.ts";
import { addVerdicts, decideQuotaRun, ordinalsTaken, overageOfRun, quotaCeiling } from "../domain/quota/quota.ts";
import { roomOfKey } from "../domain/quota/key-budget.ts";
import type { RateState } from "../domain/quota/request-rate.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { STORE_PROBE_MS } from "./drain.ts";
import type { CallsByDay, RequestBuckets, DeactivatedKeys, KeyEnds, PublicKeys } from "./keys.ts";
import type { LedgerState, Ledger } from "./ledger.ts";
import { type Outbox, RowPacker } from "./outbox.ts";
import type { AdmitCall, AdmitResult, KeyState, PeriodState, RejectedCall, RejectedResult } from "./protocol.ts";
import { reasonOf, rejectedCall, type Rejections } from "./rejected-calls.ts";

interface Parts {
  deactivated: DeactivatedKeys;
  ends: KeyEnds;
  publicKeys: PublicKeys;
  rates: RequestBuckets;
  calls: CallsByDay;
  rejections: Rejections;
  ledger: LedgerState;
  outbox: Outbox;
  /** Whether the workspace has ended. */
  hasEnded: () => boolean;
  /** Whether it takes no signals, because it moves or is being imported. */
  isClosed: () => boolean;
}

interface CountedCall {
  call: AdmitCall;
  rate: RateState;
}

type RateLimited = AdmitResult & { outcome: "rate_limited" };

const GONE = { outcome: "gone" } as const;
const CLOSED = { outcome: "closed" } as const;
const DEACTIVATED = reasonOf({ code: "unauthorized", cause: "key_deactivated" });

/** A retry is suggested after the next probe of the store. */
const OUTBOX_FULL = {
  code: "unavailable",
  detail: "Too many signals are waiting to be stored.",
} as const;

/** A larger call does not share a commit: small calls neither wait for it nor fail with it, and it does not wait in memory. */
export const LARGE_CALL_BYTES = 1_000_000;

export class IncomingCalls {
  /** Whether the store may keep no more misfits. Only in memory: the next settlement says it again. */
  misfitsFull = false;
  readonly #workspaceId: string;
  readonly #parts: Parts;
  readonly #commits: SharedCommits<CountedCall, AdmitResult>;

  constructor(ctx: DurableObjectState, parts: Parts) {
    this.#workspaceId = ctx.id.name ?? "";
    this.#parts = parts;
    this.#commits = new SharedCommits(
      (calls) => this.#commit(calls),
      () => ctx.storage.sync(),
    );
  }

  /** @throws if the commit fails; then none of its calls was counted. */
  admit(call: AdmitCall, nowMs: number): Promise<AdmitResult> | AdmitResult {
    const { ledger, deactivated, ends, hasEnded, isClosed } = this.#parts;
    if (hasEnded()) return GONE;
    if (isClosed()) return CLOSED;
    if (ledger.current === null) return { outcome: "unconfigured" };
    if (deactivated.has(call.keyId)) return this.#rejectDeactivated(call, nowMs);
    if (call.isCopy && ends.hasEnded(call.keyId, nowMs)) return { outcome: "key_ended" };
    const { rate, rejection } = this.#takeRequest(call, signalsOf(call), nowMs);
    if (rejection !== null) return rejection;
    const isLarge = call.signals.byteLength > LARGE_CALL_BYTES;
    return isLarge ? this.#commits.submitAlone({ call, rate }) : this.#commits.submit({ call, rate });
  }

  rejected(call: RejectedCall, nowMs: number): RejectedResult {
    const { deactivated, rejections, hasEnded, isClosed } = this.#parts;
    if (hasEnded()) return GONE;
    if (isClosed()) return CLOSED;
    if (deactivated.has(call.keyId)) return this.#rejectDeactivated(call, nowMs);
    const { rate, rejection } = this.#takeRequest(call, call.signals, nowMs);
    if (rejection !== null) return rejection;
    const { code, detail } = call;
    rejections.add([rejectedCall(call, { code, detail }, call.signals, nowMs)], nowMs);
    return { outcome: "noted", rate, period: this.#period(nowMs) };
  }

  stateOfKey(keyId: string, isCopy: boolean, nowMs: number): KeyState {
    const { deactivated, ends, hasEnded, isClosed } = this.#parts;
    if (hasEnded()) return GONE;
    if (isClosed()) return CLOSED;
    if (deactivated.has(keyId)) return { outcome: "key_deactivated" };
    return { outcome: isCopy && ends.hasEnded(keyId, nowMs) ? "key_ended" : "active" };
  }

  #takeRequest(
    call: Pick<AdmitCall, "keyId" | "requestId" | "requests" | "origin">,
    signals: number,
    nowMs: number,
  ): { rate: RateState; rejection: RateLimited | null } {
    const { rates, calls, rejections, publicKeys } = this.#parts;
    publicKeys.note(call.keyId, call.origin, nowMs);
    calls.used(call.keyId, nowMs);
    rejections.countCalls(call.keyId, 1, nowMs);
    const { allowed, retryAfterMs, remaining, resetMs } = rates.take(call.keyId, nowMs, call.requests);
    const rate = { remaining, resetMs };
    if (allowed) return { rate, rejection: null };
    const reason = reasonOf({ code: "rate_limited", retryAfterMs });
    rejections.add([rejectedCall(call, reason, signals, nowMs)], nowMs);
    return { rate, rejection: { outcome: "rate_limited", retryAfterMs, rate, period: this.#period(nowMs) } };
  }

  #rejectDeactivated(call: Pick<AdmitCall, "keyId" | "requestId">, nowMs: number): { outcome: "key_deactivated" } {
    const { rejections } = this.#parts;
    rejections.countCalls(call.keyId, 1, nowMs);
    rejections.add([rejectedCall(call, DEACTIVATED, 1, nowMs)], nowMs);
    return { outcome: "key_deactivated" };
  }

  #commit(counted: readonly CountedCall[]): AdmitResult[] {
    const { ledger, calls, rejections, outbox, hasEnded, isClosed } = this.#parts;
    if (hasEnded()) return counted.map(() => GONE);
    if (isClosed()) return counted.map(() => CLOSED);
    const nowMs = Date.now();
    let results: AdmitResult[] = [];
    const rejected: RejectionEntry[] = [];
    try {
      ledger.update(nowMs, (changed) => {
        const packer = new RowPacker(
          {
            at: nowMs,
            period_start: changed.periodStartMs,
            period_end: changed.periodEndMs,
            limit: changed.signalLimit,
          },
          changed.nextRow,
          ordinalsTaken(changed),
        );
        const { isFull } = outbox;
        const countedKeys: Record<string, string> = {};
        const commit = { ledger: changed, packer, rejected, countedKeys, isFull, nowMs };
        results = counted.map((call) => this.#decide(call, commit));
        return { rows: packer.rows(), countedKeys };
      });
    } catch (error) {
      logEvent("commit_failed", { workspace: this.#workspaceId, calls: counted.length, error: errorText(error) });
      throw error;
    }
    for (const [index, { call }] of counted.entries()) {
      const result = results[index];
      if (result?.outcome !== "counted" || ordinalsTaken(result) === 0) continue;
      calls.accepted(call.keyId, nowMs);
    }
    rejections.add(rejected, nowMs);
    return results;
  }

  /** Changes the ledger's counts, and adds rows and rejections to the commit. */
  #decide({ call, rate }: CountedCall, commit: Commit): AdmitResult {
    const { ledger, packer, rejected, isFull, nowMs } = commit;
    if (this.#parts.deactivated.has(call.keyId)) {
      rejected.push(rejectedCall(call, DEACTIVATED, 1, nowMs));
      return { outcome: "key_deactivated" };
    }
    const signals = call.sizes.length;
    if (isFull) {
      rejected.push(rejectedCall(call, OUTBOX_FULL, signalsOf(call), nowMs));
      return { outcome: "full", retryAfterMs: STORE_PROBE_MS, rate, period: periodState(ledger) };
    }
    for (const { signals: invalid, ...reason } of call.invalid)
      rejected.push(rejectedCall(call, reason, invalid, nowMs));
    const used = ordinalsTaken(ledger);
    const firstKeyId = call.firstKeyId ?? call.keyId;
    const room = roomOfKey(ledger, firstKeyId);
    const run = decideQuotaRun(used, signals, ledger, room);
    if (room !== Infinity) countAgainstBudget(commit, firstKeyId, call.keyId, ordinalsTaken(run));
    packer.add(call, run);
    addVerdicts(ledger, run);
    ledger.admitted += ordinalsTaken(run);
    ledger.overage += overageOfRun(used, run.accepted, ledger);
    const rejection = run.rejection && { code: run.rejection, retryAfterMs: ledger.periodEndMs - nowMs };
    if (rejection) rejected.push(rejectedCall(call, reasonOf(rejection), run.rejected, nowMs));
    const { configVersion } = ledger;
    const misfitsFull = this.misfitsFull ? { misfitsFull: true as const } : {};
    return { outcome: "counted", ...run, rejection, rate, period: periodState(ledger), configVersion, ...misfitsFull };
  }

  #period(nowMs: number): PeriodState | null {
    const ledger = this.#parts.ledger.upToDate(nowMs);
    return ledger && periodState(ledger);
  }
}

interface Commit {
  ledger: Ledger;
  packer: RowPacker;
  rejected: RejectionEntry[];
  countedKeys: Record<string, string>;
  isFull: boolean;
  nowMs: number;
}

/** All signals of the body, valid or not. */
function signalsOf({ sizes, invalid }: AdmitCall): number {
  return invalid.reduce((sum, { signals }) => sum + signals, sizes.length);
}

/** Replaces the counts, because the ledger before the change shares them. */
function countAgainstBudget({ ledger, countedKeys }: Commit, firstKeyId: string, keyId: string, signals: number): void {
  if (signals === 0) return;
  countedKeys[firstKeyId] = keyId;
  ledger.budgetUse = { ...ledger.budgetUse, [firstKeyId]: (ledger.budgetUse[firstKeyId] ?? 0) + signals };
}

function periodState(ledger: Ledger): PeriodState {
  const ceiling = quotaCeiling(ledger);
  const used = ordinalsTaken(ledger);
  return { ceiling, remaining: ceiling === null ? null : Math.max(0, ceiling - used), periodEndMs: ledger.periodEndMs };
}

/** Short compared with the way from a sender, and a commit costs a row. */
export const COMMIT_INTERVAL_MS = 8;
/** Time for which calls share commits after two calls have overlapped. */
export const SHARE_MS = 100;

interface WaitingCall<Call, Result> {
  call: Call;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}

/**
 * A sender that waits for each answer gets a commit at once. If a call arrives before another is durable, there are
 * several senders: for SHARE_MS, calls within COMMIT_INTERVAL_MS of a commit share the next one.
 */
export class SharedCommits<Call, Result> {
  readonly #commit: (calls: Call[]) => Result[];
  readonly #durable: () => Promise<unknown>;
  #waiting: WaitingCall<Call, Result>[] = [];
  #isScheduled = false;
  #lastCommitMs = 0;
  /** Commits that are not durable yet. */
  #inProgress = 0;
  #overlapMs = Number.NEGATIVE_INFINITY;

  /**
   * @param commit if it throws, all of these calls fail. @param durable resolves when all earlier writes are durable.
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
      // Negative: the clock was set back.
      const isShared = nowMs - this.#overlapMs < SHARE_MS && sinceLastMs >= 0 && sinceLastMs < COMMIT_INTERVAL_MS;
      if (!isShared) return this.#commitWaiting();
      this.#isScheduled = true;
      setTimeout(() => this.#commitWaiting(), COMMIT_INTERVAL_MS - sinceLastMs);
    });
  }

  /** Commits at once. Waiting calls go on waiting for their own commit. */
  submitAlone(call: Call): Promise<Result> {
    return new Promise((resolve, reject) => {
      if (this.#inProgress > 0 || this.#waiting.length > 0) this.#overlapMs = Date.now();
      this.#commitCalls([{ call, resolve, reject }]);
    });
  }

  #commitWaiting(): void {
    const calls = this.#waiting;
    this.#waiting = [];
    this.#isScheduled = false;
    this.#commitCalls(calls);
  }

  #commitCalls(calls: WaitingCall<Call, Result>[]): void {
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
