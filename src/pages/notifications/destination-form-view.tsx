/** Settings › Notifications: the form of a destination, new or changed. */
import type { DestinationType } from "../../domain/events/destination.ts";
import { exampleEvent, eventTypes } from "../../domain/events/workspace-event.ts";
import { envelopeOf } from "../../domain/events/request-body.ts";
import { EVENT_COPY, TYPE_COPY } from "./notification-copy.ts";
import type { DestinationErrors, TypedDestination } from "./notification-form.ts";
import { Choice, FormErrors, TextField } from "../kit/forms.tsx";
import { PageHead, Json, Panel } from "../views/parts.tsx";

interface DestinationForm {
  /** Path of the notifications, `/w/{slug}/settings/notifications`. */
  path: string;
  workspaceId: string;
  typed: TypedDestination;
  errors: DestinationErrors;
  /** What this deployment can send to. */
  offered: readonly DestinationType[];
  /** The destination that is changed, as it is stored; null for a new one. */
  changed: { name: string; maskedTarget: string } | null;
}

export function DestinationFormView({ path, workspaceId, typed, errors, offered, changed }: DestinationForm) {
  const isNew = changed === null;
  const address = isNew ? `${path}/new` : `${path}/${typed.id}/change`;
  const back = isNew ? path : `${path}/${typed.id}`;
  return (
    <>
      <PageHead title={isNew ? "Create destination" : `Change ${changed.name}`} crumbs={<Crumbs path={path} />}>
        {isNew ? "Somebody, or something, that is told of what happens in this workspace." : undefined}
      </PageHead>
      <form method="post" action={address} class="stack wide-gap" data-once novalidate>
        <input type="hidden" name="id" value={typed.id} />
        <FormErrors errors={Object.values(errors)} />
        <Panel>
          <div class="form">
            <TextField
              name="name"
              label="Name"
              hint="What it is, such as the system or the channel."
              value={typed.name}
              error={errors.name}
              autocomplete="off"
              autofocus={typed.name === "" && Object.keys(errors).length === 0}
              required
            />
            {isNew ? <Types typed={typed} offered={offered} /> : <input type="hidden" name="type" value={typed.type} />}
            <Target typed={typed} error={errors.target} offered={offered} current={changed?.maskedTarget} />
          </div>
        </Panel>
        <Panel title="Told of" id="events">
          <Events typed={typed} error={errors.events} workspaceId={workspaceId} />
        </Panel>
        <div class="row">
          <button class="primary">{isNew ? "Create destination" : "Save"}</button>
          <a class="button" href={back}>
            Cancel
          </a>
        </div>
      </form>
    </>
  );
}

function Crumbs({ path }: { path: string }) {
  return <a href={path}>Notifications</a>;
}

function Types({ typed, offered }: { typed: TypedDestination; offered: readonly DestinationType[] }) {
  return (
    <fieldset class="field">
      <legend>Kind</legend>
      {offered.map((type) => (
        <Choice
          group="type"
          name="type"
          value={type}
          label={TYPE_COPY[type].label}
          hint={TYPE_COPY[type].hint}
          checked={typed.type === type}
        />
      ))}
    </fieldset>
  );
}

interface TargetField {
  typed: TypedDestination;
  error: string | undefined;
  offered: readonly DestinationType[];
  /** Target of the destination that is changed, its secret parts masked; undefined for a new one. */
  current: string | undefined;
}

function Target({ typed, error, offered, current }: TargetField) {
  const label =
    current === undefined
      ? offered.includes("email")
        ? "URL, or email address"
        : "URL"
      : TYPE_COPY[typed.type].target;
  return (
    <TextField
      name="target"
      label={label}
      hint={
        current === undefined ? (
          "Events are sent there from now on. It is not shown again where it holds a secret."
        ) : (
          <>
            Now <code>{current}</code>. Leave it empty to keep it.
          </>
        )
      }
      value={typed.target}
      error={error}
      class="mono"
      inputmode={typed.type === "email" ? "email" : "url"}
      autocomplete="off"
      autocapitalize="off"
      spellcheck={false}
      required={current === undefined}
    />
  );
}

function Events({
  typed,
  error,
  workspaceId,
}: {
  typed: TypedDestination;
  error: string | undefined;
  workspaceId: string;
}) {
  return (
    <fieldset
      class="field event-choice"
      {...(error === undefined ? {} : { "aria-describedby": "events-error" })}
      aria-label="Told of"
    >
      {error !== undefined && (
        <span class="error" id="events-error">
          {error}
        </span>
      )}
      {eventTypes.map((type, at) => (
        <Choice
          type="checkbox"
          group="event"
          name="events"
          value={type}
          label={EVENT_COPY[type].label}
          hint={EVENT_COPY[type].when}
          checked={typed.events.includes(type)}
          autofocus={error !== undefined && at === 0}
        >
          <details>
            <summary class="small" aria-label={`Example of “${EVENT_COPY[type].label}”`}>
              <code>{type}</code>
            </summary>
            <Json value={envelopeOf(exampleEvent(type), workspaceId)} label={`Example of ${type}`} />
          </details>
        </Choice>
      ))}
    </fieldset>
  );
}
