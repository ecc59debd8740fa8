/** The members' page. Who looks sees forms only for what would not be refused to them. */
import type { Member } from "../../control/members.ts";
import { canChangeMember, canManage, type Role } from "../../domain/keys/role.ts";
import type { PageOf } from "../../platform/list-page.ts";
import { ROLE_LABEL, ROLE_SAID } from "../copy.ts";
import type { MemberErrors, TypedMember } from "./member-form.ts";
import { FormErrors, SelectField, TextField } from "../kit/forms.tsx";
import { Confirm } from "../views/confirm.tsx";
import { CopyText } from "../views/copy-text.tsx";
import { Badge, PageHead, Notice, Panel, Time } from "../views/parts.tsx";
import { Pager, Table } from "../views/table.tsx";

interface Props {
  base: string;
  /** The workspace's name. */
  name: string;
  members: PageOf<Member>;
  cursor: string | undefined;
  /** Address of the workspace, which leads to sign-in. */
  signIn: string;
  /** The member who has just been added; null where nobody has. */
  invited: Member | null;
  /** Role of whoever looks at the page. */
  role: Role;
  me: string;
  nowMs: number;
  typed?: TypedMember;
  errors?: MemberErrors;
  refused?: string;
}

const ROLES = Object.entries(ROLE_LABEL) as [Role, string][];

const ROLE_MEANING = {
  owner: "everything, and who else is an owner",
  admin: "everything except owners",
  member: "reads everything but API keys and notifications",
} as const satisfies Record<Role, string>;

export function MembersView(props: Props) {
  const { base, name, members, cursor, signIn, invited, role, me, refused, nowMs } = props;
  const path = `${base}/settings/members`;
  return (
    <>
      <PageHead title="Members">Who can sign in to {name}, and what they may do there.</PageHead>
      {refused !== undefined && (
        <Notice tone="bad" title="Nothing was changed.">
          <p>{refused}</p>
        </Notice>
      )}
      {invited !== null && canManage(role) && <Invitation member={invited} name={name} signIn={signIn} />}
      <Panel flush>
        <Table
          caption="Members"
          head={["Email", "Role", "Member since", ...(canManage(role) ? [{ text: "Change", hidden: true }] : [])]}
        >
          {members.items.map((member) => (
            <tr>
              <th scope="row" class="who">
                {member.email} {member.email === me && <Badge>You</Badge>}
              </th>
              <td>
                <Badge tone={member.role === "member" ? "quiet" : "info"} title={ROLE_MEANING[member.role]}>
                  {ROLE_LABEL[member.role]}
                </Badge>
              </td>
              <td>
                <Time ms={Date.parse(member.createdAt)} nowMs={nowMs} />
              </td>
              {canManage(role) && (
                <td>
                  <MemberActions path={path} member={member} role={role} isMe={member.email === me} />
                </td>
              )}
            </tr>
          ))}
        </Table>
        <Pager path={path} query={cursor === undefined ? {} : { cursor }} next={members.next} />
      </Panel>
      {canManage(role) ? (
        <AddMember {...props} path={path} />
      ) : (
        <p class="quiet small">Only owners and admins can add, change and remove members.</p>
      )}
    </>
  );
}

function AddMember({ path, role, typed, errors = {} }: Props & { path: string }) {
  return (
    <Panel title="Add a member" id="add">
      <p class="quiet small">
        They can sign in from then on, with this email. No mail is sent: you get a text to send to them yourself.
      </p>
      <FormErrors errors={Object.values(errors)} />
      <form method="post" action={path} class="form" data-once>
        <TextField
          name="email"
          type="email"
          label="Email"
          hint="The address that they sign in with."
          error={errors.email}
          value={typed?.email ?? ""}
          autocomplete="off"
          required
        />
        <SelectField
          name="role"
          label="Role"
          error={errors.role}
          value={typed?.role ?? "member"}
          options={rolesFor(role, null).map((of) => [of, `${ROLE_LABEL[of]}: ${ROLE_MEANING[of]}`] as const)}
        />
        <div class="row">
          <button class="primary">Add member</button>
        </div>
      </form>
    </Panel>
  );
}

/** The roles that `by` may give to somebody whose role is `current`; null: to a new member. */
function rolesFor(by: Role, current: Role | null): Role[] {
  return ROLES.map(([role]) => role).filter((role) => canChangeMember(by, current, role));
}

function MemberActions({ path, member, role, isMe }: { path: string; member: Member; role: Role; isMe: boolean }) {
  const { email } = member;
  if (!canChangeMember(role, member.role, null)) return <></>;
  const id = `role-${email}`;
  return (
    <div class="member-actions">
      <Confirm label="Change role" of={email} action={`${path}/role`} submit="Save role" tone="primary">
        <input type="hidden" name="email" value={email} />
        <div class="field">
          <label for={id}>Role of {email}</label>
          <select id={id} name="role">
            {rolesFor(role, member.role).map((of) => (
              <option value={of} selected={of === member.role}>
                {ROLE_LABEL[of]}: {ROLE_MEANING[of]}
              </option>
            ))}
          </select>
        </div>
        {isMe && <p class="hint">This is you. What you give up, somebody else has to give you again.</p>}
      </Confirm>
      <Confirm
        label={isMe ? "Leave" : "Remove"}
        of={email}
        action={`${path}/remove`}
        submit={isMe ? "Leave for good" : "Remove"}
      >
        <input type="hidden" name="email" value={email} />
        <p>
          {isMe
            ? "This is you: you will not see this workspace any more, until somebody adds you again."
            : `${email} will not see this workspace any more, from their next click on.`}{" "}
          API keys and mapping rules that they have made stay.
        </p>
      </Confirm>
    </div>
  );
}

function Invitation({ member: { email, role }, name, signIn }: { member: Member; name: string; signIn: string }) {
  const text = `Hello,

you are ${ROLE_SAID[role]} of ${name} now. Sign in at

${signIn}

with your email ${email}.`;
  return (
    <Panel title={`Send this to ${email}`} id="invitation">
      <p class="quiet small">They are told nothing by the service itself.</p>
      <CopyText block id="invitation-text" label="invitation" text={text} />
    </Panel>
  );
}
