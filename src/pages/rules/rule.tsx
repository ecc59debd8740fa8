/** A mapping rule's page: its scored signals, its editor for managers, and its application to past signals. */
import type { Context } from "hono";
import { updateRule } from "../../control/rule-changes.ts";
import { findRule, type StoredRule } from "../../control/stored-rules.ts";
import { PREVIEW_MAX_DAYS } from "../../limits.ts";
import { signalStore } from "../../workspace/objects.ts";
import { LIMIT_COPY } from "../../workspace/refusal-copy.ts";
import { applyRule, endRule, previewRule, type RulePreview } from "../../workspace/rules-on-history.ts";
import { Confirm, Menu, PostButton } from "../kit/actions.tsx";
import { CheckField } from "../kit/forms.tsx";
import { authorName } from "../kit/format.ts";
import { Notice, PageHead, Panel, Time } from "../kit/parts.tsx";
import { done, mayManage, notFoundPage, page } from "../page.tsx";
import { contextOf, pages, workspacePath, type PagesEnv } from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import { requireManager } from "../session/require-sign-in.ts";
import { editorAfter, readSubmitted, RuleEditor, suggestionsFor, type EditorState } from "./editor.tsx";
import { formOf, ruleTyped } from "./rule-form.ts";
import { ApplyOffer, isInProgress, RuleActivity } from "./rule-job.tsx";
import { TYPING_SIGNALS } from "./rule-preview.tsx";
import { EnabledBadge, RuleSummary } from "./rule-text.tsx";

export const oneRulePages = pages
  .createApp()
  .get("/:rule_id", async (c) => {
    const rule = await ruleOfPath(c);
    return rule === null ? deletedPage(c) : rulePage(c, rule, { form: formOf(rule) });
  })
  .post("/:rule_id", requireManager, readForm(), async (c) => {
    const [rule, submitted] = [await ruleOfPath(c), await readSubmitted(c)];
    if (rule === null) return notFoundPage(c, "rule");
    const seen = Number(c.get("form").get("version"));
    const version = Number.isInteger(seen) && seen > 0 ? seen : rule.version;
    if (submitted.button !== "save") return rulePage(c, rule, editorAfter(submitted), { version });
    const { form, source } = submitted;
    const change = ruleTyped(form, source);
    if (!change.ok) return rulePage(c, rule, { form, errors: change.refusal }, { version, status: 422 });
    const updated = await updateRule(contextOf(c), rule.id, change.value, { version });
    if (updated.ok) return done(c, `rules/${rule.id}`, "rule_saved");
    if (updated.refusal === "rules_too_large") {
      return rulePage(c, rule, { form, errors: { "": LIMIT_COPY.rules_too_large } }, { version, status: 409 });
    }
    const current = await ruleOfPath(c);
    return current === null
      ? notFoundPage(c, "rule")
      : rulePage(c, current, { form }, { isOutdated: true, status: 409 });
  })
  .post("/:rule_id/enable", requireManager, (c) => setEnabled(c, true))
  .post("/:rule_id/disable", requireManager, (c) => setEnabled(c, false))
  .post("/:rule_id/apply", requireManager, async (c) => {
    const ruleId = c.req.param("rule_id");
    const job = await applyRule(contextOf(c), ruleId);
    return job === null ? notFoundPage(c, "rule") : c.redirect(`${workspacePath(c)}/rules/${ruleId}#job`, 303);
  })
  .post("/:rule_id/delete", requireManager, readForm(), async (c) => {
    const ruleId = c.req.param("rule_id");
    const scoringSignals = c.get("form").has("remove") ? "remove" : "keep";
    const ended = await endRule(contextOf(c), { ruleId, scoringSignals });
    if (ended === "not_found") return notFoundPage(c, "rule");
    if (ended === "deleted") return done(c, "rules", "rule_deleted");
    return c.redirect(`${workspacePath(c)}/rules/${ruleId}`, 303);
  });

function ruleOfPath(c: Context<PagesEnv>): Promise<StoredRule | null> {
  return findRule(c.get("db"), c.get("workspace").id, c.req.param("rule_id") ?? "");
}

async function setEnabled(c: Context<PagesEnv>, enabled: boolean): Promise<Response> {
  const ruleId = c.req.param("rule_id") ?? "";
  const updated = await updateRule(contextOf(c), ruleId, { enabled });
  if (!updated.ok) return notFoundPage(c, "rule");
  return done(c, `rules/${ruleId}`, enabled ? "rule_enabled" : "rule_disabled");
}

interface Shown {
  /** Version of the rule that the form was made from. */
  version?: number;
  /** Whether nothing was saved because the rule has changed since. */
  isOutdated?: boolean;
  status?: 200 | 409 | 422;
}

