/** Spec §1, §5.6: what each role may do. */
import { describe, expect, test } from "vitest";
import { canChangeMember, canManage, canManageKeys, type Role } from "../../../../src/domain/keys/role.ts";

test("§5.6 owners and admins manage keys and the rest; members do not", () => {
  const roles: Role[] = ["owner", "admin", "member"];
  expect(roles.filter(canManageKeys)).toEqual(["owner", "admin"]);
  expect(roles.filter(canManage)).toEqual(["owner", "admin"]);
});

describe("who may change whom", () => {
  const ROLES: (Role | null)[] = ["owner", "admin", "member", null];
  /** As `from>to`; "nobody" before means added, after it removed. */
  const allowed = (by: Role) =>
    ROLES.flatMap((from) =>
      ROLES.filter((to) => from !== to && canChangeMember(by, from, to)).map(
        (to) => `${from ?? "nobody"}>${to ?? "nobody"}`,
      ),
    );

  test("owners change everybody, owners included", () => expect(allowed("owner")).toHaveLength(12));

  test("admins change admins and members, and neither touch owners nor make them", () => {
    expect(allowed("admin")).toEqual([
      "admin>member",
      "admin>nobody",
      "member>admin",
      "member>nobody",
      "nobody>admin",
      "nobody>member",
    ]);
  });

  test("members change nobody", () => expect(allowed("member")).toEqual([]));
});
