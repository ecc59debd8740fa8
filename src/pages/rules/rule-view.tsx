/** One mapping rule: what it has done, what it says, and the editor for those who may change it. */
import { dayOf, latestDays } from "../../domain/quota/day-counts.ts";
import type { StoredRule } from "../../control/stored-rules.ts";
import { DAYS_COUNTED } from "../../limits.ts";
import type { RuleFacts } from "../../store/protocol/store-operations.ts";
import { Sparkline } from "../views/charts.tsx";
import { CheckField } from "../kit/forms.tsx";
import { authorName, counted } from "../kit/format.ts";
import { Confirm } from "../views/confirm.tsx";
import { PageHead, Notice, Panel, Stat, Stats, Time } from "../views/parts.tsx";
import { RuleEditor, type EditorProps } from "./rule-editor.tsx";
import { RuleJobPanel, isUnderWay } from "./rule-job-panel.tsx";
import { RuleSays } from "./rule-says.tsx";
import { EnabledBadge, scoredSince } from "./rules-view.tsx";
import { SignalLink } from "../signals/signals.tsx";

interface NewRuleProps extends EditorProps {
  /** Id of the rule that the form makes. */
  newId: string;
  /** Ids of the signals that the form was pre-filled from. */
  from: readonly string[];
  /** The rule that the new one is a copy of; null where it is none. */
  copied: StoredRule | null;
}

export function NewRuleView({ from, copied, ...editor }: NewRuleProps) {
  const { base } = editor;
  return (
    <>
      <PageHead title="New mapping rule" crumbs={<a href={`${base}/rules`}>Mapping Rules</a>}>
        {copied !== null && (
          <>
            A copy of <a href={`${base}/rules/${copied.id}`}>{copied.name}</a>: once it is saved, a signal that both
            match scores by both.
          </>
        )}
        {from.length > 0 && (
          <>
            Pre-filled from{" "}
            {from.map((id, index) => (
              <>
                {index > 0 && ", "}
                <SignalLink base={base} id={id} />
              </>
            ))}
            : {prefilledWith(from.length, editor.form.conditions.length)}
          </>
        )}
      </PageHead>
      <RuleEditor {...editor} action={`${base}/rules`} submit="Create rule" drawnFrom={copied?.id} />
    </>
  );
}

function prefilledWith(samples: number, conditions: number): string {
  if (conditions === 0) {
    const where = samples > 1 ? "these samples share nothing" : "its properties have nothing";
    return `${where} that would be a condition, so the rule matches every signal of this event.`;
  }
  return samples > 1
    ? "the conditions are what these samples share."
    : "keep the conditions that should hold for others too.";
}

export function RuleView({
  manager,
  nowMs,
  rule,
  facts,
  version,
  changedMeanwhile,
  ...editor
}: EditorProps & {
  manager: boolean;
  nowMs: number;
  rule: StoredRule;
  facts: RuleFacts | undefined;
  /** The rule's version that the form was made from. */
  version: number;
  changedMeanwhile: boolean;
}) {
  const { base } = editor;
  const path = `${base}/rules/${rule.id}`;
  return (
    <>
      <PageHead
        title={rule.name}
        crumbs={<a href={`${base}/rules`}>Mapping Rules</a>}
        actions={manager && <RuleActions rulesPath={`${base}/rules`} rule={rule} />}
      >
        <EnabledBadge enabled={rule.enabled} /> <a href={`${path}/versions`}>Version {rule.version}</a>,{" "}
        {rule.version === 1 ? "created" : "changed"} <Time ms={Date.parse(rule.updatedAt)} nowMs={nowMs} /> by{" "}
        {authorName(rule.updatedBy)}
      </PageHead>
      {changedMeanwhile && (
        <Notice tone="warn" title="Nothing was saved: the rule has been changed meanwhile.">
          <p>It is version {rule.version} now, and says:</p>
          <RuleSays rule={rule} />
          <p>Below is what you typed. Saving again replaces what is there now.</p>
        </Notice>
      )}
      <RuleJobPanel job={facts?.job ?? null} version={rule.version} nowMs={nowMs}>
        <WhatItHasDone facts={facts} nowMs={nowMs} />
      </RuleJobPanel>
      {manager ? (
        <RuleEditor
          {...editor}
          action={path}
          submit="Save"
          version={changedMeanwhile ? rule.version : version}
          drawnFrom={rule.id}
        />
      ) : (
        <Panel title="What it says">
          <RuleSays rule={rule} />
        </Panel>
      )}
    </>
  );
}

