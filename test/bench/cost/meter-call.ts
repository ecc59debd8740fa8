/** What a metered Worker is asked besides its own work (workers/metered.ts), and what it answers. */

/** No route of any Worker begins so. */
export const METER_PATH = "/__meter";

export type MeterCall =
  /** What has been counted since it was last asked: a Usage. */
  | { call: "take" }
  | { call: "quiet" }
  /** Lets so much time pass in which nobody calls: alarms that are due by then ring, one after the other. */
  | { call: "pass"; ms: number }
  | { call: "size" };

export interface Quiet {
  /** Since anything was counted. */
  quietMs: number;
  /** Messages in the queue, and objects that are busy or wait for a timer. */
  open: number;
}

/** Bytes of the objects' databases, all together. */
export interface Size {
  objectBytes: number;
}
