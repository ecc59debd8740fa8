/** Exclusions: what should not score. The list with its versions, the form of one exclusion with its preview, and the application. */
import type { Child } from "hono/jsx";
import {
  findExclusions,
  listExclusionVersions,
  replaceExclusions,
  restoreExclusions,
  type ExclusionVersion,
} from "../../d1/exclusions.ts";
import {
  exclusionChanges,
  type Exclusion,
  type ExclusionContent,
  type ImportedExclusion,
} from "../../domain/rules/exclusion.ts";
import { RULE_VERSIONS_KEPT } from "../../limits.ts";
import { SCANNERS } from "../../presets/scanners.ts";
import type { RuleJob } from "../../store/protocol/store-operations.ts";
import { applyExclusions, previewExclusions, type ExclusionsPreview } from "../../use-cases/exclusions-on-history.ts";
import { LIMIT_COPY } from "../../use-cases/rejection-copy.ts";
import { exclusionList, ruleProblem } from "../../use-cases/rule-schema.ts";
import { MATCH_LABEL, RULE_FIELD_LABEL } from "../copy.ts";
import { Confirm, Form, LinkButton, livePreview, Menu, PostButton, SelectField, TextField } from "../kit/forms.tsx";
import { authorName, counted, grouped, signed, theLast } from "../kit/format.ts";
import { type Column, Empty, Notice, Panel, Stat, Stats, Table, Time, Timeline } from "../kit/parts.tsx";
import { fragment, mayManage, notFoundPage, page } from "../page.tsx";
import { contextOf, type Ctx, done, formText, pages, signalPath, storeOf, workspacePath } from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import { managersOnly, requireManager } from "../session/sign-in.tsx";
import { Conditions, Effects, PreviewRange, PreviewsBusy, RuleErrors, TYPING_SIGNALS } from "./editor.tsx";
import {
  BLANK_FORM,
  changeRows,
  formOfExclusion,
  parseExclusion,
  postedVersion,
  previewDays,
  readRuleForm,
  withoutBlankRows,
  type FieldErrors,
  type RuleForm,
} from "./rule-form.ts";
import { ConditionText, VALUES_SHOWN } from "./rule-text.tsx";
import { isInProgress } from "./rule.tsx";

const TITLE = "Exclusions";

export const exclusionPages = pages
  .createApp()
  .get("/", (c) => listPage(c))
  .get("/new", managersOnly("New exclusion", "exclude signals", "rules"), async (c) => {
    const list = await listOf(c);
    if (c.req.query("preset") !== "scanners") return editPage(c, list, { form: BLANK_FORM });
    const form = formOfExclusion(SCANNERS);
    const preview = await previewOf(c, withItem(list, undefined, SCANNERS), form, TYPING_SIGNALS);
    return editPage(c, list, { form, preview });
  })
  .post("/", requireManager, readForm(), (c) => save(c, null))
  .post("/apply", requireManager, async (c) => {
    await applyExclusions(contextOf(c));
    return c.redirect(`${exclusionsPath(c)}#job`, 303);
  })
  .post("/preview", requireManager, readForm(), async (c) => {
    const [list, data] = [await listOf(c), c.get("form")];
    const form = withoutBlankRows(readRuleForm(data));
    const exclusion = list.exclusions.find(({ id }) => id === formText(data, "exclusion"));
    const preview = await previewTyped(c, list, form, exclusion, TYPING_SIGNALS);
    return fragment(c, <PreviewPanel base={workspacePath(c)} preview={preview} days={form.days} />);
  })
  .post("/restore", requireManager, readForm(), async (c) => {
    const [version, seen] = [Number(formText(c.get("form"), "restored")), postedVersion(c.get("form"))];
    const restored = await restoreExclusions(contextOf(c), version, seen);
    if (restored.ok) return done(c, "rules/exclusions", "exclusions_restored");
    return restored.rejection === "not_found" ? notFoundPage(c, "version") : listPage(c, NOTHING_CHANGED);
  })
  .get("/:exclusion_id", managersOnly("Exclusion", "change exclusions", "rules"), async (c) => {
    const list = await listOf(c);
    const exclusion = exclusionOfPath(c, list);
    if (exclusion === undefined) return notFoundPage(c, "exclusion");
    const form = formOfExclusion(exclusion);
    return editPage(c, list, { form, exclusion, preview: await previewOf(c, list.exclusions, form, TYPING_SIGNALS) });
  })
  .post("/:exclusion_id", requireManager, readForm(), (c) => save(c, c.req.param("exclusion_id")))
  .post("/:exclusion_id/remove", requireManager, async (c) => {
    const list = await listOf(c);
    const exclusion = exclusionOfPath(c, list);
    if (exclusion === undefined) return notFoundPage(c, "exclusion");
    const items = list.exclusions.filter((one) => one !== exclusion);
    const removed = await replaceExclusions(contextOf(c), items, { version: list.version });
    return removed.ok ? done(c, "rules/exclusions", "exclusions_saved") : listPage(c, NOTHING_CHANGED);
  });

