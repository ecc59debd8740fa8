/** Settings › Members: invite by email, change role, remove; never the last owner. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { changeRole, removeMember } from "../../../src/d1/members.ts";
import { WORKSPACE_MAX_MEMBERS } from "../../../src/limits.ts";
import { focusedIn, type Members, newMembers } from "../../support/members.ts";

type Form = Record<string, string>;

let team: Members;
let path: string;

beforeEach(async () => {
  team = await newMembers({ name: "A <b>bold</b> name" });
  path = `${team.home}/settings/members`;
});

const START = { owner: "owner", admin: "admin", member: "member" };
const email = (who: string): string => `${who}-${team.slug}@example.com`;

async function roles(): Promise<Record<string, string>> {
  const list = await team.workspace.list<{ email: string; role: string }>("/members?limit=200");
  return Object.fromEntries(list.map((member) => [member.email.replace(`-${team.slug}@example.com`, ""), member.role]));
}

/** The entries that the members' own changes added to the audit log. */
const audited = async () =>
  (await team.workspace.auditLog()).flatMap(({ action, actor, target }) =>
    actor === "operator" ? [] : [{ action, actor, target }],
  );

const setRole = (by: "owner" | "admin", form: Form) => team[by].post(`${path}/role`, form);
const remove = (by: "owner" | "admin", who: string) => team[by].post(`${path}/remove`, { email: who });

test("the page of members lists everybody, and marks the current person", async () => {
  const page = await team.member.read(path);
  const names = page.rows.map((row) => row.cells[0]);
  expect(names.toSorted()).toEqual([email("admin"), `${email("member")} You`, email("owner")]);
});

describe("adding a member", () => {
  test("creates a member, offers a text to send, and adds an audit entry", async () => {
    const added = await team.admin.post(path, { email: ` New-${team.slug}@Example.com`, role: "admin" });
    expect(added.status).toBe(303);
    const page = await team.admin.read(added.location);
    expect(page.text).toContain("Member added. They can sign in now.");
    const { text } = page.only("#invitation-text");
    for (const part of [email("new"), `https://signals.example${team.home}`, "A <b>bold</b> name"])
      expect(text).toContain(part);
    expect(await roles()).toEqual({ ...START, new: "admin" });
    expect(await audited()).toEqual([{ action: "member.added", actor: email("admin"), target: email("new") }]);
    expect((await team.member.read(`${path}?added=${email("new")}`)).all("#invitation-text")).toHaveLength(0);
    // Shown only for addresses of members, because a link could name any address.
    expect((await team.admin.read(`${path}?added=boss%40example.com`)).all("#invitation-text")).toHaveLength(0);
  });

  test("is rejected for a present member, and as an owner by an admin", async () => {
    for (const [form, why, focused] of [
      [{ email: email("admin"), role: "member" }, "already a member", "email"],
      [{ email: "fresh@example.com", role: "owner" }, "Admins cannot add, change or remove owners", "role-admin"],
    ] as const) {
      const { status, body, text } = await team.admin.post(path, form);
      expect([status, text, focusedIn(body)]).toEqual([422, expect.stringContaining(why), focused]);
    }
    expect([await roles(), await audited()]).toEqual([START, []]);
  });

  test("is rejected at the maximum number of members, and keeps the input", async () => {
    await env.DB.prepare(
      `INSERT INTO members (workspace_id, email, role, created_at)
       WITH RECURSIVE numbers (n) AS (SELECT 4 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?2)
       SELECT ?1, n || '@example.com', 'member', '2026' FROM numbers`,
    )
      .bind(team.workspace.id, WORKSPACE_MAX_MEMBERS)
      .run();
    const late = { email: "late@example.com", role: "admin" };
    const { status, page } = await team.admin.post(path, late);
    expect(status).toBe(422);
    expect(page.text).toContain("This workspace has 500 members, the most it may have. Remove one");
    const form = page.form(path);
    expect({ email: form.field("email").value, role: form.chosen("role") }).toEqual(late);
    await remove("admin", "4@example.com");
    expect((await team.admin.post(path, late)).status).toBe(303);
  });
});

