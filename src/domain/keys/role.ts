/** Permissions of a workspace's roles (spec §1, §5.6). */

export const ROLES = ["owner", "admin", "member"] as const;
export type Role = (typeof ROLES)[number];

/** Whether a role may change keys, rules, members and plan. Members see everything except the keys, read-only. */
export function canManage(role: Role): boolean {
  return role === "owner" || role === "admin";
}

/** Spec §5.6: only owners and admins see or manage the API keys. */
export function canManageKeys(role: Role): boolean {
  return canManage(role);
}

/**
 * Whether a member with role `by` may change another member's role from `current` to `next`. A null `current` is a
 * new member; a null `next` removes the member.
 *
 * Owners manage everyone. Admins manage only admins and members: otherwise an admin could lock out the owner who
 * invited them. The database makes sure that at least one owner remains.
 */
export function canChangeMember(by: Role, current: Role | null, next: Role | null): boolean {
  if (by === "owner") return true;
  return by === "admin" && current !== "owner" && next !== "owner";
}
