/** The forms of the members' page as they are typed. Pure. */
import { isPlausibleEmail } from "../domain/identity.ts";
import type { Role } from "../domain/role.ts";
import { ROLE_LABEL } from "./copy.ts";

export interface TypedMember {
  email: string;
  role: Role;
}

export interface MemberErrors {
  email?: string;
  role?: string;
}

/** Lower case, as emails are stored. Without a role: a member, who can change nothing. */
export function readMemberForm(form: FormData): TypedMember {
  const role = textOf(form, "role");
  return { email: textOf(form, "email").trim().toLowerCase(), role: isRole(role) ? role : "member" };
}

export function checkMember({ email }: TypedMember): MemberErrors {
  if (email === "") return { email: "Type the email that they sign in with." };
  return isPlausibleEmail(email) ? {} : { email: "This is not an email address, such as jane@example.com." };
}

function isRole(text: string): text is Role {
  return Object.hasOwn(ROLE_LABEL, text);
}

function textOf(form: FormData, name: string): string {
  const value = form.get(name);
  return typeof value === "string" ? value : "";
}
