/** What somebody sees who is signed in, and not yet in a workspace. */
import { ROLE_LABEL } from "../copy.ts";
import type { Role } from "../../domain/keys/role.ts";

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

function SignOut() {
  return (
    <form method="post" action="/sign-out">
      <button>Sign out</button>
    </form>
  );
}
