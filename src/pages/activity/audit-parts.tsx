/** What the sentences of the audit log are made of: names with links to what they name. */
import { keyText, type KeyNames } from "../key-names.tsx";
import type { Child } from "hono/jsx";
import type { AuditRecord } from "../../control/audit.ts";

export interface AuditPlace {
  /** Address of the workspace. */
  base: string;
  /** Names of its API keys by id. */
  keys: KeyNames;
  /** Names of the plans by id. */
  plans: ReadonlyMap<string, string>;
}

/** How the entries of one action read. */
export interface AuditReading {
  /** The action's name in the list to filter by. */
  label: string;
  sentence: (entry: AuditRecord, place: AuditPlace) => Child;
}

/** A sentence around the link to what the entry is about. */
type AboutTarget = (link: Child, entry: AuditRecord) => Child;

export function ofKey(label: string, sentence: AboutTarget): AuditReading {
  return {
    label,
    sentence: (entry, { base, keys }) => {
      const { target, detail } = entry;
      const address = `${base}/settings/api-keys/${encodeURIComponent(target)}`;
      return sentence(
        <a href={address}>
          {keys.has(target) ? keyText(keys.get(target), target) : (textIn(detail, "name") ?? target)}
        </a>,
        entry,
      );
    },
  };
}

export function ofRule(label: string, sentence: AboutTarget): AuditReading {
  return {
    label,
    sentence: (entry, { base }) => {
      const { target, detail } = entry;
      const address = `${base}/rules/${encodeURIComponent(target)}`;
      return sentence(<a href={address}>{textIn(detail, "name") ?? target}</a>, entry);
    },
  };
}

/** A destination that is deleted has no page to lead to. */
export function ofDestination(label: string, sentence: AboutTarget): AuditReading {
  return {
    label,
    sentence: (entry, { base }) => {
      const { target, detail, action } = entry;
      const address = `${base}/settings/notifications/${encodeURIComponent(target)}`;
      const name = textIn(detail, "name") ?? target;
      return sentence(action === "destination.deleted" ? name : <a href={address}>{name}</a>, entry);
    },
  };
}

export function MemberLink({ base, email }: { base: string; email: string }) {
  return <a href={`${base}/settings/members`}>{email}</a>;
}

export function planName(id: string, { plans }: AuditPlace): string {
  return plans.get(id) ?? id;
}

export function labelOf<Label>(of: Record<string, Label>, key: unknown): Label | undefined {
  return typeof key === "string" && Object.hasOwn(of, key) ? of[key] : undefined;
}

/** What a detail of that name says; undefined where it is no text. */
export function textIn(detail: AuditRecord["detail"], name: string): string | undefined {
  const value = detail[name];
  return typeof value === "string" ? value : undefined;
}
