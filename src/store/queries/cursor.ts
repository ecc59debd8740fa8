/** Cursors of lists whose places are more than a number: JSON, as it was given out, or as somebody has typed it. */

export function writeCursor(place: unknown): string {
  return JSON.stringify(place);
}

/**
 * The place that a cursor tells. Null for the first page, and for what is no JSON; the caller checks that the place is one
 * of theirs.
 */
export function readCursor(cursor: string | null): unknown {
  if (cursor === null) return null;
  try {
    return JSON.parse(cursor) as unknown;
  } catch {
    return null;
  }
}
