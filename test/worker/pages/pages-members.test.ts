/** Settings › Members: invite by email, change role, remove; never the last owner. */
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { changeRole, removeMember } from "../../../src/control/members.ts";
import { WORKSPACE_MAX_MEMBERS } from "../../../src/limits.ts";
import { readHtml, textOf } from "../../support/html.ts";
import { focusedIn, newMembers, type Members } from "../../support/members.ts";
import { operator } from "../../support/workspace.ts";

async function roles(of: Members): Promise<Record<string, string>> {
  const { items } = await operator<{ items: { email: string; role: string }[] }>(
    "GET",
    `/workspaces/${of.workspace.id}/members?limit=200`,
  );
  return Object.fromEntries(items.map(({ email, role }) => [email.replace(`-${of.slug}@example.com`, ""), role]));
}

async function audited(of: Members): Promise<{ action: string; actor: string; target: string }[]> {
  const { results } = await env.DB.prepare(
    "SELECT action, actor, target FROM audit_log WHERE workspace_id = ? AND actor <> 'operator' ORDER BY id",
  )
    .bind(of.workspace.id)
    .all<{ action: string; actor: string; target: string }>();
  return results;
}

const path = (of: Members): string => `${of.home}/settings/members`;
const email = (of: Members, who: string): string => `${who}-${of.slug}@example.com`;
const START = { owner: "owner", admin: "admin", member: "member" };

describe("the page of members", () => {
  test("lists everybody with role and joining date, and marks the current person", async () => {
    const of = await newMembers();
    const page = await of.member.read(path(of));
    const rows = page.rows.map((row) => row.cells.slice(0, 1));
    expect(rows.toSorted()).toEqual([[email(of, "admin")], [`${email(of, "member")} You`], [email(of, "owner")]]);
  });

  test("is read-only for members, who cannot change anything by posting", async () => {
    const of = await newMembers();
    expect((await of.owner.read(path(of))).forms(/members/).length).toBeGreaterThan(0);
    expect((await of.member.read(path(of))).forms(/members/)).toHaveLength(0);
    for (const [where, form] of [
      ["", { email: "new@example.com", role: "member" }],
      ["/role", { email: email(of, "member"), role: "owner" }],
      ["/remove", { email: email(of, "admin") }],
      ["/remove", { email: email(of, "member") }],
    ] as const) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect((await of.member.post(path(of) + where, form)).status).toBe(403);
    }
    expect((await of.stranger.post(path(of), { email: "new@example.com", role: "owner" })).status).toBe(404);
    expect(await roles(of)).toEqual(START);
  });
});

describe("adding a member", () => {
  test("creates a member, offers a text to send, and adds an audit entry", async () => {
    const of = await newMembers({ name: "A <b>bold</b> name" });
    const added = await of.admin.post(path(of), { email: ` New-${of.slug}@Example.com`, role: "admin" });
    expect(added.status).toBe(303);
    const page = await of.admin.read(added.headers.get("location") ?? "");
    expect(page.text).toContain("They can sign in from now on.");
    const { text } = page.only("#invitation-text");
    expect(text).toContain(email(of, "new"));
    expect(text).toContain(`https://signals.example${of.home}`);
    expect(text).toContain("A <b>bold</b> name");
    expect(page.text).toContain("No mail is sent");
    expect(await roles(of)).toEqual({ ...START, new: "admin" });
    expect(await audited(of)).toEqual([
      { action: "member.added", actor: email(of, "admin"), target: email(of, "new") },
    ]);
    // Shown only for addresses of members, because a link could name any address.
    expect((await of.admin.read(`${path(of)}?added=boss%40example.com`)).all("#invitation-text")).toHaveLength(0);
  });

  test.each([
    ["no-address<script>", "member", "not an email address"],
    ["", "member", "Type the email"],
    ["\u212Aevin@example.com", "member", "easily taken for others"],
    ["admin", "member", "a member already"],
    ["fresh@example.com", "owner", "neither make nor change owners"],
  ])("by an admin: %s as %s is refused, with what was typed", async (typed, role, why) => {
    const of = await newMembers();
    const address = typed === "admin" ? email(of, "admin") : typed;
    const refused = await of.admin.post(path(of), { email: address, role });
    expect(refused.status).toBe(422);
    const html = await refused.text();
    expect(textOf(html)).toContain(why);
    expect(focusedIn(html)).toBe(role === "owner" ? "role" : "email");
    expect(readHtml(html).form(path(of)).field("email").value).toBe(address);
    expect(await roles(of)).toEqual(START);
    expect(await audited(of)).toEqual([]);
  });
});

