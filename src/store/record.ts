/**
 * Records a batch of signals (design §8): each one ends up in exactly one place. Runs inside one transaction of the
 * Signal Store; signals that the store has already seen change nothing, so that any delivery may be repeated.
 */
import type { SignalToRecord } from "./protocol.ts";
import { People } from "./people.ts";
import { EventGroupChanges, TotalChanges, insertSignal } from "./tables.ts";
import type { SignalRow } from "./tables.ts";

type WorkedSignal = SignalToRecord & { work: { kind: "signal" | "identify" } };

export function recordBatch(sql: SqlStorage, batch: readonly SignalToRecord[], nowMs: number): void {
  const fresh = unseen(sql, batch).sort(byReceipt);
  const twins = new Twins(sql, fresh);
  const people = new People(
    sql,
    fresh.flatMap((signal) => (isWorked(signal) ? [signal.work.normalised] : [])),
  );
  const groups = new EventGroupChanges();
  const totals = new TotalChanges();

  const rows = fresh.map((signal) => decide(signal, twins, nowMs));
  // Links first: a visitor's signals in the same batch are then already the person's.
  for (const row of rows) applyIdentify(row, people);
  for (const row of rows) {
    applySignal(row, people);
    insertSignal(sql, row, nowMs);
    countRow(row, groups, totals);
  }
  for (const displaced of twins.displaced) {
    makeDuplicate(sql, displaced, groups, totals);
  }
  people.write();
  groups.write(sql);
  totals.write(sql);
}

function unseen(sql: SqlStorage, batch: readonly SignalToRecord[]): SignalToRecord[] {
  const byId = new Map(batch.map((signal) => [signal.admission.id, signal] as const));
  const seen = sql.exec<{ id: string }>(
    "SELECT id FROM signals WHERE id IN (SELECT value FROM json_each(?))",
    JSON.stringify([...byId.keys()]),
  );
  for (const { id } of seen) byId.delete(id);
  return [...byId.values()];
}

function byReceipt(a: SignalToRecord, b: SignalToRecord): number {
  return a.admission.receivedAtMs - b.admission.receivedAtMs || a.admission.ordinal - b.admission.ordinal;
}

function isWorked(signal: SignalToRecord): signal is WorkedSignal {
  return signal.work.kind === "signal" || signal.work.kind === "identify";
}

/** In this order: dead → past its period → duplicate → held → to be processed. */
function decide(signal: SignalToRecord, twins: Twins, nowMs: number): SignalRow {
  const { admission, work } = signal;
  const row: SignalRow = {
    signal,
    kind: work.kind === "dead" ? "unknown" : work.kind,
    status: "processed",
    personId: null,
    duplicateOf: null,
  };
  if (work.kind === "dead") return { ...row, status: "dead" };
  const held = admission.verdict === "held";
  if (held && admission.periodEndMs <= nowMs) return { ...row, status: "purged" };
  const twin = isWorked(signal) ? twins.take(signal) : null;
  if (twin !== null) return { ...row, status: "duplicate", duplicateOf: twin };
  return held ? { ...row, status: "held" } : row;
}

/** Spec §6, identify: without an email no person and no link. */
function applyIdentify(row: SignalRow, people: People): void {
  const { signal } = row;
  if (row.status !== "processed" || !isWorked(signal) || signal.work.kind !== "identify") return;
  const { normalised } = signal.work;
  if (normalised.email === undefined) return;
  const { receivedAtMs } = signal.admission;
  const personId = people.ownerOf(normalised, receivedAtMs);
  if (personId === null) return;
  row.personId = personId;
  people.link(normalised, personId, receivedAtMs);
  people.enrich(normalised, personId, receivedAtMs);
  people.seen(personId, receivedAtMs);
}

/** Gives a processed signal to its person with what it scored; one whose visitor is unknown waits as anonymous. */
function applySignal(row: SignalRow, people: People): void {
  const { signal } = row;
  if (row.status !== "processed" || !isWorked(signal) || signal.work.kind !== "signal") return;
  const { normalised, evaluation } = signal.work;
  const { id, receivedAtMs } = signal.admission;
  const named = normalised.email ?? normalised.userId ?? normalised.anonymousId;
  if (named === undefined) return;
  const personId = evaluation === null ? null : people.ownerOf(normalised, receivedAtMs);
  if (personId === null) {
    row.status = "anonymous";
    return;
  }
  row.personId = personId;
  people.enrich(normalised, personId, receivedAtMs);
  people.seen(personId, receivedAtMs);
  people.score(id, personId, evaluation?.matches ?? [], receivedAtMs);
}

