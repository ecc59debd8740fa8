/** The versions of one mapping rule, and going back to one (design §8.5). */
import type { Context } from "hono";
import { restoreRule } from "../../control/rule-changes.ts";
import { findRuleVersion, listRuleVersions } from "../../control/stored-rules.ts";
import { LIMIT_COPY } from "../../workspace/refusal-copy.ts";
import { readForm } from "../read-form.tsx";
import { pages, workspacePath, type PagesEnv, contextOf } from "../pages-env.ts";
import { done, mayManage, notFoundPage, page } from "../page.tsx";
import { requireManager } from "../session/require-sign-in.ts";
import { FormErrors } from "../kit/forms.tsx";
import { RuleVersionView, RuleVersionsView } from "./rule-versions-view.tsx";

export const ruleVersionPages = pages
  .createApp()
  .get("/:rule_id/versions", async (c) => {
    const found = await listRuleVersions(c.get("db"), c.get("workspace").id, c.req.param("rule_id"));
    if (found === null) return notFoundPage(c, "rule");
    const title = `Versions of ${found.rule.name}`;
    return page(c, { title, section: "rules" }, <RuleVersionsView base={workspacePath(c)} {...found} />);
  })
  .get("/:rule_id/versions/:version{[1-9][0-9]{0,9}}", (c) => versionPage(c))
  .post("/:rule_id/versions/:version{[1-9][0-9]{0,9}}/restore", requireManager, readForm(), async (c) => {
    const ruleId = c.req.param("rule_id");
    const lookedAt = Number(c.get("form").get("version"));
    const changedOn = Number.isInteger(lookedAt) && lookedAt > 0 ? lookedAt : undefined;
    const restored = await restoreRule(contextOf(c), ruleId, Number(c.req.param("version")), changedOn);
    if (restored.ok) return done(c, `rules/${ruleId}`, "rule_back");
    switch (restored.refusal) {
      case "not_found":
        return notFoundPage(c, "version");
      case "rule_changed":
        return versionPage(c, { changedMeanwhile: true });
      case "rules_too_large":
        return versionPage(c, { error: LIMIT_COPY.rules_too_large });
      default:
        return restored.refusal satisfies never;
    }
  });

/** @param refused says why going back to this version was not done. */
async function versionPage(
  c: Context<PagesEnv>,
  { changedMeanwhile = false, error }: { changedMeanwhile?: boolean; error?: string } = {},
): Promise<Response> {
  const [ruleId, version] = [c.req.param("rule_id") ?? "", Number(c.req.param("version"))];
  const found = await findRuleVersion(c.get("db"), c.get("workspace").id, ruleId, version);
  if (found === null) return notFoundPage(c, "version");
  const known = { base: workspacePath(c), manager: mayManage(c), nowMs: Date.now(), changedMeanwhile };
  return page(
    c,
    {
      title: `Version ${version} of ${found.rule.name}`,
      section: "rules",
      status: changedMeanwhile || error !== undefined ? 409 : 200,
    },
    <>
      <FormErrors errors={error === undefined ? [] : [error]} />
      <RuleVersionView {...known} {...found} />
    </>,
  );
}
