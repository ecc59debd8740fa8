/** A workspace with its members, each with a separate browser, for the tests of the pages. */
import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { createHash } from "node:crypto";
import { sessions, controlDatabase } from "../../src/d1/database.ts";
import worker from "../../src/index.ts";
import { SESSION_MS } from "../../src/limits.ts";
import { readHtml, type Part } from "./html.ts";
import { sharedForFile } from "./shared-for-file.ts";
import { call, newWorkspace, type NewWorkspace, type TestWorkspace } from "./workspace.ts";

const HERE = "https://signals.example";

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

/** Signs in any person, also one without a membership, with the sign-in method that test/vitest.config.ts sets. */
async function sessionCookie(email: string): Promise<string> {
  const token = crypto.randomUUID();
  const nowMs = Date.now();
  await controlDatabase(env.DB)
    .insert(sessions)
    .values({
      tokenHash: createHash("sha256").update(token).digest("hex"),
      email,
      driver: "oidc",
      createdAt: new Date(nowMs).toISOString(),
      expiresAt: new Date(nowMs + SESSION_MS).toISOString(),
    });
  return `__Host-session=${token}`;
}

/** A network without failed sign-ins. Other tests in this runtime fail from other networks. */
export const OFFICE = { "cf-connecting-ip": "198.51.100.7" };

/** An answer to a browser, read to its end. */
export class Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;

  private constructor({ status, headers }: Response, body: string) {
    this.status = status;
    this.headers = headers;
    this.body = body;
  }

  /** The target of a redirection. */
  get location(): string {
    return this.headers.get("location") ?? "";
  }

  /** The name and value of the first cookie that the answer sets. */
  get cookie(): string {
    return this.headers.getSetCookie()[0]?.split(";")[0] ?? "";
  }

  static async of(response: Response | Promise<Response>): Promise<Answer> {
    const answered = await response;
    return new Answer(answered, await answered.text());
  }

  get page(): Part {
    return readHtml(this.body);
  }

  /** The value that the page's button `Copy` for this id copies. */
  copied(id: string): string {
    return this.page.only(`[id="${id}"]`).verbatim;
  }

  /** The visible text. */
  get text(): string {
    return this.page.text;
  }
}

/** The browser of one person: signed in, posts forms as a browser would, and does not follow redirects. */
export class Browser {
  readonly email: string;
  #cookie: Promise<string> | undefined;

  constructor(email: string) {
    this.email = email;
  }

  cookie(): Promise<string> {
    return (this.#cookie ??= sessionCookie(this.email));
  }

  /** @param more a cookie besides the session's. */
  async get(path: string, more = ""): Promise<Answer> {
    const cookie = more === "" ? await this.cookie() : `${await this.cookie()}; ${more}`;
    return Answer.of(call(path, { headers: { cookie, ...OFFICE }, redirect: "manual" }));
  }

  /** The page's HTML; the status must be 200. */
  async see(path: string): Promise<string> {
    const { status, body } = await this.get(path);
    if (status !== 200) throw new Error(`${path}: ${status} ${body}`);
    return body;
  }

  /** The page, parsed. */
  async read(path: string): Promise<Part> {
    return readHtml(await this.see(path));
  }

  /** All slices of a list, from this address to the last one. */
  async readAll(path: string): Promise<Part[]> {
    const pages = [await this.read(path)];
    for (let next = pages[0]?.next; next !== undefined; next = pages.at(-1)?.next) pages.push(await this.read(next));
    return pages;
  }

  async post(path: string, form: Record<string, string> | [string, string][] = {}): Promise<Answer> {
    const headers = {
      cookie: await this.cookie(),
      ...OFFICE,
      origin: HERE,
      "content-type": "application/x-www-form-urlencoded",
    };
    const body = new URLSearchParams(form).toString();
    return Answer.of(call(path, { method: "POST", headers, body, redirect: "manual" }));
  }
}

/** An answer of the Worker with replaced bindings. @param form of a POST; undefined: a GET. */
export async function visitWith(
  bindings: object,
  browser: Browser,
  path: string,
  form?: Record<string, string>,
): Promise<Answer> {
  const headers = { cookie: await browser.cookie(), origin: HERE };
  const init = form === undefined ? {} : { method: "POST", body: new URLSearchParams(form) };
  const request = new Request(HERE + path, { headers, redirect: "manual", ...init });
  return Answer.of(worker.fetch(request, { ...env, ...bindings } as unknown as Env, createExecutionContext()));
}

/** The id of the control that is focused when the page opens; undefined: none. */
export function focusedIn(html: string): string | undefined {
  return readHtml(html).all("[autofocus]")[0]?.attribute("id");
}
