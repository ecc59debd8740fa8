/** The books of a workspace (design §1.2), read across its two Durable Objects. */
import { balanceBooks, readAgain, type Books } from "../domain/quota/books.ts";
import { quotaCounter, signalStore } from "./objects.ts";

const BOOK_READINGS = 3;

/**
 * Counter, store, counter: see domain/quota/books.ts. Read again while signals come in, for a sharper picture.
 *
 * @param periodStartMs of one billing period; undefined: since the workspace began.
 */
export async function readBooks(env: Env, workspaceId: string, periodStartMs: number | undefined): Promise<Books> {
  const counter = quotaCounter(env, workspaceId);
  for (let reading = 1; ; reading++) {
    const before = await counter.books(periodStartMs);
    const totals = await signalStore(env, workspaceId).totals(periodStartMs);
    const after = await counter.books(periodStartMs);
    if (!readAgain(before, after) || reading === BOOK_READINGS) return balanceBooks(before, totals, after);
  }
}
