import { DurableObject } from "cloudflare:workers";

/**
 * Empty: no restriction. An object uses its own jurisdiction instead of JURISDICTION, so it finds its workspace's
 * objects.
 */
export function inJurisdiction(env: Env, jurisdiction: string): Env {
  if (jurisdiction === "") return env;
  const restricted = <T extends Rpc.DurableObjectBranded>(all: DurableObjectNamespace<T>): PropertyDescriptor => ({
    // Only on use: the platform throws if it does not have the jurisdiction.
    get: () => all.jurisdiction(jurisdiction as DurableObjectJurisdiction),
    enumerable: true,
  });
  return Object.create(env, {
    QUOTA_COUNTER: restricted(env.QUOTA_COUNTER),
    SIGNAL_STORE: restricted(env.SIGNAL_STORE),
    DESTINATIONS: restricted(env.DESTINATIONS),
  }) as Env;
}

/** Id of the prepared restore. The restore removes it, which shows that it has happened. */
const PREPARED = "prepared_restore";

interface Bookmarks {
  target: string | null;
  /** The moment before the restore. */
  undo: string;
}

/**
 * Can be restored to any moment of the last 30 days. The platform restores at the next start, so one call arms the
 * restore and ends the object.
 */
export class RestorableObject extends DurableObject<Env> {
  /** Subclasses use `this.env`, which is in the object's own jurisdiction. */
  constructor(ctx: DurableObjectState, bindings: Env) {
    super(ctx, inJurisdiction(bindings, ctx.id.jurisdiction ?? ""));
  }

  /**
   * Changes no data. Idempotent. @param atMs null: no `target` is needed. @throws if the platform has no bookmark of
   * that moment.
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

  awaitsRestore(id: string): boolean {
    return this.ctx.storage.kv.get(PREPARED) === id;
  }

  /** Ends the object, including this call. Does nothing if the restore has already happened. */
  async restoreTo(id: string, bookmark: string): Promise<void> {
    if (!this.awaitsRestore(id)) return;
    await this.ctx.storage.onNextSessionRestoreBookmark(bookmark);
    this.ctx.abort("The object starts anew, with a restored database.");
  }
}

/** Moves only to an earlier time, because each `setAlarm` is billed as a row. */
export class Alarm {
  readonly #storage: DurableObjectStorage;
  #atMs = Number.POSITIVE_INFINITY;

  constructor(ctx: DurableObjectState) {
    this.#storage = ctx.storage;
    // Before the first call, which must not postpone the stored alarm.
    void ctx.blockConcurrencyWhile(async () => {
      this.#atMs = Math.min(this.#atMs, (await ctx.storage.getAlarm()) ?? Number.POSITIVE_INFINITY);
    });
  }

  by(atMs: number): void {
    if (atMs >= this.#atMs) return;
    this.#atMs = atMs;
    // The platform rejects times before 1970.
    void this.#storage.setAlarm(Math.max(atMs, 1));
  }

  /** After the alarm fired, all later times must be requested again. */
  reset(): void {
    this.#atMs = Number.POSITIVE_INFINITY;
  }
}
