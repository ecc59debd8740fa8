/**
 * One API key: its settings, its accepted and rejected calls, its payload template. And its rotation into a successor with the
 * same settings.
 */
import { type ApiKey, findKey, renameKey, rotatedWith, watchForSilence } from "../../d1/api-keys.ts";
import { accountTemplateOf } from "../../domain/template/key-template.ts";
import type { PayloadMapping } from "../../domain/accounts/payload-template.ts";
import { DAY_MS, dayOf } from "../../domain/duration.ts";
import { keyLevel } from "../../domain/quota/key-budget.ts";
import { NO_VERDICTS } from "../../domain/quota/quota.ts";
import { ok, reject, type Result } from "../../domain/result.ts";
import type { SignalMapping } from "../../domain/template/signal-template.ts";
import { DAYS_COUNTED, KEY_SILENT_MAX_DAYS, MISFIT_KEPT_DAYS, PAGE_ROWS, REJECTION_KEPT_DAYS } from "../../limits.ts";
import type { BrowserUse, KeyCalls, Usage } from "../../quota/protocol.ts";
import { usageOf } from "../../use-cases/configure-workspace.ts";
import { isOverlap, limitApiKey, type Overlap, rotateApiKey, silentAfterDays } from "../../use-cases/manage-keys.ts";
import { LIMIT_COPY } from "../../use-cases/rejection-copy.ts";
import { KEY_PLACEHOLDER, SECRET_PLACEHOLDER, TestCall } from "./connect.tsx";
import { ENDPOINT_LABEL, SIGNAL_TARGET_LABEL } from "../copy.ts";
import { adviceFor, reasonText } from "../rejection-texts.ts";
import { Form, LinkButton, SelectField, TextField } from "../kit/forms.tsx";
import { DayBars, type DayBar } from "../kit/charts.tsx";
import { authorName, counted, day, grouped } from "../kit/format.ts";
import { sectionPath } from "../kit/layout.tsx";
import { Count, EmailText, Notice, ValueList, Panel, Table, Time } from "../kit/parts.tsx";
import { notFoundPage, page } from "../page.tsx";
import {
  contextOf,
  counterOf,
  type Ctx,
  formText,
  pages,
  storeOf,
  typedText,
  workspacePath,
  done,
} from "../pages-env.ts";
import { allFields, checkName, readForm } from "../read-form.tsx";
import {
  checkSignalLimit,
  expirationOf,
  formTokenOf,
  LifetimeFields,
  numberOf,
  readLifetime,
  SignalLimitField,
  type TypedLifetime,
} from "./key-form-parts.tsx";
import {
  DeactivateKey,
  Expiration,
  isActive,
  KeyMenu,
  KeyStatus,
  LastUsed,
  LocalTime,
  originText,
} from "./key-parts.tsx";
import { createdPage, keyAlreadyCreatedPage } from "./new-key.tsx";
import { requireKey } from "./require-key.ts";
import { isUnchanged, presetOfTemplate } from "./template-form.tsx";

type Settings = Record<"name" | "silent_after_days" | "signal_limit", string>;

