/** Usage, books and refused calls: what is answered, and the records turned into it. */
import * as z from "zod";
import { iso } from "../control/database.ts";
import type { Books } from "../domain/books.ts";
import { statusOf } from "../http/problem.ts";
import type { ClosedPeriod, Rejection, Usage } from "../quota/protocol.ts";
import { count, instant } from "./schemas.ts";

const periodFields = {
  period_start: instant,
  period_end: instant,
  signal_limit: count,
  overages: z.boolean(),
  accepted: count,
  held: count,
  rejected: count,
  overage: count.meta({ description: "Accepted beyond the limit with overages on." }),
  streak: count.meta({ description: "Consecutive periods over the allowance." }),
};
export const usageAnswer = z
  .object({
    ...periodFields,
    extra_room_removed: z.boolean(),
    history: z.array(z.object(periodFields)).meta({ description: "Closed periods, newest first." }),
  })
  .meta({ id: "Usage" });

export function usageJson({ extraRoomRemoved, history, ...usage }: Usage): z.infer<typeof usageAnswer> {
  return { ...periodJson(usage), extra_room_removed: extraRoomRemoved, history: history.map(periodJson) };
}

function periodJson(period: ClosedPeriod) {
  return {
    period_start: iso(period.periodStartMs),
    period_end: iso(period.periodEndMs),
    signal_limit: period.signalLimit,
    overages: period.overages,
    accepted: period.accepted,
    held: period.held,
    rejected: period.rejected,
    overage: period.overage,
    streak: period.streak,
  };
}

export const booksAnswer = z
  .object({
    accepted: count.meta({ description: "Every signal answered with 202, held ones included." }),
    processed: count,
    duplicates: count,
    held: count,
    purged: count,
    dead_lettered: count,
    in_flight: z.int().meta({ description: "Accepted and not recorded yet." }),
    balanced: z.boolean().meta({ description: "Everything accepted is recorded, or still on its way." }),
  })
  .meta({ id: "Books" });

export function booksJson({ deadLettered, inFlight, ...books }: Books): z.infer<typeof booksAnswer> {
  return { ...books, dead_lettered: deadLettered, in_flight: inFlight };
}

export const rejectionAnswer = z
  .object({
    at: instant,
    key_id: z.string(),
    key_name: z.string().nullable(),
    status: z.int(),
    code: z.string(),
    detail: z.string().nullable(),
    request_id: z.string(),
    signals: count.meta({ description: "Signals refused in the call; 1 where that is not known." }),
  })
  .meta({ id: "Rejection" });

export function rejectionJson(rejection: Rejection, keyName: string | null): z.infer<typeof rejectionAnswer> {
  const { atMs, keyId, code, detail, requestId, signals } = rejection;
  const status = statusOf(code);
  return { at: iso(atMs), key_id: keyId, key_name: keyName, status, code, detail, request_id: requestId, signals };
}
