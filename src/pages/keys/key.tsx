/**
 * One API key: its settings, its accepted and rejected calls, its payload template. And its rotation into a successor with the
 * same settings (design §5).
 */
import { type ApiKey, findKey, renameKey, rotatedWith, watchForSilence } from "../../control/api-keys.ts";
import type { PayloadMapping } from "../../domain/accounts/payload-template.ts";
import { DAY_MS, dayOf } from "../../domain/duration.ts";
import { NO_VERDICTS } from "../../domain/quota/quota.ts";
import { ok, refuse, type Result } from "../../domain/result.ts";
import { REFUSALS } from "../../http/refusal-table.ts";
import { DAYS_COUNTED, KEY_SILENT_MAX_DAYS, PAGE_ROWS, REJECTION_KEPT_DAYS } from "../../limits.ts";
import type { KeyCalls } from "../../quota/protocol.ts";
import { isOverlap, type Overlap, rotateApiKey, silentAfterDays } from "../../workspace/manage-keys.ts";
import { LIMIT_COPY } from "../../workspace/refusal-copy.ts";
import { KEY_PLACEHOLDER, SECRET_PLACEHOLDER, TestCall } from "./connect.tsx";
import { CAUSE_COPY, ENDPOINT_LABEL } from "../copy.ts";
import { Form, LinkButton, SelectField, TextField } from "../kit/forms.tsx";
import { DayBars, type DayBar } from "../kit/charts.tsx";
import { authorName, counted, day, grouped } from "../kit/format.ts";
import { sectionPath } from "../kit/layout.tsx";
import { Count, Facts, Panel, Table, Time } from "../kit/parts.tsx";
import { done, notFoundPage, page } from "../page.tsx";
import { contextOf, counterOf, type Ctx, formText, pages, typedText, workspacePath } from "../pages-env.ts";
import { allFields, checkName, readForm } from "../read-form.tsx";
import {
  errorList,
  expirationOf,
  formTokenOf,
  LifetimeFields,
  readLifetime,
  type TypedLifetime,
} from "./key-form-parts.tsx";
import { Expiration, isActive, KeyMenu, KeyStatus, LastUsed, LocalTime } from "./key-parts.tsx";
import { createdPage, keyAlreadyCreatedPage } from "./new-key.tsx";

type Settings = Record<"name" | "silent_after_days", string>;

/** Sets `apiKey`; 404 if the path names no key of the workspace. */
const requireKey = pages.createMiddleware(async (c, next) => {
  const key = await findKey(c.get("db"), c.get("workspace").id, c.req.param("key_id") ?? "");
  if (key === null) return notFoundPage(c, "key");
  c.set("apiKey", key);
  await next();
});

export const keyDetailPages = pages
  .createApp()
  .get("/:key_id", requireKey, (c) => {
    const key = c.get("apiKey");
    return keyPage(c, { name: key.name, silent_after_days: String(key.silentAfterDays ?? "") });
  })
  .post("/:key_id", readForm(), requireKey, async (c) => {
    const [form, { id }] = [c.get("form"), c.get("apiKey")];
    const typed = { name: typedText(form, "name"), silent_after_days: typedText(form, "silent_after_days").trim() };
    const checked = allFields({
      name: checkName(typed.name),
      silent_after_days: checkDays(typed.silent_after_days),
    });
    if (!checked.ok) return keyPage(c, typed, checked.refusal);
    await renameKey(contextOf(c), id, checked.value.name);
    // An inactive key has no such field.
    if (form.has("silent_after_days")) await watchForSilence(contextOf(c), id, checked.value.silent_after_days);
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
      overlap: isOverlap(overlap) ? ok(overlap) : refuse("Choose when the old key ends."),
      expiresAt: expirationOf(typed.lifetime, Date.now(), key.expiresAt),
    });
    if (!checked.ok) return rotatePage(c, key, typed, checked.refusal);
    const rotated = await rotateApiKey(contextOf(c), { keyId: key.id, formToken, ...checked.value });
    const old = (await findKey(c.get("db"), c.get("workspace").id, key.id)) ?? key;
    if (rotated.ok) return createdPage(c, rotated.value, old);
    const { refusal } = rotated;
    if (refusal.reason === "made_before") return keyAlreadyCreatedPage(c, refusal.key);
    if (refusal.reason === "not_found") return notFoundPage(c, "key");
    return rotatePage(c, old, typed, refusal.reason === "key_inactive" ? {} : { form: LIMIT_COPY[refusal.reason] });
  });