export const keyDetailPages = pages
  .createApp()
  .get("/:key_id", requireKey, (c) => {
    const key = c.get("apiKey");
    const [days, limit] = [key.silentAfterDays, key.signalLimit].map((number) => String(number ?? ""));
    return keyPage(c, { name: key.name, silent_after_days: days ?? "", signal_limit: limit ?? "" });
  })
  .post("/:key_id", readForm(), requireKey, async (c) => {
    const [form, { id }] = [c.get("form"), c.get("apiKey")];
    const typed = {
      name: typedText(form, "name"),
      silent_after_days: typedText(form, "silent_after_days").trim(),
      signal_limit: typedText(form, "signal_limit").trim(),
    };
    const checked = allFields({
      name: checkName(typed.name),
      silent_after_days: checkDays(typed.silent_after_days),
      signal_limit: checkSignalLimit(typed.signal_limit),
    });
    if (!checked.ok) return keyPage(c, typed, checked.rejection);
    await renameKey(contextOf(c), id, checked.value.name);
    // An inactive key has no such fields.
    if (form.has("silent_after_days")) await watchForSilence(contextOf(c), id, checked.value.silent_after_days);
    if (form.has("signal_limit")) await limitApiKey(contextOf(c), id, checked.value.signal_limit);
    return done(c, `settings/api-keys/${id}`, "saved");
  })
  .get("/:key_id/rotate", requireKey, (c) => {
    const overlap = c.req.query("overlap");
    return rotatePage(c, c.get("apiKey"), {
      formToken: crypto.randomUUID(),
      overlap: isOverlap(overlap) ? overlap : "24h",
      // An expiring key is often rotated because it expires, so its successor's expiration has to be chosen.
      lifetime: { lifetime: c.get("apiKey").expiresAt === null ? "never" : "", expires: "" },
    });
  })
  .post("/:key_id/rotate", readForm(), requireKey, async (c) => {
    const [form, key] = [c.get("form"), c.get("apiKey")];
    const [formToken, overlap] = [formTokenOf(form), formText(form, "overlap")];
    const typed: TypedRotation = {
      formToken,
      overlap: isOverlap(overlap) ? overlap : "24h",
      lifetime: readLifetime(form),
    };
    const checked = allFields({
      overlap: isOverlap(overlap) ? ok(overlap) : reject("Choose when the old key ends."),
      expiresAt: expirationOf(typed.lifetime, Date.now(), key.expiresAt),
    });
    if (!checked.ok) return rotatePage(c, key, typed, checked.rejection);
    const rotated = await rotateApiKey(contextOf(c), { keyId: key.id, formToken, ...checked.value });
    const old = (await findKey(c.get("db"), c.get("workspace").id, key.id)) ?? key;
    if (rotated.ok) return createdPage(c, rotated.value, old);
    const { rejection } = rotated;
    if (rejection.reason === "made_before") return keyAlreadyCreatedPage(c, rejection.key);
    if (rejection.reason === "not_found") return notFoundPage(c, "key");
    return rotatePage(c, old, typed, rejection.reason === "key_inactive" ? {} : { form: LIMIT_COPY[rejection.reason] });
  });

/** Null: no alert. */
function checkDays(typed: string): Result<number | null, string> {
  const days = silentAfterDays.safeParse(numberOf(typed));
  return days.success ? ok(days.data) : reject(`Enter 1 to ${KEY_SILENT_MAX_DAYS} days, or leave it empty.`);
}

