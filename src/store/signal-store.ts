/**
 * SignalStore: one Durable Object per workspace, with the workspace's own database: signals, people, scores. The
 * consumer records into it, admins delete people and apply rules; everything else reads (store-reads.ts).
 *
 * Why this is correct on the platform: each writing method is one transaction with no `await` in it, so that methods
 * cannot interleave; what fails is taken back by a savepoint, or, where `record` does without one, by ending the object
 * before anything is committed; and no answer leaves before the writes are durable, so what the consumer settles has
 * been stored.
 */
import { rulesOf } from "../control/rules-cache.ts";
import { errorText, logEvent } from "../http/log.ts";
import { COLD_RETRY_MS } from "../limits.ts";
import { nextColdWorkMs } from "./cold-storage.ts";
import { workOnColdStorage } from "./cold-work.ts";
import type { ErasureReceipt, StoreConfig } from "./data-care.ts";
import { erasePerson, findErasure, nextErasureMs, stepErasure } from "./erasure.ts";
import { nextPurgeMs, purgeHeld } from "./held.ts";
import { hasFreshLinkJobs, nextLinkJobMs, linkTurn } from "./link-jobs.ts";
import { recordedSignals } from "./live.ts";
import type { RecordResult, RowToRecord, SignalToRecord } from "./protocol.ts";
import { recordBatch } from "./record.ts";
import { deleteExpired, nextRetentionMs, setRetention } from "./retention.ts";
import { findRuleJob, hasRuleJobs, isStale, startRuleJob, stepRuleJob } from "./rule-jobs.ts";
import type { RuleJob, RuleToApply } from "./rule-protocol.ts";
import { StoreReads } from "./store-reads.ts";

/** An alarm's work that has failed is tried again after this long. */
const ALARM_RETRY_MS = 60_000;

export class SignalStore extends StoreReads {
  #alarmAtMs = Number.POSITIVE_INFINITY;
  /** Until then R2, or the control plane's rules, are let alone by the alarm: they have failed. */
  #restUntilMs = 0;
  /** The turn at linking that is under way, and those that wait for it. */
  #linking: Promise<void> = Promise.resolve();

  /**
   * Records signals; those that were recorded before change nothing. If one cannot be recorded, none is, and the object
   * starts anew.
   *
   * @param rulesVersion of the rules that the signals were run through, if they were.
   * @param carefully for signals that may have failed before: one that cannot be recorded becomes a dead letter, the
   *   others are recorded. This takes a savepoint, within which SQLite copies every page before changing it: in a
   *   large store a quarter of all the work.
   * @throws when a newer rule has been applied to what is stored: these signals would never be run through it.
   */
  record(rows: RowToRecord[], rulesVersion?: number, carefully = false): RecordResult {
    const batch = rows.flatMap(({ signals }) => signals);
    this.#refuseStale(rulesVersion);
    const nowMs = Date.now();
    try {
      if (carefully) this.ctx.storage.transactionSync(() => recordBatch(this.sql, batch, nowMs));
      else recordBatch(this.sql, batch, nowMs);
    } catch (error) {
      logEvent("record_failed", { workspace: this.workspaceId, signals: batch.length, error: errorText(error) });
      // From here on nothing can be committed, and no more of this runs. An exception alone would undo nothing.
      if (!carefully) this.ctx.abort(`Signals could not be recorded: ${errorText(error)}`);
      for (const signal of batch) this.#recordAlone(signal, nowMs);
    }
    this.#alarmForNext();
    this.watchers.tell(batch.length, (limit) => {
      const ids = batch.slice(0, limit).map(({ admission }) => admission.id);
      return recordedSignals(this.sql, ids, nowMs);
    });
    return { outcome: "recorded", linksWait: hasFreshLinkJobs(this.sql, nowMs), refused: [] };
  }

  /**
   * Gives earlier signals of visitors that are known now to their persons: a bounded number, the alarm sees to the rest
   * (link-jobs.ts). One turn after the other, so that nothing is fetched twice. Never throws.
   */
  link(): Promise<void> {
    this.#linking = this.#linking.then(() => this.#linkTurn());
    return this.#linking;
  }

  /** Takes effect with the next alarm, also where no signals come any more. Repeating it changes nothing. */
  configure(config: StoreConfig): void {
    setRetention(this.sql, config, Date.now());
    this.#alarmForNext();
  }

