/** Spec §1, §5.6: the permissions of each role. */
import { describe, expect, test } from "vitest";
import { canChangeMember, canManage, ROLES, type Role } from "../../../../src/domain/keys/role.ts";

test("§5.6 lets only owners and admins manage keys and settings", () => {
  expect(ROLES.filter(canManage)).toEqual(["owner", "admin"]);
});

describe("changing the role of another member", () => {
  const all: (Role | null)[] = [...ROLES, null];
  /** Allowed changes as `from>to`. A change from `nobody` adds a member, and a change to `nobody` removes one. */
  const allowed = (by: Role) =>
    all.flatMap((from) =>
      all
        .filter((to) => from !== to && canChangeMember(by, from, to))
        .map((to) => `${from ?? "nobody"}>${to ?? "nobody"}`),
    );

  test("owners change everyone, owners included", () => expect(allowed("owner")).toHaveLength(12));

  test("admins change admins and members, but neither touch owners nor make them", () => {
    expect(allowed("admin")).toEqual([
      "admin>member",
      "admin>nobody",
      "member>admin",
      "member>nobody",
      "nobody>admin",
      "nobody>member",
    ]);
  });

  test("members change no one", () => expect(allowed("member")).toEqual([]));
});
