/** A mapping rule tried on stored signals before it is saved (design §8.5): newest first, a page at a time, reads only. */
import { compileRules, eventRange, isAboutEvent } from "../domain/mapping-rule.ts";
import type { MappingRule } from "../domain/mapping-rule.ts";
import { PREVIEW_MAX_EVENTS, PREVIEW_MAX_GROUPS, PREVIEW_SAMPLES } from "../limits.ts";
import { rowsByBlock, SIGNALS_BY_EVENT } from "./blocks.ts";
import { parsed } from "./queries/list-page.ts";
import type { PreviewPage, PreviewRange } from "./rule-protocol.ts";
import { matchOf, STORED_SIGNAL } from "./rule-signals.ts";
import type { StoredSignal } from "./rule-signals.ts";

/** The events that the rule's pattern fits, of those received since; `complete: false` when there may be more. */
export function previewEvents(
  sql: SqlStorage,
  rule: MappingRule,
  sinceMs: number,
): { events: string[]; complete: boolean } {
  const { prefix, exact } = eventRange(rule.event);
  if (exact) return { events: [prefix], complete: true };
  const compiled = compileRules([rule]);
  const events = new Set<string>();
  const groups = sql.exec<{ event: string }>(
    "SELECT event FROM event_groups WHERE count > 0 AND last_seen >= ? ORDER BY last_seen DESC LIMIT ?",
    sinceMs,
    PREVIEW_MAX_GROUPS,
  );
  let read = 0;
  for (const { event } of groups) {
    read++;
    if (!isAboutEvent(compiled, event) || events.has(event)) continue;
    if (events.size === PREVIEW_MAX_EVENTS) return { events: [...events], complete: false };
    events.add(event);
  }
  return { events: [...events], complete: read < PREVIEW_MAX_GROUPS };
}

/** The next `limit` signals of these events. Each event is followed on its own, so that no other signal is read. */
export function previewPage(sql: SqlStorage, rule: MappingRule, range: PreviewRange): PreviewPage {
  const compiled = compileRules([rule]);
  const heads = range.events.flatMap(({ event, beforeSeq }) => {
    const rows = rowsByBlock(sql, SIGNALS_BY_EVENT, { value: event, from: beforeSeq, to: "earlier" });
    const seq = rows.next().value?.row;
    return seq === undefined ? [] : [{ event, rows, seq }];
  });
  const people = new Set<number>();
  const page: PreviewPage = { scanned: 0, matches: 0, people: [], samples: [], next: [] };
  for (;;) {
    const head = heads.reduce<(typeof heads)[number] | undefined>(
      (latest, one) => (latest === undefined || one.seq > latest.seq ? one : latest),
      undefined,
    );
    if (head === undefined) break;
    if (page.scanned === range.limit) {
      page.next = heads.map(({ event, seq }) => ({ event, beforeSeq: seq + 1 }));
      break;
    }
    const signal = sql
      .exec<StoredSignal & { recorded_at: number }>(
        `SELECT ${STORED_SIGNAL}, signals.recorded_at FROM signals LEFT JOIN people ON people.id = signals.person_id
         WHERE signals.seq = ?`,
        head.seq,
      )
      .one();
    // Nothing is recorded before it is received: what comes before this one was received too early as well.
    if (signal.recorded_at < range.sinceMs) break;
    page.scanned++;
    if (signal.received_at >= range.sinceMs && matchOf(compiled, signal) !== undefined) {
      page.matches++;
      people.add(signal.person_id ?? 0);
      if (page.samples.length < PREVIEW_SAMPLES) page.samples.push(toSample(head.event, signal));
    }
    const following = head.rows.next().value?.row;
    if (following === undefined) heads.splice(heads.indexOf(head), 1);
    else head.seq = following;
  }
  return { ...page, people: [...people] };
}

function toSample(event: string, { id, source, email, received_at, payload }: StoredSignal) {
  return { id, event, source, email: email ?? "", receivedAtMs: received_at, payload: parsed(payload) };
}
