/** What the filler is told (workers/fill.ts), and what it answers. */

export interface WorkspaceSize {
  signals: number;
  people: number;
  rules: number;
}

/** `visits`: growth-traffic.ts. `mixed`, `unlinked`: store-traffic.ts. `new`, `large`: hostile-traffic.ts. */
export type TrafficName = "visits" | "mixed" | "unlinked" | "new" | "large";

/** Signals `from` up to `to` of a traffic, as if received evenly from start to end. What comes behind `size.signals` goes on in that pace. */
export interface FillOrder {
  workspaceId: string;
  keyId: string;
  traffic: TrafficName;
  size: WorkspaceSize;
  from: number;
  to: number;
  startMs: number;
  endMs: number;
  /** Signals that the store is given at a time. */
  batch: number;
  /** Whether the store's alarm rings when it is due; otherwise only earlier signals are linked. */
  alarms: boolean;
}

/** Rows that the store has written, as SQLite counts them. */
export interface Written {
  recording: number;
  linking: number;
  /** In the store's alarm. */
  chores: number;
  /** Calls of setAlarm: a row each. */
  alarms: number;
  /** By verb and table. */
  statements: Record<string, number>;
}

export interface StoreSize {
  /** What its database takes. */
  databaseBytes: number;
  /** What its objects in R2 take. */
  coldBytes: number;
  /** Sealed, of the log of what was recorded. */
  segments: number;
  longestRow: { table: string; bytes: number };
  /** Bytes of values by table, without indexes. */
  tables: Record<string, number>;
}

export type FillerCall =
  | ({ call: "fill" } & FillOrder)
  /** Moves all payloads of sealed segments to R2. */
  | { call: "cool"; workspaceId: string }
  | { call: "size"; workspaceId: string };
