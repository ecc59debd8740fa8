/** A signal on its way into the log, with what has been found out of it so far. */
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";
import type { LineStatus, Owner } from "../log/line.ts";
import type { Original } from "../log/originals.ts";
import type { SignalToRecord } from "../protocol/signals-to-record.ts";
import type { Receipt } from "../receipt.ts";

export interface PendingSignal {
  signal: SignalToRecord;
  receipt: Receipt;
  status: Exclude<LineStatus, "released"> | "dead";
  /** Why the signal is a dead letter; null: it could be processed. */
  deadReason: string | null;
  isDeleted: boolean;
  hash: Uint8Array | null;
  /** The signal of which this one is a duplicate: of the same batch, or recorded before. Null: it is none. */
  original: PendingSignal | Original | null;
  owner: Owner | null;
  matches: readonly RuleMatch[];
  seq: number;
}

export function toPending(signal: SignalToRecord): PendingSignal {
  const { receivedAtMs, ordinal } = signal.admission;
  return {
    signal,
    receipt: { receivedAtMs, ordinal },
    status: "processed",
    deadReason: signal.work.kind === "dead" ? signal.work.reason : null,
    isDeleted: false,
    hash: null,
    original: null,
    owner: null,
    matches: [],
    seq: 0,
  };
}

export function signalIdOf(original: PendingSignal | Original): string {
  return "id" in original ? original.id : original.signal.admission.id;
}

export function visitorOf({ work }: SignalToRecord) {
  return work.kind === "signal" || work.kind === "identify" ? work.normalised : null;
}
