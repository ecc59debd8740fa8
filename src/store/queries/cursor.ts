/** Cursors that hold more than a number: JSON, possibly edited by a user. */

export function writeCursor(place: unknown): string {
  return JSON.stringify(place);
}

/** Position of a cursor. Null: first slice, or invalid JSON. The caller validates the position. */
export function readCursor(cursor: string | null): unknown {
  if (cursor === null) return null;
  try {
    return JSON.parse(cursor) as unknown;
  } catch {
    return null;
  }
}
