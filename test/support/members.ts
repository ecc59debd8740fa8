/** A workspace with its people, each with a browser of their own: for the tests of the pages. */
import { Browser } from "./pages.ts";
import { newWorkspace, type NewWorkspace, type TestWorkspace } from "./workspace.ts";

export interface Members {
  workspace: TestWorkspace;
  slug: string;
  /** `/w/{slug}`. */
  home: string;
  owner: Browser;
  admin: Browser;
  member: Browser;
  /** Owner of another workspace. */
  stranger: Browser;
}

/** A workspace with one member of each role. */
export async function newMembers(options: NewWorkspace = {}): Promise<Members> {
  const [workspace, other] = [await newWorkspace(options), await newWorkspace({ key: null })];
  const { slug } = await workspace.operator<{ slug: string }>("GET", "");
  const join = async (where: TestWorkspace, name: string, role: string): Promise<Browser> => {
    const email = `${name}-${slug}@example.com`;
    await where.operator("POST", "/members", { email, role });
    return new Browser(email);
  };
  return {
    workspace,
    slug,
    home: `/w/${slug}`,
    owner: await join(workspace, "owner", "owner"),
    admin: await join(workspace, "admin", "admin"),
    member: await join(workspace, "member", "member"),
    stranger: await join(other, "stranger", "owner"),
  };
}
