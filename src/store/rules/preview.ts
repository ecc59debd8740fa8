/** Tries a mapping rule on stored signals before it is saved (design §8.5): the newest first, a page at a time. Only reads. */
import { parsed } from "../../domain/json/json-value.ts";
import { dayOf } from "../../domain/quota/day-counts.ts";
import { lapseDayOf } from "../../domain/rules/lapse.ts";
import {
  compileRules,
  eventRange,
  isAboutEvent,
  type CompiledRules,
  type MappingRule,
} from "../../domain/rules/mapping-rule.ts";
import { PREVIEW_SAMPLES, RULE_STEP_SEGMENTS } from "../../limits.ts";
import { readPayloads, type ColdObjects } from "../log/cold.ts";
import type { Facts } from "../log/line.ts";
import type { Segment } from "../log/segment.ts";
import { People } from "../people/people.ts";
import type { PreviewPage, PreviewRange, PreviewSample } from "../protocol/store-operations.ts";
import type { StoreState } from "../state/store-state.ts";
import { canScore, hasEventsOf, isCounted, matchesOf } from "./rule-jobs.ts";

/** Lines of a segment that the rule covers, the latest first. */
interface SegmentLines {
  segment: Segment;
  lines: { seq: number; facts: Facts }[];
}

/** A page of a preview. If a payload cannot be read, the preview ends early. */
export async function previewPage(
  state: StoreState,
  objects: ColdObjects,
  rule: MappingRule,
  range: PreviewRange,
): Promise<PreviewPage> {
  const compiled = compileRules([rule]);
  const { segments, next } = latestLines(state, rule, compiled, range);
  const isTried = (facts: Facts): boolean => canScore(facts) && facts.admission.receivedAtMs >= range.sinceMs;
  const tried = segments.map(({ segment, lines }) => ({
    segment,
    seqs: lines.filter(({ facts }) => isTried(facts)).map(({ seq }) => seq),
  }));
  const payloads = await readPayloads(state.signals, objects, tried);
  const people = new People(state, Date.now());
  const found = new Found(rule, range.today);
  const page = { scanned: 0, samples: [] as PreviewSample[], next, complete: true };
  for (const { seq, facts } of segments.flatMap(({ lines }) => lines)) {
    if (isTried(facts) && !payloads.has(seq)) {
      page.next = null;
      page.complete = false;
      break;
    }
    page.scanned++;
    const payload = payloads.get(seq) ?? null;
    if (!canScore(facts) || payload === null || matchesOf(compiled, facts, payload, people).length === 0) continue;
    const { personId } = facts.owner;
    const email = people.emailOf(personId);
    if (email === null) continue;
    const { id, receivedAtMs } = facts.admission;
    found.add(personId, facts.occurred.ms);
    if (page.samples.length < PREVIEW_SAMPLES) {
      const { event, source } = facts;
      page.samples.push({
        id,
        event: event ?? "",
        source: source ?? "",
        email,
        receivedAtMs,
        payload: parsed(payload),
      });
    }
  }
  return { ...page, ...found.counts() };
}

/** Counts the matches of a page. */
class Found {
  readonly #rule: MappingRule;
  readonly #today: number;
  readonly #people = new Set<number>();
  readonly #occasions = new Set<string>();
  readonly #lapsedOccasions = new Set<string>();
  #matches = 0;
  #lapsed = 0;

  constructor(rule: MappingRule, today: number) {
    this.#rule = rule;
    this.#today = today;
  }

  add(personId: number, atMs: number): void {
    const { frequency = "every_time", pointsLastDays = null } = this.#rule;
    const hasLapsed = pointsLastDays !== null && lapseDayOf(atMs, pointsLastDays) <= this.#today;
    this.#matches++;
    if (hasLapsed) this.#lapsed++;
    this.#people.add(personId);
    if (frequency === "every_time") return;
    const occasion = frequency === "once_ever" ? `${personId}` : `${personId} ${dayOf(atMs)}`;
    this.#occasions.add(occasion);
    // Points of a rule that scores once ever lapse with the earliest match.
    if (hasLapsed) this.#lapsedOccasions.add(occasion);
  }

  counts(): Pick<PreviewPage, "matches" | "lapsed" | "people" | "occasions" | "lapsedOccasions"> {
    return {
      matches: this.#matches,
      lapsed: this.#lapsed,
      people: [...this.#people],
      occasions: [...this.#occasions],
      lapsedOccasions: [...this.#lapsedOccasions],
    };
  }
}

/** The lines of a page. `next` is null at the end. */
function latestLines(
  { signals }: StoreState,
  rule: MappingRule,
  compiled: CompiledRules,
  { beforeSeq, sinceMs, limit }: PreviewRange,
): { segments: SegmentLines[]; next: number | null } {
  const { prefix, exact } = eventRange(rule.event);
  const segments: SegmentLines[] = [];
  let found = 0;
  for (const segment of signals.walkBack(beforeSeq, exact ? { event: prefix } : {})) {
    // A line is recorded after it was received. So a line that was recorded too early ends the preview.
    if (segment.facts(segment.lastSeq).recordedAtMs < sinceMs) break;
    const part: SegmentLines = { segment, lines: [] };
    segments.push(part);
    const seqs = !hasEventsOf(segment, compiled) ? [] : exact ? segment.seqsWith("event", prefix) : segment.seqs();
    for (const seq of seqs.toReversed()) {
      if (seq >= beforeSeq) continue;
      const facts = segment.facts(seq);
      if (!isCounted(facts) || !isAboutEvent(compiled, facts.event ?? "")) continue;
      if (facts.recordedAtMs < sinceMs) return { segments, next: null };
      if (found === limit) return { segments, next: seq + 1 };
      part.lines.push({ seq, facts });
      found++;
    }
    if (segments.length === RULE_STEP_SEGMENTS) return { segments, next: segment.firstSeq };
  }
  return { segments, next: null };
}
