/** What is offered right after a rule was saved: applying it to the signals that are stored already. */
import type { RulePreview } from "../../workspace/rules-on-history.ts";
import type { RuleFacts } from "../../store/protocol/store-operations.ts";
import { counted, grouped } from "../kit/format.ts";
import { isUnderWay } from "./rule-job-panel.tsx";

interface ApplyOfferProps {
  /** Address of the rule. */
  path: string;
  rule: { version: number; enabled: boolean };
  facts: RuleFacts | undefined;
  /** What the rule matches among stored signals; null: the rule is disabled. */
  found: Pick<RulePreview, "matches" | "complete"> | null;
}

/** The offer; empty where the rule as it is now has been or is being applied, and where that would change nothing. */
export function ApplyOffer({ path, rule, facts, found }: ApplyOfferProps) {
  const { job = null, hasScoringSignals = false } = facts ?? {};
  const isApplied = rule.enabled ? job?.ruleVersion === rule.version : job?.ruleVersion === null && isUnderWay(job);
  if (isApplied) return <></>;
  const label = offerLabel(found, hasScoringSignals);
  if (label === null) return found === null ? <></> : <p>None of the past signals matches it.</p>;
  return (
    <form method="post" action={`${path}/apply`} data-once>
      <button class="small">{label}</button>
    </form>
  );
}

function offerLabel(found: ApplyOfferProps["found"], hasScoringSignals: boolean): string | null {
  if (found === null) return hasScoringSignals ? "Remove its scoring signals" : null;
  const { matches, complete } = found;
  if (matches === 0) return hasScoringSignals || !complete ? "Apply to past signals" : null;
  return complete ? `Apply to ${counted(matches, "past signal")}` : `Apply to ${grouped(matches)} or more past signals`;
}
