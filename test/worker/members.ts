/** The people of a workspace, each with a browser. */
import { Browser } from "./pages.ts";
import type { TestWorkspace } from "./workspace.ts";

export interface Members {
  /** `/w/{slug}` */
  base: string;
  owner: Browser;
  admin: Browser;
  member: Browser;
  /** Of no workspace. */
  stranger: Browser;
}

export async function membersOf(workspace: TestWorkspace): Promise<Members> {
  const { slug } = await workspace.operator<{ slug: string }>("GET", "");
  const browserOf = async (role: string) => {
    const email = `${role}-${slug}@example.com`;
    await workspace.operator("POST", "/members", { email, role });
    return new Browser(email);
  };
  return {
    base: `/w/${slug}`,
    owner: await browserOf("owner"),
    admin: await browserOf("admin"),
    member: await browserOf("member"),
    stranger: new Browser(`stranger-${slug}@example.com`),
  };
}