async function rulePage(
  c: Context<PagesEnv>,
  rule: StoredRule,
  editor: EditorState,
  { version = rule.version, isOutdated = false, status = 200 }: Shown = {},
): Promise<Response> {
  const [base, manager] = [workspacePath(c), mayManage(c)];
  const path = `${base}/rules/${rule.id}`;
  const [[facts], found] = await Promise.all([
    signalStore(c.env, c.get("workspace").id).ruleFacts([rule.id]),
    pastMatches(c, rule),
  ]);
  const restored = Number(c.req.query("restored"));
  const isRestored = c.req.query("done") === "rule_restored" && Number.isInteger(restored);
  return page(
    c,
    {
      title: rule.name,
      section: "rules",
      status,
      ...(isRestored ? { doneText: `Restored version ${restored} as version ${rule.version}.` } : {}),
      next: manager && <ApplyOffer path={path} rule={rule} facts={facts} found={found} />,
    },
    <>
      <PageHead
        title={rule.name}
        crumbs={[<a href={`${base}/rules`}>Mapping rules</a>]}
        actions={manager && <Actions base={`${base}/rules`} rule={rule} />}
      >
        <EnabledBadge enabled={rule.enabled} /> · <a href={`${path}/versions`}>Version {rule.version}</a>,{" "}
        {rule.version === 1 ? "created" : "changed"} <Time ms={Date.parse(rule.updatedAt)} /> by{" "}
        {authorName(rule.updatedBy)}
      </PageHead>
      {isOutdated && (
        <Notice tone="warn" title="Nothing was saved: the rule has changed">
          <p>This is version {rule.version}. To replace it with your input below, save again.</p>
          <RuleSummary rule={rule} />
        </Notice>
      )}
      <RuleActivity facts={facts} version={rule.version} />
      {manager ? (
        <RuleEditor
          {...editor}
          base={base}
          action={path}
          submit="Save"
          hidden={{ version: String(version), source: rule.id }}
          suggestions={await suggestionsFor(c, editor.form)}
        />
      ) : (
        <Panel title="Rule">
          <RuleSummary rule={rule} />
        </Panel>
      )}
    </>,
  );
}

/** Matches of an enabled rule among stored signals, after a manager has changed it. Null: nothing to offer. */
async function pastMatches(c: Context<PagesEnv>, rule: StoredRule): Promise<RulePreview | null> {
  if (c.req.query("done") === undefined || !mayManage(c) || !rule.enabled) return null;
  return previewRule(c.env, c.get("workspace").id, rule, PREVIEW_MAX_DAYS, TYPING_SIGNALS);
}

function Actions({ base, rule }: { base: string; rule: StoredRule }) {
  const { id, name, enabled } = rule;
  const path = `${base}/${id}`;
  return (
    <>
      <Confirm
        label="Apply to past signals"
        title={`Apply “${name}” to past signals?`}
        action={`${path}/apply`}
        submit="Apply"
        tone="primary"
      >
        <p>
          {enabled
            ? "Past signals score as if the rule had always been like this. Scoring signals of earlier versions are updated or removed."
            : "The rule is disabled, so all its scoring signals are removed."}
        </p>
        <p class="quiet">This runs in the background, and scores change while it runs.</p>
      </Confirm>
      <Menu label="Actions for this rule">
        <a href={`${base}/new?copy=${id}`}>Duplicate</a>
        <a href={`${path}/versions`}>View versions</a>
        <PostButton action={`${path}/${enabled ? "disable" : "enable"}`}>{enabled ? "Disable" : "Enable"}</PostButton>
        <Confirm
          label="Delete"
          title={`Delete “${name}”?`}
          action={`${path}/delete`}
          submit="Delete rule"
          look="danger"
        >
          <p>The rule creates no further scoring signals.</p>
          <CheckField
            name="remove"
            label="Remove its scoring signals too"
            hint="Otherwise they stay with their points."
            checked={false}
          />
        </Confirm>
      </Menu>
    </>
  );
}

/** The page of a deleted rule that still has scoring signals or a job. */
async function deletedPage(c: Context<PagesEnv>): Promise<Response> {
  const [base, ruleId] = [`${workspacePath(c)}/rules`, c.req.param("rule_id") ?? ""];
  const [facts] = await signalStore(c.env, c.get("workspace").id).ruleFacts([ruleId]);
  if (facts === undefined || (facts.job === null && !facts.hasScoringSignals)) return notFoundPage(c, "rule");
  const { job, hasScoringSignals } = facts;
  return page(
    c,
    { title: "Deleted rule", section: "rules" },
    <>
      <PageHead title="Deleted rule" crumbs={[<a href={base}>Mapping rules</a>]}>
        {hasScoringSignals ? "Its scoring signals stay with their points." : "Its scoring signals are removed."}
      </PageHead>
      <RuleActivity facts={facts} version={null} />
      {mayManage(c) && hasScoringSignals && !isInProgress(job) && (
        <Confirm
          label="Remove scoring signals"
          title="Remove the scoring signals of this rule?"
          action={`${base}/${ruleId}/delete`}
          submit="Remove scoring signals"
        >
          <p>Their points are subtracted from the scores. This cannot be undone.</p>
          <input type="hidden" name="remove" value="on" />
        </Confirm>
      )}
    </>,
  );
}
