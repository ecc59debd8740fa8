/**
 * Spec §6.3: pre-fills a mapping rule from a signal of the queue. Judges property names and values by word lists and
 * shapes: proposes values that name a kind of action, and no values that name a person or a single item.
 */
import type { MappingCondition } from "./comparators.ts";
import { compileRules, isRulePath, leavesOf } from "./mapping-rule.ts";
import { evaluate, type EvaluatedSignal } from "./evaluate-rules.ts";
import type { RuleContent } from "./rule-content.ts";
import type { NormalisedSignal } from "../signal/signal.ts";
import { fitsName } from "../signal/validate-signal.ts";
import { NAME_MAX_CODE_POINTS } from "../../limits.ts";

/** A stored signal. */
export type SampleSignal = EvaluatedSignal & Pick<NormalisedSignal, "userId" | "anonymousId" | "traits">;

export type ProposedRule = Omit<RuleContent, "frequency" | "pointsLastDays" | "enabled">;

/** Maximum conditions of a proposal: more would match only the sample. */
const MAX_CONDITIONS = 5;
/**
 * Maximum conditions that are tried on the samples. A trial may read a thousand elements of each, and a signal has thousands of
 * properties that hold for it alone.
 */
const MAX_TRIALS = 25;
/** Points of a proposal: the smallest visible value, because only the admin knows what an event is worth. */
const PROPOSED_POINTS = 1;
/** Maximum characters of a proposed text: names and choices are shorter, free text is longer. */
const TEXT_MAX_LENGTH = 80;

/** Last words of names whose values are kinds: `member_status`, `plan`, `product.category`. */
const KIND = words(`action activity asset brand button campaign categories category channel content course cta
  department document edition experiment feature form format goal industry interest kind lesson level list method mode
  module outcome package page phase plan product program reason resource result role screen section segment stage status
  step subscription survey quiz tag tags template tier topic trial type variant webinar workflow`);
/** Last words of labels (`form_name`, `page_url`), unless a neighbouring word is about a person. */
const LABEL = words("name title label subject slug url uri link href path pathname");
const PERSONAL = words(`person people user lead contact customer client visitor member recipient sender author owner
  assignee employee job profile traits first last middle full given family nick company employer organization organisation
  account avatar photo picture image logo referrer referer referring billing shipping`);
/** Last words of names whose values differ from signal to signal. */
const INSTANCE =
  words(`id ids uid uuid guid key email mail phone mobile fax tel telephone ip agent useragent token session
  cookie hash signature secret password nonce at date time timestamp datetime day birthday birth dob amount price total
  subtotal value revenue cost tax discount quantity qty count number duration seconds age score latitude longitude lat lng
  lon address street city zip postal postcode message comment comments description text body note notes question answer
  query search keyword keywords ref gclid fbclid msclkid username login handle nickname surname firstname lastname
  fullname`);

/** Last words of what forms call the type of an answer: `answers[].type` is `email` in each signal of the form. */
const ANSWER_TYPES =
  words(`text string textarea email number integer numeric phone tel date datetime time url website boolean choice
  choices checkbox checkboxes radio select dropdown rating scale file upload hidden address name payment matrix ranking`);

/** Kinds are proposed first, then flags; other conditions only if there is neither. */
type Rank = "kind" | "flag" | "other";
interface Candidate {
  rank: Rank;
  condition: MappingCondition;
}

/**
 * Conditions come by rank and then in the payload's order. The result is always valid and matches the sample. `source`
 * is never a condition, because the rule would stop matching when the event arrives another way.
 *
 * @param similar samples of the same event: only conditions that hold for them too are proposed.
 */
export function proposeRule(signal: SampleSignal, similar: readonly SampleSignal[] = []): ProposedRule {
  const candidates = candidatesOf(signal);
  const preferred = (["kind", "flag"] as const).flatMap((kind) => candidates.filter(({ rank }) => rank === kind));
  const ranked = preferred.length === 0 ? candidates : preferred;
  const conditions: MappingCondition[] = [];
  // The rule matches the event already.
  const proposed = new Set([lowerCase(signal.event)]);
  let trials = 0;
  for (const { condition } of ranked) {
    if (conditions.length === MAX_CONDITIONS || trials === MAX_TRIALS) break;
    const value = lowerCase(condition.value ?? condition.path);
    if (proposed.has(value) || !isRulePath(condition.path)) continue;
    trials++;
    if (![signal, ...similar].every((sample) => holds(condition, sample))) continue;
    proposed.add(value);
    conditions.push(condition);
  }
  const label = conditions.find(({ value }) => typeof value === "string")?.value;
  return {
    name: toName(label === undefined ? signal.event : `${signal.event}: ${String(label).trim()}`),
    event: signal.event,
    match: "all",
    conditions,
    scoringSignal: toName(signal.event),
    points: PROPOSED_POINTS,
  };
}

/** Also rejects names that no path can reach. */
function holds(condition: MappingCondition, signal: SampleSignal): boolean {
  const rule = { id: "", version: 0, event: "*", match: "all" as const, scoringSignal: "", points: 0 };
  return evaluate(compileRules([{ ...rule, conditions: [condition] }]), signal)?.matches.length === 1;
}

function candidatesOf(signal: SampleSignal): Candidate[] {
  const personal = new Set(
    [...Object.values(signal.traits), signal.email, signal.userId, signal.anonymousId].map((value) => lowerCase(value)),
  );
  const known: WordsOfNames = new Map();
  return [...leavesOf(signal.properties)].flatMap(([path, value]) =>
    personal.has(lowerCase(value)) ? [] : (candidateOf(path, value, known) ?? []),
  );
}

