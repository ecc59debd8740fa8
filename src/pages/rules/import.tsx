/** Mapping rules as a file: the export, and the import, which shows its changes first and is done as a whole. */
import type { Context } from "hono";
import type { Child } from "hono/jsx";
import { readAllRules } from "../../control/rule-changes.ts";
import { cut } from "../../domain/text.ts";
import { digestHex } from "../../platform/hashes.ts";
import {
  canBeDone,
  IMPORT_REFUSAL,
  importRules,
  planRuleImport,
  readRuleFile,
  ruleFileOf,
  type FileProblem,
  type RuleImport,
  type RuleImportStep,
} from "../../workspace/import-rules.ts";
import { LIMIT_COPY } from "../../workspace/refusal-copy.ts";
import { formText } from "../form-text.ts";
import { counted } from "../kit/format.ts";
import { TextArea } from "../kit/forms.tsx";
import { Badge, Notice, PageHead, Stat, Stats } from "../kit/parts.tsx";
import { Table } from "../kit/table.tsx";
import { done, managersOnlyPage, mayManage, page } from "../page.tsx";
import { contextOf, pages, workspacePath, type PagesEnv } from "../pages-env.ts";
import { readForm, RULES_FILE_FORM } from "../read-form.tsx";
import { requireManager } from "../session/require-sign-in.ts";
import { EnabledBadge, RuleDifferences, RuleSummary, VALUES_SHOWN } from "./rule-text.tsx";

/** Invalid or changed rules that the page shows, and their length together, as JSON. */
const SHOWN_RULES = 100;
const SHOWN_CHARACTERS = 60_000;
/** A longer file is not kept on the page between preview and import: the user chooses it again. */
const KEPT_CHARACTERS = 64 * 1024;

/** Why a confirmed import was not done. Each is shown with a new preview. */
const STOPPED = {
  rules_changed: "Nothing was imported: rules have changed since the preview",
  other_file: "Nothing was imported: this is not the previewed file",
} as const;

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
      ? importPage(c, 200, <ImportForm action={`${workspacePath(c)}/rules/import`} />)
      : managersOnlyPage(c, "rules", "Import mapping rules", "import mapping rules"),
  )
  .post("/import", requireManager, readForm(RULES_FILE_FORM), async (c) => {
    const form = c.get("form");
    const text = await importedText(form);
    const read = readRuleFile(text);
    if (!read.ok) {
      const view = <ImportForm action={`${workspacePath(c)}/rules/import`} text={text} problems={read.refusal} />;
      return importPage(c, 422, view);
    }
    const file = { text, fingerprint: await digestHex(JSON.stringify(read.value)) };
    const preview = (plan: RuleImport, stopped: keyof typeof STOPPED | null = null) =>
      importPage(
        c,
        stopped !== null ? 409 : canBeDone(plan) ? 200 : 422,
        <ImportPreview base={`${workspacePath(c)}/rules`} file={file} plan={plan} stopped={stopped} />,
      );
    const version = Number(form.get("rules_version") ?? Number.NaN);
    const isConfirmed = form.get("do") === "import" && Number.isInteger(version);
    const isOtherFile = isConfirmed && formText(form, "fingerprint") !== file.fingerprint;
    if (!isConfirmed || isOtherFile) {
      const plan = await planRuleImport(c.get("db"), c.get("workspace").id, read.value);
      return preview(plan, isOtherFile ? "other_file" : null);
    }
    const imported = await importRules(contextOf(c), read.value, version);
    if (imported.ok) return done(c, "rules", "rules_imported");
    const { why, plan } = imported.refusal;
    return preview(plan, why === "rules_changed" ? why : null);
  });

/** Text of the uploaded file, else the pasted text. */
async function importedText(form: FormData): Promise<string> {
  const file = form.get("file");
  // A browser without a chosen file sends an empty one. The page of an expired session sends the file's text.
  const text = file === null || typeof file === "string" ? file : await file.text();
  return text || formText(form, "text");
}

function importPage(c: Context<PagesEnv>, status: 200 | 409 | 422, content: Child): Promise<Response> {
  return page(
    c,
    { title: "Import mapping rules", section: "rules", status },
    <>
      <PageHead title="Import mapping rules" crumbs={[<a href={`${workspacePath(c)}/rules`}>Mapping rules</a>]}>
        Use an export of this or another workspace. You see all changes before anything is imported.
      </PageHead>
      {content}
    </>,
  );
}

interface FormProps {
  action: string;
  /** The sent text. */
  text?: string;
  problems?: readonly FileProblem[];
}

function ImportForm({ action, text = "", problems = [] }: FormProps) {
  const isInvalid = problems.length > 0;
  const isKept = text.length <= KEPT_CHARACTERS;
  return (
    <form method="post" action={action} enctype="multipart/form-data" class="form">
      {isInvalid && (
        <Notice tone="bad" title="Nothing was imported">
          <Problems problems={problems} />
          {!isKept && <p>The file is too large to be shown here. Fix it and choose it again.</p>}
        </Notice>
      )}
      <FileField label="File" autofocus={!isInvalid} />
      <TextArea
        name="text"
        label="Or paste its text"
        hint="Rules are found by id, then by name. Other rules of the file are added, and rules not in the file stay."
        value={isKept ? text : ""}
        rows={isInvalid ? 16 : 6}
        spellcheck={false}
        autofocus={isInvalid}
      />
      <div>
        <button class="primary">Preview import</button>
      </div>
    </form>
  );
}

