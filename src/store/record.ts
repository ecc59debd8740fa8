/**
 * Records a batch of signals (design §8): each one ends up in exactly one place. Runs inside one transaction of the
 * Signal Store; signals that the store has already seen change nothing, so that any delivery may be repeated.
 */
import { Accounts } from "./accounts/accounts.ts";
import { applyAccount, applyIdentify, applySignal, isWorked, receiptOf } from "./apply.ts";
import type { Verdict } from "../domain/signal.ts";
import { erasedAmong } from "./erased-names.ts";
import { startLinkJobs } from "./link-jobs.ts";
import { People, isLater } from "./people.ts";
import type { SignalStatus, SignalToRecord } from "./protocol.ts";
import { resettle } from "./resettle.ts";
import { EventGroupChanges, TotalChanges, insertSignal } from "./tables.ts";
import type { SignalRow } from "./tables.ts";
import { Twins } from "./twins.ts";

export function recordBatch(sql: SqlStorage, batch: readonly SignalToRecord[], nowMs: number): void {
  const groups = new EventGroupChanges();
  const totals = new TotalChanges();
  const fresh = unseen(sql, batch, groups, totals).sort((a, b) => (isLater(receiptOf(a), receiptOf(b)) ? 1 : -1));
  const worked = fresh.filter(isWorked);
  const twins = new Twins(sql, worked);
  const people = new People(
    sql,
    worked.map((signal) => signal.work.normalised),
  );
  const accounts = new Accounts(sql);
  const erased = erasedAmong(sql, fresh);

  const rows = fresh.map((signal) => decide(signal, twins, erased, nowMs));
  // Links first: a visitor's signals in the same batch are then already the person's.
  for (const row of rows) applyIdentify(row, people);
  let { seq } = sql.exec<{ seq: number }>("SELECT ifnull(max(seq), 0) AS seq FROM signals").one();
  for (const row of rows) {
    applySignal(row, people);
    applyAccount(row, accounts);
    insertSignal(sql, ++seq, row, nowMs);
    if (row.owner !== null) people.own(row.owner.personId, seq);
    countRow(row, groups, totals);
  }
  for (const displaced of twins.displaced) makeDuplicate(sql, displaced, groups, totals);
  people.write();
  accounts.write();
  groups.write(sql);
  totals.write(sql);
  resettle(sql, twins.unsettled);
  startLinkJobs(sql, fresh, nowMs);
}

/** Those that are new here, and those that have come again: what the latter were before is undone. */
function unseen(
  sql: SqlStorage,
  batch: readonly SignalToRecord[],
  groups: EventGroupChanges,
  totals: TotalChanges,
): SignalToRecord[] {
  const byId = new Map<string, SignalToRecord>();
  for (const signal of batch) {
    const other = byId.get(signal.admission.id);
    if (other === undefined || hasComeAgain(asRecorded(other), signal)) byId.set(signal.admission.id, signal);
  }
  const seen = sql
    .exec<{ id: string; status: SignalStatus; verdict: Verdict; erased_at: number | null }>(
      "SELECT id, status, verdict, erased_at FROM signals WHERE id IN (SELECT value FROM json_each(?))",
      JSON.stringify([...byId.keys()]),
    )
    .toArray();
  for (const { id, erased_at: erasedAt, ...before } of seen) {
    const signal = byId.get(id);
    // What has been erased with its person never comes back.
    if (signal !== undefined && erasedAt === null && hasComeAgain(before, signal)) undo(sql, id, groups, totals);
    else byId.delete(id);
  }
  return [...byId.values()];
}

/** What is asked of a signal that has come before: as it is stored, or earlier in the same batch. */
interface Recorded {
  status: SignalStatus;
  verdict: Verdict;
}

function asRecorded({ admission: { verdict }, work }: SignalToRecord): Recorded {
  if (work.kind === "dead") return { status: "dead", verdict };
  return { status: verdict === "held" ? "held" : "processed", verdict };
}

