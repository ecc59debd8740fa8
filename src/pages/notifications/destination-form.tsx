/** Creates and edits a destination. */
import type { CustomHeader, WantedHeader } from "../../domain/notifications/custom-header.ts";
import { DESTINATION_TYPES, type Destination, type DestinationType } from "../../domain/notifications/destination.ts";
import { envelopeOf } from "../../domain/notifications/request-body.ts";
import {
  NOTIFICATION_CATALOGUE,
  notificationTypes,
  exampleNotification,
  type NotificationType,
} from "../../domain/notifications/notification.ts";
import { ok, reject, type Result } from "../../domain/result.ts";
import { headerName, headerValue } from "../../http/fields.ts";
import { counted } from "../../domain/text.ts";
import { DESTINATION_HEADERS_MAX, DESTINATION_URL_MAX_LENGTH } from "../../limits.ts";
import { newId } from "../../platform/ids.ts";
import * as destinations from "../../use-cases/manage-destinations.ts";
import { Check, Choices, ErrorText, Form, TextField } from "../kit/forms.tsx";
import { sectionPath } from "../kit/layout.tsx";
import { Json, Panel } from "../kit/parts.tsx";
import { page } from "../page.tsx";
import { type Ctx, formText, pages, typedText, done } from "../pages-env.ts";
import { checkName, issueText, readForm } from "../read-form.tsx";
import {
  destinationsCall,
  fieldOfProblem,
  HIDDEN_VALUE,
  problemText,
  requireDestination,
  TYPE_TEXT,
} from "./notification-parts.tsx";
import { secretPage } from "./secret.tsx";

export const destinationFormPages = pages
  .createApp()
  .get("/new", (c) => formPage(c, emptyDestination(newId("dst")), {}))
  .post("/new", readForm(), async (c) => {
    const typed = readDestination(c.get("form"), newId("dst"));
    const wanted = checkForm(c, typed, "is_rejected");
    if (!wanted.ok) return formPage(c, typed, wanted.rejection);
    const created = await destinations.createDestination(destinationsCall(c), wanted.value, typed.id);
    return created.ok
      ? secretPage(c, created.value, "Destination created")
      : formPage(c, typed, errorsOf(created.rejection));
  })
  .get("/:id/change", requireDestination, (c) => {
    const stored = c.get("destination");
    const headers = stored.headerNames.map((name) => ({ name, value: "" }));
    return formPage(c, { ...stored, target: "", headers }, {}, stored);
  })
  .post("/:id/change", readForm(), requireDestination, async (c) => {
    const stored = c.get("destination");
    const { id, type } = stored;
    const typed = { ...readDestination(c.get("form"), id), id, type };
    const wanted = checkForm(c, typed, "keeps_stored", stored.headerNames);
    if (!wanted.ok)
      return formPage(c, typed, { ...wanted.rejection, ...(await headersError(c, typed, stored)) }, stored);
    const { name, target, headers, notifications } = wanted.value;
    const change = { name, headers, notifications, ...(target !== "" && { target }) };
    const changed = await destinations.updateDestination(destinationsCall(c), id, change);
    if (!changed.ok) return formPage(c, typed, errorsOf(changed.rejection), stored);
    return done(c, `settings/notifications/${id}`, "saved");
  });

const DESTINATION_ID = /^dst_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The page of a new destination draws its id, so a form that is sent twice creates one destination. */
export type TypedDestination = Pick<Destination, "id" | "name" | "type" | "notifications"> & {
  target: string;
  /** An empty value keeps the stored one. */
  headers: CustomHeader[];
};

type Errors = Partial<Record<"name" | "target" | "headers" | "notifications" | "form" | HeaderField, string>>;
type HeaderField = `header_${"name" | "value"}_${number}`;

/** The other types are frequent, or need a setting elsewhere. */
const DEFAULT_NOTIFICATIONS: readonly NotificationType[] = [
  "person.score_crossed",
  "usage.level",
  "period.closed",
  "key.expiring",
  "rejections.burst",
  "dead_letters.added",
  "misfits.expiring",
  "processing.late",
];

export function emptyDestination(id: string): TypedDestination {
  return { id, name: "", type: "webhook", target: "", headers: [], notifications: [...DEFAULT_NOTIFICATIONS] };
}

