/**
 * A new mapping rule; a rule's page: scored signals, the editor for managers, application to past signals; and its versions:
 * changes, authors, and restoring a version.
 */
import { createRule, restoreRule, updateRule } from "../../d1/rule-changes.ts";
import {
  findRule,
  findRuleVersion,
  listRuleVersions,
  type RuleVersion,
  type StoredRule,
} from "../../d1/stored-rules.ts";
import { latestDays, dayOf } from "../../domain/duration.ts";
import { ruleDifferences } from "../../domain/rules/rule-content.ts";
import { DAYS_COUNTED, GROUP_SAMPLES, PREVIEW_MAX_DAYS, RULE_VERSIONS_KEPT } from "../../limits.ts";
import { newId } from "../../platform/ids.ts";
import type { RuleResults, RuleJob } from "../../store/protocol/store-operations.ts";
import { LIMIT_COPY } from "../../use-cases/rejection-copy.ts";
import { applyRule, removeRule, previewRule, proposeFrom } from "../../use-cases/rules-on-history.ts";
import { Check, Confirm, FormErrors, Menu, PostButton } from "../kit/forms.tsx";
import { Sparkline } from "../kit/charts.tsx";
import { authorName, counted, grouped } from "../kit/format.ts";
import { Notice, Panel, Stat, Stats, Time, Timeline } from "../kit/parts.tsx";
import { fragment, mayManage, notFoundPage, page } from "../page.tsx";
import { contextOf, type Ctx, formText, pages, storeOf, workspacePath, signalPath, done } from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import { managersOnly, requireManager } from "../session/sign-in.tsx";
import {
  PreviewPanel,
  readEditor,
  RULE_ID,
  RuleEditor,
  suggestionsFor,
  TYPING_SIGNALS,
  type EditorState,
} from "./editor.tsx";
import { BLANK_FORM, duplicateForm, formOfRule, postedVersion, parseRule } from "./rule-form.ts";
import { EnabledBadge, RuleDifferences, RuleSummary } from "./rule-text.tsx";

export const ruleDetailPages = pages
  .createApp()
  .get("/new", managersOnly("New mapping rule", "create mapping rules", "rules"), async (c) => {
    const copied = c.req.query("copy");
    if (copied !== undefined) {
      const source = await findRule(c.get("db"), c.get("workspace").id, copied);
      return source === null ? notFoundPage(c, "rule") : newRulePage(c, { form: duplicateForm(source), source });
    }
    const from = (c.req.queries("from") ?? []).slice(0, GROUP_SAMPLES);
    const proposed = await proposeFrom(c.env, c.get("workspace").id, from);
    if (proposed === null) return newRulePage(c, { form: BLANK_FORM, source: null });
    return newRulePage(c, { form: formOfRule(proposed), source: null }, { from });
  })
  .post("/", requireManager, readForm(), async (c) => {
    const editor = await readEditor(c);
    const typedId = formText(c.get("form"), "id");
    const id = RULE_ID.test(typedId) ? typedId : newId("rule");
    if (editor.button !== "save") return newRulePage(c, editor, { id });
    const rule = parseRule(editor.form, editor.source);
    if (!rule.ok) return newRulePage(c, { ...editor, errors: rule.rejection }, { id, status: 422 });
    const created = await createRule(contextOf(c), rule.value, id);
    if (created.ok) return done(c, `rules/${created.value.id}`, "rule_created");
    return newRulePage(c, { ...editor, errors: { "": LIMIT_COPY[created.rejection] } }, { id, status: 409 });
  })
  .post("/preview", requireManager, readForm(), async (c) => {
    const { form, preview = null } = await readEditor(c, TYPING_SIGNALS);
    const { paths } = await suggestionsFor(c, form);
    // Only the form of a saved rule has its version.
    const isSaved = c.get("form").has("version");
    const props = { preview, paths, days: form.days, isSaved };
    return fragment(c, <PreviewPanel base={workspacePath(c)} {...props} />);
  })
  .get("/:rule_id", async (c) => {
    const rule = await ruleOfPath(c);
    return rule === null ? deletedPage(c) : rulePage(c, rule, { form: formOfRule(rule), source: rule });
  })
  .post("/:rule_id", requireManager, readForm(), async (c) => {
    const [rule, editor] = [await ruleOfPath(c), await readEditor(c)];
    if (rule === null) return notFoundPage(c, "rule");
    const version = postedVersion(c.get("form")) ?? rule.version;
    if (editor.button !== "save") return rulePage(c, rule, editor, { version });
    const change = parseRule(editor.form, editor.source);
    if (!change.ok) return rulePage(c, rule, { ...editor, errors: change.rejection }, { version, status: 422 });
    const updated = await updateRule(contextOf(c), rule.id, change.value, { version });
    if (updated.ok) return done(c, `rules/${rule.id}`, "rule_saved");
    if (updated.rejection === "rules_too_large") {
      return rulePage(c, rule, { ...editor, errors: { "": LIMIT_COPY.rules_too_large } }, { version, status: 409 });
    }
    const current = await ruleOfPath(c);
    return current === null ? notFoundPage(c, "rule") : rulePage(c, current, editor, { isOutdated: true, status: 409 });
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
    const ended = await removeRule(contextOf(c), { ruleId, scoringSignals });
    if (ended === "not_found") return notFoundPage(c, "rule");
    if (ended === "deleted") return done(c, "rules", "rule_deleted");
    return c.redirect(`${workspacePath(c)}/rules/${ruleId}`, 303);
  })
  .get("/:rule_id/versions", (c) => versionsPage(c))
  .get("/:rule_id/versions/:version{[1-9][0-9]{0,9}}", (c) => versionPage(c))
  .post("/:rule_id/versions/:version{[1-9][0-9]{0,9}}/restore", requireManager, readForm(), async (c) => {
    const [ruleId, version] = [c.req.param("rule_id"), Number(c.req.param("version"))];
    const restored = await restoreRule(contextOf(c), ruleId, version, postedVersion(c.get("form")));
    if (restored.ok) {
      return c.redirect(`${workspacePath(c)}/rules/${ruleId}?done=rule_restored&restored=${version}`, 303);
    }
    return restored.rejection === "not_found" ? notFoundPage(c, "version") : versionPage(c, restored.rejection);
  });