const NOTHING_CHANGED = "Nothing was changed: the exclusions have another version by now.";

type List = Awaited<ReturnType<typeof findExclusions>>;

function exclusionsPath(c: Ctx): string {
  return `${workspacePath(c)}/rules/exclusions`;
}

function listOf(c: Ctx): Promise<List> {
  return findExclusions(c.get("db"), c.get("workspace").id);
}

function exclusionOfPath(c: Ctx, { exclusions }: List): Exclusion | undefined {
  return exclusions.find(({ id }) => id === c.req.param("exclusion_id"));
}

async function listPage(c: Ctx, rejection?: string): Promise<Response> {
  const [base, isManager] = [exclusionsPath(c), mayManage(c)];
  const [versions, job] = await Promise.all([
    listExclusionVersions(c.get("db"), c.get("workspace").id),
    storeOf(c).exclusionsJob(),
  ]);
  const [newest] = versions;
  const exclusions = newest?.exclusions ?? [];
  const hasScanners = exclusions.some(({ name }) => name === SCANNERS.name);
  const actions = isManager && [
    newest !== undefined && <Apply base={base} />,
    !hasScanners && <LinkButton href={`${base}/new?preset=scanners`} text="Exclude scanners" />,
    <LinkButton href={`${base}/new`} text="Add exclusion" look="primary" />,
  ];
  const isApplied = newest === undefined || job?.ruleVersion === newest.version;
  return page(
    c,
    {
      section: "rules",
      title: TITLE,
      crumbs: [],
      intro:
        "What should not score, such as your own staff, test traffic and scanners that click links. Excluded signals are recorded and counted as usual, and never score.",
      actions,
      errors: [rejection],
      errorTitle: "Nothing was changed",
      errorStatus: 409,
      next: isManager && !isApplied && (
        <PostButton action={`${base}/apply`} look="small" text="Apply to past signals" />
      ),
    },
    job !== null && <Job job={job} version={newest?.version ?? 0} />,
    <Table
      caption={TITLE}
      rows={exclusions}
      empty={<Empty title="No exclusions yet" text="Each signal that a mapping rule matches scores." />}
      {...(isManager && { href: ({ id }: Exclusion) => `${base}/${id}` })}
      columns={[...COLUMNS, ...(isManager ? [actionsColumn(base)] : [])]}
    />,
    versions.length > 0 && <Versions base={base} versions={versions} isManager={isManager} />,
  );
}

const COLUMNS: Column<Exclusion>[] = [
  { head: "Exclusion", cell: ({ name }) => name },
  { head: "Signals with", cell: ({ match }) => MATCH_LABEL[match], drop: "phone" },
  { head: "Conditions", kind: "text", cell: ({ conditions }) => <ConditionList conditions={conditions} /> },
];

const CONDITIONS_SHOWN = 5;

