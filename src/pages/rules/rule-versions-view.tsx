/** The versions of a mapping rule: the list of what each has changed, and one of them with going back to it. */
import type { StoredRule, RuleVersion } from "../../control/stored-rules.ts";
import { ruleDifferences } from "../../domain/rules/rule-content.ts";
import { RULE_VERSIONS_KEPT } from "../../limits.ts";
import { PageHead, Notice, Panel, Time } from "../views/parts.tsx";
import { RuleDifferences } from "./rule-differences.tsx";
import { RuleSays } from "./rule-says.tsx";
import { EnabledBadge } from "./rules-view.tsx";
import { TimelineStep } from "../views/timeline.tsx";
import { authorName } from "../kit/format.ts";

export function RuleVersionsView({
  base,
  rule,
  versions,
}: {
  base: string;
  rule: StoredRule;
  /** The rule's versions, the present one first. */
  versions: readonly RuleVersion[];
}) {
  const path = `${base}/rules/${rule.id}`;
  return (
    <>
      <PageHead title="Versions" crumbs={<Crumbs base={base} rule={rule} />}>
        What changed, who did it and when. The {RULE_VERSIONS_KEPT} versions before the present one are kept, of very
        large rules fewer.
      </PageHead>
      <Panel>
        <ol class="timeline">
          {versions.map((version, index) => (
            <TimelineStep
              title={
                <>
                  <a href={`${path}/versions/${version.version}`}>Version {version.version}</a>
                  {index === 0 && ", the present one"}
                </>
              }
              ms={Date.parse(version.at)}
              tone={index === 0 ? "good" : "quiet"}
            >
              By {authorName(version.by)}.
              <Changed version={version} before={versions[index + 1]} />
            </TimelineStep>
          ))}
        </ol>
      </Panel>
    </>
  );
}

function Changed({ version, before }: { version: RuleVersion; before: RuleVersion | undefined }) {
  if (before !== undefined) return <RuleDifferences before={before} after={version} />;
  return <p>{version.version === 1 ? "Created." : "What was there before is not kept any more."}</p>;
}

export function RuleVersionView({
  base,
  manager,
  nowMs,
  rule,
  version,
  changedMeanwhile,
}: {
  base: string;
  manager: boolean;
  nowMs: number;
  rule: StoredRule;
  version: RuleVersion;
  /** True: nothing was done, because the rule had changed since it was looked at. */
  changedMeanwhile: boolean;
}) {
  const path = `${base}/rules/${rule.id}`;
  return (
    <>
      <PageHead
        title={`Version ${version.version}`}
        crumbs={
          <>
            <Crumbs base={base} rule={rule} /> / <a href={`${path}/versions`}>Versions</a>
          </>
        }
      >
        By {authorName(version.by)}, <Time ms={Date.parse(version.at)} nowMs={nowMs} />
      </PageHead>
      {changedMeanwhile && (
        <Notice tone="warn" title="Nothing was changed: the rule has been changed meanwhile.">
          <p>It is version {rule.version} now. Look again at what going back would change.</p>
        </Notice>
      )}
      <Panel title={version.name}>
        <p>
          <EnabledBadge enabled={version.enabled} />
        </p>
        <RuleSays rule={version} />
      </Panel>
      <Panel title="Going back to it">
        <GoingBack path={path} manager={manager} rule={rule} version={version} />
      </Panel>
    </>
  );
}

interface GoingBackProps {
  path: string;
  manager: boolean;
  rule: StoredRule;
  version: RuleVersion;
}

function GoingBack({ path, manager, rule, version }: GoingBackProps) {
  if (rule.version === version.version) return <p class="quiet">This is what the rule says now.</p>;
  if (ruleDifferences(rule, version).length === 0) return <p class="quiet">The rule says the same now.</p>;
  return (
    <>
      <p>It would change the rule, and be version {rule.version + 1}:</p>
      <RuleDifferences before={rule} after={version} />
      {manager && (
        <form method="post" action={`${path}/versions/${version.version}/restore`} class="row" data-once>
          <input type="hidden" name="version" value={String(rule.version)} />
          <button class="primary">Go back to version {version.version}</button>
        </form>
      )}
    </>
  );
}

function Crumbs({ base, rule }: { base: string; rule: StoredRule }) {
  return (
    <>
      <a href={`${base}/rules`}>Mapping Rules</a> / <a href={`${base}/rules/${rule.id}`}>{rule.name}</a>
    </>
  );
}
