/** The pages around sign-in. */
import { TextField } from "../views/fields.tsx";
import { SIGN_IN_COPY } from "./sign-in-copy.ts";
import { ROLE_LABEL } from "../copy.ts";
import type { Role } from "../../domain/keys/role.ts";

/** @param members to choose from; null: they are not told, and an email is to be typed. */
export function LocalSignIn({ members, to }: { members: readonly Choice[] | null; to: string }) {
  return (
    <>
      <h1>{SIGN_IN_COPY.title}</h1>
      <p class="quiet">{members?.length === 0 ? SIGN_IN_COPY.localEmpty : SIGN_IN_COPY.local}</p>
      <form method="post" action="/sign-in/local" class="stack">
        <input type="hidden" name="to" value={to} />
        {members === null ? (
          <>
            <TextField name="email" label="Email of a member" type="email" autocomplete="off" required />
            <button class="primary">{SIGN_IN_COPY.title}</button>
          </>
        ) : (
          <ul class="choices">
            {members.map(({ email, roles }) => (
              <li>
                <button name="email" value={email}>
                  {email}
                  <small>{roles}</small>
                </button>
              </li>
            ))}
          </ul>
        )}
      </form>
    </>
  );
}

interface Choice {
  email: string;
  roles: string;
}

/** Leads to the provider by a link, because the content security policy lets no form lead to another origin. */
export function OidcSignIn({ to }: { to: string }) {
  return (
    <>
      <h1>{SIGN_IN_COPY.title}</h1>
      <p class="quiet">{SIGN_IN_COPY.oidc}</p>
      <p>
        <a class="button primary" href={`/sign-in/oidc?${new URLSearchParams({ to }).toString()}`}>
          {SIGN_IN_COPY.oidcButton}
        </a>
      </p>
    </>
  );
}

export function Chooser({ workspaces }: { workspaces: readonly { slug: string; name: string; role: Role }[] }) {
  return (
    <>
      <h1>Your workspaces</h1>
      <ul class="choices">
        {workspaces.map(({ slug, name, role }) => (
          <li>
            <a href={`/w/${slug}`}>
              {name}
              <small>{ROLE_LABEL[role]}</small>
            </a>
          </li>
        ))}
      </ul>
      <SignOut />
    </>
  );
}

export function NoWorkspace({ email }: { email: string }) {
  return (
    <>
      <h1>You are a member of no workspace</h1>
      <p>
        You are signed in as {email}. Ask an owner or admin of your workspace to add this email as a member, then load
        this page again.
      </p>
      <SignOut />
    </>
  );
}

export function SigningOut({ address }: { address: string }) {
  return (
    <>
      <h1>Signing out …</h1>
      <p>
        If nothing happens, <a href={address}>sign out here</a>.
      </p>
    </>
  );
}

function SignOut() {
  return (
    <form method="post" action="/sign-out">
      <button>Sign out</button>
    </form>
  );
}