function ConditionList({ conditions }: Pick<Exclusion, "conditions">) {
  const more = conditions.length - CONDITIONS_SHOWN;
  return (
    <ul class="plain">
      {conditions.slice(0, CONDITIONS_SHOWN).map((condition) => (
        <li>
          <ConditionText condition={condition} maxValues={VALUES_SHOWN} />
        </li>
      ))}
      {more > 0 && <li class="quiet">{`And ${counted(more, "more condition")}.`}</li>}
    </ul>
  );
}

function actionsColumn(base: string): Column<Exclusion> {
  return {
    head: "",
    kind: "actions",
    cell: ({ id, name }) => (
      <Menu label={`Actions for ${name}`}>
        <a href={`${base}/${id}`}>Change</a>
        <Confirm
          label="Remove"
          title={`Remove “${name}”?`}
          action={`${base}/${id}/remove`}
          submit="Remove"
          look="danger"
        >
          <p>New signals score again. Past signals score again when you apply the exclusions to them.</p>
        </Confirm>
      </Menu>
    ),
  };
}

function Apply({ base }: { base: string }) {
  return (
    <Confirm
      label="Apply to past signals"
      title="Apply the exclusions to past signals?"
      action={`${base}/apply`}
      submit="Apply"
      tone="primary"
    >
      <p>Covered past signals lose their points. Past signals that nothing covers any more score as before.</p>
      <p class="quiet">This runs in the background for all mapping rules, and scores change while it runs.</p>
    </Confirm>
  );
}

function Job({ job, version }: { job: RuleJob; version: number }) {
  const { ruleVersion, scanned, total, matched, added, removed, finishedAtMs } = job;
  const changes = `${counted(matched, "signal")} excluded. Scoring signals: ${grouped(added)} added, ${grouped(removed)} removed.`;
  if (!isInProgress(job)) {
    return (
      <p class="quiet small" id="job">
        {`Version ${ruleVersion} applied to past signals `}
        {finishedAtMs !== null && <Time ms={finishedAtMs} />}
        {`. ${counted(scanned, "signal")} read, ${changes}`}
        {ruleVersion !== version && " The exclusions have changed since."}
      </p>
    );
  }
  return (
    <div id="job" data-refresh="1500">
      <Notice title={`Applying version ${ruleVersion} to past signals`}>
        <progress {...(total > 0 ? { value: Math.min(scanned, total), max: total } : {})} aria-label="Progress" />
        <p>
          {`${grouped(scanned)} of about ${counted(total, "signal")} read. ${changes} `}
          <span class="no-script">Reload the page to see the progress.</span>
        </p>
      </Notice>
    </div>
  );
}

interface VersionsProps {
  base: string;
  versions: readonly ExclusionVersion[];
  isManager: boolean;
}

function Versions({ base, versions, isManager }: VersionsProps) {
  const newest = versions[0]?.version ?? 0;
  return (
    <Panel title="Versions">
      <p class="quiet">{`The current version and up to ${RULE_VERSIONS_KEPT} earlier ones.`}</p>
      <Timeline
        steps={versions.map((version, index) => ({
          title: `Version ${version.version}${index === 0 ? " (current)" : ""}`,
          ms: Date.parse(version.at),
          tone: index === 0 ? "good" : "quiet",
          text: [
            `By ${authorName(version.by)}. `,
            changesText(version, versions[index + 1]),
            isManager && index > 0 && (
              <PostButton
                action={`${base}/restore`}
                look="small"
                fields={{ restored: String(version.version), version: String(newest) }}
                text={`Restore version ${version.version}`}
              />
            ),
          ],
        }))}
      />
    </Panel>
  );
}