export function readDestination(form: FormData, id: string): TypedDestination {
  const [typedId, type, notifications] = [formText(form, "id"), formText(form, "type"), form.getAll("notifications")];
  return {
    id: DESTINATION_ID.test(typedId) ? typedId : id,
    name: typedText(form, "name"),
    type: DESTINATION_TYPES.find((known) => known === type) ?? "webhook",
    target: typedText(form, "target").trim(),
    headers: Array.from({ length: DESTINATION_HEADERS_MAX }, (_, index) => ({
      name: typedText(form, `header_name_${index}`).trim(),
      value: typedText(form, `header_value_${index}`).trim(),
    })).filter(({ name, value }) => name !== "" || value !== ""),
    notifications: notificationTypes.filter((known) => notifications.includes(known)),
  };
}

/** As `checkDestination`, and checks the target by the rules of the deployment, so that all errors are shown at once. */
function checkForm(c: Ctx, ...[typed, ...rest]: Parameters<typeof checkDestination>) {
  const checked = checkDestination(typed, ...rest);
  if (typed.target === "") return checked;
  const target = destinations.checkTarget(destinationsCall(c), typed.type, typed.target);
  if (target.ok) return checked;
  return reject<Errors>({ target: problemText(target.rejection), ...(!checked.ok && checked.rejection) });
}

/** The error that only the stored URL shows, beside the other errors. New headers without a value have an error of their own. */
async function headersError(c: Ctx, { target, headers }: TypedDestination, stored: Destination): Promise<Errors> {
  const names = new Set(stored.headerNames.map((name) => name.toLowerCase()));
  const sent = headers.filter(({ name, value }) => value !== "" || names.has(name.toLowerCase())).map(toWanted);
  const isNeeded = await destinations.needsHeaderValues(destinationsCall(c), stored, { target, headers: sent });
  return isNeeded ? errorsOf("headers_for_another_url") : {};
}

/** @param storedNames headers whose value may be left empty. */
export function checkDestination(
  { name, type, target, headers, notifications }: TypedDestination,
  emptyTarget: "is_rejected" | "keeps_stored",
  storedNames: readonly string[] = [],
): Result<destinations.WantedDestination, Errors> {
  const errors: Errors = headerErrors(headers, storedNames);
  const named = checkName(name);
  if (!named.ok) errors.name = named.rejection;
  if (target.length > DESTINATION_URL_MAX_LENGTH) {
    errors.target = `Enter at most ${counted(DESTINATION_URL_MAX_LENGTH, "character")}.`;
  }
  if (target === "" && emptyTarget === "is_rejected") {
    errors.target = type === "email" ? "Enter the email address." : "Enter the URL.";
  }
  if (notifications.length === 0) errors.notifications = "Choose at least one notification.";
  if (!named.ok || Object.keys(errors).length > 0) return reject(errors);
  return ok({ name: named.value, type, target, headers: headers.map(toWanted), notifications });
}

/** An empty value keeps the stored one. */
function toWanted({ name, value }: CustomHeader): WantedHeader {
  return value === "" ? { name } : { name, value };
}

function headerErrors(headers: readonly CustomHeader[], storedNames: readonly string[]): Errors {
  const errors: Errors = {};
  const earlier = new Set<string>();
  const stored = new Set(storedNames.map((name) => name.toLowerCase()));
  for (const [index, { name, value }] of headers.entries()) {
    const key = name.toLowerCase();
    const [named, valued] = [headerName.safeParse(name), headerValue.safeParse(value)];
    if (name === "") errors[`header_name_${index}`] = `Enter a name for header ${index + 1}.`;
    else if (!named.success) errors[`header_name_${index}`] = issueText(named.error);
    else if (earlier.has(key)) errors[`header_name_${index}`] = `${name} is used twice.`;
    if (value === "" && !stored.has(key))
      errors[`header_value_${index}`] = `Enter a value for ${name === "" ? `header ${index + 1}` : name}.`;
    else if (value !== "" && !valued.success) errors[`header_value_${index}`] = issueText(valued.error);
    earlier.add(key);
  }
  return errors;
}

function errorsOf(problem: destinations.DestinationProblem): Errors {
  return { [fieldOfProblem(problem)]: problemText(problem) };
}

