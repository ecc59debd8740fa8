/** Settings › Members: who may see this workspace, and who may change it (spec §1, §5.6). The service sends no invitations. */
import {
  addMember,
  changeRole,
  countOwners,
  findMember,
  listMembers,
  type Member,
  removeMember,
} from "../d1/members.ts";
import { canChangeMember, canManage, type Role, ROLES } from "../domain/keys/role.ts";
import { isPlausibleEmail, memberEmail } from "../domain/signal/identity.ts";
import { EMAIL_MAX_LENGTH, PAGE_ROWS } from "../limits.ts";
import { LIMIT_COPY } from "../use-cases/rejection-copy.ts";
import { ROLE_LABEL } from "./copy.ts";
import { Choices, Confirm, Form, Menu, TextField } from "./kit/forms.tsx";
import { sectionPath } from "./kit/layout.tsx";
import { ListAddress, ListPanel } from "./kit/list.tsx";
import { type Column, CopyText, EmailText, Panel, Table, Time } from "./kit/parts.tsx";
import { mayManage, page } from "./page.tsx";
import { contextOf, type Ctx, formText, pages, typedText, workspacePath, done, withQuery } from "./pages-env.ts";
import { readForm } from "./read-form.tsx";
import { requireManager } from "./session/sign-in.tsx";

const REJECTED = {
  last_owner: "This is the last owner. Make another member an owner first.",
  not_found: "This member no longer exists or has another role by now.",
  no_role: "Choose a role.",
  not_allowed: "Admins cannot add, change or remove owners. Ask an owner.",
  email_taken: "This person is already a member. Change their role in the list above.",
  too_many_members: LIMIT_COPY.too_many_members,
} as const;

const ROLE_MEANING = {
  owner: "Full access, including managing owners",
  admin: "Full access, except managing owners",
  member: "Reads everything except API keys, API tokens and notifications",
} as const satisfies Record<Role, string>;

export const memberPages = pages
  .createApp()
  .get("/", (c) => membersPage(c))
  .post("/", requireManager, readForm(), async (c) => {
    const typed = readMember(c);
    const email = emailError(typed.email);
    const errors = {
      ...(email !== undefined && { email }),
      ...(!canChangeMember(c.get("role"), null, typed.role) && { role: REJECTED.not_allowed }),
    };
    if (Object.keys(errors).length > 0) return membersPage(c, errors, typed);
    const added = await addMember(contextOf(c), typed);
    if (!added.ok) return membersPage(c, { email: REJECTED[added.rejection] }, typed);
    return done(c, withQuery("settings/members", { added: typed.email }), "member_added");
  })
  .post("/role", requireManager, readForm(), async (c) => {
    const { email, role } = readMember(c);
    // A form without a role must not remove a member's role.
    if (role !== formText(c.get("form"), "role")) return membersPage(c, { form: REJECTED.no_role });
    const current = await findMember(c.get("db"), c.get("workspace").id, email);
    if (current === null) return membersPage(c, { form: REJECTED.not_found });
    if (!canChangeMember(c.get("role"), current.role, role)) return membersPage(c, { form: REJECTED.not_allowed });
    if (current.role === role) return done(c, "settings/members", "saved");
    const changed = await changeRole(contextOf(c), { email, role, from: current.role });
    if (!changed.ok) return membersPage(c, { form: REJECTED[changed.rejection] });
    return done(c, "settings/members", "role_changed");
  })
  .post("/remove", requireManager, readForm(), async (c) => {
    const { email } = readMember(c);
    const current = await findMember(c.get("db"), c.get("workspace").id, email);
    if (current === null) return membersPage(c, { form: REJECTED.not_found });
    if (!canChangeMember(c.get("role"), current.role, null)) return membersPage(c, { form: REJECTED.not_allowed });
    const removed = await removeMember(contextOf(c), email, current.role);
    if (!removed.ok) return membersPage(c, { form: REJECTED[removed.rejection] });
    // Members who leave are led to their other workspaces.
    return email === c.get("user").email ? c.redirect("/w/", 303) : done(c, "settings/members", "member_removed");
  });

interface TypedMember {
  email: string;
  role: Role;
}

/** A valid email is in lower case, as stored. An unknown role is read as `member`, who can change nothing. */
function readMember(c: Ctx): TypedMember {
  const form = c.get("form");
  const typed = typedText(form, "email").trim();
  const role = ROLES.find((name) => name === formText(form, "role"));
  return { email: memberEmail(typed) ?? typed, role: role ?? "member" };
}

function emailError(email: string): string | undefined {
  if (email === "") return "Enter the email that they sign in with.";
  if (email.length > EMAIL_MAX_LENGTH) return `Enter at most ${EMAIL_MAX_LENGTH} characters.`;
  if (memberEmail(email) !== undefined) return undefined;
  return isPlausibleEmail(email)
    ? "This address has invisible characters or letters of several alphabets. Type it with plain letters."
    : "This is not an email address, such as jane@example.com.";
}

