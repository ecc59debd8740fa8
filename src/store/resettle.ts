/**
 * A signal that comes after a later one of the same content (design §8.2, §8.4): which of them are originals is settled
 * again, as if all had come in order of receipt. Rare, so it may read much. Originals only ever become more, never fewer
 * (they are what it takes to cover all receipts with windows), so no score is taken back: an original that becomes a
 * duplicate hands what it has to the one in its place.
 */
import { bareHash, hashesInReach } from "../domain/content-hash.ts";
import { applyIdentify, applySignal } from "./apply.ts";
import type { WorkedSignal } from "./apply.ts";
import { RuleDayChanges } from "./day-changes.ts";
import { People, isLater } from "./people.ts";
import type { Receipt } from "./people.ts";
import { recount } from "./recount.ts";
import { applyRuleJobsTo } from "./rule-jobs.ts";
import { setSample } from "./samples.ts";
import { EventGroupChanges, TotalChanges } from "./tables.ts";
import type { SignalRow } from "./tables.ts";
import { LIKELY_HASH } from "./twins.ts";

interface Twin extends Receipt {
  id: string;
  original: boolean;
  duplicateOf: string | null;
  personId: number | null;
  periodStartMs: number;
}

/** @param signals already recorded as duplicates; maybe several of one content, near each other or far apart. */
export function resettle(sql: SqlStorage, signals: readonly WorkedSignal[]): void {
  const settled = new Set<string>();
  for (const signal of signals) {
    if (settled.has(signal.admission.id)) continue;
    const twins = readTwins(sql, signal);
    for (const twin of twins) settled.add(twin.id);
    resettleTwins(sql, twins, signal);
  }
}

function resettleTwins(sql: SqlStorage, twins: readonly Twin[], signal: WorkedSignal): void {
  const originalOf = settle(twins, signal.work.duplicateWindowMs);
  const lost = twins.filter((twin) => twin.original && originalOf.get(twin) !== twin);
  const gained = twins.filter((twin) => !twin.original && originalOf.get(twin) === twin);
  const groups = new EventGroupChanges();
  const totals = new TotalChanges();
  const people = new People(sql, [signal.work.normalised]);

  gained.forEach((twin, index) => {
    const before = lost[index];
    totals.add(twin.periodStartMs, "duplicates", -1);
    totals.add(twin.periodStartMs, "processed", 1);
    if (before === undefined) makeOriginal(sql, twin, signal, people, groups);
    else {
      totals.add(before.periodStartMs, "processed", -1);
      totals.add(before.periodStartMs, "duplicates", 1);
      handOver(sql, before, twin, people);
      if (signal.work.kind === "signal") moveInTime(sql, signal, groups, before, twin);
    }
  });
  people.write();
  groups.write(sql);
  totals.write(sql);
  for (const twin of gained) applyRuleJobsTo(sql, twin.id);
  for (const [twin, original] of originalOf) {
    if (twin === original || twin.duplicateOf === original.id) continue;
    sql.exec("UPDATE signals SET duplicate_of = ? WHERE id = ?", original.id, twin.id);
  }
  settleSample(sql, signal, originalOf);
  for (const personId of new Set(lost.map((twin) => twin.personId))) {
    if (personId !== null) recount(sql, personId);
  }
}

/**
 * Accepted signals of this content, in order of receipt: from one to the next that is in reach. What lies further off is
 * settled by itself: nothing of it is within the window of any of these.
 */
function readTwins(sql: SqlStorage, { admission, work }: WorkedSignal): Twin[] {
  const stored = work.contentHash ?? "";
  const inReach = (receivedAtMs: number) => hashesInReach(stored, receivedAtMs, work.duplicateWindowMs);
  const twins: Twin[] = [];
  const read = new Set<string>();
  for (let hashes = [...inReach(admission.receivedAtMs), bareHash(stored)]; hashes.length > 0;) {
    const found = twinsOf(sql, hashes);
    twins.push(...found);
    for (const hash of hashes) read.add(hash);
    hashes = [...new Set(found.flatMap((twin) => inReach(twin.receivedAtMs)))].filter((hash) => !read.has(hash));
  }
  return twins.sort((a, b) => (isLater(a, b) ? 1 : -1));
}

function twinsOf(sql: SqlStorage, hashes: readonly string[]): Twin[] {
  const columns = "id, received_at, ordinal, status, duplicate_of, person_id, period_start";
  const rows = sql.exec<{
    id: string;
    received_at: number;
    ordinal: number;
    status: string;
    duplicate_of: string | null;
    person_id: number | null;
    period_start: number;
  }>(
    ["status <> 'duplicate'", "status = 'duplicate'"]
      .map(
        (status) => `SELECT ${columns} FROM signals WHERE content_hash IS NOT NULL AND ${status}
          AND ${LIKELY_HASH} AND content_hash IN (SELECT value FROM json_each(?1)) AND verdict = 'accepted'`,
      )
      .join(" UNION ALL "),
    JSON.stringify(hashes),
  );
  return [...rows].map((row) => ({
    id: row.id,
    receivedAtMs: row.received_at,
    ordinal: row.ordinal,
    original: row.status !== "duplicate",
    duplicateOf: row.duplicate_of,
    personId: row.person_id,
    periodStartMs: row.period_start,
  }));
}

