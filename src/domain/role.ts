/** What the roles of a workspace may do (spec §1, §5.6). */

export type Role = "owner" | "admin" | "member";

/** Everything that changes something: keys, rules, members, plan; members see the rest, read-only. */
export function canManage(role: Role): boolean {
  return role === "owner" || role === "admin";
}

/** Spec §5.6: only owners and admins see or manage the API keys. */
export function canManageKeys(role: Role): boolean {
  return canManage(role);
}
