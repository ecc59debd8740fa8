/** What the roles of a workspace may do (spec §1, §5.6). */

export const ROLES = ["owner", "admin", "member"] as const;
export type Role = (typeof ROLES)[number];

/** Whether a role may change things: keys, rules, members, plan. Members see the rest, read-only. */
export function canManage(role: Role): boolean {
  return role === "owner" || role === "admin";
}

/** Spec §5.6: only owners and admins see or manage the API keys. */
export function canManageKeys(role: Role): boolean {
  return canManage(role);
}

/**
 * Whether somebody may give another member (or a new one, `current` null) the role `next`, or remove it (`next` null).
 * Owners manage everybody; admins manage admins and members, and neither touch owners nor make them: otherwise the admin
 * whom an owner has let in could lock the owner out. That an owner is left is decided where it is stored.
 */
export function canChangeMember(by: Role, current: Role | null, next: Role | null): boolean {
  if (by === "owner") return true;
  return by === "admin" && current !== "owner" && next !== "owner";
}
