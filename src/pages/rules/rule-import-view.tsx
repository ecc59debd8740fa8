/** The import of mapping rules: the form with what was wrong, and what would be done. */
import type { Child } from "hono/jsx";
import type { FileProblem } from "../../workspace/import-rules.ts";
import { canBeDone, IMPORT_REFUSAL, type RuleImport, type RuleImportStep } from "../../workspace/import-rules.ts";
import { LIMIT_COPY } from "../../workspace/refusal-copy.ts";
import { TextArea } from "../views/fields.tsx";
import { counted, grouped } from "../views/format.ts";
import { Badge, PageHead, Notice, Panel, Stat, Stats } from "../views/parts.tsx";
import { Table } from "../views/table.tsx";
import { RuleDifferences, DIFFERENCE_VALUES } from "./rule-differences.tsx";
import { RuleSays } from "./rule-says.tsx";
import { EnabledBadge } from "./rules-view.tsx";

/** Rules that are wrong, and rules that would change: the page names so many. */
const IMPORT_SHOWN_RULES = 100;
/** The rules that the preview shows have at most so many characters together, as JSON. */
const IMPORT_SHOWN_CHARACTERS = 60_000;
/** A longer file is not kept on the page between its preview and its import: it is chosen again. */
const KEPT_TEXT_MAX_CHARACTERS = 64 * 1024;

export function ImportForm({
  base,
  text,
  problems,
}: {
  base: string;
  /** The text of the file as it was sent. */
  text: string;
  problems: readonly FileProblem[];
}) {
  const isWrong = problems.length > 0;
  return (
    <>
      <PageHead title="Import mapping rules" crumbs={<Crumbs base={base} />}>
        From a file that was exported here or in another workspace. What would be added and changed is shown first.
      </PageHead>
      {isWrong && (
        <Notice tone="bad" title="Nothing was imported.">
          <ul>
            {problems.slice(0, IMPORT_SHOWN_RULES).map((problem) => (
              <li>
                <FileProblemItem problem={problem} />
              </li>
            ))}
            {problems.length > IMPORT_SHOWN_RULES && (
              <li>{counted(problems.length - IMPORT_SHOWN_RULES, "more rule")}</li>
            )}
          </ul>
          {text.length > KEPT_TEXT_MAX_CHARACTERS && (
            <p>The file is too large to be shown here. Correct it, then choose it again.</p>
          )}
        </Notice>
      )}
      <form method="post" action={`${base}/rules/import`} enctype="multipart/form-data" class="stack">
        <Panel>
          <div class="field">
            <label for="file">File</label>
            <input type="file" id="file" name="file" accept=".json,application/json" autofocus={!isWrong} />
          </div>
          <TextArea
            name="text"
            label="Or its text"
            hint={
              <>
                <code>{'{"items": […]}'}</code>: rules as the export and the operator API list them.
              </>
            }
            value={text.length > KEPT_TEXT_MAX_CHARACTERS ? "" : text}
            rows={isWrong ? 16 : 6}
            spellcheck={false}
            autofocus={isWrong}
          />
          <p class="quiet small">
            A rule that is here by its id, else by its name, is changed; any other is added, and rules that the file
            does not name stay as they are. Each is enabled or disabled as the file says.
          </p>
          <div class="row">
            <button class="primary">Show what would change</button>
          </div>
        </Panel>
      </form>
    </>
  );
}

function FileProblemItem({ problem: { index, name, messages } }: { problem: FileProblem }): Child {
  if (index === null) return <>{messages.join(" ")}</>;
  return (
    <>
      Rule {index + 1}
      {name !== null && (
        <>
          , <strong>{name.slice(0, NAME_SHOWN_CHARACTERS)}</strong>
        </>
      )}
      :{" "}
      {messages
        .slice(0, MESSAGES_SHOWN)
        .map((message) => message.slice(0, MESSAGE_SHOWN_CHARACTERS))
        .join("; ")}
      {messages.length > MESSAGES_SHOWN && `; and ${grouped(messages.length - MESSAGES_SHOWN)} more`}
    </>
  );
}

const NAME_SHOWN_CHARACTERS = 100;
const MESSAGES_SHOWN = 5;
const MESSAGE_SHOWN_CHARACTERS = 100;

export interface PreviewedFile {
  text: string;
  /** SHA-256 of the rules in the file. The import repeats it: what is imported is what was previewed. */
  fingerprint: string;
}

/** Why an import that was confirmed did not happen; each is shown with a new preview. */
const STOPPED = {
  rules_changed: "Nothing was imported: somebody has changed rules since the preview.",
  other_file: "Nothing was imported: this is not the file that was previewed.",
} as const;

export type ImportStopped = keyof typeof STOPPED;

