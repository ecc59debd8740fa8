/** Settings › Activity: the audit log. Members see no entries about API keys (spec §1) and notifications. */
import {
  AUDIT_WINDOW_ENTRIES,
  type AuditAction,
  type AuditFilter,
  type AuditRecord,
  listAudit,
  MANAGER_ACTION_PREFIXES,
} from "../d1/audit.ts";
import { listMembers } from "../d1/members.ts";
import { planNames } from "../d1/plans.ts";
import { DAY_MS } from "../domain/duration.ts";
import { NOTIFICATION_CATALOGUE } from "../domain/notifications/notification.ts";
import { readTokenActor } from "../domain/keys/api-token.ts";
import { canManage } from "../domain/keys/role.ts";
import { isJsonObject, presentText } from "../domain/json/json-value.ts";
import { PAGE_ROWS, WORKSPACE_MAX_MEMBERS } from "../limits.ts";
import type { Overlap } from "../use-cases/manage-keys.ts";
import {
  pointsDurationText,
  ENDPOINT_LABEL,
  EXPORT_LABEL,
  FORMAT_LABEL,
  FREQUENCY_LABEL,
  MATCH_LABEL,
  ROLE_LABEL,
  RULE_FIELD_LABEL,
} from "./copy.ts";
import { type KeyNames, keyText, readKeyFilter, readKeyNames } from "./keys/key-parts.tsx";
import { counted, exactTime, grouped, signed } from "./kit/format.ts";
import { Filters, ListAddress, ListPanel, scanUntilMatch } from "./kit/list.tsx";
import { Clamped, EmailText, Empty, OneLine, Table, Time } from "./kit/parts.tsx";
import { TYPE_TEXT } from "./notifications/notification-parts.tsx";
import { page } from "./page.tsx";
import { pages, workspacePath } from "./pages-env.ts";

const ACTORS_OFFERED = 100;
/** Each action's label, and the page below the workspace's path that a row leads to. `{}`: the id of the target. */
export const ACTIONS = {
  "plan.created": ["Plan created", "usage"],
  "plan.updated": ["Plan changed", "usage"],
  "workspace.created": ["Workspace created", "usage"],
  "workspace.updated": ["Workspace changed", "usage"],
  "workspace.ended": ["Workspace ended", "usage"],
  "workspace.exported": ["Workspace exported", "usage"],
  "workspace.imported": ["Workspace imported", "usage"],
  "workspace.closed": ["Workspace closed for a move", "usage"],
  "workspace.opened": ["Workspace opened again", "usage"],
  "workspace.reconciled": ["Workspace reconciled", "usage"],
  "member.added": ["Member added", "settings/members"],
  "member.role_changed": ["Role changed", "settings/members"],
  "member.removed": ["Member removed", "settings/members"],
  "key.created": ["API key created", "settings/api-keys/{}"],
  "key.rotated": ["API key rotated", "settings/api-keys/{}"],
  "key.renamed": ["API key renamed", "settings/api-keys/{}"],
  "key.template_changed": ["Payload template changed", "settings/api-keys/{}"],
  "key.webhook_changed": ["Answers to webhooks changed", "settings/api-keys/{}"],
  "key.deactivated": ["API key deactivated", "settings/api-keys/{}"],
  "key.silence_changed": ["Inactivity alert changed", "settings/api-keys/{}"],
  "key.limit_changed": ["Signal limit of a key changed", "settings/api-keys/{}"],
  "token.created": ["API token created", "settings/api-tokens"],
  "token.revoked": ["API token revoked", "settings/api-tokens"],
  "rule.created": ["Mapping rule created", "rules/{}"],
  "rule.updated": ["Mapping rule changed", "rules/{}"],
  "rule.applied": ["Mapping rule applied to past signals", "rules/{}"],
  "rule.scores_removed": ["Scoring signals removed", "rules/{}"],
  "rule.deleted": ["Mapping rule deleted", "rules"],
  "rules.imported": ["Mapping rules imported", "rules"],
  "exclusions.changed": ["Exclusions changed", "rules/exclusions"],
  "exclusions.applied": ["Exclusions applied to past signals", "rules/exclusions"],
  "held.released": ["Held signals released", "usage"],
  "dead_letters.replayed": ["Dead letters replayed", "signals/dead-letters"],
  "data.exported": ["Data exported", "people"],
  "person.deleted": ["Person deleted", "people/deletions/{}"],
  "destination.created": ["Destination created", "settings/notifications/{}"],
  "destination.updated": ["Destination changed", "settings/notifications/{}"],
  "destination.paused": ["Destination paused", "settings/notifications/{}"],
  "destination.resumed": ["Destination resumed", "settings/notifications/{}"],
  "destination.switched_off": ["Destination switched off", "settings/notifications/{}"],
  "destination.deleted": ["Destination deleted", "settings/notifications"],
  "destination.secret_rotated": ["Destination secret rotated", "settings/notifications/{}"],
  "destination.confirmed": ["Destination confirmed", "settings/notifications/{}"],
  "destination.tested": ["Destination tested", "settings/notifications/{}"],
  "delivery.repeated": ["Notification delivered again", "settings/notifications/{}"],
  "thresholds.changed": ["Score thresholds changed", "settings/notifications"],
} as const satisfies Record<AuditAction, readonly [label: string, path: string]>;