function ruleOfPath(c: Ctx): Promise<StoredRule | null> {
  return findRule(c.get("db"), c.get("workspace").id, c.req.param("rule_id") ?? "");
}

async function setEnabled(c: Ctx, enabled: boolean): Promise<Response> {
  const ruleId = c.req.param("rule_id") ?? "";
  const updated = await updateRule(contextOf(c), ruleId, { enabled });
  if (!updated.ok) return notFoundPage(c, "rule");
  return done(c, `rules/${ruleId}`, enabled ? "rule_enabled" : "rule_disabled");
}

/** @param from signals that the form is pre-filled from. */
async function newRulePage(
  c: Ctx,
  editor: EditorState,
  { id = newId("rule"), from = [], status = 200 }: { id?: string; from?: string[]; status?: 200 | 409 | 422 } = {},
): Promise<Response> {
  const [base, { source, form }] = [workspacePath(c), editor];
  const duplicate =
    source !== null && `A duplicate of “${source.name}”. While both are enabled, both score a signal that they match.`;
  const prefilled = from.length > 0 && (
    <>
      Pre-filled from{" "}
      {from.map((signal, index) => (
        <>
          {index > 0 && ", "}
          <a href={signalPath(base, signal)}>signal …{signal.slice(-8)}</a>
        </>
      ))}
      . {prefilledWith(from.length, form.conditions.length)}
    </>
  );
  return page(
    c,
    { section: "rules", title: "New mapping rule", crumbs: [], intro: duplicate || prefilled, status },
    <RuleEditor
      {...editor}
      base={base}
      action={`${base}/rules`}
      submit="Create rule"
      newId={id}
      suggestions={await suggestionsFor(c, form)}
    />,
  );
}

function prefilledWith(samples: number, conditions: number): string {
  if (conditions === 0)
    return "No property is suitable as a condition, so the rule matches every signal of this event.";
  if (samples > 1) return "The conditions are the values that these samples share.";
  return "Keep the conditions that should apply to other signals too.";
}

