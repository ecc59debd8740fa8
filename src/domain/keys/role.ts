/** Permissions of a workspace's roles (spec §1, §5.6). */

export const ROLES = ["owner", "admin", "member"] as const;
export type Role = (typeof ROLES)[number];

/**
 * Whether a role may see and manage the API keys (spec §5.6), and change rules, members and plan. Members see everything
 * else, read-only.
 */
export function canManage(role: Role): boolean {
  return role === "owner" || role === "admin";
}

/** The roles that may manage (spec §5.6). */
export const MANAGER_ROLES: readonly Role[] = ROLES.filter(canManage);

/**
 * Whether a member with role `by` may change another member's role from `current` (null: a new member) to `next` (null:
 * removed). Admins may not change owners: an admin could lock out the owner who invited them. The database makes sure
 * that at least one owner remains.
 */
export function canChangeMember(by: Role, current: Role | null, next: Role | null): boolean {
  if (by === "owner") return true;
  return by === "admin" && current !== "owner" && next !== "owner";
}
