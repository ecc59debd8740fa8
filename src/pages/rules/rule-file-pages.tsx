/** Mapping rules as a file: the download, and the import, which is previewed first and then done as a whole. */
import type { Context } from "hono";
import { readAllRules } from "../../control/rule-changes.ts";
import { digestHex } from "../../platform/hashes.ts";
import {
  readRuleFile,
  ruleFileOf,
  type FileProblem,
  canBeDone,
  importRules,
  planRuleImport,
  type RuleImport,
} from "../../workspace/import-rules.ts";
import { pages, workspacePath, type PagesEnv, contextOf } from "../pages-env.ts";
import { formText } from "../form-text.ts";
import { readForm, RULES_FILE_FORM } from "../read-form.tsx";
import { done, managersOnlyPage, mayManage, page } from "../page.tsx";
import { requireManager } from "../session/require-sign-in.ts";
import { ImportForm, ImportPreview, type ImportStopped, type PreviewedFile } from "./rule-import-view.tsx";

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
  .post("/import", requireManager, readForm(RULES_FILE_FORM), async (c) => {
    const form = c.get("form");
    const text = await importedText(form);
    const read = readRuleFile(text);
    if (!read.ok) return formPage(c, { text, problems: read.refusal });
    const [db, { id }] = [c.get("db"), c.get("workspace")];
    const previewed = { text, fingerprint: await digestHex(JSON.stringify(read.value)) };
    const version = Number(form.get("rules_version") ?? Number.NaN);
    if (form.get("do") !== "import" || !Number.isInteger(version)) {
      return importPreviewPage(c, previewed, await planRuleImport(db, id, read.value), null);
    }
    if (formText(form, "fingerprint") !== previewed.fingerprint) {
      return importPreviewPage(c, previewed, await planRuleImport(db, id, read.value), "other_file");
    }
    const imported = await importRules(contextOf(c), read.value, version);
    if (imported.ok) return done(c, "rules", "rules_imported");
    const { why, plan } = imported.refusal;
    return importPreviewPage(c, previewed, plan, why === "rules_changed" ? why : null);
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

/** @param stopped why nothing was imported although the import was asked for; null if it was not asked for. */
function importPreviewPage(
  c: Context<PagesEnv>,
  previewed: PreviewedFile,
  plan: RuleImport,
  stopped: ImportStopped | null,
): Promise<Response> {
  const status = stopped !== null ? 409 : canBeDone(plan) ? 200 : 422;
  return page(
    c,
    { title: "Import mapping rules", section: "rules", status },
    <ImportPreview base={workspacePath(c)} previewed={previewed} plan={plan} stopped={stopped} />,
  );
}
