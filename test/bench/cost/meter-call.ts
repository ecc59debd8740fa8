/** Requests to a metered Worker besides its own work (workers/metered.ts), and their answers. */

/** A path that no route of any Worker starts with. */
export const METER_PATH = "/__meter";

export type MeterCall =
  /** Returns the Usage since the last request. */
  | { call: "take" }
  | { call: "quiet" }
  /** Moves the clock without calls: due alarms ring one after the other. */
  | { call: "pass"; ms: number }
  /** Runs the watch over all workspaces once. */
  | { call: "watch" }
  | { call: "size" };

export interface Quiet {
  /** Since the last counted operation. */
  quietMs: number;
  /** Messages in the queue, and objects that are busy or wait for a timer. */
  open: number;
}

/** Bytes of the objects' databases, in total. */
export interface Size {
  objectBytes: number;
}
