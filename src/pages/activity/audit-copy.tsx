/** How each entry of the audit log reads, after who did it. The compiler sees to it that none is missing. */
import type { Child } from "hono/jsx";
import type { AuditAction } from "../../control/audit.ts";
import type { AuditRecord } from "../../control/audit-list.ts";
import { EXPORTS, FORMATS } from "../people/export-copy.ts";
import { ROLE_LABEL } from "../copy.ts";
import { grouped } from "../views/format.ts";

export interface Place {
  /** Address of the workspace. */
  base: string;
  /** Names of its API keys by id. */
  keys: ReadonlyMap<string, string>;
  /** Names of the plans by id. */
  plans: ReadonlyMap<string, string>;
}

interface Reading {
  /** The action's name in the list to filter by. */
  label: string;
  sentence: (entry: AuditRecord, place: Place) => Child;
}

export const AUDIT_COPY = {
  "plan.created": {
    label: "Plan created",
    sentence: ({ target }, place) => <>created the plan {planName(target, place)}</>,
  },
  "plan.updated": {
    label: "Plan changed",
    sentence: ({ target }, place) => <>changed the plan {planName(target, place)}</>,
  },
  "workspace.created": { label: "Workspace created", sentence: () => <>created this workspace</> },
  "workspace.updated": {
    label: "Workspace changed",
    sentence: ({ detail }, place) => {
      const changes = changesOf(detail, place);
      return changes.length === 0 ? (
        <>changed this workspace</>
      ) : (
        <a href={`${place.base}/usage`}>{changes.join(", ")}</a>
      );
    },
  },
  "workspace.recovered": {
    label: "Workspace recovered",
    sentence: () => <>brought the Quota Counter of this workspace up to date after it was restored from a backup</>,
  },
  "workspace.restored": {
    label: "Workspace restored",
    sentence: ({ target }) => (
      <>put {target === "signal_store" ? "the signals and people" : "the counts"} of this workspace back to a backup</>
    ),
  },
  "member.added": {
    label: "Member added",
    sentence: ({ target, detail }, { base }) => (
      <>
        added <Member base={base} email={target} /> as {roleOf(detail["role"])}
      </>
    ),
  },
  "member.role_changed": {
    label: "Role changed",
    sentence: ({ target, detail }, { base }) => (
      <>
        made <Member base={base} email={target} /> {roleOf(detail["role"])}
      </>
    ),
  },
  "member.removed": { label: "Member removed", sentence: ({ target }) => <>removed {target} from the members</> },
  "key.created": {
    label: "API key created",
    sentence: (entry, place) => (
      <>
        created the API key <Key entry={entry} place={place} />
      </>
    ),
  },
  "key.rotated": {
    label: "API key rotated",
    sentence: (entry, place) => (
      <>
        rotated the API key <Key entry={entry} place={place} />
      </>
    ),
  },
  "key.renamed": {
    label: "API key renamed",
    sentence: (entry, place) => (
      <>
        gave the API key <Key entry={entry} place={place} /> the name “{textOf(entry.detail["name"])}”
      </>
    ),
  },
  "key.deactivated": {
    label: "API key deactivated",
    sentence: (entry, place) => (
      <>
        deactivated the API key <Key entry={entry} place={place} />
      </>
    ),
  },
  "rule.created": {
    label: "Mapping rule created",
    sentence: (entry, { base }) => (
      <>
        created the mapping rule <Rule entry={entry} base={base} />
      </>
    ),
  },
  "rule.updated": {
    label: "Mapping rule changed",
    sentence: (entry, { base }) => {
      const backTo = entry.detail["back_to"];
      return (
        <>
          {typeof backTo === "number" ? "took" : "changed"} the mapping rule <Rule entry={entry} base={base} />
          {typeof backTo === "number" && ` back to what version ${backTo} said`}
        </>
      );
    },
  },
  "rule.deleted": {
    label: "Mapping rule deleted",
    sentence: ({ target, detail }) => <>deleted the mapping rule {textOf(detail["name"]) ?? <code>{target}</code>}</>,
  },
  "rules.imported": {
    label: "Mapping rules imported",
    sentence: ({ detail: { added, changed } }, { base }) => (
      <>
        imported <a href={`${base}/rules`}>mapping rules</a>
        {typeof added === "number" &&
          typeof changed === "number" &&
          `: ${grouped(added)} added, ${grouped(changed)} changed`}
      </>
    ),
  },
  "rule.applied": {
    label: "Mapping rule applied",
    sentence: (entry, { base }) => (
      <>
        applied the mapping rule <Rule entry={entry} base={base} /> to what is stored
      </>
    ),
  },
  "held.released": {
    label: "Held signals released",
    sentence: (_entry, { base }) => (
      <>
        released <a href={`${base}/usage`}>held signals</a>
      </>
    ),
  },
  "dead_letters.replayed": {
    label: "Dead letters replayed",
    sentence: (_entry, { base }) => (
      <>
        replayed <a href={`${base}/signals/dead-letters`}>dead letters</a>
      </>
    ),
  },
  "data.exported": {
    label: "Data exported",
    sentence: ({ detail: { records, format } }) => (
      <>
        exported {labelOf(EXPORTS, records)?.label.toLowerCase() ?? "data"}{" "}
        {labelOf(FORMATS, format) === undefined ? "" : `as ${labelOf(FORMATS, format) ?? ""}`}
      </>
    ),
  },
  "person.deleted": {
    label: "Person deleted",
    sentence: ({ target }, { base }) => (
      <>
        deleted a person: <a href={`${base}/people/deletions/${encodeURIComponent(target)}`}>receipt</a>
      </>
    ),
  },
  "key.silence_changed": {
    label: "Watch for silence changed",
    sentence: (entry, place) => (
      <>
        {typeof entry.detail["silent_after_days"] === "number"
          ? `asked to be told when nothing comes for ${entry.detail["silent_after_days"]} days with`
          : "asked no more to be told when nothing comes with"}{" "}
        the API key <Key entry={entry} place={place} />
      </>
    ),
  },
  "destination.created": destination("Destination created", (name) => <>created the destination {name}</>),
  "destination.updated": destination("Destination changed", (name) => <>changed the destination {name}</>),
  "destination.paused": destination("Destination paused", (name) => <>paused the destination {name}</>),
  "destination.resumed": destination("Destination resumed", (name) => <>resumed the destination {name}</>),
  "destination.switched_off": destination("Destination switched off", (name, { detail }) => (
    <>
      switched off the destination {name}:{" "}
      {detail["reason"] === "gone" ? "it answered 410 Gone" : "nothing had reached it for five days"}
    </>
  )),
  "destination.deleted": destination("Destination deleted", (name) => <>deleted the destination {name}</>),
  "destination.secret_rotated": destination("Destination's secret rotated", (name) => (
    <>rotated the secret of the destination {name}</>
  )),
  "destination.tested": destination("Destination tested", (name) => <>sent a test to the destination {name}</>),
  "delivery.repeated": destination("Event delivered again", (name) => (
    <>delivered an event to the destination {name} again</>
  )),
  "thresholds.changed": {
    label: "Thresholds changed",
    sentence: ({ detail: { thresholds } }, { base }) => (
      <>
        changed the <a href={`${base}/settings/notifications`}>scores whose crossing is told</a>:{" "}
        {Array.isArray(thresholds) ? thresholds.join(", ") || "none" : ""}
      </>
    ),
  },
} as const satisfies Record<AuditAction, Reading>;

