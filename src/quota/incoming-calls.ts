/**
 * What comes of a call: key deactivated → request rate → a commit, which it shares with the calls that arrive meanwhile →
 * what is noted of it. Everything from the first look at the key on is decided here, whatever the edge knew.
 */
import type { RequestRate } from "../domain/quota/request-rate.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { countSignals, decideAdmissions, periodState, refusedCall, refusedFor } from "./commit-decisions.ts";
import type { CommitDecisions, CountedCall } from "./commit-decisions.ts";
import type { CallNotes } from "./call-notes.ts";
import { GroupCommit } from "./commits.ts";
import type { LedgerState } from "./ledger-state.ts";
import type { AdmitCall, AdmitResult, PeriodState, RefusedCall, RefusedResult } from "./protocol.ts";
import { RequestBuckets } from "./request-buckets.ts";
import type { RevokedKeys } from "./revoked-keys.ts";

export interface IncomingCallsOptions {
  workspaceId: string;
  revoked: RevokedKeys;
  state: LedgerState;
  notes: CallNotes;
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
    const { state, revoked, notes } = this.#options;
    if (state.ledger === null) return { outcome: "unconfigured" };
    if (revoked.ids.has(call.keyId)) return this.#refuseDeactivated(call, nowMs);
    notes.used(call.keyId, nowMs);
    if (!call.firstSlice) return this.#commits.submit({ call, rate: this.#buckets.left(call.keyId, nowMs) });
    notes.called(call.keyId, 1, nowMs);
    const { taken, rate } = this.#buckets.take(call.keyId, nowMs, call.requests ?? 1);
    if (taken.allowed) return this.#commits.submit({ call, rate });
    const { retryAfterMs } = taken;
    notes.refused([refusedCall(call, { code: "rate_limited", retryAfterMs }, countSignals(call), nowMs)], nowMs);
    return { outcome: "rate_limited", retryAfterMs, rate, period: this.#period(nowMs) };
  }

  /** A call that the edge refused. */
  refused(call: RefusedCall, nowMs: number): RefusedResult {
    const { revoked, notes } = this.#options;
    if (revoked.ids.has(call.keyId)) return this.#refuseDeactivated(call, nowMs);
    notes.used(call.keyId, nowMs);
    notes.called(call.keyId, 1, nowMs);
    const { taken, rate } = this.#buckets.take(call.keyId, nowMs, call.requests ?? 1);
    const { retryAfterMs } = taken;
    const refused = taken.allowed
      ? refusedFor(call, { ...call, cause: null }, call.signals, nowMs)
      : refusedCall(call, { code: "rate_limited", retryAfterMs }, call.signals, nowMs);
    notes.refused([refused], nowMs);
    const period = this.#period(nowMs);
    return taken.allowed ? { outcome: "noted", rate, period } : { outcome: "rate_limited", retryAfterMs, rate, period };
  }

  #commit(calls: CountedCall[]): AdmitResult[] {
    const { workspaceId, revoked, state, notes, isOutboxFull } = this.#options;
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
    notes.accepted(decided.accepted, nowMs);
    notes.refused(decided.refused, nowMs);
    return decided.results;
  }

  #refuseDeactivated(call: Pick<AdmitCall, "keyId" | "requestId">, nowMs: number): { outcome: "key_deactivated" } {
    const { notes } = this.#options;
    notes.called(call.keyId, 1, nowMs);
    notes.refused([refusedCall(call, { code: "unauthorized", cause: "key_deactivated" }, 1, nowMs)], nowMs);
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
