/** A new mapping rule: empty, pre-filled from signals, or a duplicate; and the preview while typing. */
import type { Context } from "hono";
import { createRule } from "../../control/rule-changes.ts";
import { findRule, type StoredRule } from "../../control/stored-rules.ts";
import { GROUP_SAMPLES } from "../../limits.ts";
import { newId } from "../../platform/ids.ts";
import { LIMIT_COPY } from "../../workspace/refusal-copy.ts";
import { proposeFrom } from "../../workspace/rules-on-history.ts";
import { formText } from "../form-text.ts";
import { PageHead } from "../kit/parts.tsx";
import { done, fragment, managersOnlyPage, mayManage, notFoundPage, page } from "../page.tsx";
import { contextOf, pages, workspacePath, type PagesEnv } from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import { requireManager } from "../session/require-sign-in.ts";
import {
  editorAfter,
  readSubmitted,
  RULE_ID,
  RuleEditor,
  sourceOf,
  suggestionsFor,
  type EditorState,
} from "./editor.tsx";
import { BLANK_FORM, copyOf, formOf, readRuleForm, ruleTyped, withoutBlankRows } from "./rule-form.ts";
import { RulePreviewPanel, tryOut, TYPING_SIGNALS } from "./rule-preview.tsx";

export const newRulePages = pages
  .createApp()
  .get("/new", async (c) => {
    if (!mayManage(c)) return managersOnlyPage(c, "rules", "New mapping rule", "create mapping rules");
    const [id, copied] = [newId("rule"), c.req.query("copy")];
    if (copied !== undefined) {
      const source = await findRule(c.get("db"), c.get("workspace").id, copied);
      if (source === null) return notFoundPage(c, "rule");
      return newRulePage(c, { form: copyOf(source), focus: "name" }, { id, source });
    }
    const from = (c.req.queries("from") ?? []).slice(0, GROUP_SAMPLES);
    const proposed = await proposeFrom(c.env, c.get("workspace").id, from);
    const form = proposed === null ? BLANK_FORM : formOf(proposed);
    return newRulePage(c, { form, focus: "name" }, { id, from: proposed === null ? [] : from });
  })
  .post("/", requireManager, readForm(), async (c) => {
    const submitted = await readSubmitted(c);
    const { form, source } = submitted;
    const typedId = formText(c.get("form"), "id");
    const id = RULE_ID.test(typedId) ? typedId : newId("rule");
    if (submitted.button !== "save") return newRulePage(c, editorAfter(submitted), { id, source });
    const rule = ruleTyped(form, source);
    if (!rule.ok) return newRulePage(c, { form, errors: rule.refusal }, { id, source, status: 422 });
    const created = await createRule(contextOf(c), rule.value, id);
    if (created.ok) return done(c, `rules/${created.value.id}`, "rule_created");
    return newRulePage(c, { form, errors: { "": LIMIT_COPY[created.refusal] } }, { id, source, status: 409 });
  })
  .post("/preview", requireManager, readForm(), async (c) => {
    const form = withoutBlankRows(readRuleForm(c.get("form")));
    const [preview, { paths }] = await Promise.all([
      tryOut(c, form, await sourceOf(c), TYPING_SIGNALS),
      suggestionsFor(c, form),
    ]);
    return fragment(c, <RulePreviewPanel base={workspacePath(c)} preview={preview} paths={paths} />);
  });

interface NewRule {
  /** Id of the rule to create: a form that is sent twice creates one rule. */
  id: string;
  /** The duplicated rule. */
  source?: StoredRule | null;
  /** Ids of the signals that the form is pre-filled from. */
  from?: readonly string[];
  status?: 200 | 409 | 422;
}

async function newRulePage(
  c: Context<PagesEnv>,
  editor: EditorState,
  { id, source = null, from = [], status = 200 }: NewRule,
): Promise<Response> {
  const base = workspacePath(c);
  return page(
    c,
    { title: "New mapping rule", section: "rules", status },
    <>
      <PageHead title="New mapping rule" crumbs={[<a href={`${base}/rules`}>Mapping rules</a>]}>
        {source !== null && (
          <>
            A duplicate of <a href={`${base}/rules/${source.id}`}>{source.name}</a>. While both are enabled, both score
            a signal that they match.
          </>
        )}
        {from.length > 0 && <Prefilled base={base} from={from} conditions={editor.form.conditions.length} />}
      </PageHead>
      <RuleEditor
        {...editor}
        base={base}
        action={`${base}/rules`}
        submit="Create rule"
        hidden={{ id, ...(source === null ? {} : { source: source.id }) }}
        suggestions={await suggestionsFor(c, editor.form)}
      />
    </>,
  );
}

function Prefilled({ base, from, conditions }: { base: string; from: readonly string[]; conditions: number }) {
  return (
    <>
      Pre-filled from{" "}
      {from.map((id, index) => (
        <>
          {index > 0 && ", "}
          <a class="mono nowrap" href={`${base}/signals/${encodeURIComponent(id)}`} title={id}>
            sig_…{id.slice(-8)}
          </a>
        </>
      ))}
      .{" "}
      {conditions === 0
        ? "No property is suitable as a condition, so the rule matches every signal of this event."
        : from.length > 1
          ? "The conditions are the values that these samples share."
          : "Keep the conditions that should apply to other signals too."}
    </>
  );
}