function destination(label: string, sentence: (name: Child, entry: AuditRecord) => Child): Reading {
  return {
    label,
    sentence: (entry, { base }) => {
      const link = `${base}/settings/notifications/${encodeURIComponent(entry.target)}`;
      const name = textOf(entry.detail["name"]) ?? entry.target;
      return sentence(entry.action === "destination.deleted" ? name : <a href={link}>{name}</a>, entry);
    },
  };
}

/** How an action reads. One that this version does not know, because a newer one has written it, reads as its name. */
export function readingOf(action: string): Reading {
  const known: Partial<Record<string, Reading>> = AUDIT_COPY;
  return (Object.hasOwn(known, action) ? known[action] : undefined) ?? { label: action, sentence: () => <>{action}</> };
}

/** What a change of the workspace did, each such as `switched overages on`. */
function changesOf({ name, plan, overages }: AuditRecord["detail"], place: Place): string[] {
  return [
    ...(typeof overages === "boolean" ? [`switched overages ${overages ? "on" : "off"}`] : []),
    ...(typeof plan === "string" ? [`changed the plan to ${planName(plan, place)}`] : []),
    ...(typeof name === "string" ? [`renamed the workspace to ${name}`] : []),
  ];
}

function planName(id: string, { plans }: Place): string {
  return plans.get(id) ?? id;
}

function Member({ base, email }: { base: string; email: string }) {
  return <a href={`${base}/settings/members`}>{email}</a>;
}

function Key({ entry: { target, detail }, place: { base, keys } }: { entry: AuditRecord; place: Place }) {
  return (
    <a href={`${base}/settings/api-keys/${encodeURIComponent(target)}`}>
      {keys.get(target) ?? textOf(detail["name"]) ?? target}
    </a>
  );
}

function Rule({ entry: { target, detail }, base }: { entry: AuditRecord; base: string }) {
  return <a href={`${base}/rules/${encodeURIComponent(target)}`}>{textOf(detail["name"]) ?? target}</a>;
}

function roleOf(role: unknown): string {
  const label = labelOf(ROLE_LABEL, role);
  if (label === undefined) return "a member";
  return label === "Member" ? "a member" : `an ${label.toLowerCase()}`;
}

function labelOf<Label>(of: Record<string, Label>, key: unknown): Label | undefined {
  return typeof key === "string" && Object.hasOwn(of, key) ? of[key] : undefined;
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