function formPage(c: Ctx, typed: TypedDestination, errors: Errors, stored?: Destination) {
  const path = sectionPath(c, "notifications");
  const [action, back] = stored === undefined ? ["new", ""] : [`${stored.id}/change`, `/${stored.id}`];
  return page(
    c,
    {
      section: "notifications",
      title: stored === undefined ? "Create destination" : `Edit ${stored.name}`,
      crumbs: [],
      fieldErrors: errors,
    },
    <Form
      action={`${path}/${action}`}
      submit={stored === undefined ? "Create destination" : "Save"}
      cancel={path + back}
      hidden={{ id: typed.id }}
      class="stack"
    >
      <Panel>
        <div class="form">
          <TextField
            name="name"
            label="Name"
            hint="Such as the system or the channel."
            value={typed.name}
            error={errors.name}
            autofocus={typed.name === "" && Object.keys(errors).length === 0}
            required
          />
          <Target typed={typed} error={errors.target} stored={stored} offered={destinations.offeredTypes(c.env)} />
          {(stored === undefined || stored.type === "webhook") && (
            <Headers typed={typed} errors={errors} stored={stored} />
          )}
        </div>
      </Panel>
      <Panel title="Notifications" id="notifications">
        <Notifications typed={typed} error={errors.notifications} workspaceId={c.get("workspace").id} />
      </Panel>
    </Form>,
  );
}

interface TargetProps {
  typed: TypedDestination;
  error: string | undefined;
  /** Undefined: new. */
  stored: Destination | undefined;
  offered: readonly DestinationType[];
}

function Target({ typed, error, stored, offered }: TargetProps) {
  const newLabel = offered.includes("email") ? "URL or email address" : "URL";
  return (
    <>
      {stored === undefined && (
        <Choices
          legend="Type"
          name="type"
          options={offered.map((type) => ({ value: type, label: TYPE_TEXT[type].label, hint: TYPE_TEXT[type].hint }))}
          value={typed.type}
        />
      )}
      <TextField
        name="target"
        label={stored === undefined ? newLabel : TYPE_TEXT[typed.type].target}
        hint={
          stored === undefined ? (
            "Parts that hold a secret are not shown again."
          ) : (
            <>
              Currently <code>{stored.maskedTarget}</code>. Leave empty to keep it.
            </>
          )
        }
        value={typed.target}
        error={error}
        code
        inputmode={typed.type === "email" ? "email" : "url"}
        required={stored === undefined}
      />
    </>
  );
}

/** The page never contains a stored value. */
function Headers({ typed, errors, stored }: Pick<TargetProps, "typed" | "stored"> & { errors: Errors }) {
  const storedNames = stored?.headerNames ?? [];
  const rows = Array.from({ length: DESTINATION_HEADERS_MAX }, (_, index) => typed.headers[index]);
  return (
    <details open={typed.headers.length > 0}>
      <summary>Custom headers</summary>
      <fieldset class="field" aria-label="Custom headers">
        <span class="hint">
          {stored === undefined && "For a webhook whose receiver expects a token. "}
          Values are secrets and not shown again.
          {storedNames.length > 0 && " Leave a value empty to keep it. Clear a name to remove the header."}
        </span>
        {errors.headers !== undefined && <ErrorText text={errors.headers} />}
        <div class="stack">
          {rows.map((row, index) => (
            <div class="pair">
              <TextField
                name={`header_name_${index}`}
                label={`Header ${index + 1}`}
                value={row?.name ?? ""}
                error={errors[`header_name_${index}`]}
                code
              />
              <TextField
                name={`header_value_${index}`}
                label={`Value ${index + 1}`}
                value={row?.value ?? ""}
                error={errors[`header_value_${index}`]}
                code
                placeholder={row !== undefined && storedNames.includes(row.name) ? HIDDEN_VALUE : undefined}
              />
            </div>
          ))}
        </div>
      </fieldset>
    </details>
  );
}

function Notifications({ typed, error, workspaceId }: Pick<TargetProps, "typed" | "error"> & { workspaceId: string }) {
  const described = error === undefined ? {} : { "aria-describedby": "notifications-error" };
  return (
    <fieldset class="field" aria-label="Notifications" {...described}>
      {error !== undefined && (
        <span class="error" id="notifications-error">
          {error}
        </span>
      )}
      <div class="columns">
        {notificationTypes.map((type, index) => (
          <Check
            id={`notification-${type}`}
            name="notifications"
            value={type}
            label={NOTIFICATION_CATALOGUE[type].label}
            hint={NOTIFICATION_CATALOGUE[type].when}
            checked={typed.notifications.includes(type)}
            autofocus={error !== undefined && index === 0}
          >
            <details>
              <summary class="small quiet" aria-label={`Example of ${NOTIFICATION_CATALOGUE[type].label}`}>
                Example
              </summary>
              <Json value={envelopeOf(exampleNotification(type), workspaceId)} label={`Example of ${type}`} />
            </details>
          </Check>
        ))}
      </div>
    </fieldset>
  );
}