/** Each twin's original, itself where it is one. */
function settle(twins: readonly Twin[], windowMs: number): Map<Twin, Twin> {
  const originalOf = new Map<Twin, Twin>();
  let original: Twin | undefined;
  for (const twin of twins) {
    if (original === undefined || twin.receivedAtMs - original.receivedAtMs > windowMs) original = twin;
    originalOf.set(twin, original);
  }
  return originalOf;
}

function makeOriginal(
  sql: SqlStorage,
  twin: Twin,
  signal: WorkedSignal,
  people: People,
  groups: EventGroupChanges,
): void {
  const { normalised, kind, evaluation } = signal.work;
  const { id, receivedAtMs, ordinal } = twin;
  const admission = { ...signal.admission, id, receivedAtMs, ordinal };
  const row: SignalRow = {
    signal: { ...signal, admission },
    kind,
    status: "processed",
    owner: null,
    duplicateOf: null,
  };
  applyIdentify(row, people);
  applySignal(row, people);
  const { seq } = sql
    .exec<{ seq: number }>(
      `UPDATE signals SET status = ?2, person_id = ?3, named_by = ?4, rules_tried = ?5, payload = ?6, duplicate_of = NULL
       WHERE id = ?1 RETURNING seq`,
      id,
      row.status,
      row.owner?.personId ?? null,
      row.owner?.by ?? null,
      evaluation?.rulesTried ?? 0,
      signal.payload,
    )
    .one();
  if (row.owner !== null) people.own(row.owner.personId, seq);
  if (kind !== "signal") return;
  const counts = { count: 1, held: 0, anonymous: Number(row.status === "anonymous") };
  groups.count(normalised.event, normalised.source, counts, receivedAtMs);
}

function handOver(sql: SqlStorage, from: Twin, to: Twin, people: People): void {
  const { seq, person_id: personId } = sql
    .exec<{ seq: number; person_id: number | null }>(
      `UPDATE signals SET
         (status, person_id, named_by, linked_at, rules_tried, payload, cold_object, cold_line, duplicate_of) =
         (SELECT status, person_id, named_by, linked_at, rules_tried, payload, cold_object, cold_line, NULL
          FROM signals WHERE id = ?1)
       WHERE id = ?2 RETURNING seq, person_id`,
      from.id,
      to.id,
    )
    .one();
  if (personId !== null) people.own(personId, seq);
  sql.exec(
    `UPDATE signals SET status = 'duplicate', person_id = NULL, named_by = NULL, linked_at = NULL, payload = NULL,
       cold_object = NULL, cold_line = NULL
     WHERE id = ?`,
    from.id,
  );
  sql.exec("UPDATE scoring_signals SET signal_id = ?2, at = ?3 WHERE signal_id = ?1", from.id, to.id, to.receivedAtMs);
}

/** What has been handed over counts on another day. */
function moveInTime(sql: SqlStorage, { work }: WorkedSignal, groups: EventGroupChanges, from: Twin, to: Twin): void {
  const { event, source } = work.normalised;
  groups.count(event, source, { count: -1, held: 0, anonymous: 0 }, from.receivedAtMs);
  groups.count(event, source, { count: 1, held: 0, anonymous: 0 }, to.receivedAtMs);
  const days = new RuleDayChanges();
  const scored = sql.exec<{ rule_id: string }>("SELECT rule_id FROM scoring_signals WHERE signal_id = ?", to.id);
  for (const { rule_id: ruleId } of scored) {
    days.add(ruleId, from.receivedAtMs, -1);
    days.add(ruleId, to.receivedAtMs, 1);
  }
  days.write(sql);
}

/** The sample of their group is the original of the latest receipt. */
function settleSample(sql: SqlStorage, { work }: WorkedSignal, originalOf: ReadonlyMap<Twin, Twin>): void {
  const { event, source } = work.normalised;
  const group = sql
    .exec<{ sample_id: string; last_seen: number; sample_ordinal: number }>(
      "SELECT sample_id, last_seen, sample_ordinal FROM event_groups WHERE event = ? AND source = ?",
      event,
      source,
    )
    .toArray()[0];
  if (work.kind !== "signal" || group === undefined) return;
  const latest = { receivedAtMs: group.last_seen, ordinal: group.sample_ordinal };
  for (const [twin, original] of originalOf) {
    const isLatest = !isLater(twin, latest) && !isLater(latest, twin);
    if (!isLatest && twin.id !== group.sample_id) continue;
    setSample(sql, event, source, original.id);
    if (isLatest) return;
  }
}
