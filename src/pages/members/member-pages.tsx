/** Settings › Members: who may see this workspace, and who may change it (spec §1, §5.6). No mail is sent from here. */
import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { addMember, changeRole, findMember, listMembers, removeMember } from "../../control/members.ts";
import { canChangeMember } from "../../domain/keys/role.ts";
import { PAGE_ROWS } from "../../limits.ts";
import { LIMIT_COPY } from "../../workspace/refusal-copy.ts";
import { readForm } from "../read-form.tsx";
import { pages, type PagesEnv, workspacePath, contextOf } from "../pages-env.ts";
import { checkMember, namesRole, readMemberForm, type MemberErrors, type TypedMember } from "./member-form.ts";
import { done, page } from "../page.tsx";
import { requireManager } from "../session/require-sign-in.ts";
import { MembersView } from "./members-view.tsx";

type Ctx = Context<PagesEnv>;

interface Shown {
  typed?: TypedMember;
  errors?: MemberErrors;
  /** Why nothing was changed. */
  refused?: string;
}

const REFUSED = {
  last_owner: "This is the last owner. Make another member an owner first: a workspace always keeps one.",
  not_found: "Nobody of this email is a member in that role any more; somebody else may have changed it just now.",
  no_role: "Choose one of the roles: nothing was changed.",
  not_allowed: "Admins can neither make nor change owners. Ask an owner.",
} as const;

const NOT_ADDED = {
  email_taken: "This address is a member already; change their role in the list above.",
  too_many_members: LIMIT_COPY.too_many_members,
} as const;

export const memberPages = pages
  .createApp()
  .get("/", (c) => membersPage(c, {}))
  .post("/", requireManager, readForm(), async (c) => {
    const typed = readMemberForm(c.get("form"));
    const errors = checkMember(typed);
    if (errors.email !== undefined) return membersPage(c, { typed, errors }, 422);
    if (!canChangeMember(c.get("role"), null, typed.role)) {
      return membersPage(c, { typed, errors: { role: REFUSED.not_allowed } }, 422);
    }
    const added = await addMember(contextOf(c), typed);
    if (!added.ok) {
      return membersPage(c, { typed, errors: { email: NOT_ADDED[added.refusal] } }, 422);
    }
    return done(c, `settings/members?${new URLSearchParams({ added: typed.email }).toString()}`, "member_added");
  })
  .post("/role", requireManager, readForm(), async (c) => {
    const form = c.get("form");
    const { email, role } = readMemberForm(form);
    // Nobody loses a role by a form that names none.
    if (!namesRole(form)) return membersPage(c, { refused: REFUSED.no_role }, 422);
    const [db, { id }] = [c.get("db"), c.get("workspace")];
    const current = await findMember(db, id, email);
    if (current === null) return membersPage(c, { refused: REFUSED.not_found }, 422);
    if (!canChangeMember(c.get("role"), current.role, role)) {
      return membersPage(c, { refused: REFUSED.not_allowed }, 422);
    }
    if (current.role === role) return done(c, "settings/members", "saved");
    const changed = await changeRole(contextOf(c), { email, role, from: current.role });
    return changed.ok
      ? done(c, "settings/members", "role_changed")
      : membersPage(c, { refused: REFUSED[changed.refusal] }, 422);
  })
  .post("/remove", requireManager, readForm(), async (c) => {
    const { email } = readMemberForm(c.get("form"));
    const [db, { id }] = [c.get("db"), c.get("workspace")];
    const current = await findMember(db, id, email);
    if (current === null) return membersPage(c, { refused: REFUSED.not_found }, 422);
    if (!canChangeMember(c.get("role"), current.role, null)) {
      return membersPage(c, { refused: REFUSED.not_allowed }, 422);
    }
    const removed = await removeMember(contextOf(c), email, current.role);
    if (!removed.ok) return membersPage(c, { refused: REFUSED[removed.refusal] }, 422);
    // Whoever has removed themselves is led to the workspaces that are left to them.
    return email === c.get("user").email ? c.redirect("/w/", 303) : done(c, "settings/members", "member_removed");
  });

async function membersPage(c: Ctx, shown: Shown, status: ContentfulStatusCode = 200): Promise<Response> {
  const [db, { id, name }] = [c.get("db"), c.get("workspace")];
  const { cursor, added } = c.req.query();
  const [members, invited] = await Promise.all([
    listMembers(db, id, { cursor: cursor ?? null, limit: PAGE_ROWS }),
    added === undefined ? null : findMember(db, id, added),
  ]);
  const signIn = new URL(workspacePath(c), c.req.url).href;
  const view = {
    base: workspacePath(c),
    name,
    members,
    cursor,
    signIn,
    invited,
    role: c.get("role"),
    nowMs: Date.now(),
  };
  return page(
    c,
    { title: "Members", section: "members", status },
    <MembersView {...view} me={c.get("user").email} {...shown} />,
  );
}