interface Names {
  keys: KeyNames;
  plans: ReadonlyMap<string, string>;
}

export const activityPages = pages.createApp().get("/", async (c) => {
  const [db, { id }, base] = [c.get("db"), c.get("workspace"), workspacePath(c)];
  const [members, plans] = await Promise.all([
    listMembers(db, id, { cursor: null, limit: WORKSPACE_MAX_MEMBERS }),
    planNames(db),
  ]);
  const actors = ["operator", ...members.items.map(({ email }) => email)];
  const forManagers = canManage(c.get("role"));
  const list = new ListAddress(`${base}/settings/activity`, c.req.query());
  const action = list.choice("action", "Action", actionOptions(forManagers));
  const actor = list.text("actor", "By", "By (part of an email)")?.toLowerCase();
  const keyId = await readKeyFilter(c, list, "Any or none");
  const isWholeName = actor !== undefined && actors.includes(actor);
  const filter: AuditFilter = {
    ...(isWholeName ? { actor } : { actorPart: actor }),
    action,
    target: keyId || undefined,
    ...list.times("Days", "From"),
    forManagers,
  };
  const entries = await scanUntilMatch(list.slice(PAGE_ROWS), async (slice) => {
    const found = await listAudit(db, id, filter, slice);
    return { ...found, complete: found.items.length > 0 || found.next === null };
  });
  const keyIds = entries.items.flatMap(({ target, detail }) => [target, presentText(detail["successor"]) ?? ""]);
  const names = { keys: await readKeyNames(c, keyIds), plans };
  const hidden = forManagers
    ? ""
    : " Entries about API keys, API tokens and notifications are shown to owners and admins only.";
  return page(
    c,
    { section: "activity", title: "Activity", intro: `Changes in this workspace.${hidden}` },
    <Filters list={list} suggestions={{ actor: actors.slice(0, ACTORS_OFFERED) }} />,
    <ListPanel
      list={list}
      found={entries}
      noun="entries"
      searched={counted(entries.scans * AUDIT_WINDOW_ENTRIES, "entry", "entries")}
      empty={<Empty title="No activity yet" />}
    >
      <Table
        caption="Activity"
        rows={entries.items}
        href={(entry) => `${base}/${labelAndPath(entry)[1]}`}
        columns={[
          { head: "Action", cell: (entry) => <span class="wide-nowrap">{labelAndPath(entry)[0]}</span> },
          { head: "Details", kind: "text", cell: (entry) => <Details entry={entry} names={names} /> },
          { head: "By", cell: (entry) => actorText(entry.actor) },
          { head: "Time", cell: ({ at }) => <Time ms={Date.parse(at)} /> },
        ]}
      />
    </ListPanel>,
  );
});

