/** A restore of a workspace (docs/operate.md): its three Durable Objects return to the same moment together. */

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

/** State of the workspace's objects before the restore. */
export interface BeforeRestore {
  /** Bookmarks of the moment that each object is restored to. */
  target: Record<RestoredObject, string>;
  /** Bookmarks of the moment before the restore, for undoing it. */
  undo: Record<RestoredObject, string>;
  highestRow: number;
  accepted: SignalsByPeriod;
}
