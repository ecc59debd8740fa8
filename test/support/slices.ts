/** Reads lists slice by slice, as a client does. */
const MOST_SLICES = 500;

/** All slices of a list, each from the cursor of the slice before. */
export async function allSlices<Slice extends { next: string | null }>(
  read: (cursor: string | null) => Slice | Promise<Slice>,
): Promise<Slice[]> {
  const slices: Slice[] = [];
  let cursor: string | null = null;
  do {
    if (slices.length === MOST_SLICES) throw new Error("the list does not end");
    // oxlint-disable-next-line no-await-in-loop -- each slice names the next
    const slice: Slice = await read(cursor);
    slices.push(slice);
    cursor = slice.next;
  } while (cursor !== null);
  return slices;
}

/** The items of all slices. */
export async function allItems<Item>(
  read: (
    cursor: string | null,
  ) => { items: Item[]; next: string | null } | Promise<{ items: Item[]; next: string | null }>,
): Promise<Item[]> {
  return (await allSlices(read)).flatMap(({ items }) => items);
}