function changesText(version: ExclusionVersion, before: ExclusionVersion | undefined): string {
  if (before === undefined && version.version > 1) return "Earlier versions are no longer kept.";
  const { added, changed, removed } = exclusionChanges(before?.exclusions ?? [], version.exclusions);
  const part = (label: string, names: readonly string[]) =>
    names.length === 0 ? [] : [`${label}: ${names.join(", ")}.`];
  const parts = [...part("Added", added), ...part("Changed", changed), ...part("Removed", removed)];
  return parts.length > 0 ? parts.join(" ") : "Order changed.";
}

// The form.

interface Editor {
  form: RuleForm;
  /** Absent: the form adds an exclusion. */
  exclusion?: Exclusion | undefined;
  errors?: FieldErrors;
  preview?: Preview | null;
  button?: string;
  version?: number;
  isOutdated?: boolean;
  status?: 200 | 409 | 422;
}

/** `busy`: too many previews of the workspace are under way. */
type Preview = { days: number; found: ExclusionsPreview } | "incomplete" | "busy";

async function save(c: Ctx, id: string | null): Promise<Response> {
  const [list, data] = [await listOf(c), c.get("form")];
  const exclusion = list.exclusions.find((one) => one.id === id);
  if (id !== null && exclusion === undefined) return notFoundPage(c, "exclusion");
  const [button, typed] = [formText(data, "do") || "save", readRuleForm(data)];
  const version = postedVersion(data) ?? list.version;
  if (button !== "save" && button !== "preview") {
    return editPage(c, list, { form: changeRows(typed, button), exclusion, button, version });
  }
  const form = withoutBlankRows(typed);
  const editor = { form, exclusion, button, version };
  if (button === "preview") {
    return editPage(c, list, { ...editor, preview: await previewTyped(c, list, form, exclusion) });
  }
  const parsed = parseExclusion(form, exclusion);
  if (!parsed.ok) return editPage(c, list, { ...editor, errors: parsed.rejection, status: 422 });
  const items = withItem(list, exclusion, parsed.value);
  const errors = errorsOfList(items, exclusion === undefined ? items.length - 1 : list.exclusions.indexOf(exclusion));
  if (errors !== null) return editPage(c, list, { ...editor, errors, status: 422 });
  const saved = await replaceExclusions(contextOf(c), items, { version });
  if (saved.ok) return done(c, "rules/exclusions", "exclusions_saved");
  const current = await listOf(c);
  return editPage(c, current, { ...editor, version: current.version, isOutdated: true, status: 409 });
}

/** @param signals that the preview while typing reads; undefined: a button was pressed. */
async function previewTyped(
  c: Ctx,
  list: List,
  form: RuleForm,
  exclusion: Exclusion | undefined,
  signals?: number,
): Promise<Preview> {
  const name = form.name.trim() === "" ? "New exclusion" : form.name;
  const parsed = parseExclusion({ ...form, name }, exclusion);
  return parsed.ok ? previewOf(c, withItem(list, exclusion, parsed.value), form, signals) : "incomplete";
}

async function previewOf(
  c: Ctx,
  items: readonly ImportedExclusion[],
  form: RuleForm,
  signals?: number,
): Promise<Preview> {
  const days = previewDays(form);
  const found = await previewExclusions(contextOf(c), items, days, signals);
  return found === null ? "busy" : { days, found };
}

function withItem({ exclusions }: List, before: Exclusion | undefined, content: ExclusionContent) {
  if (before === undefined) return [...exclusions, content];
  return exclusions.map((one) => (one === before ? { ...content, id: before.id } : one));
}

/** Errors that the exclusion causes in the list. @param index of the exclusion. */
function errorsOfList(items: readonly ExclusionContent[], index: number): FieldErrors | null {
  const parsed = exclusionList.safeParse(items);
  if (parsed.success) return null;
  const errors: FieldErrors = {};
  for (const issue of parsed.error.issues) {
    const isOfItem = issue.path[0] === index || issue.path.at(-1) === "name";
    if (issue.code === "too_big" && issue.path.length === 0) errors[""] ??= LIMIT_COPY.too_many_exclusions;
    else if (issue.path.length === 0) errors[""] ??= LIMIT_COPY.exclusions_too_large;
    else if (isOfItem) errors["name"] ??= "Another exclusion has this name.";
    else errors[""] ??= ruleProblem(issue);
  }
  return errors;
}