/** `form` is about a change of a member, the others are about the form that adds one. */
type Errors = Partial<Record<"form" | "email" | "role", string>>;

async function membersPage(c: Ctx, errors: Errors = {}, typed?: TypedMember): Promise<Response> {
  const [db, { id, name }, role] = [c.get("db"), c.get("workspace"), c.get("role")];
  const list = new ListAddress(sectionPath(c, "members"), c.req.query());
  const { added } = c.req.query();
  const [members, invited, owners] = await Promise.all([
    listMembers(db, id, list.slice(PAGE_ROWS)),
    added === undefined || !mayManage(c) ? null : findMember(db, id, added),
    role === "owner" ? countOwners(db, id) : 0,
  ]);
  const me = c.get("user").email;
  const viewer = { role, email: me, isLastOwner: owners === 1 };
  const columns: Column<Member>[] = [
    {
      head: "Email",
      cell: ({ email }) => (
        <span class="wide-nowrap">
          <EmailText text={email} /> {email === me && <span class="tag">You</span>}
        </span>
      ),
    },
    { head: "Role", cell: (member) => ROLE_LABEL[member.role] },
    {
      head: "Access",
      kind: "text",
      drop: "narrow",
      cell: (member) => <span class="quiet">{ROLE_MEANING[member.role]}</span>,
    },
    { head: "Member since", cell: ({ createdAt }) => <Time ms={Date.parse(createdAt)} /> },
  ];
  const menu = (member: Member) => <MemberMenu path={list.path} viewer={viewer} member={member} />;
  if (mayManage(c)) columns.push({ head: "", kind: "actions", cell: menu });
  return page(
    c,
    {
      section: "members",
      title: "Members",
      intro: `People who can sign in to ${name}.${mayManage(c) ? "" : " Only owners and admins can change this list."}`,
      fieldErrors: errors,
      errorTitle: "Nothing was changed",
    },
    invited !== null && <Invitation member={invited} name={name} signIn={new URL(workspacePath(c), c.req.url).href} />,
    <ListPanel list={list} found={members}>
      <Table caption="Members" rows={members.items} columns={columns} />
    </ListPanel>,
    mayManage(c) && (
      <Panel title="Add member">
        <Form action={list.path} submit="Add member">
          <TextField
            name="email"
            type="email"
            label="Email"
            hint="The address that they sign in with. No email is sent: you get a text to send."
            error={errors.email}
            value={typed?.email ?? ""}
            required
          />
          <Choices
            legend="Role"
            name="role"
            options={roleOptions(role, null)}
            value={typed?.role ?? "member"}
            error={errors.role}
          />
        </Form>
      </Panel>
    ),
  );
}

/** @param current null: a new member. */
function roleOptions(by: Role, current: Role | null) {
  return ROLES.filter((role) => canChangeMember(by, current, role)).map((role) => ({
    value: role,
    label: ROLE_LABEL[role],
    hint: ROLE_MEANING[role],
  }));
}

interface MenuProps {
  path: string;
  /** The last owner can neither leave nor get another role. */
  viewer: { role: Role; email: string; isLastOwner: boolean };
  member: Member;
}

function MemberMenu({ path, viewer, member }: MenuProps) {
  const { email } = member;
  const isMe = email === viewer.email;
  if (!canChangeMember(viewer.role, member.role, null) || (isMe && viewer.isLastOwner)) return <></>;
  const who = isMe ? "you" : "they";
  return (
    <Menu label={`Actions for ${email}`}>
      <Confirm
        label="Change role"
        title={`Change the role of ${email}`}
        action={`${path}/role`}
        submit="Save role"
        fields={{ email }}
        tone="primary"
      >
        <Choices
          legend="Role"
          name="role"
          group={`role-${email}`}
          options={roleOptions(viewer.role, member.role)}
          value={member.role}
        />
        {isMe && <p class="hint">This is you. Only another manager can give you back a role.</p>}
        {canManage(member.role) && (
          <p class="hint">
            As a member, {isMe ? "you lose" : "they lose"} the API tokens that {who} created.
          </p>
        )}
      </Confirm>
      <Confirm
        label={isMe ? "Leave" : "Remove"}
        title={isMe ? "Leave this workspace?" : `Remove ${email}?`}
        action={`${path}/remove`}
        submit={isMe ? "Leave workspace" : "Remove member"}
        look="danger"
        fields={{ email }}
      >
        <p>
          {isMe ? "You lose" : "They lose"} access at once. API tokens that {who} created end. API keys and mapping
          rules that {who} created stay.
        </p>
      </Confirm>
    </Menu>
  );
}

interface InvitationProps {
  member: Member;
  name: string;
  signIn: string;
}

function Invitation({ member: { email, role }, name, signIn }: InvitationProps) {
  const text = `Hello,

you now have access to ${name} as ${ROLE_LABEL[role].toLowerCase()}. Sign in at

${signIn}

with your email ${email}.`;
  return (
    <Panel title={`Send this to ${email}`}>
      <CopyText block id="invitation-text" label="invitation" text={text} />
    </Panel>
  );
}
