/** The latest refused calls as the page shows them: summed up by key and code, narrowed down, a page at a time. */
import type { RefusalCode } from "../domain/refusal.ts";
import type { Rejection } from "../quota/protocol.ts";

export interface RejectionGroup {
  keyId: string;
  code: RefusalCode;
  calls: number;
  signals: number;
  latestMs: number;
}

export interface RejectionFilter {
  keyId?: string;
  code?: RefusalCode;
}

/** The most frequent first. */
export function groupRejections(rejections: readonly Rejection[]): RejectionGroup[] {
  const groups = new Map<string, RejectionGroup>();
  for (const { keyId, code, signals, atMs } of rejections) {
    const name = `${code} ${keyId}`;
    const group = groups.get(name) ?? { keyId, code, calls: 0, signals: 0, latestMs: 0 };
    group.calls += 1;
    group.signals += signals;
    group.latestMs = Math.max(group.latestMs, atMs);
    groups.set(name, group);
  }
  return [...groups.values()].sort((a, b) => b.calls - a.calls || b.latestMs - a.latestMs);
}

/**
 * A page of those that the filter lets through, newest first.
 *
 * @param cursor of the page before; one whose call is not kept any more begins at the first page again.
 */
export function pageOfRejections(
  rejections: readonly Rejection[],
  filter: RejectionFilter,
  { cursor, limit }: { cursor: string | null; limit: number },
): { items: Rejection[]; next: string | null } {
  const all = rejections.filter(
    ({ keyId, code }) =>
      (filter.keyId === undefined || keyId === filter.keyId) && (filter.code === undefined || code === filter.code),
  );
  const start = cursor === null ? 0 : all.findIndex((one) => cursorOf(one) === cursor) + 1;
  const items = all.slice(start, start + limit);
  const last = items.at(-1);
  return { items, next: start + limit < all.length && last !== undefined ? cursorOf(last) : null };
}

/** One call may be refused for several reasons. */
function cursorOf({ requestId, code }: Rejection): string {
  return `${requestId}.${code}`;
}