  /**
   * Deletes a person with everything that is linked to them, see erasure.ts. What the call does not get done the alarm
   * does. Repeating it is harmless: the same deletion while it is under way, else another one, for what has come since.
   *
   * @param id of the receipt, if it is a new one.
   * @param email trimmed and lower-cased.
   */
  erase(id: string, email: string): ErasureReceipt {
    this.ctx.storage.transactionSync(() => erasePerson(this.sql, id, email, Date.now()));
    this.#alarmForNext();
    const receipt = findErasure(this.sql, email);
    if (receipt === null) throw new Error("a deletion that was just begun is gone");
    return receipt;
  }

  /** See rule-jobs.ts. The alarm does the work. */
  applyRule(rule: RuleToApply): RuleJob {
    startRuleJob(this.sql, rule, Date.now());
    this.#alarmForNext();
    const job = findRuleJob(this.sql, rule.ruleId);
    if (job === null) throw new Error("a job that was just started is gone");
    return job;
  }

  /**
   * Purges held signals, applies rules to what is stored, deletes persons' signals and expired ones, links, and moves
   * signals to cold storage, a bounded part of each at a time. Never throws: an alarm that throws six times is gone.
   */
  override async alarm(): Promise<void> {
    this.#alarmAtMs = Number.POSITIVE_INFINITY;
    const purged = this.#attempt("purge_failed", purgeHeld);
    const applied = this.#attempt("apply_failed", stepRuleJob);
    const erased = this.#attempt("erasure_failed", stepErasure);
    const expired = this.#attempt("retention_failed", deleteExpired);
    if (Date.now() >= this.#restUntilMs) {
      await this.link();
      this.#restUnless(await workOnColdStorage(this.ctx.storage, this.coldObjects()));
    }
    if (purged && applied && erased && expired && this.#attempt("alarm_failed", () => this.#alarmForNext())) return;
    // Not at once: what has failed is due already.
    this.#alarmBy(Date.now() + ALARM_RETRY_MS);
  }

  async #linkTurn(): Promise<void> {
    const rules = () => rulesOf(this.env.DB, this.workspaceId);
    const work = { storage: this.ctx.storage, objects: this.coldObjects(), rules };
    this.#restUnless(await linkTurn(work, this.workspaceId));
  }

  #restUnless(well: boolean): void {
    if (!well) this.#restUntilMs = Date.now() + COLD_RETRY_MS;
  }

  /** Whether it worked; as one transaction. */
  #attempt(event: string, work: (sql: SqlStorage, nowMs: number) => void): boolean {
    try {
      this.ctx.storage.transactionSync(() => work(this.sql, Date.now()));
      return true;
    } catch (error) {
      logEvent(event, { workspace: this.workspaceId, error: errorText(error) });
      return false;
    }
  }

  #refuseStale(rulesVersion = Number.MAX_SAFE_INTEGER): void {
    if (isStale(this.sql, rulesVersion)) throw new Error("newer mapping rules have been applied meanwhile");
  }

  #recordAlone(signal: SignalToRecord, nowMs: number): void {
    try {
      this.ctx.storage.transactionSync(() => recordBatch(this.sql, [signal], nowMs));
    } catch (error) {
      const dead = { ...signal, work: { kind: "dead" as const, reason: `Could not be recorded: ${String(error)}` } };
      this.ctx.storage.transactionSync(() => recordBatch(this.sql, [dead], nowMs));
    }
  }

  /** One alarm for everything, the earliest wins: also one that was set before a restart, so all is looked at. */
  #alarmForNext(): void {
    const nowMs = Date.now();
    const nextMs = Math.min(
      nextPurgeMs(this.sql) ?? Number.POSITIVE_INFINITY,
      nextErasureMs(this.sql, nowMs) ?? Number.POSITIVE_INFINITY,
      nextRetentionMs(this.sql) ?? Number.POSITIVE_INFINITY,
      hasRuleJobs(this.sql) ? nowMs : Number.POSITIVE_INFINITY,
      Math.max(nextLinkJobMs(this.sql) ?? Number.POSITIVE_INFINITY, this.#restUntilMs),
      Math.max(nextColdWorkMs(this.sql, nowMs) ?? Number.POSITIVE_INFINITY, this.#restUntilMs),
    );
    if (nextMs !== Number.POSITIVE_INFINITY) this.#alarmBy(nextMs);
  }

  #alarmBy(atMs: number): void {
    if (atMs >= this.#alarmAtMs) return;
    this.#alarmAtMs = atMs;
    void this.ctx.storage.setAlarm(atMs);
  }
}
