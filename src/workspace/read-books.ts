/** The books of a workspace (design §1.2), read across its two Durable Objects. */
import { balanceBooks, readAgain, type Balance } from "../domain/quota/balance.ts";
import { quotaCounter, signalStore } from "./objects.ts";

const BOOK_READINGS = 3;

/**
 * The counter is read, the store, and the counter again (domain/quota/balance.ts); all of it once more while signals come in.
 *
 * @param periodStartMs start of one billing period; undefined: the books since the workspace began.
 */
export async function readBooks(env: Env, workspaceId: string, periodStartMs: number | undefined): Promise<Balance> {
  const counter = quotaCounter(env, workspaceId);
  for (let reading = 1; ; reading++) {
    const before = await counter.books(periodStartMs);
    const totals = await signalStore(env, workspaceId).totals(periodStartMs);
    const after = await counter.books(periodStartMs);
    if (!readAgain(before, after) || reading === BOOK_READINGS) return balanceBooks(before, totals, after);
  }
}
