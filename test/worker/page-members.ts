/** The people of a test's workspace, each with a browser of their own. */
import { Browser } from "./pages.ts";
import { newPlan, operator, TestWorkspace, type TestKey } from "./workspace.ts";

export interface Members {
  workspace: { id: string; slug: string };
  /** `/w/{slug}`. */
  home: string;
  owner: Browser;
  ownerEmail: string;
  admin: Browser;
  member: Browser;
  /** Owner of another workspace. */
  stranger: Browser;
}

/** A workspace without keys, with one member of each role. */
export async function newMembers(name = "Initech"): Promise<Members> {
  const [workspace, other] = [await newEmptyWorkspace(name), await newEmptyWorkspace("Other")];
  const email = (role: string): string => `${role}-${workspace.slug}@example.com`;
  for (const role of ["owner", "admin", "member"]) {
    await operator("POST", `/workspaces/${workspace.id}/members`, { email: email(role), role });
  }
  await operator("POST", `/workspaces/${other.id}/members`, { email: email("stranger"), role: "owner" });
  return {
    workspace,
    home: `/w/${workspace.slug}`,
    owner: new Browser(email("owner")),
    ownerEmail: email("owner"),
    admin: new Browser(email("admin")),
    member: new Browser(email("member")),
    stranger: new Browser(email("stranger")),
  };
}

async function newEmptyWorkspace(name: string): Promise<{ id: string; slug: string }> {
  const plan = await newPlan(1_000);
  const slug = `w-${crypto.randomUUID()}`;
  const { id } = await operator<{ id: string }>("POST", "/workspaces", { slug, name, plan });
  return { id, slug };
}

/** For calls with a key that a page has shown. */
export function callsOf({ workspace }: Members, key: string, secret?: string): TestWorkspace {
  const shown: TestKey = { id: "", key, ...(secret === undefined ? {} : { secret }) };
  return new TestWorkspace(workspace.id, shown);
}