function editPage(c: Ctx, list: List, editor: Editor): Promise<Response> {
  const { form, exclusion, errors = {}, preview = null, button, isOutdated = false, status = 200 } = editor;
  const base = exclusionsPath(c);
  const version = String(editor.version ?? list.version);
  return page(
    c,
    {
      section: "rules",
      title: exclusion?.name ?? "New exclusion",
      crumbs: [[TITLE, base]],
      intro: "Signals that it covers never score, from the next signal on.",
      status,
    },
    isOutdated && (
      <Notice
        tone="warn"
        title="Nothing was saved: the exclusions have changed"
        text="Save again to change this exclusion in their newest version."
      />
    ),
    <div class="columns main-first">
      <Form
        action={exclusion === undefined ? base : `${base}/${exclusion.id}`}
        submit="Save"
        hidden={{ version, ...(exclusion !== undefined && { exclusion: exclusion.id }) }}
        hasInnerButtons
        class="stack"
        id="rule"
        {...livePreview(`${base}/preview`, "shown")}
      >
        <RuleErrors errors={errors} />
        <Panel>
          <TextField
            name="name"
            label={RULE_FIELD_LABEL.name}
            error={errors["name"]}
            value={form.name}
            autofocus={button === undefined && exclusion === undefined}
          />
        </Panel>
        <Panel title="Exclude a signal with">
          <SelectField
            name="match"
            label={RULE_FIELD_LABEL.match}
            error={errors["match"]}
            value={form.match}
            options={Object.entries(MATCH_LABEL)}
          />
          <Conditions
            form={form}
            errors={errors}
            {...(button !== undefined && { button })}
            without="Add a condition, such as email ends with @your-company.com."
          />
        </Panel>
      </Form>
      <PreviewPanel base={workspacePath(c)} preview={preview} days={form.days} />
    </div>,
  );
}

function PreviewPanel({ base, preview, days }: { base: string; preview: Preview | null; days: string }) {
  return (
    <div id="preview" aria-live="polite">
      <Panel title="Preview" actions={<PreviewRange days={days} />}>
        <PreviewText base={base} preview={preview} />
      </Panel>
    </div>
  );
}

function PreviewText({ base, preview }: { base: string; preview: Preview | null }): Child {
  if (preview === null) return <p class="quiet">Press Preview to see who would lose or gain points.</p>;
  if (preview === "incomplete") return <p class="quiet">Complete the conditions to see who loses points.</p>;
  if (preview === "busy") return <PreviewsBusy />;
  const { found, days } = preview;
  return (
    <>
      <Stats>
        <Stat label="Newly excluded" value={found.excluded} />
        <Stat label="No longer excluded" value={found.included} />
        <Stat label="People" value={found.people} />
        <Stat label="Points" value={signed(found.points)} />
      </Stats>
      <p class="quiet small">
        {found.complete
          ? `All signals in ${theLast(days, "day")} have been read. This happens when the exclusions are applied to past signals.`
          : `${counted(found.scanned, "signal")} read so far, the latest first. Press Preview to read more.`}
      </p>
      <Effects base={base} found={found} isSaved={false} />
      {found.samples.length > 0 && (
        <Table
          caption="Signals that change"
          rows={found.samples}
          href={({ id }) => signalPath(base, id)}
          columns={[
            {
              head: "Signal",
              // One column, because the panel is narrow.
              cell: ({ event, email, exclusion, receivedAtMs }) => (
                <>
                  {event}
                  <small>
                    {email} · <Time ms={receivedAtMs} />
                  </small>
                  <small>{exclusion === null ? "No longer excluded" : `Excluded: ${exclusion}`}</small>
                </>
              ),
            },
          ]}
        />
      )}
    </>
  );
}
