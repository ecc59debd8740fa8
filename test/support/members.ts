/** A workspace with its members, each with a separate browser, for the tests of the pages. */
import { Browser } from "./pages.ts";
import { sharedForFile } from "./shared-for-file.ts";
import { newWorkspace, type NewWorkspace, type TestWorkspace } from "./workspace.ts";

export interface Members {
  workspace: TestWorkspace;
  slug: string;
  /** `/w/{slug}`. */
  home: string;
  owner: Browser;
  admin: Browser;
  member: Browser;
  /** Owner of another workspace, the same for all tests of a file. */
  stranger: Browser;
}

/** A workspace with one member of each role. */
export async function newMembers(options: NewWorkspace = {}): Promise<Members> {
  const workspace = await newWorkspace(options);
  const { slug } = await workspace.operator<{ slug: string }>("GET", "");
  const join = (role: string): Promise<Browser> => newMember(workspace, `${role}-${slug}@example.com`, role);
  return {
    workspace,
    slug,
    home: `/w/${slug}`,
    owner: await join("owner"),
    admin: await join("admin"),
    member: await join("member"),
    stranger: await sharedForFile("stranger", async () =>
      newMember(await newWorkspace({ key: null }), `stranger-${slug}@example.com`, "owner"),
    ),
  };
}

async function newMember(workspace: TestWorkspace, email: string, role: string): Promise<Browser> {
  await workspace.operator("POST", "/members", { email, role });
  return new Browser(email);
}
