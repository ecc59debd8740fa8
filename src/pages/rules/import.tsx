/** Mapping rules as a file: the export, and the import, which shows its changes first and is done as a whole. */
import type { Child } from "hono/jsx";
import { readAllRules } from "../../d1/stored-rules.ts";
import { cut } from "../../domain/text.ts";
import { digestHex } from "../../platform/hashes.ts";
import {
  isEmpty,
  isPossible,
  IMPORT_REJECTION,
  importRules,
  planRuleImport,
  readRuleFile,
  ruleFileOf,
  type FileProblem,
  type RuleImport,
  type RuleImportStep,
} from "../../use-cases/import-rules.ts";
import { LIMIT_COPY } from "../../use-cases/rejection-copy.ts";
import { FormErrors, HiddenFields, LinkButton, TextArea } from "../kit/forms.tsx";
import { counted } from "../kit/format.ts";
import { Badge, Notice, Stat, Stats, Table } from "../kit/parts.tsx";
import { page } from "../page.tsx";
import { contextOf, type Ctx, formText, pages, typedText, workspacePath, done } from "../pages-env.ts";
import { readForm, RULES_FILE_FORM } from "../read-form.tsx";
import { managersOnly, requireManager } from "../session/sign-in.tsx";
import { EnabledBadge, RuleDifferences, RuleSummary, VALUES_SHOWN } from "./rule-text.tsx";

/** Limits of the rules on the page. SHOWN_CHARACTERS counts the JSON of all shown rules. */
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
    const { rules, exclusions } = await readAllRules(c.get("db"), id);
    return c.body(ruleFileOf(rules, exclusions.exclusions), 200, {
      "content-type": "application/json; charset=utf-8",
      "content-disposition": `attachment; filename="${slug}-mapping-rules.json"`,
    });
  })
  .get("/import", managersOnly("Import mapping rules", "import mapping rules", "rules"), (c) =>
    importPage(c, 200, <ImportForm base={rulesPath(c)} />),
  )
  .post("/import", requireManager, readForm(RULES_FILE_FORM), async (c) => {
    const form = c.get("form");
    const text = await importedText(form);
    const read = readRuleFile(text);
    if (!read.ok) return importPage(c, 422, <ImportForm base={rulesPath(c)} text={text} problems={read.rejection} />);
    const fingerprint = await digestHex(JSON.stringify(read.value));
    const preview = (plan: RuleImport, stopped: keyof typeof STOPPED | null = null) =>
      importPage(
        c,
        stopped !== null ? 409 : isPossible(plan) ? 200 : 422,
        <ImportPreview base={rulesPath(c)} text={text} fingerprint={fingerprint} plan={plan} stopped={stopped} />,
      );
    const version = Number(formText(form, "rules_version") || Number.NaN);
    const isConfirmed = formText(form, "do") === "import" && Number.isInteger(version);
    const isOtherFile = isConfirmed && formText(form, "fingerprint") !== fingerprint;
    if (!isConfirmed || isOtherFile) {
      const plan = await planRuleImport(c.get("db"), c.get("workspace").id, read.value);
      return preview(plan, isOtherFile ? "other_file" : null);
    }
    const imported = await importRules(contextOf(c), read.value, version);
    if (imported.ok) return importedPage(c, imported.value.plan);
    const { reason, plan } = imported.rejection;
    return preview(plan, reason === "rules_changed" ? reason : null);
  });

/** The list of what was imported. */
function importedPage(c: Ctx, { steps, exclusions: { added, changed } }: RuleImport): Response {
  if (added.length + changed.length === 0) return done(c, "rules", "rules_imported");
  const hasRules = steps.some(({ result }) => result !== "unchanged");
  return hasRules ? done(c, "rules", "all_imported") : done(c, "rules/exclusions", "exclusions_imported");
}

function rulesPath(c: Ctx): string {
  return `${workspacePath(c)}/rules`;
}

async function importedText(form: FormData): Promise<string> {
  const file = form.get("file");
  // A browser without a chosen file sends an empty one. The page of an expired session sends the file's text.
  const text = file === null || typeof file === "string" ? file : await file.text();
  return text || typedText(form, "text");
}

function importPage(c: Ctx, status: 200 | 409 | 422, content: Child): Promise<Response> {
  const intro = "Use an export of this or another workspace.";
  return page(c, { section: "rules", title: "Import mapping rules", crumbs: [], intro, status }, content);
}

interface FormProps {
  base: string;
  text?: string;
  problems?: readonly FileProblem[];
}

function ImportForm({ base, text = "", problems = [] }: FormProps) {
  const isInvalid = problems.length > 0;
  const isKept = text.length <= KEPT_CHARACTERS;
  const errors: Child[] = problems.slice(0, SHOWN_RULES).map((problem) => <Problem problem={problem} />);
  if (problems.length > SHOWN_RULES) errors.push(`${counted(problems.length - SHOWN_RULES, "more rule")} with errors.`);
  if (!isKept) errors.push("The file is too large to be shown here. Fix it and choose it again.");
  return (
    <form method="post" action={`${base}/import`} enctype="multipart/form-data" class="form">
      {isInvalid && <FormErrors title="Nothing was imported" errors={errors} />}
      <FileField label="File" autofocus={!isInvalid} />
      <TextArea
        name="text"
        label="Or paste its text"
        hint="Rules and exclusions with a known id, or else a known name, are changed. Others are added. What is not in the file stays."
        value={isKept ? text : ""}
        rows={isInvalid ? 16 : 6}
        autofocus={isInvalid}
      />
      <div>
        <button class="primary">Preview import</button>
      </div>
    </form>
  );
}