/** A rule that is no more, with what it has left behind. */
export function DeletedRuleView({
  base,
  manager,
  nowMs,
  ruleId,
  facts,
}: {
  base: string;
  manager: boolean;
  nowMs: number;
  ruleId: string;
  facts: RuleFacts;
}) {
  return (
    <>
      <PageHead title="A deleted rule" crumbs={<a href={`${base}/rules`}>Mapping Rules</a>}>
        {facts.hasScoringSignals
          ? "It makes no further scoring signals. Those that it has made are there still, with their points."
          : "It and its scoring signals are gone."}
      </PageHead>
      <RuleJobPanel job={facts.job} version={null} nowMs={nowMs}>
        <WhatItHasDone facts={facts} nowMs={nowMs} />
      </RuleJobPanel>
      {manager && facts.hasScoringSignals && !isUnderWay(facts.job) && (
        <Confirm label="Remove its scoring signals" action={`${base}/rules/${ruleId}/delete`} submit="Remove them">
          <p>The scores of the persons change by their points. This cannot be undone.</p>
          <input type="hidden" name="remove" value="on" />
        </Confirm>
      )}
    </>
  );
}

function RuleActions({ rulesPath, rule }: { rulesPath: string; rule: StoredRule }) {
  const path = `${rulesPath}/${rule.id}`;
  return (
    <>
      <form method="post" action={`${path}/${rule.enabled ? "disable" : "enable"}`} data-once>
        <button class="small">{rule.enabled ? "Disable" : "Enable"}</button>
      </form>
      <a class="button small" href={`${rulesPath}/new?copy=${rule.id}`}>
        Duplicate
      </a>
      <Confirm label="Apply to past signals" action={`${path}/apply`} submit="Apply" tone="primary">
        <p>
          {rule.enabled
            ? "Brings the rule's scoring signals in line with the rule as it is saved now, as if it had always been so: missing ones are added, those of earlier versions are brought up to date, those of signals that it does not match any more are removed. The scores follow."
            : "The rule is disabled, so all of its scoring signals are removed, and the scores follow."}
        </p>
        <p class="quiet">It works in the background, and signals go on being processed meanwhile.</p>
      </Confirm>
      <Confirm label="Delete" action={`${path}/delete`} submit="Delete the rule">
        <p>
          It makes no further scoring signals. Those that it has made stay with their points, unless they are removed.
        </p>
        <CheckField name="remove" label="Remove its scoring signals too" hint="The scores follow." checked={false} />
      </Confirm>
    </>
  );
}

function WhatItHasDone({ facts, nowMs }: { facts: RuleFacts | undefined; nowMs: number }) {
  const today = dayOf(nowMs);
  const days = latestDays(facts?.days ?? "", today, DAYS_COUNTED);
  return (
    <Stats>
      <Stat label="Scored in the last 7 days" value={scoredSince(facts, today, 7)} />
      <Stat label={`In the last ${DAYS_COUNTED} days`} value={scoredSince(facts, today, DAYS_COUNTED)} />
      <div class="stat">
        <dt>Day by day</dt>
        <dd>
          <Sparkline values={days} label={`${counted(Math.max(...days), "scored signal")} on the day with most`} />
        </dd>
      </div>
    </Stats>
  );
}