function FileField({ label, ...input }: { label: string; autofocus?: boolean; required?: boolean }) {
  return (
    <div class="field">
      <label for="file">{label}</label>
      <input type="file" id="file" name="file" accept=".json,application/json" {...input} />
    </div>
  );
}

const NAME_CHARACTERS = 100;
const MESSAGES_SHOWN = 5;
const MESSAGE_CHARACTERS = 200;

function Problems({ problems }: { problems: readonly FileProblem[] }) {
  return (
    <ul>
      {problems.slice(0, SHOWN_RULES).map(({ index, name, messages }) => (
        <li>
          {index !== null && (
            <strong>{`Rule ${index + 1}${name === null ? "" : `, ${cut(name, NAME_CHARACTERS)}`}: `}</strong>
          )}
          {messages
            .slice(0, MESSAGES_SHOWN)
            .map((message) => cut(message, MESSAGE_CHARACTERS))
            .join(" ")}
          {messages.length > MESSAGES_SHOWN && ` And ${counted(messages.length - MESSAGES_SHOWN, "more error")}.`}
        </li>
      ))}
      {problems.length > SHOWN_RULES && <li>{counted(problems.length - SHOWN_RULES, "more invalid rule")}</li>}
    </ul>
  );
}

interface PreviewProps {
  base: string;
  file: PreviewedFile;
  plan: RuleImport;
  stopped: keyof typeof STOPPED | null;
}

interface PreviewedFile {
  text: string;
  /** SHA-256 of the rules in the file. The import repeats it, so that only the previewed rules are imported. */
  fingerprint: string;
}

function ImportPreview({ base, file, plan, stopped }: PreviewProps) {
  const count = (what: RuleImportStep["what"]) => plan.steps.filter((step) => step.what === what).length;
  const listed = (["refused", "changed", "added"] as const).flatMap((what) =>
    plan.steps.filter((step): step is ShownStep => step.what === what),
  );
  const shown = firstSteps(listed);
  return (
    <>
      {stopped !== null && (
        <Notice tone="warn" title={STOPPED[stopped]}>
          <p>Review the changes again.</p>
        </Notice>
      )}
      {(plan.noRoom !== null || count("refused") > 0) && (
        <Notice tone="bad" title="The file cannot be imported">
          <p>
            {plan.noRoom === null ? "Fix the refused rules in the file and preview it again." : LIMIT_COPY[plan.noRoom]}
          </p>
        </Notice>
      )}
      <Stats>
        <Stat label="Added" value={count("added")} />
        <Stat label="Changed" value={count("changed")} />
        <Stat label="Unchanged" value={count("unchanged")} />
      </Stats>
      {listed.length === 0 && <p>All rules of the file exist already and are the same.</p>}
      {shown.length > 0 && (
        <Table
          caption="Import preview"
          rows={shown}
          columns={[
            {
              head: "Rule",
              cell: (step) =>
                step.what === "changed" ? <a href={`${base}/${step.before.id}`}>{step.before.name}</a> : step.rule.name,
            },
            { head: "Change", cell: ({ what }) => <Badge tone={STEP_COPY[what][0]}>{STEP_COPY[what][1]}</Badge> },
            { head: "Details", kind: "text", cell: (step) => <StepDetails step={step} /> },
            { head: "Status", cell: ({ rule }) => <EnabledBadge enabled={rule.enabled} /> },
          ]}
        />
      )}
      {shown.length < listed.length && <p class="quiet">And {counted(listed.length - shown.length, "more rule")}.</p>}
      <div class="row">
        {canBeDone(plan) && listed.length > 0 && (
          <ConfirmImport action={`${base}/import`} file={file} rulesVersion={plan.rulesVersion} count={listed.length} />
        )}
        <a class="button" href={`${base}/import`}>
          Choose another file
        </a>
      </div>
    </>
  );
}

type ShownStep = Exclude<RuleImportStep, { what: "unchanged" }>;

function firstSteps(steps: readonly ShownStep[]): ShownStep[] {
  let characters = 0;
  return steps.slice(0, SHOWN_RULES).filter((step) => (characters += JSON.stringify(step).length) <= SHOWN_CHARACTERS);
}

const STEP_COPY = { added: ["good", "Added"], changed: ["info", "Changed"], refused: ["bad", "Refused"] } as const;

function StepDetails({ step }: { step: ShownStep }) {
  if (step.what === "refused") return <>{IMPORT_REFUSAL[step.why]}</>;
  if (step.what === "changed") return <RuleDifferences before={step.before} after={step.rule} />;
  return <RuleSummary rule={step.rule} maxValues={VALUES_SHOWN} />;
}

interface ConfirmProps {
  action: string;
  file: PreviewedFile;
  rulesVersion: number;
  /** Rules to add or change. */
  count: number;
}

function ConfirmImport({ action, file: { text, fingerprint }, rulesVersion, count }: ConfirmProps) {
  return (
    <form method="post" action={action} enctype="multipart/form-data" data-once class="stack">
      <input type="hidden" name="do" value="import" />
      <input type="hidden" name="rules_version" value={String(rulesVersion)} />
      <input type="hidden" name="fingerprint" value={fingerprint} />
      {text.length > KEPT_CHARACTERS ? (
        <FileField label="Choose the file again: it is too large to be kept on this page" required />
      ) : (
        <input type="hidden" name="text" value={text} />
      )}
      <button class="primary">Import {counted(count, "rule")}</button>
    </form>
  );
}
