/** The counter's side of the books (design §1.2): what was admitted, and what of it waits for the Signal Store. */
import { ordinalsTaken } from "../domain/quota/quota.ts";
import type { CounterNews } from "./counter-news.ts";
import type { Corrections } from "./corrections.ts";
import type { LedgerState } from "./ledger-state.ts";
import type { Outbox } from "./outbox.ts";
import type { Backlog, CounterBooks, Usage } from "./protocol.ts";

/** @param periodStartMs of the billing period that is asked for; undefined: since the workspace began. */
export function counterBooks(
  usage: Usage | null,
  { ledger }: LedgerState,
  outbox: Outbox,
  corrections: Corrections,
  periodStartMs: number | undefined,
): CounterBooks {
  const period = [usage, ...(usage?.history ?? [])].find((one) => one?.periodStartMs === periodStartMs);
  const admitted = periodStartMs === undefined ? ledger?.admitted : period && ordinalsTaken(period);
  const { forgotten, lost } = corrections.sums(periodStartMs);
  return { admitted: (admitted ?? 0) + forgotten, unsettled: outbox.unsettled(periodStartMs), lost };
}

/** What waits in the outbox, and whether anybody is told of it. */
export function waiting(
  { ledger }: LedgerState,
  outbox: Outbox,
  corrections: Corrections,
  { hasDestinations }: CounterNews,
): Omit<Backlog, "storeFull" | "outboxMaxBytes"> {
  const oldest = outbox.oldest();
  const { forgotten, lost } = corrections.sums();
  return {
    hasDestinations,
    admitted: (ledger?.admitted ?? 0) + forgotten,
    lostSignals: lost,
    unreadableSignals: outbox.unreadableSignals(),
    unsettledSignals: outbox.unsettled(),
    outboxBytes: outbox.databaseBytes,
    oldestAtMs: oldest?.atMs ?? null,
  };
}