/**
 * A dead letter that is replayed; a held signal that is released, also when it was purged while it was on its way.
 * Neither has had an effect on people, so that there is nothing to take back but its place in the books. A signal that
 * has been released is not held again by a delivery from before that comes late.
 */
function hasComeAgain({ status, verdict }: Recorded, { admission, work }: SignalToRecord): boolean {
  if (status === "dead") return work.kind !== "dead" && (verdict === "held" || admission.verdict === "accepted");
  return (status === "held" || status === "purged") && admission.verdict === "accepted";
}

function undo(sql: SqlStorage, id: string, groups: EventGroupChanges, totals: TotalChanges): void {
  const row = sql
    .exec<{
      status: SignalStatus;
      kind: string;
      event: string;
      source: string;
      period_start: number;
      received_at: number;
    }>("DELETE FROM signals WHERE id = ? RETURNING status, kind, event, source, period_start, received_at", id)
    .one();
  totals.add(row.period_start, TOTAL_OF[row.status], -1);
  if (row.status === "held" && row.kind === "signal") {
    groups.count(row.event, row.source, { count: -1, held: -1, anonymous: 0 }, row.received_at);
  }
}

/** In this order: dead → its person deleted → past its period → duplicate → held → to be processed. */
function decide(signal: SignalToRecord, twins: Twins, erased: ReadonlySet<string>, nowMs: number): SignalRow {
  const { admission, work } = signal;
  const row: SignalRow = {
    signal,
    kind: work.kind === "dead" ? "unknown" : work.kind,
    status: "processed",
    owner: null,
    duplicateOf: null,
  };
  if (work.kind === "dead") return { ...row, status: "dead" };
  if (erased.has(admission.id)) return { ...row, status: "purged", erased: true };
  const held = admission.verdict === "held";
  if (held && admission.periodEndMs <= nowMs) return { ...row, status: "purged" };
  const twin = isWorked(signal) ? twins.take(signal) : null;
  if (twin !== null) return { ...row, status: "duplicate", duplicateOf: twin };
  return held ? { ...row, status: "held" } : row;
}

/** Where each status stands in the books. */
const TOTAL_OF = {
  processed: "processed",
  anonymous: "processed",
  duplicate: "duplicates",
  held: "held",
  purged: "purged",
  dead: "dead_lettered",
} as const;

function countRow(row: SignalRow, groups: EventGroupChanges, totals: TotalChanges): void {
  const { admission, work } = row.signal;
  totals.add(admission.periodStartMs, TOTAL_OF[row.status], 1);
  if (work.kind !== "signal" || row.status === "purged") return;
  const { event, source } = work.normalised;
  groups.received(event, source, receiptOf(row.signal), row.duplicateOf ?? admission.id);
  if (row.status === "duplicate") return;
  const counts = { count: 1, held: Number(row.status === "held"), anonymous: Number(row.status === "anonymous") };
  groups.count(event, source, counts, admission.receivedAtMs);
}

/** A held signal whose content has been accepted after all. */
function makeDuplicate(
  sql: SqlStorage,
  { heldId, acceptedId }: { heldId: string; acceptedId: string },
  groups: EventGroupChanges,
  totals: TotalChanges,
): void {
  const row = sql
    .exec<{ kind: string; event: string; source: string; period_start: number; received_at: number }>(
      `UPDATE signals SET status = 'duplicate', duplicate_of = ?2, content_hash = NULL, payload = NULL
       WHERE id = ?1 AND status = 'held' RETURNING kind, event, source, period_start, received_at`,
      heldId,
      acceptedId,
    )
    .toArray()[0];
  if (row === undefined) return;
  totals.add(row.period_start, "held", -1);
  totals.add(row.period_start, "duplicates", 1);
  if (row.kind !== "signal") return;
  groups.count(row.event, row.source, { count: -1, held: -1, anonymous: 0 }, row.received_at);
  groups.replaceSample(row.event, row.source, heldId, acceptedId);
}
