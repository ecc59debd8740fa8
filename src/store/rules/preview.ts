/** A mapping rule tried on stored signals before it is saved (design §8.5): newest first, a page at a time, reads only. */
import { parsed } from "../../domain/json/json-value.ts";
import { dayOf } from "../../domain/quota/day-counts.ts";
import { eventRange, compileRules, isAboutEvent } from "../../domain/rules/mapping-rule.ts";
import type { CompiledRules, MappingRule } from "../../domain/rules/mapping-rule.ts";
import { PREVIEW_SAMPLES, RULE_STEP_SEGMENTS } from "../../limits.ts";
import { readPayloads, type ColdObjects } from "../log/cold.ts";
import type { Facts } from "../log/line.ts";
import type { Segment } from "../log/segment.ts";
import { People } from "../people/people.ts";
import type { PreviewPage, PreviewRange, PreviewSample } from "../protocol/store-operations.ts";
import type { StoreState } from "../state/store-state.ts";
import { canScore, hasEventsOf, isCounted, matchesOf } from "./rule-job-steps.ts";

/** Lines of a segment that are looked at, the latest first. */
interface Part {
  segment: Segment;
  lines: { seq: number; facts: Facts }[];
}

/** A page of a preview: the latest signals of the rule's events. Where payloads cannot be had the preview ends. */
export async function previewPage(
  state: StoreState,
  objects: ColdObjects,
  rule: MappingRule,
  range: PreviewRange,
): Promise<PreviewPage> {
  const compiled = compileRules([rule]);
  const { parts, next } = latestLines(state, rule, compiled, range);
  const isTried = ({ facts }: Part["lines"][number]): boolean =>
    canScore(facts) && facts.admission.receivedAtMs >= range.sinceMs;
  const wanted = parts.map(({ segment, lines }) => ({ segment, seqs: lines.filter(isTried).map(({ seq }) => seq) }));
  const payloads = await readPayloads(
    state.signals,
    objects,
    wanted.filter(({ seqs }) => seqs.length > 0),
  );
  const people = new People(state);
  const matching = new Set<number>();
  const days = new Set<string>();
  const page: PreviewPage = { scanned: 0, matches: 0, people: [], personDays: [], samples: [], next, complete: true };
  for (const line of parts.flatMap(({ lines }) => lines)) {
    const { seq, facts } = line;
    if (isTried(line) && !payloads.has(seq)) {
      page.next = null;
      page.complete = false;
      break;
    }
    page.scanned++;
    const payload = payloads.get(seq) ?? null;
    if (!canScore(facts) || payload === null || matchesOf(compiled, facts, payload, people).length === 0) continue;
    const email = people.emailOf(facts.owner.personId);
    if (email === null) continue;
    page.matches++;
    matching.add(facts.owner.personId);
    if (rule.frequency === "once_per_day") days.add(`${facts.owner.personId} ${dayOf(facts.admission.receivedAtMs)}`);
    if (page.samples.length < PREVIEW_SAMPLES) page.samples.push(toSample(facts, email, payload));
  }
  return { ...page, people: [...matching], personDays: [...days] };
}

/** Lines that a slice reads. `next` is null at the end. */
function latestLines(
  { signals }: StoreState,
  rule: MappingRule,
  compiled: CompiledRules,
  { beforeSeq, sinceMs, limit }: PreviewRange,
): { parts: Part[]; next: number | null } {
  const { prefix, exact } = eventRange(rule.event);
  const parts: Part[] = [];
  let [found, segments] = [0, 0];
  for (const segment of signals.walkBack(beforeSeq, exact ? { event: prefix } : {})) {
    // A signal is recorded after its receipt, so all lines before a line recorded too early were also received too
    // early.
    if (segment.facts(segment.lastSeq).recordedAtMs < sinceMs) break;
    const part: Part = { segment, lines: [] };
    parts.push(part);
    const seqs = !hasEventsOf(segment, compiled) ? [] : exact ? segment.seqsWith("event", prefix) : segment.seqs();
    for (const seq of seqs.toReversed()) {
      if (seq >= beforeSeq) continue;
      const facts = segment.facts(seq);
      if (!isCounted(facts) || !isAboutEvent(compiled, facts.event ?? "")) continue;
      if (facts.recordedAtMs < sinceMs) return { parts, next: null };
      if (found === limit) return { parts, next: seq + 1 };
      part.lines.push({ seq, facts });
      found++;
    }
    if (++segments === RULE_STEP_SEGMENTS) return { parts, next: segment.firstSeq };
  }
  return { parts, next: null };
}

function toSample({ admission, event, source }: Facts, email: string, payload: string): PreviewSample {
  const { id, receivedAtMs } = admission;
  return { id, event: event ?? "", source: source ?? "", email, receivedAtMs, payload: parsed(payload) };
}
