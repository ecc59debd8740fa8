/** A signal as a line of an export. */
import { pointsOf } from "../../domain/rules/evaluation.ts";
import type { Facts } from "../log/line.ts";
import { admissionOf } from "../record/dead-letters.ts";
import type { DeadLetterRow } from "../record/dead-letters.ts";
import type { StoreState } from "../state/store-state.ts";
import type { Columns, ExportRow } from "./export-text.ts";
import type { Names } from "./named-people.ts";
import { countedOf } from "./scored-entries.ts";

export const SIGNAL_COLUMNS: Columns = {
  id: "value",
  status: "value",
  kind: "value",
  event: "value",
  source: "value",
  email: "value",
  user_id: "value",
  anonymous_id: "value",
  endpoint: "value",
  key_id: "value",
  verdict: "value",
  ordinal: "value",
  received_at: "time",
  recorded_at: "time",
  duplicate_of: "value",
  linked_at: "time",
  points: "value",
  dead_reason: "value",
  erased_at: "time",
  payload: "json",
};

export interface ExportedLine {
  facts: Facts;
  payload: string | null;
}

export function rowOfLine(state: StoreState, { facts, payload }: ExportedLine, names: Names): ExportRow {
  const { admission } = facts;
  return {
    id: admission.id,
    status: facts.status,
    kind: facts.kind,
    event: facts.event,
    source: facts.source,
    email: names.of(facts),
    user_id: facts.userId,
    anonymous_id: facts.anonymousId,
    endpoint: admission.endpoint,
    key_id: admission.keyId,
    verdict: admission.verdict,
    ordinal: admission.ordinal,
    received_at: admission.receivedAtMs,
    recorded_at: facts.recordedAtMs,
    duplicate_of: facts.duplicateOf,
    linked_at: facts.linkedAtMs,
    points: pointsOf(countedOf(state, facts)),
    dead_reason: null,
    erased_at: facts.deletedAtMs,
    payload,
  };
}

export function rowOfDeadLetter(row: DeadLetterRow): ExportRow {
  const { endpoint, keyId, verdict, ordinal } = admissionOf(row);
  return {
    id: row.id,
    status: row.status,
    kind: "unknown",
    endpoint,
    key_id: keyId,
    verdict,
    ordinal,
    received_at: row.received_at,
    recorded_at: row.recorded_at,
    points: 0,
    dead_reason: row.reason,
    erased_at: row.deleted_at,
    payload: row.payload === null || isJson(row.payload) ? row.payload : JSON.stringify(row.payload),
  };
}

/** Whether a payload is JSON. Only a dead letter's can be anything else. */
function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
