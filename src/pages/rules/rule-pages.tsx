/** Mapping Rules (spec §1, design §8.5): the list, the editor with its preview, and rules applied to what is stored. */
import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { createRule, updateRule } from "../../control/rule-changes.ts";
import { findRule, listRules, type StoredRule } from "../../control/stored-rules.ts";
import { GROUP_SAMPLES, PAGE_ROWS, PREVIEW_MAX_DAYS } from "../../limits.ts";
import { newId } from "../../platform/ids.ts";
import { signalStore } from "../../workspace/objects.ts";
import { applyRule, endRule, previewRule, proposeFrom, type RulePreview } from "../../workspace/rules-on-history.ts";
import { readForm } from "../read-form.tsx";
import { pages, type PagesEnv, workspacePath, contextOf } from "../pages-env.ts";
import { done, fragment, managersOnlyPage, mayManage, notFoundPage, page } from "../page.tsx";
import {
  BLANK_FORM,
  copyOf,
  formOf,
  readRuleForm,
  ruleTyped,
  withoutBlankRows,
  type FieldErrors,
  type RuleForm,
} from "./rule-form.ts";
import { LIMIT_COPY } from "../../workspace/refusal-copy.ts";
import { focusAfter, readAsked, ruleDrawn, tryOut } from "./editor-asked.ts";
import { ruleFilePages } from "./rule-file-pages.tsx";
import { ruleVersionPages } from "./rule-version-pages.tsx";
import { requireManager } from "../session/require-sign-in.ts";
import { DeletedRuleView, NewRuleView, RuleView } from "./rule-view.tsx";
import type { EditorProps } from "./rule-editor.tsx";
import { ApplyOffer } from "./rule-offer.tsx";
import { RulePreviewPanel, type Previewed } from "./rule-preview.tsx";
import { RulesView } from "./rules-view.tsx";

/** Stored signals that a preview reads while a rule is being typed: a quarter of a second. The button reads them all. */
const PREVIEW_TYPING_SIGNALS = 3_000;

export const rulePages = pages
  .createApp()
  .route("/", ruleFilePages)
  .route("/", ruleVersionPages)
  .get("/", async (c) => {
    const { id } = c.get("workspace");
    const cursor = c.req.query("cursor") ?? null;
    const rules = await listRules(c.get("db"), id, { cursor, limit: PAGE_ROWS });
    const facts = await signalStore(c.env, id).ruleFacts(rules.items.map((rule) => rule.id));
    const known = { base: workspacePath(c), manager: mayManage(c), query: c.req.query(), nowMs: Date.now() };
    return page(c, { title: "Mapping Rules", section: "rules" }, <RulesView {...known} rules={rules} facts={facts} />);
  })
  .get("/new", async (c) => {
    if (!mayManage(c)) return managersOnlyPage(c, "rules", "New mapping rule", "create mapping rules");
    const copied = c.req.query("copy");
    if (copied !== undefined) {
      const rule = await findRule(c.get("db"), c.get("workspace").id, copied);
      return rule === null ? notFoundPage(c, "rule") : newPage(c, copyOf(rule), { copied: rule, focus: "name" });
    }
    const from = (c.req.queries("from") ?? []).slice(0, GROUP_SAMPLES);
    const proposed = await proposeFrom(c.env, c.get("workspace").id, from);
    return newPage(c, proposed === null ? BLANK_FORM : formOf(proposed), {
      from: proposed === null ? [] : from,
      focus: "name",
    });
  })
  .post("/", requireManager, readForm(), async (c) => {
    const asked = await readAsked(c);
    const { id, preview, what, drawnFrom: copied } = asked;
    if (what !== "save") return newPage(c, asked.form, { id, copied, preview, focus: focusAfter(what) });
    const rule = ruleTyped(asked.form, copied);
    if (!rule.ok) return newPage(c, asked.form, { id, copied, errors: rule.refusal, status: 422 });
    const created = await createRule(contextOf(c), rule.value, id);
    if (created.ok) return done(c, `rules/${created.value.id}`, "rule_created");
    return newPage(c, asked.form, { id, copied, errors: { "": LIMIT_COPY[created.refusal] }, status: 409 });
  })
  .post("/preview", requireManager, readForm(), async (c) => {
    const form = withoutBlankRows(readRuleForm(c.get("form")));
    const store = signalStore(c.env, c.get("workspace").id);
    const [preview, { paths }] = await Promise.all([
      tryOut(c, form, await ruleDrawn(c), PREVIEW_TYPING_SIGNALS),
      store.suggestForRule(form.event),
    ]);
    return fragment(c, <RulePreviewPanel base={workspacePath(c)} preview={preview} paths={paths} />);
  })
  .get("/:rule_id", async (c) => {
    const rule = await ruleOfPath(c);
    return rule === null ? deletedPage(c) : rulePage(c, rule, formOf(rule), { found: await pastMatches(c, rule) });
  })
  .post("/:rule_id", requireManager, readForm(), async (c) => {
    const [rule, asked] = [await ruleOfPath(c), await readAsked(c)];
    if (rule === null) return notFoundPage(c, "rule");
    const version = asked.version ?? rule.version;
    if (asked.what !== "save") {
      return rulePage(c, rule, asked.form, { version, preview: asked.preview, focus: focusAfter(asked.what) });
    }
    const change = ruleTyped(asked.form, asked.drawnFrom);
    if (!change.ok) return rulePage(c, rule, asked.form, { version, errors: change.refusal, status: 422 });
    const updated = await updateRule(contextOf(c), rule.id, change.value, { version });
    if (updated.ok) return done(c, `rules/${rule.id}`, "rule_saved");
    if (updated.refusal === "rules_too_large") {
      return rulePage(c, rule, asked.form, { version, errors: { "": LIMIT_COPY.rules_too_large }, status: 409 });
    }
    const current = await ruleOfPath(c);
    if (current === null) return notFoundPage(c, "rule");
    return rulePage(c, current, asked.form, { changedMeanwhile: true, status: 409 });
  })
  .post("/:rule_id/enable", requireManager, (c) => setEnabled(c, { enabled: true }))
  .post("/:rule_id/disable", requireManager, (c) => setEnabled(c, { enabled: false }))
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
    return ended === "deleted"
      ? done(c, "rules", "rule_deleted")
      : c.redirect(`${workspacePath(c)}/rules/${ruleId}`, 303);
  });