test("is refused at the maximum number of members, and keeps the input", async () => {
  const of = await newMembers();
  await env.DB.prepare(
    `INSERT INTO members (workspace_id, email, role, created_at)
     WITH RECURSIVE numbers (n) AS (SELECT 4 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?2)
     SELECT ?1, n || '@example.com', 'member', '2026' FROM numbers`,
  )
    .bind(of.workspace.id, WORKSPACE_MAX_MEMBERS)
    .run();
  const refused = await of.admin.post(path(of), { email: "late@example.com", role: "admin" });
  expect(refused.status).toBe(422);
  const html = await refused.text();
  expect(textOf(html)).toContain("This workspace has 500 members, the most it may have. Remove one");
  const form = readHtml(html).form(path(of));
  expect([form.field("email").value, form.field("role").value]).toEqual(["late@example.com", "admin"]);
  expect(await audited(of)).toEqual([]);
  await of.admin.post(`${path(of)}/remove`, { email: "4@example.com" });
  expect((await of.admin.post(path(of), { email: "late@example.com", role: "admin" })).status).toBe(303);
});

describe("changing and removing members", () => {
  test("owners manage everybody", async () => {
    const of = await newMembers();
    expect((await of.owner.post(`${path(of)}/role`, { email: email(of, "member"), role: "owner" })).status).toBe(303);
    expect((await of.owner.post(`${path(of)}/role`, { email: email(of, "admin"), role: "member" })).status).toBe(303);
    expect(await roles(of)).toEqual({ owner: "owner", admin: "member", member: "owner" });
    expect((await of.owner.post(`${path(of)}/remove`, { email: email(of, "admin") })).status).toBe(303);
    expect(await roles(of)).toEqual({ owner: "owner", member: "owner" });
    expect((await audited(of)).map(({ action }) => action)).toEqual([
      "member.role_changed",
      "member.role_changed",
      "member.removed",
    ]);
    // From the next click on.
    expect((await of.admin.get(path(of))).status).toBe(404);
  });

  test("admins cannot change owners or appoint them, and see no form for it", async () => {
    const of = await newMembers();
    const page = await of.admin.read(path(of));
    const changed = page.fields("email").map(({ value }) => value);
    expect(changed).toContain(email(of, "member"));
    expect(changed).not.toContain(email(of, "owner"));
    const roleOptions = page.fields("role").flatMap((field) => field.all("option").map(({ value }) => value));
    expect(roleOptions).toContain("admin");
    expect(roleOptions).not.toContain("owner");
    for (const [where, form] of [
      ["/role", { email: email(of, "owner"), role: "member" }],
      ["/role", { email: email(of, "member"), role: "owner" }],
      ["/role", { email: email(of, "admin"), role: "owner" }],
      ["/remove", { email: email(of, "owner") }],
    ] as const) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      const refused = await of.admin.post(path(of) + where, form);
      expect(refused.status).toBe(422);
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect(await refused.text()).toContain("Admins can neither make nor change owners");
    }
    expect(await roles(of)).toEqual(START);
    expect((await of.admin.post(`${path(of)}/role`, { email: email(of, "member"), role: "admin" })).status).toBe(303);
    expect(await roles(of)).toEqual({ ...START, member: "admin" });
  });

  test("a form without a role changes no role", async () => {
    const of = await newMembers();
    for (const role of [{}, { role: "" }, { role: "superuser" }, { role: "toString" }]) {
      const refused = await of.owner.post(`${path(of)}/role`, { email: email(of, "admin"), ...role });
      expect(refused.status).toBe(422);
      expect(await refused.text()).toContain("Choose one of the roles");
    }
    expect([await roles(of), await audited(of)]).toEqual([START, []]);
  });

  test("the last owner stays, and the page says why", async () => {
    const of = await newMembers();
    for (const [where, form] of [
      ["/role", { email: email(of, "owner"), role: "admin" }],
      ["/remove", { email: email(of, "owner") }],
    ] as const) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      const refused = await of.owner.post(path(of) + where, form);
      expect(refused.status).toBe(422);
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect(await refused.text()).toContain("This is the last owner.");
    }
    expect(await roles(of)).toEqual(START);
    expect(await audited(of)).toEqual([]);
  });

  test("a member who leaves is warned first and loses access", async () => {
    const of = await newMembers();
    expect(await of.admin.see(path(of))).toContain("This is you: you will not see this workspace any more");
    const left = await of.admin.post(`${path(of)}/remove`, { email: email(of, "admin") });
    expect(left.headers.get("location")).toBe("/w/");
    // The last membership is gone, so that the person is signed out too.
    expect((await of.admin.get(path(of))).headers.get("location")).toMatch(/^\/sign-in/);
    expect(await roles(of)).toEqual({ owner: "owner", member: "member" });
  });

  test("an admin cannot remove a person who has just become an owner", async () => {
    const of = await newMembers();
    const admin = of.workspace.context({ by: { actor: email(of, "admin"), nowMs: Date.now() } });
    const target = email(of, "member");
    await changeRole(admin, { email: target, role: "owner" });
    expect(await removeMember(admin, target, "member")).toMatchObject({ ok: false });
    const change = { email: target, role: "admin", from: "member" } as const;
    expect(await changeRole(admin, change)).toMatchObject({ ok: false });
    expect(await roles(of)).toEqual({ ...START, member: "owner" });
  });

  test("a person who is no longer a member is reported as such", async () => {
    const of = await newMembers();
    const refused = await of.owner.post(`${path(of)}/remove`, { email: "nobody@example.com" });
    expect(refused.status).toBe(422);
    expect(await refused.text()).toContain("Nobody of this email is a member");
  });
});
