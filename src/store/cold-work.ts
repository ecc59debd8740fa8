/**
 * What the store's alarm does for cold storage: pack, rewrite, remove. Between R2's answers the store serves others, so
 * that each step looks at the tables again; and it may break off anywhere: what is left to do is read off the tables.
 */
import { errorText, logEvent } from "../http/log.ts";
import { COLD_AFTER_MS, COLD_REMOVE_OBJECTS, COLD_TURN_OBJECTS } from "../limits.ts";
import type { ColdObjects } from "./cold-objects.ts";
import {
  beginObject,
  finishObject,
  forgetCold,
  objectsToRemove,
  objectsToScrub,
  packDueMs,
  removed,
  scrubbed,
  signalsToPack,
  waitingLines,
} from "./cold-storage.ts";

type Step = (storage: DurableObjectStorage, objects: ColdObjects) => Promise<void>;

/** A bounded part of what is due. Returns whether R2 did it all; never throws. */
export async function workOnColdStorage(storage: DurableObjectStorage, objects: ColdObjects): Promise<boolean> {
  const attempt = async (event: string, step: Step): Promise<boolean> => {
    try {
      await step(storage, objects);
      return true;
    } catch (error) {
      logEvent(event, { workspace: objects.workspaceId, error: errorText(error) });
      return false;
    }
  };
  // What must not be kept any longer comes first.
  const scrubbedAll = await attempt("cold_scrub_failed", scrubObjects);
  const removedAll = await attempt("cold_remove_failed", removeObjects);
  const packedAll = await attempt("cold_pack_failed", packSignals);
  return scrubbedAll && removedAll && packedAll;
}

/** Fills objects once the oldest signal is due: then as many as there are by now come along. */
async function packSignals(storage: DurableObjectStorage, objects: ColdObjects): Promise<void> {
  const { sql } = storage;
  const startedMs = Date.now();
  const dueBy = (atMs: number): boolean => (packDueMs(sql) ?? Number.POSITIVE_INFINITY) <= atMs;
  /* oxlint-disable no-await-in-loop -- each object begins where the one before it ended */
  for (let written = 0; written < COLD_TURN_OBJECTS; written++) {
    // Those recorded since make no object of their own yet.
    if (!dueBy(written === 0 ? startedMs : startedMs + COLD_AFTER_MS)) return;
    const signals = signalsToPack(sql);
    const object = storage.transactionSync(() => beginObject(sql, Date.now()));
    // Known for good before R2 hears of it.
    await storage.sync();
    await objects.write(object, signals);
    storage.transactionSync(() => finishObject(sql, object, signals));
  }
  /* oxlint-enable no-await-in-loop */
}

async function scrubObjects(storage: DurableObjectStorage, objects: ColdObjects): Promise<void> {
  const { sql } = storage;
  /* oxlint-disable no-await-in-loop -- one at a time is little to hold in memory */
  for (const { id, scrub } of objectsToScrub(sql, COLD_TURN_OBJECTS)) {
    const lines = waitingLines(sql, id);
    if (lines.size > 0) await objects.keepOnly(id, lines);
    storage.transactionSync(() => {
      if (lines.size > 0) scrubbed(sql, id, scrub);
      else forgetCold(sql, [id]);
    });
  }
  /* oxlint-enable no-await-in-loop */
}

async function removeObjects(storage: DurableObjectStorage, objects: ColdObjects): Promise<void> {
  const { sql } = storage;
  const gone = storage.transactionSync(() => objectsToRemove(sql, Date.now(), COLD_REMOVE_OBJECTS));
  if (gone.length === 0) return;
  await objects.remove(gone);
  storage.transactionSync(() => removed(sql, gone));
}