function Problem({ problem: { of, index, name, messages } }: { problem: FileProblem }) {
  const texts = messages.map((message) => cut(message, 300)).slice(0, 5);
  if (index === null) return <>{texts.join(" ")}</>;
  return (
    <>
      {`${of === "exclusion" ? "Exclusion" : "Rule"} ${index + 1}${name === null ? "" : `, ${cut(name, 100)}`}:`}
      <ul>
        {texts.map((text) => (
          <li>{text}</li>
        ))}
      </ul>
    </>
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

interface PreviewProps {
  base: string;
  text: string;
  /** SHA-256 of the rules in the file. The import repeats it, so that only the previewed rules are imported. */
  fingerprint: string;
  plan: RuleImport;
  stopped: keyof typeof STOPPED | null;
}

function ImportPreview(props: PreviewProps) {
  const { base, plan, stopped } = props;
  const count = (kind: RuleImportStep["result"]) => plan.steps.filter((step) => step.result === kind).length;
  const listed = (["rejected", "changed", "added"] as const).flatMap((kind) =>
    plan.steps.filter((step): step is ShownStep => step.result === kind),
  );
  const shown = firstSteps(listed);
  return (
    <>
      {stopped !== null && <Notice tone="warn" title={STOPPED[stopped]} />}
      {plan.exceededLimit !== null && (
        <FormErrors title="The file cannot be imported" errors={[LIMIT_COPY[plan.exceededLimit]]} />
      )}
      {count("rejected") > 0 && (
        <FormErrors
          title="The file cannot be imported"
          errors={["Fix the rejected rules in the file, then preview it again."]}
        />
      )}
      <Stats>
        <Stat label="Added" value={count("added")} />
        <Stat label="Changed" value={count("changed")} />
        <Stat label="Unchanged" value={count("unchanged")} />
      </Stats>
      {isEmpty(plan) && <p>All rules and exclusions of the file exist already and are the same.</p>}
      <ExclusionNames label="Exclusions added" names={plan.exclusions.added} />
      <ExclusionNames label="Exclusions changed" names={plan.exclusions.changed} />
      {shown.length > 0 && (
        <Table
          caption="Import preview"
          rows={shown}
          columns={[
            {
              head: "Rule",
              cell: (step) =>
                step.result === "changed" ? (
                  <a href={`${base}/${step.before.id}`}>{step.before.name}</a>
                ) : (
                  step.rule.name
                ),
            },
            { head: "Change", cell: ({ result }) => <Badge tone={STEP_COPY[result][0]}>{STEP_COPY[result][1]}</Badge> },
            { head: "Details", kind: "text", cell: (step) => <StepDetails step={step} /> },
            { head: "Status", cell: ({ rule }) => <EnabledBadge enabled={rule.enabled} /> },
          ]}
        />
      )}
      {shown.length < listed.length && <p class="quiet">And {counted(listed.length - shown.length, "more rule")}.</p>}
      <div class="row">
        {isPossible(plan) && !isEmpty(plan) && <ConfirmImport {...props} label={importLabel(listed.length, plan)} />}
        <LinkButton href={`${base}/import`} text="Choose another file" />
      </div>
    </>
  );
}

function importLabel(rules: number, { exclusions: { added, changed } }: RuleImport): string {
  const exclusions = added.length + changed.length;
  const parts = [
    ...(rules > 0 ? [counted(rules, "rule")] : []),
    ...(exclusions > 0 ? [counted(exclusions, "exclusion")] : []),
  ];
  return `Import ${parts.join(" and ")}`;
}

function ExclusionNames({ label, names }: { label: string; names: readonly string[] }) {
  if (names.length === 0) return <></>;
  return <p>{`${label}: ${names.join(", ")}.`}</p>;
}

type ShownStep = Exclude<RuleImportStep, { result: "unchanged" }>;

function firstSteps(steps: readonly ShownStep[]): ShownStep[] {
  let characters = 0;
  return steps.slice(0, SHOWN_RULES).filter((step) => (characters += JSON.stringify(step).length) <= SHOWN_CHARACTERS);
}

const STEP_COPY = { added: ["good", "Added"], changed: ["info", "Changed"], rejected: ["bad", "Rejected"] } as const;

function StepDetails({ step }: { step: ShownStep }) {
  if (step.result === "rejected") return <>{IMPORT_REJECTION[step.why]}</>;
  if (step.result === "changed") return <RuleDifferences before={step.before} after={step.rule} />;
  return <RuleSummary rule={step.rule} maxValues={VALUES_SHOWN} />;
}

function ConfirmImport({ base, text, fingerprint, plan, label }: PreviewProps & { label: string }) {
  return (
    <form method="post" action={`${base}/import`} enctype="multipart/form-data" data-once class="stack">
      <HiddenFields fields={{ do: "import", rules_version: String(plan.rulesVersion), fingerprint }} />
      {text.length > KEPT_CHARACTERS ? (
        <FileField label="Choose the file again: it is too large to be kept on this page" required />
      ) : (
        <input type="hidden" name="text" value={text} />
      )}
      <button class="primary">{label}</button>
    </form>
  );
}