/** @param shown.isOutdated nothing was saved, because the rule has changed since `version`. */
async function rulePage(
  c: Ctx,
  rule: StoredRule,
  editor: EditorState,
  shown: { version?: number; isOutdated?: boolean; status?: 200 | 409 | 422 } = {},
): Promise<Response> {
  const { version = rule.version, isOutdated = false, status = 200 } = shown;
  const [base, isManager, { done: message, restored = "" }] = [workspacePath(c), mayManage(c), c.req.query()];
  const path = `${base}/rules/${rule.id}`;
  const [results] = await storeOf(c).ruleResults([rule.id]);
  return page(
    c,
    {
      section: "rules",
      title: rule.name,
      crumbs: [],
      intro: (
        <>
          <EnabledBadge enabled={rule.enabled} /> · <a href={`${path}/versions`}>Version {rule.version}</a>,{" "}
          {rule.version === 1 ? "created" : "changed"} <Time ms={Date.parse(rule.updatedAt)} /> by{" "}
          {authorName(rule.updatedBy)}
        </>
      ),
      actions: isManager && <Actions base={`${base}/rules`} rule={rule} />,
      status,
      doneText: /^\d{1,10}$/.test(restored) ? `Restored version ${restored} as version ${rule.version}.` : undefined,
      next: message !== undefined && isManager && (await applyOffer(c, path, rule, results)),
    },
    isOutdated && (
      <Notice
        tone="warn"
        title="Nothing was saved: the rule has changed"
        text={`This is version ${rule.version}. To replace it with your input below, save again.`}
      >
        <RuleSummary rule={rule} />
      </Notice>
    ),
    <Results results={results} version={rule.version} />,
    isManager ? (
      <RuleEditor
        {...editor}
        base={base}
        action={path}
        submit="Save"
        version={version}
        suggestions={await suggestionsFor(c, editor.form)}
      />
    ) : (
      <Panel title="Rule">
        <RuleSummary rule={rule} />
      </Panel>
    ),
  );
}