describe("changing and removing members", () => {
  test("owners manage everybody, from the next click on", async () => {
    expect((await setRole("owner", { email: email("member"), role: "owner" })).status).toBe(303);
    expect((await setRole("owner", { email: email("admin"), role: "member" })).status).toBe(303);
    expect(await roles()).toEqual({ owner: "owner", admin: "member", member: "owner" });
    expect((await remove("owner", email("admin"))).status).toBe(303);
    expect(await roles()).toEqual({ owner: "owner", member: "owner" });
    const actions = (await audited()).map(({ action }) => action);
    expect(actions).toEqual(["member.role_changed", "member.role_changed", "member.removed"]);
    expect((await team.admin.get(path)).status).toBe(404);
  });

  test("admins cannot change owners or appoint them, and see no form for it", async () => {
    const page = await team.admin.read(path);
    const changed = page.fields("email").map(({ value }) => value);
    expect([changed.includes(email("member")), changed.includes(email("owner"))]).toEqual([true, false]);
    const offered = page.fields("role").map(({ value }) => value);
    expect([offered.includes("admin"), offered.includes("owner")]).toEqual([true, false]);
    for (const rejected of [
      await setRole("admin", { email: email("owner"), role: "member" }),
      await setRole("admin", { email: email("member"), role: "owner" }),
      await setRole("admin", { email: email("admin"), role: "owner" }),
      await remove("admin", email("owner")),
    ])
      expect([rejected.status, rejected.text]).toEqual([
        422,
        expect.stringContaining("Admins cannot add, change or remove owners"),
      ]);
    expect(await roles()).toEqual(START);
    expect((await setRole("admin", { email: email("member"), role: "admin" })).status).toBe(303);
    expect(await roles()).toEqual({ ...START, member: "admin" });
  });

  test("an unknown role, the last owner and an unknown person are rejected with the reason, and nothing changes", async () => {
    const withRole = (role: Form) => setRole("owner", { email: email("admin"), ...role });
    for (const [answer, why] of [
      [withRole({}), "Choose a role"],
      [withRole({ role: "" }), "Choose a role"],
      [withRole({ role: "superuser" }), "Choose a role"],
      [withRole({ role: "toString" }), "Choose a role"],
      [setRole("owner", { email: email("owner"), role: "admin" }), "This is the last owner."],
      [remove("owner", email("owner")), "This is the last owner."],
      [remove("owner", "nobody@example.com"), "This member no longer exists"],
    ] as const) {
      const { status, text } = await answer;
      expect([status, text]).toEqual([422, expect.stringContaining(why)]);
    }
    expect([await roles(), await audited()]).toEqual([START, []]);
  });

  test("a member who leaves is warned first and loses access", async () => {
    expect((await team.admin.read(path)).opened("Leave this workspace?").text).toContain("You lose access at once.");
    expect((await remove("admin", email("admin"))).location).toBe("/w/");
    // The last membership is gone, so that the person is signed out too.
    expect((await team.admin.get(path)).location).toMatch(/^\/sign-in/);
    expect(await roles()).toEqual({ owner: "owner", member: "member" });
  });

  test("the last owner is offered neither to leave nor another role", async () => {
    const leaves = async () =>
      (await team.owner.read(path)).forms(`${path}/remove`).map((form) => form.field("email").value);
    expect(await leaves()).toEqual([email("admin"), email("member")]);
    await setRole("owner", { email: email("admin"), role: "owner" });
    expect(await leaves()).toEqual([email("admin"), email("member"), email("owner")]);
  });

  test("an admin cannot remove a person who has just become an owner", async () => {
    const admin = team.workspace.context({ by: { actor: email("admin"), nowMs: Date.now() } });
    const target = email("member");
    await changeRole(admin, { email: target, role: "owner" });
    expect(await removeMember(admin, target, "member")).toMatchObject({ ok: false });
    const change = { email: target, role: "admin", from: "member" } as const;
    expect(await changeRole(admin, change)).toMatchObject({ ok: false });
    expect(await roles()).toEqual({ ...START, member: "owner" });
  });
});