export function ImportPreview({
  base,
  previewed,
  plan,
  stopped,
}: {
  base: string;
  previewed: PreviewedFile;
  plan: RuleImport;
  stopped: ImportStopped | null;
}) {
  const { steps, noRoom } = plan;
  const of = (what: RuleImportStep["what"]) => steps.filter((step) => step.what === what);
  const listed = [...of("refused"), ...of("changed"), ...of("added")];
  const shown = firstSteps(listed);
  const work = of("changed").length + of("added").length;
  return (
    <>
      <PageHead title="Import mapping rules" crumbs={<Crumbs base={base} />}>
        What the import would do. Nothing has been done yet.
      </PageHead>
      {stopped !== null && (
        <Notice tone="warn" title={STOPPED[stopped]}>
          <p>Below is what the import would do now.</p>
        </Notice>
      )}
      {noRoom !== null && (
        <Notice tone="bad" title="It cannot be imported.">
          <p>{LIMIT_COPY[noRoom]}</p>
        </Notice>
      )}
      {of("refused").length > 0 && (
        <Notice tone="bad" title="It cannot be imported.">
          <p>What is wrong is said at each rule. Mend the file, and nothing has to be done twice.</p>
        </Notice>
      )}
      <Stats>
        <Stat label="Added" value={of("added").length} />
        <Stat label="Changed" value={of("changed").length} />
        <Stat label="As they are here" value={of("unchanged").length} />
      </Stats>
      {work === 0 && of("refused").length === 0 && <p>Every rule of the file is here already, and says the same.</p>}
      {shown.length > 0 && (
        <Panel flush>
          <Table caption="What the import would do" head={["Rule", "What", "How", "Status"]}>
            {shown.map((step) => (
              <ImportRow base={base} step={step} />
            ))}
          </Table>
          {shown.length < listed.length && (
            <p class="not-all quiet">And {counted(listed.length - shown.length, "more rule")}.</p>
          )}
        </Panel>
      )}
      <div class="row">
        {canBeDone(plan) && work > 0 && (
          <ConfirmImport base={base} previewed={previewed} rulesVersion={plan.rulesVersion} rules={work} />
        )}
        <a class="button" href={`${base}/rules/import`}>
          Another file
        </a>
      </div>
    </>
  );
}

/** The first steps, as many as the page has room for. */
function firstSteps(steps: readonly RuleImportStep[]): RuleImportStep[] {
  let characters = 0;
  return steps
    .slice(0, IMPORT_SHOWN_RULES)
    .filter((step) => (characters += JSON.stringify(step).length) <= IMPORT_SHOWN_CHARACTERS);
}

function ConfirmImport({
  base,
  previewed: { text, fingerprint },
  rulesVersion,
  rules,
}: {
  base: string;
  previewed: PreviewedFile;
  rulesVersion: number;
  rules: number;
}) {
  return (
    <form method="post" action={`${base}/rules/import`} enctype="multipart/form-data" data-once class="stack">
      <input type="hidden" name="do" value="import" />
      <input type="hidden" name="rules_version" value={String(rulesVersion)} />
      <input type="hidden" name="fingerprint" value={fingerprint} />
      {text.length > KEPT_TEXT_MAX_CHARACTERS ? (
        <div class="field">
          <label for="file">Choose the same file again: it is too large to be kept on this page</label>
          <input type="file" id="file" name="file" accept=".json,application/json" required />
        </div>
      ) : (
        <input type="hidden" name="text" value={text} />
      )}
      <button class="primary">Import {counted(rules, "rule")}</button>
    </form>
  );
}

function ImportRow({ base, step }: { base: string; step: RuleImportStep }) {
  if (step.what === "unchanged") return <></>;
  const { rule } = step;
  return (
    <tr>
      <th scope="row" class="rule">
        {step.what === "changed" ? <a href={`${base}/rules/${step.before.id}`}>{step.before.name}</a> : rule.name}
      </th>
      <td>
        {step.what === "added" && <Badge tone="good">Added</Badge>}
        {step.what === "changed" && <Badge tone="info">Changed</Badge>}
        {step.what === "refused" && <Badge tone="bad">Wrong</Badge>}
      </td>
      <td class="reason">
        {step.what === "added" && <RuleSays rule={rule} mostValues={DIFFERENCE_VALUES} />}
        {step.what === "changed" && (
          <>
            <p class="quiet small">It is here already, as version {step.before.version}.</p>
            <RuleDifferences before={step.before} after={rule} />
          </>
        )}
        {step.what === "refused" && `${IMPORT_REFUSAL[step.why]}.`}
      </td>
      <td>
        <EnabledBadge enabled={rule.enabled} />
      </td>
    </tr>
  );
}

function Crumbs({ base }: { base: string }) {
  return <a href={`${base}/rules`}>Mapping Rules</a>;
}
