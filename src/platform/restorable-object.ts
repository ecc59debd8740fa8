/**
 * A Durable Object whose database the platform can take back to any moment of the last 30 days. The platform does so when the
 * object next starts. To arm that and to end the object is one call here, so that no restore waits for a later start.
 */
import { DurableObject } from "cloudflare:workers";

/** Key of the id of the restore that is prepared: restoring takes it away, so that whoever looks knows what has happened. */
const PREPARED = "prepared_restore";

/** Bookmarks of one object. */
export interface Bookmarks {
  /** Of the moment asked for; null where none was. */
  target: string | null;
  /** Of the moment before the restore. */
  undo: string;
}

export class RestorableObject extends DurableObject<Env> {
  /**
   * Prepares a restore, which changes nothing yet. Repeating it is harmless.
   *
   * @param atMs the moment to restore to; null: the caller knows the bookmark.
   * @throws where the platform has no bookmark of that moment.
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

  /** Restores the database, and ends the object, this call included. Does nothing where the restore has happened already. */
  async restoreTo(id: string, bookmark: string): Promise<void> {
    if (!this.awaitsRestore(id)) return;
    await this.ctx.storage.onNextSessionRestoreBookmark(bookmark);
    this.ctx.abort("The object starts anew, with a restored database.");
  }
}