async function keyPage(c: Ctx, typed: Settings, errors: Partial<Settings> = {}) {
  const [{ id }, apiKey] = [c.get("workspace"), c.get("apiKey")];
  const usage = await usageOf(c.env, c.get("db"), c.get("workspace"));
  const [calls, { successors, predecessors }, usageByKey] = await Promise.all([
    counterOf(c).keyCalls(apiKey.id),
    rotatedWith(c.get("db"), id, [apiKey]),
    storeOf(c).keyUsage(usage.periodStartMs),
  ]);
  const sent = usageByKey[apiKey.id] ?? { signals: 0, days: [] };
  const [home, path] = [workspacePath(c), sectionPath(c, "keys")];
  const isUsable = isActive(apiKey);
  const { name, endpointType, hasSecret, createdAt, createdBy } = apiKey;
  const accountTemplate = accountTemplateOf(apiKey);
  const successor = successors.get(apiKey.id);
  const predecessor = predecessors.get(apiKey.successorOf ?? "");
  const linkTo = (key: ApiKey) => <a href={`${path}/${key.id}`}>{key.maskedKey}</a>;
  const actions = [
    <KeyMenu path={path} apiKey={apiKey} usedMs={calls.usedMs} />,
    <LinkButton href={`${home}/connect?key=${apiKey.id}`} text="Connect a sender" look="primary" />,
  ];
  const secret = hasSecret ? SECRET_PLACEHOLDER : null;
  return page(
    c,
    {
      section: "keys",
      title: name,
      crumbs: [],
      intro: <code>{apiKey.maskedKey}</code>,
      actions: isUsable && actions,
      fieldErrors: errors,
    },
    isUsable && calls.browser !== null && <BrowserNotice path={path} apiKey={apiKey} browser={calls.browser} />,
    isUsable && <LimitNotice path={path} apiKey={apiKey} usage={usage} usedMs={calls.usedMs} />,
    <div class="columns main-first">
      <div class="stack">
        <CallsPanel calls={calls} createdAt={createdAt} />
        <SignalsPanel days={sent.days} createdAt={createdAt} />
      </div>
      <Panel title="Details">
        <ValueList
          of={[
            ["Status", <KeyStatus apiKey={apiKey} />],
            ["Last used", <LastUsed usedMs={calls.usedMs} />],
            ["Signals this period", <Count value={sent.signals} />],
            ["Signal limit", limitText(apiKey, usage)],
            ["Expires", <Expiration apiKey={apiKey} />],
            ["Endpoint type", ENDPOINT_LABEL[endpointType]],
            ["Shared secret", hasSecret ? "Required" : "None"],
            ["Created", [<LocalTime iso={createdAt} />, " by ", <EmailText text={authorName(createdBy)} />]],
            successor !== undefined && ["Replaced by", linkTo(successor)],
            predecessor !== undefined && ["Replaces", linkTo(predecessor)],
          ]}
        />
      </Panel>
    </div>,
    calls.rejections.length > 0 && (
      <RejectedPanel rejections={calls.rejections} all={`${home}/rejections?key=${apiKey.id}`} />
    ),
    accountTemplate !== null && <Template template={accountTemplate} />,
    endpointType === "signal_staging" && <SignalTemplate path={path} apiKey={apiKey} />,
    <div class="columns">
      <Panel title="Settings">
        <Form action={`${path}/${apiKey.id}`} submit="Save" look="">
          <TextField name="name" label="Name" value={typed.name} error={errors.name} required />
          {isUsable && (
            <TextField
              name="silent_after_days"
              label="Inactivity alert: days without a call"
              hint={
                <>
                  Notifies your <a href={`${home}/settings/notifications`}>destinations</a>. Empty: no alert.
                </>
              }
              value={typed.silent_after_days}
              error={errors.silent_after_days}
              inputmode="numeric"
            />
          )}
          {isUsable && <SignalLimitField value={typed.signal_limit} error={errors.signal_limit} />}
        </Form>
      </Panel>
      {isUsable && (
        <TestCall home={home} setup={{ ...apiKey, origin: new URL(c.req.url).origin, key: KEY_PLACEHOLDER, secret }} />
      )}
    </div>,
  );
}

function limitText({ firstKeyId, signalLimit }: ApiKey, { budgetUse }: Usage): string {
  if (signalLimit === null) return "None";
  return `${grouped(budgetUse[firstKeyId] ?? 0)} of ${counted(signalLimit, "signal")} used`;
}

/** A key in a page is public, and only a rotation ends that. */
function BrowserNotice({ path, apiKey, browser }: { path: string; apiKey: ApiKey; browser: BrowserUse }) {
  return (
    <Notice tone="warn" title="This key is public">
      <p>
        A browser has used it, first <Time ms={browser.atMs} />, from {originText(browser.origin)}. Whoever opens that
        page can read the key and send with it. Send from a server instead, then rotate the key.
      </p>
      <LinkButton href={`${path}/${apiKey.id}/rotate`} text="Rotate key" />
    </Notice>
  );
}

interface LimitProps {
  path: string;
  apiKey: ApiKey;
  usage: Usage;
  usedMs: number | null;
}

/** From 80 % on. Only an owner or admin may end the key (spec §5.6), so the button is here, at the reason for it. */
function LimitNotice({ path, apiKey, usage, usedMs }: LimitProps) {
  const { firstKeyId, signalLimit } = apiKey;
  const level = signalLimit === null ? null : keyLevel(usage.budgetUse[firstKeyId] ?? 0, signalLimit);
  if (level === null) return <></>;
  const isFull = level === 100;
  const title = isFull ? "Signal limit of the key reached" : "80% of the key's signal limit used";
  const next = isFull ? "Calls are rejected with 429" : "Calls beyond the limit will be rejected with 429";
  return (
    <Notice tone={isFull ? "bad" : "warn"} title={title}>
      <p>
        {limitText(apiKey, usage)}. {next} until the period ends on {day(usage.periodEndMs)}. Raise the limit below, or
        end the key if it sends what it should not.
      </p>
      <DeactivateKey path={path} apiKey={apiKey} usedMs={usedMs} />
    </Notice>
  );
}

/** Days of a chart at least, also of a newer key. */
const KEY_DAYS_LEAST = 7;

