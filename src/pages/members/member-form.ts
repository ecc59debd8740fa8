/** The forms of the members' page as they are typed. Pure. */
import { isPlausibleEmail, memberEmail } from "../../domain/signal/identity.ts";
import type { Role } from "../../domain/keys/role.ts";
import { ROLE_LABEL } from "../copy.ts";
import { formText } from "../form-text.ts";

export interface TypedMember {
  email: string;
  role: Role;
}

export interface MemberErrors {
  email?: string;
  role?: string;
}

/** The email is in lower case, as stored, unless it cannot be one. No role is read as `member`, who can change nothing. */
export function readMemberForm(form: FormData): TypedMember {
  const role = formText(form, "role");
  const typed = formText(form, "email").trim();
  return { email: memberEmail(typed) ?? typed, role: isRole(role) ? role : "member" };
}

export function checkMember({ email }: TypedMember): MemberErrors {
  if (email === "") return { email: "Type the email that they sign in with." };
  if (memberEmail(email) !== undefined) return {};
  const isAddress = isPlausibleEmail(email);
  return {
    email: isAddress
      ? "It has characters that are easily taken for others, such as invisible ones or letters of several alphabets. Type it with plain ones."
      : "This is not an email address, such as jane@example.com.",
  };
}

export function namesRole(form: FormData): boolean {
  return isRole(formText(form, "role"));
}

function isRole(text: string): text is Role {
  return Object.hasOwn(ROLE_LABEL, text);
}