function actionOptions(forManagers: boolean): Record<string, string> {
  const shown = Object.entries(ACTIONS).flatMap(([action, [label]]) => {
    // These belong to no workspace, so no workspace's log has them.
    const hidden = [
      "plan.",
      "workspace.ended",
      "workspace.exported",
      "workspace.imported",
      ...(forManagers ? [] : MANAGER_ACTION_PREFIXES),
    ];
    return hidden.some((prefix) => action.startsWith(prefix)) ? [] : [[action, label] as const];
  });
  return { "": "All actions", ...Object.fromEntries(shown) };
}

/** A newer version may write unknown actions. */
function labelAndPath({ action, target, detail }: AuditRecord): readonly [label: string, path: string] {
  if (!Object.hasOwn(ACTIONS, action)) return [sentenceCase(action), "settings/activity"];
  const [known, path] = ACTIONS[action as AuditAction];
  const [field, ...others] = action === "workspace.updated" ? Object.keys(detail) : [];
  // Such as "Plan changed", with the plan before and after as the details.
  const label = field === undefined || others.length > 0 ? known : `${fieldName(field)} changed`;
  if (action === "rules.imported" && detail["added"] === 0 && detail["changed"] === 0)
    return ["Exclusions imported", "rules/exclusions"];
  return [label, path.replace("{}", () => encodeURIComponent(target))];
}

function actorText(actor: string) {
  const name = { operator: "The operator", service: "The service" }[actor];
  const token = readTokenActor(actor);
  if (token !== null) {
    return (
      <>
        <OneLine text={token.name} /> <span class="quiet nowrap">API token</span>
      </>
    );
  }
  return name === undefined ? <EmailText text={actor} /> : <span class="quiet nowrap">{name}</span>;
}

function Details({ entry, names }: { entry: AuditRecord; names: Names }) {
  const { action, target, detail } = entry;
  const key = names.keys.get(target);
  const isNamed = /^(key|token|rule|destination|delivery)\./.test(action);
  const name = action.startsWith("member.") ? target : isNamed ? (presentText(detail["name"]) ?? target) : null;
  const title = key === undefined ? name : keyText(key, target);
  const lines = detailLines(entry, names).filter((line) => action === "key.renamed" || line !== `Name: ${name ?? ""}`);
  return (
    <>
      {title}
      {lines.length > 0 && (
        <small>
          <Clamped>{lines.join(" · ")}</Clamped>
        </small>
      )}
    </>
  );
}

