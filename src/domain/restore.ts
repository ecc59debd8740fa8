/** A restore of a workspace (docs/operate.md): its three Durable Objects go back to one moment together. */

/** The Durable Objects of a workspace, in the order in which they are restored. */
export const RESTORED_OBJECTS = ["signal_store", "destinations", "quota_counter"] as const;
export type RestoredObject = (typeof RESTORED_OBJECTS)[number];

/**
 * `preparing`: nothing has changed yet, and the restore may still be refused. `restoring`: from here on it only goes forward;
 * who repeats it finishes it. `done`. `refused`: nothing was changed.
 */
export type RestoreState = "preparing" | "restoring" | "done" | "refused";

/** Signals of each billing period, by the start of the period in milliseconds since 1970. */
export type SignalsByPeriod = Record<string, number>;

/** What a workspace's objects said before they were restored. */
export interface BeforeRestore {
  /** Bookmarks of the moment that each object is restored to. */
  target: Record<RestoredObject, string>;
  /** Bookmarks of the moment before the restore, by which it is undone. */
  undo: Record<RestoredObject, string>;
  /** The highest number of an outbox row that had been given. */
  highestRow: number;
  /** Signals answered with 202. */
  accepted: SignalsByPeriod;
}
