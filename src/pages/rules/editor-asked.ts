/** What a submit of the rule editor asks for, and the preview that it is answered with. */
import type { Context } from "hono";
import { findRule, type StoredRule } from "../../control/stored-rules.ts";
import { signalStore } from "../../workspace/objects.ts";
import { previewRule } from "../../workspace/rules-on-history.ts";
import { newId } from "../../platform/ids.ts";
import { formText } from "../form-text.ts";
import type { PagesEnv } from "../pages-env.ts";
import type { EditorProps } from "./rule-editor.tsx";
import { changeRows, draftOf, previewDays, readRuleForm, withoutBlankRows, type RuleForm } from "./rule-form.ts";
import type { Previewed } from "./rule-preview.tsx";

const RULE_ID = /^rule_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Reads what a submit of the editor asks for: its buttons add and remove rows, preview, and save. */
export async function readAsked(c: Context<PagesEnv>): Promise<{
  what: string;
  form: RuleForm;
  drawnFrom: StoredRule | null;
  id: string;
  version: number | null;
  preview: Previewed;
}> {
  const data = c.get("form");
  const what = data.get("do");
  const asked = typeof what === "string" ? what : "save";
  const read = readRuleForm(data);
  const form = asked === "save" || asked === "preview" ? withoutBlankRows(read) : changeRows(read, asked);
  const drawnFrom = await ruleDrawn(c);
  const [id, version] = [formText(data, "id"), Number(data.get("version"))];
  return {
    what: asked,
    form,
    drawnFrom,
    id: RULE_ID.test(id) ? id : newId("rule"),
    version: Number.isInteger(version) && version > 0 ? version : null,
    preview: asked === "preview" ? await tryOut(c, form, drawnFrom) : null,
  };
}

/** The rule that the form was drawn from, by the form's hidden field; null for a form that was drawn from none. */
export async function ruleDrawn(c: Context<PagesEnv>): Promise<StoredRule | null> {
  const id = formText(c.get("form"), "drawn_from");
  return RULE_ID.test(id) ? findRule(c.get("db"), c.get("workspace").id, id) : null;
}

export function focusAfter(what: string): EditorProps["focus"] {
  return what === "add" ? "last_condition" : null;
}

/** Tries the typed rule on stored signals, or says why it cannot be tried yet. */
export async function tryOut(
  c: Context<PagesEnv>,
  form: RuleForm,
  drawnFrom: StoredRule | null,
  maxSignals?: number,
): Promise<Previewed> {
  const draft = draftOf(form, drawnFrom);
  if (!draft.ok) return { errors: draft.refusal };
  const { event, match, conditions, points, frequency } = draft.value;
  const days = previewDays(form);
  const rule = { event, match, conditions, points, frequency, scoringSignal: form.scoringSignal };
  const found = await previewRule(c.env, c.get("workspace").id, rule, days, maxSignals);
  return { days, points, found, similar: found.matches === 0 ? await eventsLike(c, event) : [] };
}

/** Known events whose names differ from this one in letter case only. */
async function eventsLike(c: Context<PagesEnv>, event: string): Promise<string[]> {
  const { events } = await signalStore(c.env, c.get("workspace").id).recentNames();
  return events.filter((known) => known !== event && known.toLowerCase() === event.toLowerCase());
}
