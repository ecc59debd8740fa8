/** The platform's point-in-time recovery of a Durable Object's database: any moment of the last thirty days. */

/** A moment in milliseconds since 1970, or a bookmark that an earlier restoring gave. */
export type PointInTime = { atMs: number } | { bookmark: string };

/**
 * The object's database will be as it was then, once the object has started anew; until then nothing changes. Returns a
 * bookmark of now, by which this is undone.
 *
 * @throws where the platform has no such point.
 */
export async function restoreAtNextStart(storage: DurableObjectStorage, point: PointInTime): Promise<string> {
  const bookmark = "bookmark" in point ? point.bookmark : await storage.getBookmarkForTime(point.atMs);
  return storage.onNextSessionRestoreBookmark(bookmark);
}
