/** The Durable Objects of a workspace, in the order in which they are restored. */
export const RESTORED_OBJECTS = ["signal_store", "destinations", "quota_counter"] as const;
export type RestoredObject = (typeof RESTORED_OBJECTS)[number];

/**
 * `preparing`: nothing has changed, and the restore may still be refused. `restoring`: it can only go forward;
 * repeating the request finishes it. `refused`: nothing was changed.
 */
export type RestoreState = "preparing" | "restoring" | "done" | "refused";

/** Number of signals by the start of their billing period, in milliseconds since 1970. */
export type SignalsByPeriod = Record<string, number>;

export interface BeforeRestore {
  target: Record<RestoredObject, string>;
  /** Bookmarks of the moment before the restore, for undoing it. */
  undo: Record<RestoredObject, string>;
  highestRow: number;
  accepted: SignalsByPeriod;
}
