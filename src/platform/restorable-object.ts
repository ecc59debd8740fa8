/** What the three Durable Objects share: their jurisdiction, the restore of their database, and their single alarm. */
import { DurableObject } from "cloudflare:workers";

/**
 * Returns `env` with only the Durable Objects of one jurisdiction; empty: `env` itself. The Worker uses JURISDICTION. An
 * object uses its own jurisdiction, so that it finds the other objects of its workspace whatever JURISDICTION is.
 */
export function inJurisdiction(env: Env, jurisdiction: string): Env {
  if (jurisdiction === "") return env;
  const restricted = <T extends Rpc.DurableObjectBranded>(all: DurableObjectNamespace<T>): PropertyDescriptor => ({
    // Only on use: the platform throws if it does not have the jurisdiction, and most requests use one class.
    get: () => all.jurisdiction(jurisdiction as DurableObjectJurisdiction),
    enumerable: true,
  });
  return Object.create(env, {
    QUOTA_COUNTER: restricted(env.QUOTA_COUNTER),
    SIGNAL_STORE: restricted(env.SIGNAL_STORE),
    DESTINATIONS: restricted(env.DESTINATIONS),
  }) as Env;
}

/** Key of the prepared restore's id. The restore removes it, which shows that it has happened. */
const PREPARED = "prepared_restore";

interface Bookmarks {
  /** Bookmark of the requested moment; null: no moment was requested. */
  target: string | null;
  /** Bookmark of the moment before the restore. */
  undo: string;
}

/**
 * The base of the three Durable Objects. Its database can be restored to any moment of the last 30 days. The platform
 * restores it at the next start, so a single call arms the restore and ends the object.
 */
export class RestorableObject extends DurableObject<Env> {
  /** Subclasses use `this.env`, whose objects are in the jurisdiction of this object. */
  constructor(ctx: DurableObjectState, bindings: Env) {
    super(ctx, inJurisdiction(bindings, ctx.id.jurisdiction ?? ""));
  }

  /**
   * Prepares a restore without changing anything. Idempotent.
   * @param atMs the moment to restore to; null: the caller knows the bookmark.
   * @throws if the platform has no bookmark of that moment.
   */
  async prepareRestore(id: string, atMs: number | null): Promise<Bookmarks> {
    const { storage } = this.ctx;
    await storage.sync();
    const undo = await storage.getCurrentBookmark();
    const target = atMs === null ? null : await storage.getBookmarkForTime(atMs);
    storage.kv.put(PREPARED, id);
    await storage.sync();
    return { target, undo };
  }

  /** Whether the restore is prepared and has not happened yet. */
  awaitsRestore(id: string): boolean {
    return this.ctx.storage.kv.get(PREPARED) === id;
  }

  /** Restores the database and ends the object, including this call. Does nothing if the restore has already happened. */
  async restoreTo(id: string, bookmark: string): Promise<void> {
    if (!this.awaitsRestore(id)) return;
    await this.ctx.storage.onNextSessionRestoreBookmark(bookmark);
    this.ctx.abort("The object starts anew, with a restored database.");
  }
}

/** The object has a single alarm. It is moved only to an earlier time, because each `setAlarm` is billed as a row. */
export class Alarm {
  readonly #storage: DurableObjectStorage;
  #atMs = Number.POSITIVE_INFINITY;

  constructor(ctx: DurableObjectState) {
    this.#storage = ctx.storage;
    // Reads the current alarm before the first call, which must not postpone it.
    void ctx.blockConcurrencyWhile(async () => {
      this.#atMs = Math.min(this.#atMs, (await ctx.storage.getAlarm()) ?? Number.POSITIVE_INFINITY);
    });
  }

  /** Sets the alarm to `atMs` unless it is earlier already. */
  by(atMs: number): void {
    if (atMs >= this.#atMs) return;
    this.#atMs = atMs;
    // The platform rejects times before 1970, and then no alarm would be set.
    void this.#storage.setAlarm(Math.max(atMs, 1));
  }

  /** Called when the alarm fired: all later times must be requested again. */
  rang(): void {
    this.#atMs = Number.POSITIVE_INFINITY;
  }
}
