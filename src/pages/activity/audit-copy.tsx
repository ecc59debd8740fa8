/** How each entry of the audit log reads, after who did it. The compiler sees to it that none is missing. */
import type { AuditAction } from "../../control/audit.ts";
import type { AuditRecord } from "../../control/audit.ts";
import { EXPORTS, FORMATS } from "../people/people.tsx";
import { ROLE_SAID } from "../copy.ts";
import { exactTime, grouped } from "../kit/format.ts";
import {
  labelOf,
  MemberLink,
  ofDestination,
  ofKey,
  ofRule,
  planName,
  textIn,
  type AuditPlace,
  type AuditReading,
} from "./audit-parts.tsx";

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
    sentence: ({ detail }) =>
      typeof detail["lost"] === "number" && detail["lost"] > 0 ? (
        <>finished the restore of this workspace, which lost {grouped(detail["lost"])} accepted signals</>
      ) : (
        <>brought this workspace up to date after a restore</>
      ),
  },
  "workspace.restored": {
    label: "Workspace restored",
    sentence: ({ detail }) =>
      typeof detail["to"] === "string" ? (
        <>began to restore this workspace as it was at {exactTime(Date.parse(detail["to"]))}</>
      ) : (
        <>began to undo the restore of this workspace</>
      ),
  },
  "workspace.restore_acknowledged": {
    label: "Restore acknowledged",
    sentence: () => <>acknowledged the signals that the restore of this workspace has lost</>,
  },
  "member.added": {
    label: "Member added",
    sentence: ({ target, detail }, { base }) => (
      <>
        added <MemberLink base={base} email={target} /> as {labelOf(ROLE_SAID, detail["role"]) ?? ROLE_SAID.member}
      </>
    ),
  },
  "member.role_changed": {
    label: "Role changed",
    sentence: ({ target, detail }, { base }) => (
      <>
        made <MemberLink base={base} email={target} /> {labelOf(ROLE_SAID, detail["role"]) ?? ROLE_SAID.member}
      </>
    ),
  },
  "member.removed": { label: "Member removed", sentence: ({ target }) => <>removed {target} from the members</> },
  "key.created": ofKey("API key created", (key) => <>created the API key {key}</>),
  "key.rotated": ofKey("API key rotated", (key) => <>rotated the API key {key}</>),
  "key.renamed": ofKey("API key renamed", (key, { detail }) => (
    <>
      gave the API key {key} the name “{textIn(detail, "name")}”
    </>
  )),
  "key.deactivated": ofKey("API key deactivated", (key) => <>deactivated the API key {key}</>),
  "rule.created": ofRule("Mapping rule created", (rule) => <>created the mapping rule {rule}</>),
  "rule.updated": ofRule("Mapping rule changed", (rule, { detail: { back_to: version } }) =>
    typeof version === "number" ? (
      <>
        took the mapping rule {rule} back to what version {version} said
      </>
    ) : (
      <>changed the mapping rule {rule}</>
    ),
  ),
  "rule.deleted": {
    label: "Mapping rule deleted",
    sentence: ({ target, detail }) => (
      <>
        deleted the mapping rule {textIn(detail, "name") ?? <code>{target}</code>}
        {detail["scoring_signals"] === "remove" && " and its scoring signals"}
      </>
    ),
  },
  "rule.scores_removed": ofRule("Scoring signals removed", (rule) => (
    <>removed the scoring signals of the mapping rule {rule}</>
  )),
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
  "rule.applied": ofRule("Mapping rule applied", (rule) => <>applied the mapping rule {rule} to what is stored</>),
  "held.released": {
    label: "Held signals released",
    sentence: ({ detail }, { base }) => (
      <>
        released <a href={`${base}/usage`}>held signals</a>: {numberSent(detail, "released")}
      </>
    ),
  },
  "dead_letters.replayed": {
    label: "Dead letters replayed",
    sentence: ({ detail }, { base }) => (
      <>
        replayed <a href={`${base}/signals/dead-letters`}>dead letters</a>: {numberSent(detail, "replayed")}
      </>
    ),
  },
  "data.exported": {
    label: "Data exported",
    sentence: ({ detail: { records, format } }) => (
      <>
        exported {labelOf(EXPORTS, records)?.toLowerCase() ?? "data"}{" "}
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
  "key.silence_changed": ofKey("Watch for silence changed", (key, { detail: { silent_after_days: days } }) => (
    <>
      {typeof days === "number"
        ? `asked to be told when nothing comes for ${days} days with`
        : "asked no more to be told when nothing comes with"}{" "}
      the API key {key}
    </>
  )),
  "destination.created": ofDestination("Destination created", (name) => <>created the destination {name}</>),
  "destination.updated": ofDestination("Destination changed", (name) => <>changed the destination {name}</>),
  "destination.paused": ofDestination("Destination paused", (name) => <>paused the destination {name}</>),
  "destination.resumed": ofDestination("Destination resumed", (name) => <>resumed the destination {name}</>),
  "destination.switched_off": ofDestination("Destination switched off", (name, { detail }) => (
    <>
      switched off the destination {name}:{" "}
      {detail["reason"] === "gone" ? "it answered 410 Gone" : "nothing had reached it for five days"}
    </>
  )),
  "destination.deleted": ofDestination("Destination deleted", (name) => <>deleted the destination {name}</>),
  "destination.secret_rotated": ofDestination("Destination's secret rotated", (name) => (
    <>rotated the secret of the destination {name}</>
  )),
  "destination.tested": ofDestination("Destination tested", (name) => <>sent a test to the destination {name}</>),
  "delivery.repeated": ofDestination("Event delivered again", (name) => (
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
} as const satisfies Record<AuditAction, AuditReading>;

/** How an action reads. One that this version does not know, because a newer one has written it, reads as its name. */
export function readingOf(action: string): AuditReading {
  const known: Partial<Record<string, AuditReading>> = AUDIT_COPY;
  return (Object.hasOwn(known, action) ? known[action] : undefined) ?? { label: action, sentence: () => <>{action}</> };
}

/** How many signals were sent again. The entry is written before the operation begins, and gets the number when it ends. */
function numberSent(detail: AuditRecord["detail"], name: "released" | "replayed"): string {
  const sent = detail[name];
  if (typeof sent === "number") return grouped(sent);
  return "joined" in detail ? "joined the one under way" : "not begun, or still under way";
}

/** What a change of the workspace did, each such as `switched overages on`. */
function changesOf({ name, plan, overages }: AuditRecord["detail"], place: AuditPlace): string[] {
  return [
    ...(typeof overages === "boolean" ? [`switched overages ${overages ? "on" : "off"}`] : []),
    ...(typeof plan === "string" ? [`changed the plan to ${planName(plan, place)}`] : []),
    ...(typeof name === "string" ? [`renamed the workspace to ${name}`] : []),
  ];
}