function Actions({ base, rule: { id, name, enabled } }: { base: string; rule: StoredRule }) {
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
        <PostButton action={`${path}/${enabled ? "disable" : "enable"}`} text={enabled ? "Disable" : "Enable"} />
        <Confirm
          label="Delete"
          title={`Delete “${name}”?`}
          action={`${path}/delete`}
          submit="Delete rule"
          look="danger"
        >
          <p>The rule creates no further scoring signals.</p>
          <Check
            id="remove"
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
async function deletedPage(c: Ctx): Promise<Response> {
  const ruleId = c.req.param("rule_id") ?? "";
  const [results] = await storeOf(c).ruleResults([ruleId]);
  if (results === undefined || (results.job === null && !results.hasScoringSignals)) return notFoundPage(c, "rule");
  const { job, hasScoringSignals } = results;
  return page(
    c,
    {
      section: "rules",
      title: "Deleted rule",
      crumbs: [],
      intro: hasScoringSignals ? "Its scoring signals stay with their points." : "Its scoring signals are removed.",
    },
    <Results results={results} version={null} />,
    mayManage(c) && hasScoringSignals && !isInProgress(job) && (
      <Confirm
        label="Remove scoring signals"
        title="Remove the scoring signals of this rule?"
        action={`${workspacePath(c)}/rules/${ruleId}/delete`}
        submit="Remove scoring signals"
        fields={{ remove: "on" }}
      >
        <p>Their points are subtracted from the scores. This cannot be undone.</p>
      </Confirm>
    ),
  );
}

export function isInProgress(job: RuleJob | null | undefined): boolean {
  return job !== null && job !== undefined && job.status !== "done";
}

/** Number of signals of the last `days` days, today included, that the rule has scored. */
export function scoredSince(results: RuleResults | undefined, today: number, days: number): number {
  return latestDays(results?.days ?? "", today, days).reduce((sum, count) => sum + count, 0);
}

/** Scored signals, and the latest application. Refreshes while in progress. @param props.version null: deleted rule. */
function Results({ results, version }: { results: RuleResults | undefined; version: number | null }) {
  const today = dayOf(Date.now());
  const days = latestDays(results?.days ?? "", today, DAYS_COUNTED);
  const job = results?.job ?? null;
  const busiest = `${counted(Math.max(...days), "scored signal")} on the busiest day`;
  return (
    <div id="job" class="stack" {...(isInProgress(job) ? { "data-refresh": "1500" } : {})}>
      <Stats>
        <Stat label="Scored, 7 days" value={scoredSince(results, today, 7)} />
        <Stat label={`Scored, ${DAYS_COUNTED} days`} value={scoredSince(results, today, DAYS_COUNTED)} />
        <Stat label="Per day" value={<Sparkline values={days} label={busiest} />} />
      </Stats>
      {job !== null && <Job job={job} version={version} />}
    </div>
  );
}

function Job({ job, version }: { job: RuleJob; version: number | null }) {
  const { ruleVersion, scanned, total, matched, finishedAtMs } = job;
  const changes = `Scoring signals: ${grouped(job.added)} added, ${grouped(job.changed)} updated, ${grouped(job.removed)} removed.`;
  if (isInProgress(job)) {
    const isCounted = ruleVersion !== null && total > 0;
    return (
      <Notice
        title={ruleVersion === null ? "Removing scoring signals" : `Applying version ${ruleVersion} to past signals`}
      >
        <progress {...(isCounted ? { value: Math.min(scanned, total), max: total } : {})} aria-label="Progress" />
        <p>
          {isCounted && `${grouped(scanned)} of about ${counted(total, "signal")} read. `}
          {changes} <span class="no-script">Reload the page to see the progress.</span>
        </p>
      </Notice>
    );
  }
  return (
    <p class="quiet small">
      {ruleVersion === null ? "Scoring signals removed" : `Version ${ruleVersion} applied to past signals`}{" "}
      {finishedAtMs !== null && <Time ms={finishedAtMs} />}.{" "}
      {ruleVersion !== null && `${counted(scanned, "signal")} read, ${counted(matched, "match", "matches")}. `}
      {changes}
      {version !== null && ruleVersion !== null && ruleVersion !== version && " The rule has changed since."}
    </p>
  );
}

/** Offered after a change: the application to past signals, unless it has begun or would change nothing. */
async function applyOffer(c: Ctx, path: string, rule: StoredRule, results: RuleResults | undefined) {
  const { job = null, hasScoringSignals = false } = results ?? {};
  if (rule.enabled ? job?.ruleVersion === rule.version : job?.ruleVersion === null && isInProgress(job)) return <></>;
  let label = "Remove its scoring signals";
  if (rule.enabled) {
    const id = c.get("workspace").id;
    const found = await previewRule(c.env, id, rule, PREVIEW_MAX_DAYS, TYPING_SIGNALS);
    // Other previews are running: the offer does without the count.
    const { matches, complete } = found ?? { matches: 0, complete: false };
    if (matches === 0 && complete && !hasScoringSignals) return <p>No past signals match.</p>;
    const count = complete ? counted(matches, "past signal") : `${grouped(matches)} or more past signals`;
    label = `Apply to ${matches === 0 ? "past signals" : count}`;
  } else if (!hasScoringSignals) return <></>;
  return <PostButton action={`${path}/apply`} look="small" text={label} />;
}

async function versionsPage(c: Ctx): Promise<Response> {
  const found = await listRuleVersions(c.get("db"), c.get("workspace").id, c.req.param("rule_id") ?? "");
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
        text: [`By ${authorName(version.by)}`, changesOf(version, versions[index + 1])],
      }))}
    />,
  );
}

function changesOf(version: RuleVersion, before: RuleVersion | undefined) {
  if (before !== undefined) return <RuleDifferences before={before} after={version} />;
  return <p>{version.version === 1 ? "Rule created" : "Earlier versions are no longer kept."}</p>;
}

async function versionPage(c: Ctx, rejection?: "rule_changed" | "rules_too_large"): Promise<Response> {
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
      intro: [
        "By ",
        authorName(version.by),
        ", ",
        <Time ms={Date.parse(version.at)} />,
        isSame && (rule.version === number ? ". This is the current version." : ". The current version is the same."),
      ],
      status: rejection === undefined ? 200 : 409,
    },
    rejection === "rules_too_large" && (
      <FormErrors title="Nothing was restored" errors={[LIMIT_COPY.rules_too_large]} />
    ),
    rejection === "rule_changed" && (
      <Notice
        tone="warn"
        title="Nothing was restored: the rule has changed"
        text={`The rule is now at version ${rule.version}. Review the changes below again.`}
      />
    ),
    <Panel title={version.name} actions={<EnabledBadge enabled={version.enabled} />}>
      <RuleSummary rule={version} />
    </Panel>,
    !isSame && (
      <Panel title={`Restore version ${number}`}>
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
      </Panel>
    ),
  );
}
