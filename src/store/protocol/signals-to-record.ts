/** What the consumer hands to the store: signals in outbox rows, as they were admitted and worked on; and what it is told. */
import type { AccountRecord } from "../../domain/accounts/payload-template.ts";
import type { Evaluation } from "../../domain/rules/evaluation.ts";
import type { NormalisedSignal } from "../../domain/signal/signal.ts";
import type { Admission } from "../../wire/admission.ts";

/** A held signal or a dead letter as it was admitted, to be sent through the queue once more. */
export interface StoredSignal {
  admission: Admission;
  payload: string;
  /** Where it stands: among the held signals or the dead letters, under this number. */
  from: "held" | "dead";
  place: number;
  /** Cursor of the page that begins behind this signal. */
  cursor: number;
}

/** What a signal's duplicates are found by. */
export interface Deduplication {
  /** SHA-256 of the canonical form, or of the request's Idempotency-Key, base64url; null where it can be no duplicate. */
  contentHash: string | null;
  /** How long a twin makes the signal a duplicate; 0 where it can be none. */
  duplicateWindowMs: number;
}

/** How a batch is to be recorded. */
export interface RecordOptions {
  /** Version of the mapping rules that the signals were run through, if they were. */
  rulesVersion?: number;
  /** All outbox rows with a lower number are settled. */
  low?: number;
  /**
   * For signals that may have failed before: one that cannot be recorded becomes a dead letter, the others are recorded.
   * This takes savepoints, within which SQLite copies every page before changing it.
   */
  carefully?: boolean;
  /** The plan's retention, in days; null: signals are kept for ever; left out: as before. */
  retentionDays?: number | null;
}

/** One signal as the consumer hands it to the store. */
export interface SignalToRecord {
  admission: Admission;
  /** The JSON text as it was sent. */
  payload: string;
  work:
    | (Deduplication & {
        kind: "signal" | "identify";
        /** The signal normalised. Its properties stay with the consumer, which has run them through the rules. */
        normalised: Omit<NormalisedSignal, "properties">;
        /** Null when a rule asks for the owner's email, which the signal does not carry: it is scored once it is linked. */
        evaluation: Evaluation | null;
      })
    /** An account update, mapped by the payload template of its key. Only an Idempotency-Key makes it a duplicate. */
    | (Deduplication & { kind: "account"; account: AccountRecord })
    /** A signal that the consumer could not process. */
    | { kind: "dead"; reason: string };
}

/** An outbox row as the consumer hands it to the store: all of its signals. */
export interface RowToRecord {
  row: number;
  signals: SignalToRecord[];
}

export type RecordResult =
  | {
      outcome: "recorded";
      /** Whether there are earlier signals to be linked, see `SignalStore.link`. */
      linksWait: boolean;
    }
  /** The store has no room: nothing was recorded. */
  | { outcome: "full" };
