/** Which lines the job of a mapping rule looks at: those that the rule is about, and those that it has scored. */
import { compileRules, isAboutEvent } from "../../domain/rules/mapping-rule.ts";
import { eventRange } from "../../domain/rules/event-pattern.ts";
import type { CompiledRules, MappingRule } from "../../domain/rules/mapping-rule.ts";
import { RULE_STEP_SEGMENTS } from "../../limits.ts";
import type { Segment } from "../log/segment.ts";
import type { StoreState } from "../state/store-state.ts";
import { ruleOf } from "./rule-jobs.ts";
import type { RuleJobRow } from "./rule-jobs.ts";
import { canScore, hasEventsOf, isCounted } from "./rule-signals.ts";
import type { ScorableFacts } from "./rule-signals.ts";

/** The version of the rule that each verdict is of, by its number. */
export type VerdictVersions = ReadonlyMap<number, number>;

/** A line that may come to score something else. */
export interface RuleCandidate {
  seq: number;
  facts: ScorableFacts;
  /**
   * Whether the rule is about the line's event: then it takes the payload to say what it scores. Otherwise it scores
   * nothing.
   */
  isAbout: boolean;
}

/** A segment as it was read, with the lines of it that may change. */
export interface CandidateSegment {
  segment: Segment;
  candidates: RuleCandidate[];
  scanned: number;
}

/** The next segments that a job looks at: one at least, if there is one, and whether they are the last. */
export function nextCandidates(
  state: StoreState,
  job: RuleJobRow,
  limit: number,
): { parts: CandidateSegment[]; areLast: boolean } {
  const rule = ruleOf(job);
  const outdated = outdatedVerdicts(job, verdictVersions(state.sql, job.rule_id));
  const parts: CandidateSegment[] = [];
  const hasNothing = rule === null && outdated.length === 0;
  if (job.person_id !== null || hasNothing) return { parts, areLast: true };
  const { read, event } = reader(job, rule, outdated);
  let candidates = 0;
  for (const segment of state.signals.walk(job.position, { event })) {
    if (segment.firstSeq > job.last_seq) break;
    const part = read(segment);
    parts.push(part);
    candidates += part.candidates.length;
    if (segment.lastSeq === job.last_seq) break;
    if (candidates >= limit || parts.length >= RULE_STEP_SEGMENTS) return { parts, areLast: false };
  }
  return { parts, areLast: true };
}

/** What finds the candidates of a segment, and the event of the segments that are to be looked at; undefined: all are. */
function reader(
  job: RuleJobRow,
  rule: MappingRule | null,
  outdated: readonly number[],
): { read: (segment: Segment) => CandidateSegment; event: string | undefined } {
  const compiled = compileRules(rule === null ? [] : [rule]);
  const { prefix: event, exact } = eventRange(rule?.event ?? "");
  const isOutdated = new Set(outdated);
  const read = (segment: Segment): CandidateSegment => {
    const part: CandidateSegment = { segment, candidates: [], scanned: 0 };
    for (const seq of linesOf(segment, compiled, exact ? event : null, isOutdated)) {
      const facts = segment.facts(seq);
      const isAbout = facts.event !== null && isAboutEvent(compiled, facts.event);
      if (isAbout && isCounted(facts)) part.scanned++;
      if (!canScore(facts) || (facts.linkedAtMs ?? 0) > job.requested_at) continue;
      if (isAbout || facts.verdicts.some((id) => isOutdated.has(id))) part.candidates.push({ seq, facts, isAbout });
    }
    return part;
  };
  return { read, event: rule !== null && exact && outdated.length === 0 ? event : undefined };
}

/** Numbers of the lines that the rule is about, or has scored, and of few others. */
function linesOf(
  segment: Segment,
  compiled: CompiledRules,
  event: string | null,
  outdated: ReadonlySet<number>,
): Iterable<number> {
  const scored = outdated.size === 0 ? [] : segment.seqsScored(outdated);
  if (!hasEventsOf(segment, compiled)) return scored;
  return event === null ? segment.seqs() : new Set([...segment.seqsWith("event", event), ...scored]);
}

export function verdictVersions(sql: SqlStorage, ruleId: string): VerdictVersions {
  const rows = sql.exec<{ id: number; rule_version: number }>(
    "SELECT id, rule_version FROM verdicts WHERE rule_id = ?",
    ruleId,
  );
  return new Map([...rows].map(({ id, rule_version: version }) => [id, version] as const));
}

/** Verdicts that no line is to have any more where the rule is not about its event. */
export function outdatedVerdicts({ rule, rule_version: version }: RuleJobRow, versions: VerdictVersions): number[] {
  const last = version ?? Number.POSITIVE_INFINITY;
  return [...versions].filter(([, one]) => (rule === null ? one <= last : one < last)).map(([id]) => id);
}

export function seqsAbout(candidates: readonly RuleCandidate[]): number[] {
  return candidates.filter(({ isAbout }) => isAbout).map(({ seq }) => seq);
}