function candidateOf(path: string, value: unknown, known: WordsOfNames): Candidate | undefined {
  const flag = lowerCase(value);
  if (flag === true || flag === "true") return { rank: "flag", condition: { path, operator: "is_true" } };
  if (flag === false || flag === "false") return { rank: "flag", condition: { path, operator: "is_false" } };

  const rank = rankOf(path, known);
  if (rank === undefined) return undefined;
  if (typeof value === "number" || (typeof value === "string" && !/\p{L}/u.test(value))) {
    // A short number under such a name (`step: 3`) is a kind. Any other number differs in the next signal.
    const isOrdinal = rank === "kind" && /^\d{1,4}$/.test(String(value));
    return isOrdinal ? { rank, condition: { path, operator: "equals", value } } : undefined;
  }
  if (typeof value !== "string") return undefined;
  if (isAnswerType(path, value)) return undefined;
  const address = addressOf(value);
  if (address !== undefined) return fitsName(address.value) ? { rank, condition: { path, ...address } } : undefined;
  return isChoice(value) ? { rank, condition: { path, operator: "equals", value } } : undefined;
}

/** Whether a field of an element says of which type the element's value is. */
function isAnswerType(path: string, value: string): boolean {
  if (!path.includes("[].") || value.length > TEXT_MAX_LENGTH || !ANSWER_TYPES.has(wordsOf(value).last ?? ""))
    return false;
  return wordsOf(path.slice(path.lastIndexOf(".") + 1)).last === "type";
}

interface WordsOfName {
  last: string | undefined;
  isPersonal: boolean;
}

/** The meaning of each name, by name. A cache, because thousands of paths may begin with the same long name. */
type WordsOfNames = Map<string, WordsOfName>;

/** Ranks a property by the last word of its name, labels also by the neighbouring words; undefined: not proposed. */
function rankOf(path: string, known: WordsOfNames): Rank | undefined {
  const names = path.split(".").map((name) => {
    const ofName = known.get(name) ?? wordsOf(name);
    known.set(name, ofName);
    return ofName;
  });
  const last = names.findLast((name) => name.last !== undefined)?.last ?? "";
  if (KIND.has(last)) return "kind";
  if (INSTANCE.has(last) || names.some(({ isPersonal }) => isPersonal)) return undefined;
  return LABEL.has(last) ? "kind" : "other";
}

function wordsOf(name: string): WordsOfName {
  const all =
    name
      .replaceAll(/(\p{Ll})(\p{Lu})/gu, "$1 $2")
      .toLowerCase()
      .match(/\p{L}+/gu) ?? [];
  return { last: all.at(-1), isPersonal: all.some((word) => PERSONAL.has(word)) };
}

/** A web address, with and without a host. No part can match where the next begins (linear time). */
const ADDRESS = /^(?:[a-z][a-z\d+.-]*:)?\/\/(?:[^/?#\s]*@)?([^/?#@\s]+)(\/[^?#\s]*)?(?:[?#]\S*)?$/i;
const PATH = /^(\/[^?#\s]+)(?:[?#]\S*)?$/;

function addressOf(text: string): { operator: "contains" | "starts_with"; value: string } | undefined {
  const [, host, path = ""] = ADDRESS.exec(text) ?? [];
  if (host !== undefined) return { operator: "contains", value: host + stablePath(path) };
  const [, pathOnly] = PATH.exec(text) ?? [];
  const value = pathOnly === undefined ? "/" : stablePath(pathOnly);
  return value === "/" ? undefined : { operator: "starts_with", value };
}

function stablePath(path: string): string {
  const segments = path.split("/");
  const cut = segments.findIndex((segment) => /^(?:\d+$|@)/.test(segment) || isInstance(segment));
  return cut === -1 ? path : `${segments.slice(0, cut).join("/")}/`;
}

const FILLER = /^\s*(?:null|undefined|nan|n\/a|none|unknown|\(.*\)|\[object .*|%.*%)\s*$|\{\{|\$\{|\*\|/i;

function isChoice(text: string): boolean {
  return text.length <= TEXT_MAX_LENGTH && !/^\/|\p{Cc}|:\/\//u.test(text) && !FILLER.test(text) && !isInstance(text);
}

const DATE = /^\s*(?:\d{4}-\d\d?-\d\d?|\d\d?[./]\d\d?[./]\d{2,4}|\d\d?:\d\d)/;

/** Whether a text identifies a single item: an email address, a date, a long number, or words that look random. */
function isInstance(text: string): boolean {
  if (/\S(?:@|%40)\S|\d{5}/.test(text) || DATE.test(text)) return true;
  return (text.match(/[a-z\d]+/gi) ?? []).some(isRandom);
}

/** Whether a word is hexadecimal with digits, or often changes between letters, digits and upper case. */
function isRandom(word: string): boolean {
  if (word.length >= 8 && /^[\da-f]+$/i.test(word) && /\d/.test(word)) return true;
  const changes = word.match(/[a-z](?=[A-Z\d])|[A-Z](?=\d)|\d(?=[A-Za-z])/g)?.length ?? 0;
  return word.length > 40 || (word.length >= 16 && changes >= word.length / 4);
}

function lowerCase(value: unknown): unknown {
  return typeof value === "string" ? value.trim().toLowerCase() : value;
}

/** Without the invisible characters that a sender's text may have, and a name may not. */
function toName(text: string): string {
  const visible = text.replaceAll(/[\p{Cc}\p{Cf}]/gu, "");
  return fitsName(visible) ? visible.trim() : Array.from(visible).slice(0, NAME_MAX_CODE_POINTS).join("").trim();
}

function words(list: string): ReadonlySet<string> {
  return new Set(list.split(/\s+/));
}
