/** A workspace with a browser for each role, for the tests of its pages. */
import { Browser, sessionCookie } from "./pages.ts";
import { newWorkspace, type TestWorkspace } from "./workspace.ts";

/** A workspace with one member of each role. */
export interface Members {
  workspace: TestWorkspace;
  /** Of the page under test. */
  path: string;
  owner: Browser;
  admin: Browser;
  member: Browser;
  emails: Record<"owner" | "admin" | "member", string>;
}

/** @param page below the workspace's path. */
export async function withMembers(page: string, options: Parameters<typeof newWorkspace>[0] = {}): Promise<Members> {
  const workspace = await newWorkspace(options);
  const { slug } = await workspace.operator<{ slug: string }>("GET", "");
  const unique = crypto.randomUUID();
  const emails = { owner: `owner-${unique}@x.io`, admin: `admin-${unique}@x.io`, member: `member-${unique}@x.io` };
  for (const role of ["owner", "admin", "member"] as const) {
    await workspace.operator("POST", "/members", { email: emails[role], role });
  }
  const browser = (role: keyof typeof emails) => new Browser(emails[role]);
  const [owner, admin, member] = [browser("owner"), browser("admin"), browser("member")];
  return { workspace, path: `/w/${slug}/${page}`, owner, admin, member, emails };
}

/** What a page says, without its tags. */
export function textOf(html: string): string {
  return html
    .replace(/<[^>]*>/g, " ")
    .replace(/\s+/g, " ")
    .replace(/ ([.;,])/g, "$1");
}

/** What a browser of this person sends, for requests that Browser does not make. */
export function cookieOf(email: string): Promise<string> {
  return sessionCookie(email);
}