function countRow(row: SignalRow, groups: EventGroupChanges, totals: TotalChanges): void {
  const { admission, work } = row.signal;
  const column = {
    processed: "processed",
    anonymous: "processed",
    duplicate: "duplicates",
    held: "held",
    purged: "purged",
    dead: "dead_lettered",
  } as const;
  totals.add(admission.periodStartMs, column[row.status], 1);
  const queued = row.status === "processed" || row.status === "anonymous" || row.status === "held";
  if (!queued || work.kind !== "signal") return;
  groups.add(work.normalised.event, work.normalised.source, {
    count: 1,
    held: row.status === "held" ? 1 : 0,
    anonymous: row.status === "anonymous" ? 1 : 0,
    firstSeen: admission.receivedAtMs,
    lastSeen: admission.receivedAtMs,
    sampleId: admission.id,
  });
}

interface Original {
  id: string;
  receivedAtMs: number;
  held: boolean;
}

/** Originals by content hash: those stored and those of this batch (design §8.2). */
class Twins {
  readonly #originals = new Map<string, Original[]>();
  /** Held signals whose content has now been accepted: they become its duplicates. */
  readonly displaced: { heldId: string; acceptedId: string }[] = [];

  constructor(sql: SqlStorage, signals: readonly SignalToRecord[]) {
    const hashes = signals.flatMap((signal) => (isWorked(signal) ? (signal.work.contentHash ?? []) : []));
    if (hashes.length === 0) return;
    const stored = sql.exec<{ content_hash: string; id: string; received_at: number; status: string }>(
      `SELECT content_hash, id, received_at, status FROM signals
       WHERE content_hash IS NOT NULL AND content_hash IN (SELECT value FROM json_each(?))`,
      JSON.stringify(hashes),
    );
    for (const row of stored) {
      this.#add(row.content_hash, { id: row.id, receivedAtMs: row.received_at, held: row.status === "held" });
    }
  }

  /** Id of the signal that this one duplicates; null when it is the original, which it then counts as. */
  take(signal: WorkedSignal): string | null {
    const { contentHash, duplicateWindowMs } = signal.work;
    if (contentHash === null) return null;
    const { id, receivedAtMs, verdict } = signal.admission;
    const held = verdict === "held";
    const originals = this.#originals.get(contentHash) ?? [];
    const twin = originals.find((one) => Math.abs(one.receivedAtMs - receivedAtMs) <= duplicateWindowMs);
    if (twin !== undefined && (held || !twin.held)) return twin.id;
    if (twin !== undefined) {
      this.displaced.push({ heldId: twin.id, acceptedId: id });
      originals.splice(originals.indexOf(twin), 1);
    }
    this.#add(contentHash, { id, receivedAtMs, held });
    return null;
  }

  #add(hash: string, original: Original): void {
    const originals = this.#originals.get(hash);
    if (originals === undefined) this.#originals.set(hash, [original]);
    else originals.push(original);
  }
}

function makeDuplicate(
  sql: SqlStorage,
  { heldId, acceptedId }: { heldId: string; acceptedId: string },
  groups: EventGroupChanges,
  totals: TotalChanges,
): void {
  const row = sql
    .exec<{ kind: string; event: string; source: string; period_start: number }>(
      `UPDATE signals SET status = 'duplicate', duplicate_of = ?2, content_hash = NULL, payload = NULL
       WHERE id = ?1 AND status = 'held' RETURNING kind, event, source, period_start`,
      heldId,
      acceptedId,
    )
    .toArray()[0];
  if (row === undefined) return;
  totals.add(row.period_start, "held", -1);
  totals.add(row.period_start, "duplicates", 1);
  if (row.kind === "signal") groups.add(row.event, row.source, leaving({ held: 1, anonymous: 0 }));
}

/** One signal fewer in its group. */
export function leaving({ held, anonymous }: { held: number; anonymous: number }) {
  return { count: -1, held: -held, anonymous: -anonymous, firstSeen: 0, lastSeen: 0, sampleId: null };
}
