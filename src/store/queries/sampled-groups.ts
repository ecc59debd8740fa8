/** The signal queue (spec §6.3), as the operator API answers it: with the payload of each group's sample. */
import { parsed } from "../../domain/json/json-value.ts";
import type { Page, PageOf } from "../../platform/list-page.ts";
import type { ColdObjects } from "../log/cold.ts";
import { keepsPayload } from "../log/line.ts";
import type { Log } from "../log/log.ts";
import { readPayloads } from "../log/payloads.ts";
import type { Payloads } from "../log/payloads.ts";
import type { EventGroup } from "../protocol/stored-signals.ts";
import type { StoreState } from "../state/store-state.ts";
import { writeDayPlace } from "./by-day.ts";
import { writeCursor } from "./cursor.ts";
import { groupsByDay, readGroupCursor } from "./queue-page.ts";
import type { ScannedGroup } from "./queue-page.ts";

interface Row {
  [column: string]: SqlStorageValue;
  first_seen: number;
  sample_id: string;
  /** Line of the sample; a negative number belongs to the log of held signals. */
  sample_seq: number;
}

/** Groups, the most recently seen first. A cursor that was not given out here finds nothing. */
export async function listEventGroups(
  state: StoreState,
  objects: ColdObjects,
  { cursor, limit }: Page,
): Promise<PageOf<EventGroup>> {
  const from = cursor === null ? null : readGroupCursor(cursor);
  if (from === null && cursor !== null) return { items: [], next: null };
  const groups: { row: ScannedGroup & Row; next: string }[] = [];
  let isMore = false;
  for (const { row, place } of groupsByDay(state.sql, from)) {
    isMore = groups.length === limit;
    if (isMore) break;
    groups.push({ row: { ...row, ...readGroup(state.sql, row) }, next: writeCursor(writeDayPlace(place)) });
  }
  const payloads = await readSamples(
    state,
    objects,
    groups.map(({ row }) => row.sample_seq),
  );
  return {
    items: groups.map(({ row }, index) => toGroup(row, parsed(payloads[index] ?? null))),
    next: isMore ? (groups.at(-1)?.next ?? null) : null,
  };
}

/** The groups' samples in their order; null where there is no payload, or none that can be had now. */
export function samplesOfGroups(
  state: StoreState,
  objects: ColdObjects,
  groups: readonly GroupName[],
): Promise<(string | null)[]> {
  return readSamples(
    state,
    objects,
    groups.map((group) => readGroup(state.sql, group).sample_seq),
  );
}

async function readSamples(
  state: StoreState,
  objects: ColdObjects,
  seqs: readonly number[],
): Promise<(string | null)[]> {
  const signals = await samplesOf(state.signals, objects, seqs);
  const held = await samplesOf(
    state.held,
    objects,
    seqs.map((seq) => -seq),
  );
  return seqs.map((seq) => signals.get(seq) ?? held.get(-seq) ?? null);
}

type GroupName = Pick<ScannedGroup, "event" | "source">;

function readGroup(sql: SqlStorage, { event, source }: GroupName): Row {
  return sql
    .exec<Row>(
      "SELECT first_seen, sample_id, sample_seq FROM event_groups WHERE event = ? AND source = ?",
      event,
      source,
    )
    .one();
}

/** Payloads of the samples that are lines of this log. */
function samplesOf(log: Log, objects: ColdObjects, seqs: readonly number[]): Promise<Payloads> {
  const lines = log.segmentsOf(seqs.filter((seq) => seq > 0));
  const wanted = [...lines].map(({ segment, seqs: here }) => {
    return { segment, seqs: here.filter((seq) => keepsPayload(segment.facts(seq))) };
  });
  return readPayloads(log, objects, wanted);
}

function toGroup(row: ScannedGroup & Row, payload: unknown): EventGroup {
  const { event, source, count, held, anonymous, first_seen: firstSeenMs, last_seen: lastSeenMs } = row;
  return { event, source, count, held, anonymous, firstSeenMs, lastSeenMs, sample: { id: row.sample_id, payload } };
}