/** Characters of a number of days. A longer text is no number that is allowed. */
const DAYS_MAX_LENGTH = 20;

/** Null: no alert. */
function checkDays(typed: string): Result<number | null, string> {
  const days = silentAfterDays.safeParse(typed === "" ? null : typed.length > DAYS_MAX_LENGTH ? NaN : Number(typed));
  return days.success ? ok(days.data) : refuse(`Enter 1 to ${KEY_SILENT_MAX_DAYS} days, or leave it empty.`);
}

async function keyPage(c: Ctx, typed: Settings, errors: Partial<Settings> = {}) {
  const [{ id }, apiKey] = [c.get("workspace"), c.get("apiKey")];
  const [calls, { successors, predecessors }] = await Promise.all([
    counterOf(c).keyCalls(apiKey.id),
    rotatedWith(c.get("db"), id, [apiKey]),
  ]);
  const [home, path] = [workspacePath(c), sectionPath(c, "keys")];
  const isUsable = isActive(apiKey);
  const { name, endpointType, hasSecret, createdAt, createdBy, payloadTemplate } = apiKey;
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
      errors: errorList(errors),
    },
    <div class="columns main-first">
      <CallsPanel calls={calls} />
      <Panel title="Details">
        <Facts
          of={[
            ["Status", <KeyStatus apiKey={apiKey} />],
            ["Last used", <LastUsed usedMs={calls.usedMs} />],
            ["Expires", <Expiration apiKey={apiKey} />],
            ["Endpoint type", ENDPOINT_LABEL[endpointType]],
            ["Shared secret", hasSecret ? "Required" : "None"],
            ["Created", [<LocalTime iso={createdAt} />, ` by ${authorName(createdBy)}`]],
            successor !== undefined && ["Replaced by", linkTo(successor)],
            predecessor !== undefined && ["Replaces", linkTo(predecessor)],
          ]}
        />
      </Panel>
    </div>,
    calls.rejections.length > 0 && (
      <RejectedPanel rejections={calls.rejections} all={`${home}/rejections?key=${apiKey.id}`} />
    ),
    payloadTemplate !== null && <Template template={payloadTemplate} />,
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
        </Form>
      </Panel>
      {isUsable && (
        <TestCall home={home} setup={{ ...apiKey, origin: new URL(c.req.url).origin, key: KEY_PLACEHOLDER, secret }} />
      )}
    </div>,
  );
}

/** Calls by day. A call that is accepted in part counts as accepted and as rejected. */
function CallsPanel({ calls }: { calls: KeyCalls }) {
  const first = dayOf(Date.now()) - DAYS_COUNTED + 1;
  const days = Array.from({ length: DAYS_COUNTED }, (_, index): DayBar => {
    const { accepted, refused } = calls.days[first + index] ?? { accepted: 0, refused: 0 };
    return { ...NO_VERDICTS, atMs: (first + index) * DAY_MS, accepted, rejected: refused };
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
            cell: ({ code, cause }) => (
              <>
                {REFUSALS[code].label}
                {cause !== null && <small> {CAUSE_COPY[cause]}</small>}
              </>
            ),
          },
          { head: "Calls", kind: "number", cell: (run) => grouped(run.calls) },
          { head: "First", drop: "narrow", cell: ({ firstAtMs }) => <Time ms={firstAtMs} /> },
          { head: "Last", cell: ({ lastAtMs }) => <Time ms={lastAtMs} /> },
          { head: "How to fix", kind: "text", cell: ({ code }) => REFUSALS[code].advice },
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
    errorTitle: "The key was not rotated",
  } as const;
  if (!isActive(apiKey)) {
    const create = <LinkButton href={`${path}/new`} text="Create API key" look="primary" />;
    const refused = ["An inactive key cannot be rotated. Create a new key instead."];
    return page(c, { ...options, actions: create, errors: refused, errorStatus: 409 });
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
    { ...options, intro, errors: errorList(errors) },
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