/** The first day of a chart: no empty days before the key was created, but at least a week. */
function firstDayOf(createdAt: string): number {
  const today = dayOf(Date.now());
  const created = Math.min(dayOf(Date.parse(createdAt)), today - KEY_DAYS_LEAST + 1);
  return Math.max(today - DAYS_COUNTED + 1, created);
}

/** Recorded signals by day of receipt. @param props.days counts, the oldest first; empty: none. */
function SignalsPanel({ days, createdAt }: { days: readonly number[]; createdAt: string }) {
  const total = days.reduce((sum, signals) => sum + signals, 0);
  if (total === 0) return <></>;
  const first = dayOf(Date.now()) - days.length + 1;
  const shownFromMs = firstDayOf(createdAt) * DAY_MS;
  const bars = days
    .map((signals, index): DayBar => ({ ...NO_VERDICTS, atMs: (first + index) * DAY_MS, accepted: signals }))
    .filter(({ atMs }) => atMs >= shownFromMs);
  const label = `${counted(total, "signal")} in ${DAYS_COUNTED} days`;
  return (
    <Panel title="Signals">
      <p class="quiet">{label}.</p>
      <DayBars label={label} days={bars} legend={{ accepted: "Accepted or held" }} />
    </Panel>
  );
}

/** Calls by day. A call that is accepted in part counts as accepted and as rejected. */
function CallsPanel({ calls, createdAt }: { calls: KeyCalls; createdAt: string }) {
  const [today, first] = [dayOf(Date.now()), firstDayOf(createdAt)];
  const days = Array.from({ length: today - first + 1 }, (_, index): DayBar => {
    const { accepted, rejected } = calls.days[first + index] ?? { accepted: 0, rejected: 0 };
    return { ...NO_VERDICTS, atMs: (first + index) * DAY_MS, accepted, rejected };
  });
  const accepted = days.reduce((sum, bar) => sum + bar.accepted, 0);
  const rejected = days.reduce((sum, bar) => sum + bar.rejected, 0);
  if (accepted + rejected === 0) {
    return (
      <Panel title="Calls">
        <p class="quiet">No calls in the last {DAYS_COUNTED} days.</p>
      </Panel>
    );
  }
  const label = `${counted(accepted, "call")} accepted and ${grouped(rejected)} rejected in ${DAYS_COUNTED} days`;
  return (
    <Panel title="Calls">
      <p class="quiet">{label}.</p>
      <DayBars label={label} days={days} legend={{ accepted: "Accepted", rejected: "Rejected, in whole or in part" }} />
      <details>
        <summary class="small">Calls by day (UTC)</summary>
        <Table
          caption="Calls by day"
          rows={days.toReversed().filter((bar) => bar.accepted + bar.rejected > 0)}
          columns={[
            { head: "Day", cell: ({ atMs }) => day(atMs) },
            { head: "Accepted", kind: "number", cell: (bar) => <Count value={bar.accepted} /> },
            { head: "Rejected", kind: "number", cell: (bar) => <Count value={bar.rejected} /> },
          ]}
        />
      </details>
    </Panel>
  );
}

/** Consecutive calls with the same reason share a row. @param props.all address of all of them. */
function RejectedPanel({ rejections, all }: { rejections: KeyCalls["rejections"]; all: string }) {
  const calls = rejections.reduce((sum, run) => sum + run.calls, 0);
  return (
    <Panel
      title={`${counted(calls, "rejected call")} in ${REJECTION_KEPT_DAYS} days`}
      actions={<a href={all}>View all rejections</a>}
      list
    >
      <Table
        caption="Rejected calls, latest first"
        rows={rejections.slice(0, PAGE_ROWS)}
        columns={[
          {
            head: "Reason",
            cell: reasonText,
          },
          { head: "Calls", kind: "number", cell: (run) => grouped(run.calls) },
          { head: "First", drop: "narrow", cell: ({ firstAtMs }) => <Time ms={firstAtMs} /> },
          { head: "Last", cell: ({ lastAtMs }) => <Time ms={lastAtMs} /> },
          { head: "How to fix", kind: "text", cell: adviceFor },
        ]}
      />
    </Panel>
  );
}

