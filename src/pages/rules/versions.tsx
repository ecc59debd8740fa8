/** The versions of a mapping rule: changes, authors, and restoring a version (design §8.5). */
import { restoreRule } from "../../control/rule-changes.ts";
import { findRuleVersion, listRuleVersions, type RuleVersion } from "../../control/stored-rules.ts";
import { ruleDifferences } from "../../domain/rules/rule-content.ts";
import { RULE_VERSIONS_KEPT } from "../../limits.ts";
import { LIMIT_COPY } from "../../workspace/refusal-copy.ts";
import { PostButton } from "../kit/actions.tsx";
import { authorName } from "../kit/format.ts";
import { FormErrors } from "../kit/forms.tsx";
import { Notice, Panel, Time, Timeline } from "../kit/parts.tsx";
import { mayManage, notFoundPage, page } from "../page.tsx";
import { contextOf, type Ctx, pages, workspacePath } from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import { requireManager } from "../session/sign-in.tsx";
import { postedVersion } from "./rule-form.ts";
import { EnabledBadge, RuleDifferences, RuleSummary } from "./rule-text.tsx";

export const ruleVersionPages = pages
  .createApp()
  .get("/:rule_id/versions", async (c) => {
    const found = await listRuleVersions(c.get("db"), c.get("workspace").id, c.req.param("rule_id"));
    if (found === null) return notFoundPage(c, "rule");
    const { rule, versions } = found;
    const path = `${workspacePath(c)}/rules/${rule.id}`;
    return page(
      c,
      {
        section: "rules",
        title: `Versions of ${rule.name}`,
        heading: "Versions",
        crumbs: [[rule.name, path]],
        intro: `The current version and up to ${RULE_VERSIONS_KEPT} earlier ones, fewer for very large rules.`,
      },
      <Timeline
        steps={versions.map((version, index) => ({
          title: [
            <a href={`${path}/versions/${version.version}`}>Version {version.version}</a>,
            index === 0 && " (current)",
          ],
          ms: Date.parse(version.at),
          tone: index === 0 ? "good" : "quiet",
          text: [`By ${authorName(version.by)}`, <Changes version={version} before={versions[index + 1]} />],
        }))}
      />,
    );
  })
  .get("/:rule_id/versions/:version{[1-9][0-9]{0,9}}", (c) => versionPage(c))
  .post("/:rule_id/versions/:version{[1-9][0-9]{0,9}}/restore", requireManager, readForm(), async (c) => {
    const [ruleId, version] = [c.req.param("rule_id"), Number(c.req.param("version"))];
    const restored = await restoreRule(contextOf(c), ruleId, version, postedVersion(c.get("form")));
    if (restored.ok) {
      return c.redirect(`${workspacePath(c)}/rules/${ruleId}?done=rule_restored&restored=${version}`, 303);
    }
    return restored.refusal === "not_found" ? notFoundPage(c, "version") : versionPage(c, restored.refusal);
  });

function Changes({ version, before }: { version: RuleVersion; before: RuleVersion | undefined }) {
  if (before !== undefined) return <RuleDifferences before={before} after={version} />;
  return <p>{version.version === 1 ? "Rule created" : "Earlier versions are no longer kept."}</p>;
}

/** @param refusal why the version was not restored. */
async function versionPage(c: Ctx, refusal?: "rule_changed" | "rules_too_large"): Promise<Response> {
  const [ruleId, number] = [c.req.param("rule_id") ?? "", Number(c.req.param("version"))];
  const found = await findRuleVersion(c.get("db"), c.get("workspace").id, ruleId, number);
  if (found === null) return notFoundPage(c, "version");
  const { rule, version } = found;
  const path = `${workspacePath(c)}/rules/${rule.id}`;
  const isSame = ruleDifferences(rule, version).length === 0;
  return page(
    c,
    {
      section: "rules",
      title: `Version ${number} of ${rule.name}`,
      heading: `Version ${number}`,
      crumbs: [
        [rule.name, path],
        ["Versions", `${path}/versions`],
      ],
      intro: ["By ", authorName(version.by), ", ", <Time ms={Date.parse(version.at)} />],
      status: refusal === undefined ? 200 : 409,
    },
    <>
      {refusal === "rules_too_large" && (
        <FormErrors title="Nothing was restored" errors={[LIMIT_COPY.rules_too_large]} />
      )}
      {refusal === "rule_changed" && (
        <Notice
          tone="warn"
          title="Nothing was restored: the rule has changed"
          text={`The rule is now at version ${rule.version}. Review the changes below again.`}
        />
      )}
      <Panel title={version.name} actions={<EnabledBadge enabled={version.enabled} />}>
        <RuleSummary rule={version} />
      </Panel>
      <Panel title={`Restore version ${number}`}>
        {isSame ? (
          <p class="quiet">
            {rule.version === number ? "This is the current version." : "The current version is the same."}
          </p>
        ) : (
          <>
            <p>Restoring creates version {rule.version + 1} with these changes:</p>
            <RuleDifferences before={rule} after={version} />
            {mayManage(c) && (
              <PostButton
                action={`${path}/versions/${number}/restore`}
                look="primary"
                fields={{ version: String(rule.version) }}
                text={`Restore version ${number}`}
              />
            )}
          </>
        )}
      </Panel>
    </>,
  );
}
