/** The requests of the filler (workers/fill.ts) and its answers. */

export interface WorkspaceSize {
  signals: number;
  people: number;
  rules: number;
}

/** `visits`: growth-traffic.ts. `mixed`, `unlinked`: store-traffic.ts. `new`, `large`: hostile-traffic.ts. */
export type TrafficName = "visits" | "mixed" | "unlinked" | "new" | "large";

/**
 * Signals `from` up to `to` of a traffic, as if received evenly from start to end. Signals beyond `size.signals`
 * continue at that pace.
 */
export interface FillOrder {
  workspaceId: string;
  keyId: string;
  traffic: TrafficName;
  size: WorkspaceSize;
  from: number;
  to: number;
  startMs: number;
  endMs: number;
  /** Signals per recording. */
  batch: number;
  /** Whether the store's alarm rings when it is due; otherwise only earlier signals are linked. */
  alarms: boolean;
}

/** Rows that the store has written, as SQLite counts them. */
export interface Written {
  recording: number;
  linking: number;
  /** Rows written in the store's alarm. */
  chores: number;
  /** Calls of setAlarm: a row each. */
  alarms: number;
  /** By verb and table. */
  statements: Record<string, number>;
}

export interface StoreSize {
  /** Size of its database. */
  databaseBytes: number;
  /** Size of its objects in R2. */
  coldBytes: number;
  /** Sealed segments of the log of recorded signals. */
  segments: number;
  longestRow: { table: string; bytes: number };
  /** Bytes of values by table, without indexes. */
  tables: Record<string, number>;
}

export type FillerCall =
  | ({ call: "fill" } & FillOrder)
  /** Moves all payloads of sealed segments to R2. */
  | { call: "cool"; workspaceId: string }
  | { call: "size"; workspaceId: string }
  /** One step of the run that takes lapsed points off, at this time. */
  | { call: "lapse"; workspaceId: string; nowMs: number };

/** What a step of lapsing points did. */
export interface LapseStep {
  /** Rows written. */
  rows: number;
  /** People whose points still have to lapse by that time. */
  dueAfter: number;
}
