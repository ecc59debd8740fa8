/** Mapping rules as a file: the download, and the import, which is previewed first and then done as a whole. */
import type { Context } from "hono";
import { readAllRules } from "../../control/write-import.ts";
import { readRuleFile, ruleFileOf, type FileProblem } from "../../workspace/rule-file.ts";
import { canBeDone, importRules, planRuleImport, type RuleImport } from "../../workspace/import-rules.ts";
import { byMember, pages, workspacePath, type PagesEnv } from "../pages-env.ts";
import { formText } from "../form-text.ts";
import { done, managersOnlyPage, mayManage, page } from "../page.tsx";
import { requireManager } from "../session/require-sign-in.ts";
import { ImportForm, ImportPreview } from "./rule-import-view.tsx";

export const ruleFilePages = pages
  .createApp()
  .get("/export.json", async (c) => {
    const { slug, id } = c.get("workspace");
    const { rules } = await readAllRules(c.get("db"), id);
    return c.body(ruleFileOf(rules), 200, {
      "content-type": "application/json; charset=utf-8",
      "content-disposition": `attachment; filename="${slug}-mapping-rules.json"`,
    });
  })
  .get("/import", (c) =>
    mayManage(c)
      ? formPage(c, { text: "", problems: [] })
      : managersOnlyPage(c, "rules", "Import mapping rules", "import mapping rules"),
  )
  .post("/import", requireManager, async (c) => {
    const form = await c.req.formData();
    const text = await importedText(form);
    const read = readRuleFile(text);
    if (!read.ok) return formPage(c, { text, problems: read.refusal });
    const [db, { id }] = [c.get("db"), c.get("workspace")];
    const version = Number(form.get("rules_version") ?? Number.NaN);
    if (form.get("do") !== "import" || !Number.isInteger(version)) {
      return importPreviewPage(c, text, await planRuleImport(db, id, read.value));
    }
    const imported = await importRules(db, id, read.value, byMember(c), version);
    if (imported.ok) return done(c, "rules", "rules_imported");
    return importPreviewPage(c, text, imported.refusal.plan, {
      changedMeanwhile: imported.refusal.why === "changed_meanwhile",
    });
  });

/** Text of the uploaded file, else what was pasted. */
async function importedText(form: FormData): Promise<string> {
  const file = form.get("file");
  // A browser that has no file to send sends an empty one; the page of a session that has ended sends its text.
  const text = file === null || typeof file === "string" ? file : await file.text();
  return text || formText(form, "text");
}

function formPage(
  c: Context<PagesEnv>,
  { text, problems }: { text: string; problems: readonly FileProblem[] },
): Promise<Response> {
  return page(
    c,
    { title: "Import mapping rules", section: "rules", status: problems.length > 0 ? 422 : 200 },
    <ImportForm base={workspacePath(c)} text={text} problems={problems} />,
  );
}

/** @param options.changedMeanwhile true: nothing was imported, because the rules had changed since they were previewed. */
function importPreviewPage(
  c: Context<PagesEnv>,
  text: string,
  plan: RuleImport,
  { changedMeanwhile = false }: { changedMeanwhile?: boolean } = {},
): Promise<Response> {
  return page(
    c,
    {
      title: "Import mapping rules",
      section: "rules",
      status: changedMeanwhile ? 409 : canBeDone(plan) ? 200 : 422,
    },
    <ImportPreview base={workspacePath(c)} text={text} plan={plan} changedMeanwhile={changedMeanwhile} />,
  );
}