interface Shown {
  errors?: FieldErrors;
  status?: ContentfulStatusCode;
  preview?: Previewed;
  focus?: EditorProps["focus"];
}

async function newPage(
  c: Context<PagesEnv>,
  form: RuleForm,
  {
    id = newId("rule"),
    errors = {},
    status = 200,
    preview = null,
    focus = null,
    from = [],
    copied = null,
  }: Shown & { id?: string; from?: readonly string[]; copied?: StoredRule | null } = {},
): Promise<Response> {
  const suggestions = await signalStore(c.env, c.get("workspace").id).suggestForRule(form.event);
  const known = { base: workspacePath(c), newId: id, form, errors, preview, suggestions, focus, from, copied };
  return page(c, { title: "New mapping rule", section: "rules", status }, <NewRuleView {...known} />);
}

async function rulePage(
  c: Context<PagesEnv>,
  rule: StoredRule,
  form: RuleForm,
  {
    errors = {},
    status = 200,
    preview = null,
    focus = null,
    version = rule.version,
    changedMeanwhile = false,
    found = null,
  }: Shown & { version?: number; changedMeanwhile?: boolean; found?: RulePreview | null } = {},
): Promise<Response> {
  const store = signalStore(c.env, c.get("workspace").id);
  const [[facts], suggestions] = await Promise.all([
    store.ruleFacts([rule.id]),
    mayManage(c) ? store.suggestForRule(form.event) : { events: [], paths: [] },
  ]);
  const known = {
    base: workspacePath(c),
    manager: mayManage(c),
    nowMs: Date.now(),
    rule,
    form,
    errors,
    suggestions,
    focus,
  };
  return page(
    c,
    {
      title: rule.name,
      section: "rules",
      status,
      next: mayManage(c) && (
        <ApplyOffer path={`${workspacePath(c)}/rules/${rule.id}`} rule={rule} facts={facts} found={found} />
      ),
    },
    <RuleView {...known} facts={facts} preview={preview} version={version} changedMeanwhile={changedMeanwhile} />,
  );
}

/** What an enabled rule that was just saved matches among stored signals, as far as a moment goes. Null: nothing is offered. */
async function pastMatches(c: Context<PagesEnv>, rule: StoredRule): Promise<RulePreview | null> {
  if (c.req.query("done") === undefined || !mayManage(c) || !rule.enabled) return null;
  return previewRule(c.env, c.get("workspace").id, rule, PREVIEW_MAX_DAYS, PREVIEW_TYPING_SIGNALS);
}

/** The page of a deleted rule, which may still have scoring signals or a job under way. */
async function deletedPage(c: Context<PagesEnv>): Promise<Response> {
  const ruleId = c.req.param("rule_id") ?? "";
  const [facts] = await signalStore(c.env, c.get("workspace").id).ruleFacts([ruleId]);
  if (facts === undefined || (facts.job === null && !facts.hasScoringSignals)) return notFoundPage(c, "rule");
  const known = { base: workspacePath(c), manager: mayManage(c), nowMs: Date.now(), ruleId, facts };
  return page(c, { title: "A deleted rule", section: "rules" }, <DeletedRuleView {...known} />);
}

async function setEnabled(c: Context<PagesEnv>, { enabled }: { enabled: boolean }): Promise<Response> {
  const ruleId = c.req.param("rule_id") ?? "";
  const updated = await updateRule(contextOf(c), ruleId, { enabled });
  if (!updated.ok) return notFoundPage(c, "rule");
  return done(c, `rules/${ruleId}`, enabled ? "rule_enabled" : "rule_disabled");
}

function ruleOfPath(c: Context<PagesEnv>): Promise<StoredRule | null> {
  return findRule(c.get("db"), c.get("workspace").id, c.req.param("rule_id") ?? "");
}
