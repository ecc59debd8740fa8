/** How events of scoring signals are gathered, so that a busy workspace does not flood its destinations. */
import { GATHER_EVERY_MS, PERSON_SCORED_MAX_SIGNALS } from "../../limits.ts";
import type { EventOf } from "./workspace-event.ts";

/** To a destination that fails, gathered scoring signals go after a pause of this share of the time that it has failed. */
const GATHER_SHARE_OF_FAILING = 0.05;
/** The longest pause between two deliveries of gathered scoring signals: three days of failures are some 240 deliveries. */
export const GATHER_MAX_MS = 3_600_000;

/**
 * How long two deliveries of gathered events are apart at least. A destination that fails gets fewer and larger ones the
 * longer it does: each is a probe, and three days of them stay few.
 */
export function gatherIntervalMs(failingForMs: number): number {
  return Math.min(GATHER_MAX_MS, Math.max(GATHER_EVERY_MS, Math.round(failingForMs * GATHER_SHARE_OF_FAILING)));
}

/** How many of these events, in their order, go into one delivery, given the scoring signals of each: at least one. */
export function fittingEvents(signals: readonly number[]): number {
  let sum = 0;
  const first = signals.findIndex((count, index) => (sum += count) > PERSON_SCORED_MAX_SIGNALS && index > 0);
  return first === -1 ? signals.length : first;
}

/** Makes one event of several. Its id is that of the first: no event is gathered twice, so that no other has it. */
export function gathered(
  events: readonly [EventOf<"person.scored">, ...EventOf<"person.scored">[]],
): EventOf<"person.scored"> {
  const [{ id, time }] = events;
  const scoring_signals = events.flatMap((event) => event.data.scoring_signals);
  return { id, type: "person.scored", time, data: { scoring_signals } };
}