function detailLines({ action, detail }: AuditRecord, names: Names): string[] {
  // The entry of a long operation gets its number at the end.
  if (/^(held\.released|dead_letters\.replayed)$/.test(action) && !("released" in detail || "replayed" in detail)) {
    return ["joined" in detail ? "Joined the operation in progress" : "In progress, or not started"];
  }
  // The page of the destination lists its deliveries.
  const { changes, delivery: _, ...rest } = detail;
  const fields = { ...rest, ...(isJsonObject(changes) ? changes : {}) };
  // An import of exclusions adds and changes no rule.
  const isImport = action === "rules.imported";
  const isNothing = (value: unknown) =>
    (isImport && value === 0) || ((isImport || action === "exclusions.changed") && isEmptyList(value));
  const lines = Object.entries(fields).filter(([, value]) => !isUnchanged(value) && !isNothing(value));
  const isSaid = action === "workspace.updated" && lines.length === 1;
  return lines.map(([field, value]) => {
    const text = valueText(field, value, names);
    return isSaid ? text : `${fieldName(field)}: ${text}`;
  });
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

function isUnchanged(value: unknown): boolean {
  return isJsonObject(value) && "from" in value && JSON.stringify(value["from"]) === JSON.stringify(value["to"]);
}

const FIELD_NAMES: Partial<Record<string, string>> = {
  ...RULE_FIELD_LABEL,
  anchor: "Billing periods start at",
  back_to: "Restored version",
  configVersionRaised: "Plan version raised",
  has_secret: "Secret",
  answer: "Status for success",
  keysDeactivated: "Keys deactivated again",
  names: "Rules",
  overlap: "Old secret ends",
  overlap_ms: "Old key ends",
  payloadsLost: "Payloads lost",
  ruleVersionsRaised: "Rule versions raised",
  scoring_signals: "Its scoring signals",
  silent_after_days: "Inactivity alert",
  signal_limit: "Signal limit",
  successor: "New key",
  target_changed: "Address changed",
};

function fieldName(field: string): string {
  return (Object.hasOwn(FIELD_NAMES, field) ? FIELD_NAMES[field] : undefined) ?? sentenceCase(field);
}

function sentenceCase(name: string): string {
  const words = name.replaceAll(/[._]/g, " ").replaceAll(/(?<=[a-z])[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return words.slice(0, 1).toUpperCase() + words.slice(1);
}

const VALUE_NAMES: Partial<Record<string, Partial<Record<string, string>>>> = {
  endpoint_type: ENDPOINT_LABEL,
  role: ROLE_LABEL,
  match: MATCH_LABEL,
  frequency: Object.fromEntries(Object.entries(FREQUENCY_LABEL).map(([value, { option }]) => [value, option])),
  records: EXPORT_LABEL,
  format: FORMAT_LABEL,
  scoring_signals: { keep: "kept", remove: "removed" },
  notifications: labelsOf(NOTIFICATION_CATALOGUE),
  type: labelsOf(TYPE_TEXT),
  overlap: { none: "now", "1h": "after 1 hour", "24h": "after 24 hours", "7d": "after 7 days" } satisfies Record<
    Overlap,
    string
  >,
  reason: {
    gone: "it answered 410 Gone",
    failing: "no delivery succeeded for five days",
    role_lost: "its creator is no owner or admin any more",
  },
};

function labelsOf(texts: Record<string, { label: string }>): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).map(([value, { label }]) => [value, label]));
}

function valueText(field: string, value: unknown, names: Names): string {
  if (field === "silent_after_days") return typeof value === "number" ? `after ${counted(value, "day")}` : "off";
  if (field === "pointsLastDays" && (value === null || typeof value === "number")) return pointsDurationText(value);
  if (value === null || value === undefined) return field === "expires_at" ? "never" : "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") {
    if (field === "points") return signed(value);
    if (field !== "overlap_ms") return grouped(value);
    if (value === 0) return "now";
    return `after ${value % DAY_MS === 0 ? counted(value / DAY_MS, "day") : counted(value / 3_600_000, "hour")}`;
  }
  if (typeof value === "string") {
    if (field === "plan") return names.plans.get(value) ?? value;
    if (field === "successor") return keyText(names.keys.get(value), value);
    if (/^\d{4}-\d{2}-\d{2}T/.test(value)) return exactTime(Date.parse(value));
    return VALUE_NAMES[field]?.[value] ?? value;
  }
  if (Array.isArray(value)) {
    if (value.some((item) => typeof item === "object")) return grouped(value.length);
    return value.map((item) => valueText(field, item, names)).join(", ") || "none";
  }
  if (!isJsonObject(value)) return "";
  const text = (name: string): string => valueText(field, value[name], names);
  if ("from" in value) return `${text("from")} → ${text("to")}`;
  if (isEmptyList(value["removed"]) && isEmptyList(value["added"])) return "order changed";
  return "removed" in value ? `${text("removed")} removed, ${text("added")} added` : JSON.stringify(value);
}