function Template({ template }: { template: readonly PayloadMapping[] }) {
  return (
    <Panel title="Payload template" list>
      <Table
        caption="Payload template"
        rows={template}
        columns={[
          { head: "Target", cell: ({ target }) => <code>{target}</code> },
          { head: "Path", cell: ({ path }) => <code>{path}</code> },
          { head: "Type", cell: ({ type }) => type },
          { head: "Required", cell: ({ required }) => (required ? "Yes" : "No") },
        ]}
      />
    </Panel>
  );
}

/** How the webhooks of the sender are read. */
function SignalTemplate({ path, apiKey }: { path: string; apiKey: ApiKey }) {
  const { id, payloadTemplate, misfits, answer } = apiKey;
  const change = `${path}/${id}/template`;
  if (payloadTemplate === null) {
    return (
      <Panel title="Payload template" actions={<LinkButton href={change} text="Map another body" />}>
        <p class="quiet">
          Signals are read as they are sent. A template maps the webhooks of a sender who cannot change its body.
        </p>
      </Panel>
    );
  }
  const preset = presetOfTemplate(payloadTemplate);
  const kept = `A payload that does not fit is ${misfits === "keep" ? `kept for ${MISFIT_KEPT_DAYS} days` : "rejected with 422"}`;
  return (
    <Panel title="Payload template" actions={<LinkButton href={change} text="Change template" />} list>
      <p class="quiet">
        {preset !== undefined &&
          `${isUnchanged(preset, payloadTemplate) ? `As proposed for ${preset.name}` : `For ${preset.name}, edited`}. `}
        {kept}. Success is answered with {answer}.
      </p>
      <Table
        caption="Payload template"
        rows={payloadTemplate as SignalMapping[]}
        columns={[
          { head: "Field", cell: ({ target }) => SIGNAL_TARGET_LABEL[target] },
          {
            head: "Read from",
            kind: "text",
            cell: ({ path: one, paths = [], text }) => (
              <code>{text ?? [one, ...paths].filter(Boolean).join(", ")}</code>
            ),
          },
          { head: "Required", cell: ({ required = false }) => (required ? "Yes" : "No") },
        ]}
      />
    </Panel>
  );
}

const OVERLAPS = [
  ["none", "Now: calls fail until the sender has the new key"],
  ["1h", "In 1 hour"],
  ["24h", "In 24 hours"],
  ["7d", "In 7 days"],
] as const satisfies readonly (readonly [Overlap, string])[];

interface TypedRotation {
  formToken: string;
  overlap: Overlap;
  lifetime: TypedLifetime;
}

/** Sentences by field; `form` is about the form as a whole. */
type RotationErrors = Partial<Record<"form" | "overlap" | "expiresAt", string>>;

async function rotatePage(c: Ctx, apiKey: ApiKey, typed: TypedRotation, errors: RotationErrors = {}) {
  const path = sectionPath(c, "keys");
  const options = {
    section: "keys",
    title: "Rotate API key",
    heading: `Rotate ${apiKey.name}`,
    crumbs: [[apiKey.name, `${path}/${apiKey.id}`]],
    errorTitle: "Nothing was rotated",
  } as const;
  if (!isActive(apiKey)) {
    const create = <LinkButton href={`${path}/new`} text="Create API key" look="primary" />;
    const rejected = ["An inactive key cannot be rotated. Create a new key instead."];
    return page(c, { ...options, actions: create, errors: rejected, errorStatus: 409 });
  }
  const lastUsed = await counterOf(c).lastUsed();
  const intro = (
    <>
      The new key has the same settings{apiKey.hasSecret ? " and a new secret" : ""}. The old key is{" "}
      <code>{apiKey.maskedKey}</code>, last used: <LastUsed usedMs={lastUsed[apiKey.id]} />.
    </>
  );
  return page(
    c,
    { ...options, intro, fieldErrors: errors },
    <Panel>
      <Form
        action={`${path}/${apiKey.id}/rotate`}
        submit="Rotate key"
        cancel={path}
        hidden={{ form_token: typed.formToken }}
      >
        <SelectField
          name="overlap"
          label="The old key ends"
          hint={`Until then both keys work${apiKey.endsAt === null ? "" : ", unless the old key expires before"}.`}
          value={typed.overlap}
          options={OVERLAPS}
          error={errors.overlap}
        />
        <LifetimeFields
          label="The new key expires"
          typed={typed.lifetime}
          kept={apiKey.expiresAt}
          error={errors.expiresAt}
        />
      </Form>
    </Panel>,
  );
}
