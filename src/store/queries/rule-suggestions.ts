/** Suggestions for the rule editor: recent events, and paths in their payloads. */
import { isJsonObject } from "../../domain/json/dot-path.ts";
import { parsed } from "../../domain/json/json-value.ts";
import { compileRules, isAboutEvent, propertyPaths } from "../../domain/rules/mapping-rule.ts";
import { normalise } from "../../domain/signal/normalise.ts";
import type { ColdObjects } from "../log/cold.ts";
import type { RuleSuggestions } from "../protocol/store-operations.ts";
import type { StoreState } from "../state/store-state.ts";
import { recentGroups, type ScannedGroup, QUEUE_SUGGEST_GROUPS, samplesOfGroups } from "./queue-page.ts";

/** Suggested events, the most frequent of the latest groups; and paths, from this many samples. */
const RULE_SUGGEST_EVENTS = 100;
const RULE_SUGGEST_PATHS = 100;
const RULE_SUGGEST_SAMPLES = 5;

type Group = Pick<ScannedGroup, "event" | "source" | "count">;

/** Suggestions for a rule. @param pattern of events; blank: any. */
export async function suggestForRule(
  state: StoreState,
  objects: ColdObjects,
  pattern: string,
): Promise<RuleSuggestions> {
  const groups = recentGroups(state.sql);
  const counts = new Map<string, number>();
  for (const { event, count } of groups) counts.set(event, (counts.get(event) ?? 0) + count);
  const events = [...counts].toSorted(([one, often], [other, seldom]) => seldom - often || (one < other ? -1 : 1));
  const fitting = groupsOf(state.sql, groups, pattern.trim())
    .toSorted((one, other) => other.count - one.count)
    .slice(0, RULE_SUGGEST_SAMPLES);
  const payloads = await samplesOfGroups(state, objects, fitting);
  const samples = fitting.flatMap(({ source }, index) => {
    const payload = parsed(payloads[index] ?? null);
    return isJsonObject(payload) ? [normalise(payload, source).properties] : [];
  });
  return {
    events: events.slice(0, RULE_SUGGEST_EVENTS).map(([event]) => event),
    paths: propertyPaths(samples, RULE_SUGGEST_PATHS),
  };
}

/** Groups of a pattern's events, recent or not. */
function groupsOf(sql: SqlStorage, recent: readonly Group[], pattern: string): readonly Group[] {
  if (pattern === "") return recent;
  if (!pattern.includes("*")) {
    return sql
      .exec<Group>(
        "SELECT event, source, count FROM event_groups WHERE event = ? LIMIT ?",
        pattern,
        QUEUE_SUGGEST_GROUPS,
      )
      .toArray();
  }
  const rule = { id: "", version: 0, event: pattern, match: "all" as const, scoringSignal: "", points: 0 };
  const compiled = compileRules([{ ...rule, conditions: [] }]);
  return recent.filter(({ event }) => isAboutEvent(compiled, event));
}
