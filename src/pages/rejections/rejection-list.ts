/** Refused calls as the page shows them: narrowed down, summed up by key and reason, a page at a time. */
import type { RefusalCode, Rejection, RejectionReason } from "../../domain/keys/refusal.ts";
import type { DayRange } from "../day-range.ts";

export interface RejectionGroup extends RejectionReason {
  calls: number;
  signals: number;
  latestMs: number;
}

export interface RejectionFilter {
  keyId?: string;
  code?: RefusalCode;
  days: DayRange;
}

/** Groups by key, code and cause, the most frequent first. */
export function groupRejections(rejections: readonly Rejection[]): RejectionGroup[] {
  const groups = new Map<string, RejectionGroup>();
  for (const { keyId, code, cause, calls, signals, lastAtMs } of rejections) {
    const name = `${code} ${cause} ${keyId}`;
    const group = groups.get(name) ?? { keyId, code, cause, calls: 0, signals: 0, latestMs: 0 };
    group.calls += calls;
    group.signals += signals;
    group.latestMs = Math.max(group.latestMs, lastAtMs);
    groups.set(name, group);
  }
  return [...groups.values()].sort((a, b) => b.calls - a.calls || b.latestMs - a.latestMs);
}

/** What the filter lets through. An entry stands for all calls from its first to its last. */
export function filterRejections(rejections: readonly Rejection[], filter: RejectionFilter): Rejection[] {
  return rejections.filter(
    ({ keyId, code, firstAtMs, lastAtMs }) =>
      (filter.keyId === undefined || keyId === filter.keyId) &&
      (filter.code === undefined || code === filter.code) &&
      (filter.days.untilMs === null || firstAtMs < filter.days.untilMs) &&
      (filter.days.sinceMs === null || lastAtMs >= filter.days.sinceMs),
  );
}

/** @param cursor `next` of the page before; one whose entry is not kept any more begins at the first page again. */
export function pageOfRejections(
  rejections: readonly Rejection[],
  { cursor, limit }: { cursor: string | null; limit: number },
): { items: Rejection[]; next: string | null } {
  const start = cursor === null ? 0 : rejections.findIndex((one) => rejectionCursor(one) === cursor) + 1;
  const items = rejections.slice(start, start + limit);
  const last = items.at(-1);
  return { items, next: start + limit < rejections.length && last !== undefined ? rejectionCursor(last) : null };
}

/** Names an entry. A request id alone would not: one call may be refused for several reasons, and be the first of each. */
function rejectionCursor({ requestId, keyId, code, cause }: Rejection): string {
  return [requestId, keyId, code, cause ?? ""].join(".");
}
