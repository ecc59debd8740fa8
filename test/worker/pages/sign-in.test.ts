/** Spec §1, §5.6, design §10: access to the workspace pages: who gets it, how, and for how long. */
import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { controlDatabase } from "../../../src/control/database.ts";
import { findSignedIn, openSession, EXPIRED_SESSIONS_CLEARED } from "../../../src/control/sessions.ts";
import { AUTH_FAILURES_PER_MINUTE } from "../../../src/http/auth-failures.ts";
import worker from "../../../src/index.ts";
import { PAGE_FORM_MAX_BYTES, PERSON_MAX_CHANGES_A_DAY, SESSION_MS } from "../../../src/limits.ts";
import { newId } from "../../../src/platform/ids.ts";
import { pageRoutes } from "../../../src/pages/page-routes.tsx";
import { newMembers, Browser, OFFICE } from "../../support/members.ts";
import { recordD1 } from "../../support/statements.ts";
import { FORM_ROUTES } from "../../support/access.ts";
import { call, operator } from "../../support/workspace.ts";

afterEach(() => vi.useRealTimers());

const HERE = "https://signals.example";
const FORM = { "content-type": "application/x-www-form-urlencoded", ...OFFICE };
const PAGE = { redirect: "manual" } as const;

/** Calls the Worker with another configuration, at any address. */
function ask(signIn: string, url: string, init: RequestInit = {}, issuer = ""): Promise<Response> {
  const request = new Request(url, { ...PAGE, ...init });
  const configured = { ...env, SIGN_IN: signIn, OIDC_ISSUER: issuer };
  return Promise.resolve(worker.fetch(request, configured, createExecutionContext()));
}

/** The name and value of the cookie that an answer sets. */
function cookieOf(response: Response): string {
  return response.headers.getSetCookie()[0]?.split(";")[0] ?? "";
}

function sessionsOf(email: string) {
  return env.DB.prepare("SELECT * FROM sessions WHERE email = ?")
    .bind(email)
    .all()
    .then(({ results }) => results);
}

describe("access", () => {
  test("every page requires sign-in first, and then redirects back", async () => {
    const { slug } = await newMembers();
    const answer = await call(`/w/${slug}/usage?period=1&x=a%26b`, PAGE);
    expect(answer.status).toBe(303);
    const to = new URL(answer.headers.get("location") ?? "", HERE).searchParams.get("to");
    expect(to).toBe(`/w/${slug}/usage?period=1&x=a%26b`);
  });

  test.each([
    ["a script", { headers: { "sec-fetch-mode": "cors" } }],
    ["a form that comes after the session's end", { method: "POST", headers: { ...FORM, origin: HERE }, body: "a=b" }],
  ])("%s without a session gets 401", async (_, init) => {
    expect((await call("/w/acme/usage", { ...PAGE, ...init })).status).toBe(401);
  });

  test("a workspace of other people and a missing one look the same to a person who is not a member", async () => {
    const [team, otherTeam] = [await newMembers(), await newMembers()];
    for (const slug of [otherTeam.slug, "nowhere", otherTeam.workspace.id, team.slug.toUpperCase()]) {
      const answer = await team.owner.get(`/w/${slug}/usage`);
      expect(answer.status).toBe(404);
      expect(await answer.text()).toContain("There is no such page");
    }
    expect((await new Browser("nobody@nowhere.example").get(`/w/${team.slug}/usage`)).status).toBe(404);
    const post = await team.owner.post(`/w/${otherTeam.slug}/settings/members`, { email: "x@y.example" });
    expect(post.status).toBe(404);
  });

  test("§1 the sidebar names the API keys only to owners and admins", async () => {
    const { home, owner, admin, member } = await newMembers();
    const seen = async (browser: Browser) => (await browser.see(`${home}/usage`)).includes("settings/api-keys");
    expect([await seen(owner), await seen(admin), await seen(member)]).toEqual([true, true, false]);
  });

  test("the first page is the only workspace, or a list to choose from, or says who can help", async () => {
    const [first, two] = [await newMembers(), await newMembers()];
    expect((await call("/", PAGE)).headers.get("location")).toBe("/w/");
    expect((await first.admin.get("/w/")).headers.get("location")).toBe(`/w/${first.slug}`);

    await operator("POST", `/workspaces/${two.workspace.id}/members`, { email: first.admin.email, role: "member" });
    const { targets } = await first.admin.read("/w/");
    for (const { slug } of [first, two]) expect(targets).toContain(`/w/${slug}`);
    expect((await first.admin.read(`/w/${two.slug}/usage`)).targets).toContain(`/w/${first.slug}`);

    const nobody = await new Browser("nobody@nowhere.example").get("/w/");
    expect(nobody.status).toBe(403);
    expect(await nobody.text()).toContain("member of no workspace");
  });
});

describe("the duration of access", () => {
  test("a changed role or membership takes effect at once", async () => {
    const { workspace, slug, admin } = await newMembers();
    const sees = async () => (await admin.see(`/w/${slug}/usage`)).includes("settings/api-keys");
    expect(await sees()).toBe(true);
    await operator("PATCH", `/workspaces/${workspace.id}/members/${admin.email}`, { role: "member" });
    expect(await sees()).toBe(false);
    await operator("DELETE", `/workspaces/${workspace.id}/members/${admin.email}`);
    expect((await admin.get(`/w/${slug}/usage`)).status).not.toBe(200);
  });

  test("a person removed from the last workspace is signed out; removed from another one, the session stays", async () => {
    const [first, two] = [await newMembers(), await newMembers()];
    const email = first.member.email;
    await operator("POST", `/workspaces/${two.workspace.id}/members`, { email, role: "member" });
    await first.member.see(`/w/${first.slug}/usage`);

    await operator("DELETE", `/workspaces/${first.workspace.id}/members/${email}`);
    expect((await first.member.get(`/w/${first.slug}/usage`)).status).toBe(404);
    await first.member.see(`/w/${two.slug}/usage`);

    await operator("DELETE", `/workspaces/${two.workspace.id}/members/${email}`);
    expect(await sessionsOf(email)).toEqual([]);
    expect((await first.member.get(`/w/${two.slug}/usage`)).status).toBe(303);
  });

  test("the last owner, who cannot be removed, stays signed in", async () => {
    const { workspace, slug, owner } = await newMembers();
    await owner.see(`/w/${slug}/usage`);
    await expect(operator("DELETE", `/workspaces/${workspace.id}/members/${owner.email}`)).rejects.toThrow("409");
    await owner.see(`/w/${slug}/usage`);
  });

  test("sign-out ends the session itself, not only the cookie; other sessions stay", async () => {
    const { slug, owner } = await newMembers();
    const elsewhere = new Browser(owner.email);
    await elsewhere.see(`/w/${slug}/usage`);
    const out = await owner.post("/sign-out");
    expect([out.status, out.headers.get("location")]).toEqual([303, "/sign-in"]);
    expect(out.headers.getSetCookie()[0]).toMatch(/^__Host-session=; Max-Age=0; Path=\/;.* Secure/);
    expect((await owner.get(`/w/${slug}/usage`)).status).toBe(303);
    await elsewhere.see(`/w/${slug}/usage`);
  });

  test("a session ends after 12 hours, to the millisecond, regardless of activity", async () => {
    const { slug, owner } = await newMembers();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
    const startedMs = Date.now();
    await owner.cookie();
    vi.setSystemTime(startedMs + SESSION_MS - 1);
    await owner.see(`/w/${slug}/usage`);
    vi.setSystemTime(startedMs + SESSION_MS);
    expect((await owner.get(`/w/${slug}/usage`)).status).toBe(303);
  });

  test("a session of one way to sign in is invalid under another", async () => {
    const { slug, owner } = await newMembers();
    const cookie = await owner.cookie();
    for (const [signIn, status] of [
      ["oidc", 200],
      ["access", 401],
      ["", 404],
      ["none", 404],
    ] as const) {
      expect((await ask(signIn, `${HERE}/w/${slug}/usage`, { headers: { cookie } })).status).toBe(status);
    }
    // On loopback the cookie without the prefix is accepted.
    const token = cookie.replace("__Host-", "");
    expect((await ask("oidc", `http://localhost/w/${slug}/usage`, { headers: { cookie: token } })).status).toBe(200);
    expect((await ask("local", `http://localhost/w/${slug}/usage`, { headers: { cookie: token } })).status).toBe(303);
  });

  test("expired sessions are cleared away by the next sign-in, a bounded number at a time", async () => {
    const { slug, owner } = await newMembers();
    const db = controlDatabase(env.DB);
    const longAgoMs = Date.UTC(2026, 0, 1);
    const email = owner.email;
    for (let n = 0; n <= EXPIRED_SESSIONS_CLEARED; n++) {
      await openSession(db, { tokenHash: `${slug}-${n}`, email, driver: "oidc" }, longAgoMs);
    }
    expect(await sessionsOf(email)).toHaveLength(EXPIRED_SESSIONS_CLEARED + 1);
    await openSession(db, { tokenHash: `${slug}-new`, email, driver: "oidc" }, Date.now());
    expect(await sessionsOf(email)).toHaveLength(2);
  });

  test("the database holds no token, and no statement of a request scans a table", async () => {
    const { slug, owner } = await newMembers();
    const token = (await owner.cookie()).split("=")[1] ?? "";
    expect(JSON.stringify(await sessionsOf(owner.email))).not.toContain(token);

    const { d1, queries, plans } = recordD1(env.DB);
    await findSignedIn(controlDatabase(d1), { tokenHash: "x", driver: "oidc" }, slug, Date.now());
    expect(queries()).toHaveLength(3);
    const scans = (await plans()).map(({ detail }) => detail).filter((detail) => detail.startsWith("SCAN"));
    expect(scans.filter((detail) => !/^SCAN (CONSTANT ROW|\(subquery)/.test(detail))).toEqual([]);
  });
});

describe("local sign-in", () => {
  const signIn = (origin: string, form: Record<string, string>, cookie = "") =>
    ask("local", `${origin}/sign-in/local`, {
      method: "POST",
      headers: { ...FORM, origin, cookie },
      body: new URLSearchParams(form).toString(),
    });

  test.each(["http://localhost", "http://localhost:8787", "http://127.0.0.1:8787", "http://[::1]:8787"])(
    "at %s the members are listed, and one click signs in as any of them",
    async (origin) => {
      const { slug, member } = await newMembers();
      const email = member.email;
      const browser = { headers: { "sec-fetch-site": "none" } };
      const list = await ask("local", `${origin}/sign-in?to=/w/${slug}/usage`, browser);
      expect(list.status).toBe(200);
      expect(await list.text()).toContain(email);

      const signedIn = await signIn(origin, { email, to: `/w/${slug}/usage` });
      expect([signedIn.status, signedIn.headers.get("location")]).toEqual([303, `/w/${slug}/usage`]);
      const page = await ask("local", `${origin}/w/${slug}/usage`, { headers: { cookie: cookieOf(signedIn) } });
      expect(page.status).toBe(200);
      expect(await page.text()).toContain(email);
    },
  );

  test.each([
    "https://signals.example",
    "http://localhost.evil.example",
    "http://localhost.:8787",
    "http://evil.example:8787",
    "http://127.0.0.1.evil.example",
    "http://localhost@evil.example",
    "http://0.0.0.0:8787",
    "http://192.168.1.2:8787",
    "http://[::ffff:127.0.0.1]:8787",
    "http://[::]:8787",
  ])("at %s nothing is answered: no list, no sign-in, no page, not even with a session", async (origin) => {
    const { slug, owner } = await newMembers();
    const local = await signIn("http://localhost", { email: owner.email });
    const [name = "", token = ""] = cookieOf(local).split("=");
    const cookie = `${name}=${token}; __Host-${name}=${token}`;
    expect((await ask("local", `http://localhost/w/${slug}/usage`, { headers: { cookie } })).status).toBe(200);

    for (const path of ["/sign-in", "/w/", `/w/${slug}/usage`]) {
      const answer = await ask("local", origin + path, { headers: { cookie } });
      expect([path, answer.status]).toEqual([path, 403]);
      expect(await answer.text()).not.toContain(slug);
    }
    const posted = await signIn(new URL(origin).origin, { email: owner.email });
    expect([posted.status, posted.headers.getSetCookie()]).toEqual([403, []]);
    expect(await sessionsOf(owner.email)).toHaveLength(1);
  });

  test.each([
    ["GET", "/sign-in"],
    ["GET", "/w/"],
    ["GET", "/operator/workspaces"],
    ["POST", `/api/signal-staging/webhook/sk_${"a".repeat(40)}`],
    ["GET", "/docs"],
    ["GET", "/openapi.json"],
    ["GET", "/healthz"],
    ["GET", "/assets/none.css"],
    ["GET", "/nowhere"],
  ])(
    "%s %s refuses a Host or an Origin that is not loopback, with a right operator token too",
    async (method, path) => {
      const authorization = `Bearer ${env.OPERATOR_TOKEN}`;
      const answer = async (headers: Record<string, string>) =>
        ask("local", `http://localhost:8787${path}`, { method, headers: { authorization, ...headers } });
      for (const headers of [
        { host: "evil.example:8787" },
        { host: "localhost.evil.example" },
        { origin: "http://evil.example:8787" },
        { origin: "null" },
        { host: "localhost:8787", origin: "https://localhost.evil.example" },
      ]) {
        const refused = await answer(headers);
        expect([headers, refused.status]).toEqual([headers, 403]);
        expect(await refused.json()).toMatchObject({ code: "loopback_only" });
      }
      const taken = await answer({ host: "localhost:8787", origin: "http://127.0.0.1:3000" });
      expect(await taken.text()).not.toContain("loopback_only");
      // The other sign-in methods have their own protection.
      const elsewhere = await ask("oidc", `http://localhost:8787${path}`, { method, headers: { host: "a.example" } });
      expect(await elsewhere.text()).not.toContain("loopback_only");
    },
  );

  test("only a browser that states the request's origin gets the list of members", async () => {
    const { member } = await newMembers();
    const unsaid = await ask("local", "http://localhost:8787/sign-in");
    expect(unsaid.status).toBe(200);
    const html = await unsaid.text();
    expect(html).toContain("Email of a member");
    expect(html).not.toContain(member.email);
    expect(html).not.toContain("@example.com");
  });

  test.each(["access", "oidc", "", "LOCAL", "local "])(
    "with SIGN_IN %j it does not exist, on this machine neither",
    async (on) => {
      const { slug, owner } = await newMembers();
      const origin = "http://localhost";
      const list = await ask(on, `${origin}/sign-in`);
      expect(await list.text()).not.toContain(slug);
      const posted = await ask(on, `${origin}/sign-in/local`, {
        method: "POST",
        headers: { ...FORM, origin },
        body: `email=${owner.email}`,
      });
      expect(posted.status).toBe(404);
      expect(await sessionsOf(owner.email)).toEqual([]);
    },
  );

  test("a person who is not a member is told so and gets no session", async () => {
    const email = "stranger@nowhere.example";
    const answer = await signIn("http://localhost", { email });
    expect([answer.status, await sessionsOf(email)]).toEqual([403, []]);
  });

  test("each sign-in opens a new session and ends the browser's last one; a token set by another site is never adopted", async () => {
    const { slug, owner } = await newMembers();
    const email = owner.email;
    const planted = "session=planted-by-somebody";
    const first = cookieOf(await signIn("http://localhost", { email }, planted));
    expect(first).toMatch(/^session=[\w-]{43}$/);
    const second = cookieOf(await signIn("http://localhost", { email }, first));
    expect(second).not.toBe(first);
    const status = async (cookie: string) =>
      (await ask("local", `http://localhost/w/${slug}/usage`, { headers: { cookie } })).status;
    expect([await status(planted), await status(first), await status(second)]).toEqual([303, 303, 200]);
  });

  test.each(["https://evil.example/", "//evil.example", "/\\evil.example", "/operator/plans"])(
    "it leads to no other place: %s",
    async (to) => {
      const { owner } = await newMembers();
      const answer = await signIn("http://localhost", { email: owner.email, to });
      expect(answer.headers.get("location")).toBe("/w/");
      expect(await (await ask("local", `http://localhost/sign-in?to=${encodeURIComponent(to)}`)).text()).not.toContain(
        to,
      );
    },
  );

  test("without a valid session, no answer contains a key from the address", async () => {
    const { slug } = await newMembers();
    const address = `http://localhost/w/${slug}/people/sk_${"aB3".repeat(13)}x`;
    for (const init of [{}, { method: "POST", headers: { origin: "http://localhost" }, body: "note=typed" }]) {
      // oxlint-disable-next-line no-await-in-loop
      const answer = await ask("local", address, init);
      // oxlint-disable-next-line no-await-in-loop
      expect(`${[...answer.headers].join()} ${await answer.text()}`).not.toContain("sk_");
    }
  });
});

describe("cookies", () => {
  const local = async (origin: string) => {
    const { owner } = await newMembers();
    const init = { method: "POST", headers: { ...FORM, origin }, body: `email=${owner.email}` };
    return (await ask("local", `${origin}/sign-in/local`, init)).headers.getSetCookie();
  };

  test("over HTTPS: __Host-, Secure, HttpOnly, SameSite=Lax, for the whole host and no other", async () => {
    expect(await local("https://localhost")).toEqual([
      expect.stringMatching(/^__Host-session=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Lax$/),
    ]);
  });

  test("over HTTP, which means on this machine: HttpOnly, SameSite=Lax, without Secure and the prefix", async () => {
    expect(await local("http://localhost")).toEqual([
      expect.stringMatching(/^session=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Lax$/),
    ]);
  });

  test("over HTTPS a cookie without the prefix, which a neighbouring host could set, is ignored", async () => {
    const { slug, owner } = await newMembers();
    const cookie = (await owner.cookie()).replace("__Host-", "");
    expect((await call(`/w/${slug}/usage`, { ...PAGE, headers: { cookie } })).status).toBe(303);
  });
});

// Against a provider: test/sign-in/oidc.test.ts.
describe("OpenID Connect", () => {
  test.each(["", "not an address", "http://issuer.example"])(
    "an issuer that is none is asked nothing: %j",
    async (issuer) => {
      const answer = await ask("oidc", `${HERE}/sign-in/oidc`, {}, issuer);
      expect([answer.status, answer.headers.getSetCookie()]).toEqual([503, []]);
    },
  );

  test.each(["access", "local", ""])("with SIGN_IN %j it does not exist", async (on) => {
    for (const path of ["/sign-in/oidc", "/sign-in/oidc/callback?code=x&state=y"]) {
      expect((await ask(on, `http://localhost${path}`)).status).toBe(404);
    }
  });
});

/** 1 for a parameter that takes only numbers. */
const valueFor = (parameter: string) => (parameter.includes("{[1-9]") ? "1" : "x");

/** Every path and method of the pages, with a value for each parameter. */
function routes(slug: string): { method: string; path: string }[] {
  const all = pageRoutes.routes
    .filter(({ method, path }) => method !== "ALL" && !path.startsWith("/assets/"))
    .map(({ method, path }) => ({ method, path: path.replace(":slug", slug).replaceAll(/:[^/]+/g, valueFor) }));
  return [...new Map(all.map((route) => [`${route.method} ${route.path}`, route])).values()];
}

describe("on every page", () => {
  test("the list of routes that take a form is complete", () => {
    const posts = pageRoutes.routes.filter(({ method }) => method === "POST").map(({ path }) => path);
    expect([...new Set(posts)].toSorted()).toEqual(FORM_ROUTES.toSorted());
  });

  test("refuses every cross-site request: a form, a script's JSON, and one without an origin", async () => {
    const { slug, owner } = await newMembers();
    const cookie = await owner.cookie();
    const posts = routes(slug).filter(({ method }) => method !== "GET");
    expect(posts.map(({ path }) => path)).toEqual(expect.arrayContaining(["/sign-in/local", "/sign-out"]));
    posts.push({ method: "POST", path: `/w/${slug}/anything` });
    const foreign: [Record<string, string>, number][] = [
      [{ ...FORM, origin: "https://evil.example" }, 403],
      [{ ...FORM, origin: "http://signals.example" }, 403],
      [{ ...FORM, origin: "null" }, 403],
      [{ ...FORM, origin: "https://evil.example", "sec-fetch-site": "cross-site" }, 403],
      [{ ...FORM, origin: "https://x.signals.example", "sec-fetch-site": "same-site" }, 403],
      [FORM, 403],
      [{ "content-type": "multipart/form-data; boundary=x", origin: "https://evil.example" }, 403],
      [{}, 403],
      [{ "content-type": "text/plain", origin: "https://evil.example" }, 415],
      [{ "content-type": "application/json", origin: "https://evil.example" }, 415],
      [{ "content-type": "application/json", origin: HERE }, 415],
    ];
    for (const { method, path } of posts) {
      for (const [headers, status] of foreign) {
        // Without a body the runtime sets no content type.
        const answer = await call(path, { ...PAGE, method, headers: { ...headers, cookie } });
        expect([method, path, headers, answer.status]).toEqual([method, path, headers, status]);
      }
    }
    // Still signed in.
    await owner.see(`/w/${slug}/usage`);
  });

  test("each route that reads a form answers 400 to an unreadable one", async () => {
    const { slug, owner } = await newMembers();
    const cookie = await owner.cookie();
    const withoutForm =
      /(sign-out|enable|disable|apply|pause|resume|test|again|deactivate|release|notifications\/[^/]+\/delete)$/;
    const posts = routes(slug).filter(({ method, path }) => method === "POST" && path.startsWith("/w/"));
    expect(posts.length).toBeGreaterThan(20);
    for (const { path } of posts.filter((route) => !withoutForm.test(route.path))) {
      const sent = (type: string, body: string) =>
        call(path, {
          ...PAGE,
          method: "POST",
          headers: { origin: HERE, cookie, ...OFFICE, "content-type": type },
          body,
        });
      expect([path, (await sent("multipart/form-data", "x")).status]).toEqual([path, 400]);
      expect([path, (await sent("multipart/form-data; boundary=x", "--x\r\nx")).status]).toEqual([path, 400]);
    }
  });

  test("the pages answer other methods than GET, HEAD and POST with 405", async () => {
    const { slug, owner } = await newMembers();
    const cookie = await owner.cookie();
    for (const method of ["PUT", "PATCH", "DELETE", "OPTIONS"]) {
      for (const path of ["/sign-in", `/w/${slug}/usage`]) {
        const answer = await call(path, { ...PAGE, method, headers: { ...FORM, origin: HERE, cookie } });
        expect([method, answer.status, answer.headers.get("allow")]).toEqual([method, 405, "GET, HEAD, POST"]);
      }
    }
  });

  test("visitors, strangers and read-only members cannot change anything", async () => {
    const team = await newMembers();
    const pagesOf = routes(team.slug).filter(({ path }) => path.startsWith(`/w/${team.slug}`));
    expect(pagesOf.length).toBeGreaterThan(10);
    for (const { method, path } of pagesOf) {
      const isPost = method !== "GET";
      const headers = { ...FORM, origin: HERE };
      const nobody = await call(path, { ...PAGE, method, ...(isPost && { headers, body: "" }) });
      expect([method, path, nobody.status]).toEqual([method, path, isPost ? 401 : 303]);
      const refused = await (isPost ? team.stranger.post(path) : team.stranger.get(path));
      expect([method, path, refused.status]).toEqual([method, path, 404]);
      // Forms that affect only the person who sends them.
      const isOwn = path.endsWith("/dismiss");
      if (isPost) expect([path, (await team.member.post(path)).status]).toEqual([path, isOwn ? 303 : 403]);
    }
  });

  test("another site cannot start an export in a member's name; the pages and a typed address can", async () => {
    const { slug, owner, workspace } = await newMembers();
    const path = `/w/${slug}/people/export?records=people&format=csv`;
    const exporting = async (headers: Record<string, string>) => {
      const answer = await call(path, { ...PAGE, headers: { ...headers, cookie: await owner.cookie() } });
      await answer.body?.cancel();
      return answer.status;
    };
    for (const site of ["cross-site", "same-site"]) expect(await exporting({ "sec-fetch-site": site })).toBe(403);
    const select = "SELECT count(*) AS n FROM audit_log WHERE workspace_id = ? AND action = 'data.exported'";
    const exports = () => env.DB.prepare(select).bind(workspace.id).first<number>("n");
    expect(await exports()).toBe(0);
    for (const site of ["same-origin", "none"]) expect(await exporting({ "sec-fetch-site": site })).toBe(200);
    expect([await exporting({}), await exports()]).toEqual([200, 3]);
  });

  test("no cache may store personal data, and no other site may frame the pages", async () => {
    const { slug, owner } = await newMembers();
    const gets = routes(slug).filter(({ method }) => method === "GET");
    expect(gets.length).toBeGreaterThan(10);
    for (const { path } of [...gets, { path: "/w/nowhere/usage" }, { path: `/w/${slug}/nowhere` }]) {
      const answer = await owner.get(path);
      const { headers } = answer;
      expect([path, headers.get("cache-control"), headers.get("x-frame-options")]).toEqual([path, "no-store", "DENY"]);
      expect(headers.get("content-security-policy")?.replaceAll(/'nonce-[^']{20,}'/g, "NONCE")).toBe(
        "default-src 'none'; style-src NONCE; script-src NONCE; img-src 'self' data:; connect-src 'self'; " +
          "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
      );
      await answer.body?.cancel();
    }
  });

  test("a form larger than any of ours is not read", async () => {
    const { slug, owner } = await newMembers();
    const post = owner.post(`/w/${slug}/settings/members`, { email: "x".repeat(PAGE_FORM_MAX_BYTES) });
    expect((await post).status).toBe(413);
  });
});

describe("attempts are limited", () => {
  test("invented sessions from one network are refused before they reach the database; a valid session is not", async () => {
    const { home, owner } = await newMembers();
    const address = { "cf-connecting-ip": "192.0.2.77" };
    const see = (cookie: string) => call(`${home}/usage`, { ...PAGE, headers: { cookie, ...address } });
    const good = await owner.cookie();
    expect((await see(good)).status).toBe(200);
    let refused: Response | undefined;
    // At most two windows, because the first may end during the test.
    for (let n = 0; n < 2 * AUTH_FAILURES_PER_MINUTE + 1 && refused === undefined; n++) {
      const answer = await see(`__Host-session=invented${n}`);
      if (answer.status === 429) refused = answer;
      else expect(answer.status).toBe(303);
    }
    expect(refused?.headers.get("retry-after")).toBe("60");
    expect(await refused?.text()).toContain("Too many attempts");

    // A penalised network has 50 look-ups a second; the burst allows no more.
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
    const { d1, queries } = recordD1(env.DB);
    for (let n = 0; n < 100; n++) {
      const request = new Request(`${HERE}${home}/usage`, {
        headers: { cookie: `__Host-session=more${n}`, ...address },
      });
      await worker.fetch(request, { ...env, DB: d1 }, createExecutionContext());
    }
    expect(queries.length).toBeLessThanOrEqual(50);
    // This isolate caches the member's session, so that it does not wait.
    expect((await see(good)).status).toBe(200);
    vi.useRealTimers();
  });

  test("sign-out is limited by network, because an invented session costs a look-up", async () => {
    const signOut = (address: string) =>
      call("/sign-out", {
        ...PAGE,
        method: "POST",
        headers: { ...FORM, origin: HERE, cookie: "__Host-session=invented", "cf-connecting-ip": address },
      });
    const statuses: number[] = [];
    for (let n = 0; n < 121 && statuses.at(-1) !== 429; n++) statuses.push((await signOut("192.0.2.78")).status);
    expect(statuses.at(-1)).toBe(429);
    expect((await signOut("192.0.2.79")).status).toBe(303);
  });

  test("an address has a limit of attempts per minute; other addresses are not affected", async () => {
    const begin = (address: string) => call("/sign-in/oidc", { headers: { "cf-connecting-ip": address } });
    let refused: Response | undefined;
    // At most two windows, because the first may end during the test.
    for (let n = 0; n < 121 && refused === undefined; n++) {
      const answer = await begin("192.0.2.1");
      if (answer.status === 429) refused = answer;
    }
    expect(await refused?.text()).toContain("Too many attempts");
    expect((await begin("192.0.2.2")).status).not.toBe(429);
  });

  test("addresses of one IPv6 network share a limit", async () => {
    const begin = (address: string) => call("/sign-in/oidc", { headers: { "cf-connecting-ip": address } });
    const answers: number[] = [];
    // At most two windows, because the first may end during the test.
    for (let n = 0; n < 121 && answers.at(-1) !== 429; n++) {
      const { status } = await begin(`2001:db8:7:7::${n.toString(16)}`);
      answers.push(status);
    }
    expect(answers.at(-1)).toBe(429);
    expect((await begin("2001:db8:7:8::1")).status).not.toBe(429);
  });

  test("a person has a limit of forms per minute over all sessions; other people are not affected", async () => {
    const { home, owner, admin } = await newMembers();
    const sessions = [owner, new Browser(owner.email)];
    const back = { what: "none", state: "x", back: `${home}/usage` };
    let refused: Response | undefined;
    for (let n = 0; n < 241 && refused === undefined; n++) {
      const answer = await sessions[n % 2]?.post(`${home}/dismiss`, back);
      if (answer?.status === 429) refused = answer;
    }
    expect(refused?.headers.get("retry-after")).toBe("60");
    expect(await refused?.text()).toContain("Too many changes at a time");
    expect((await admin.post(`${home}/dismiss`, back)).status).toBe(303);
  });

  test("a person has a limit of changes in 24 hours; other people and the next day are not affected", async () => {
    const { home, owner, admin, workspace } = await newMembers();
    const insert = (count: number, atMs: number) =>
      env.DB.prepare(
        `INSERT INTO audit_log (id, workspace_id, at, actor, action, target, detail)
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
         SELECT ? || substr('00000' || i, -5), ?, ?, ?, 'rule.updated', 'x', '{}' FROM n`,
      )
        .bind(count, newId("aud", atMs).slice(0, -5), workspace.id, new Date(atMs).toISOString(), owner.email)
        .run();
    await insert(10, Date.now() - 24 * 3_600_000 - 1_000);
    await insert(PERSON_MAX_CHANGES_A_DAY - 1, Date.now() - 23 * 3_600_000);
    const add = async (who: Browser, email: string) => who.post(`${home}/settings/members`, { email, role: "member" });
    expect((await add(owner, "last@acme.example")).status).toBe(303);
    const refused = await add(owner, "more@acme.example");
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "3600"]);
    expect(await refused.text()).toContain(`One person may make ${PERSON_MAX_CHANGES_A_DAY} changes in 24 hours.`);
    expect((await add(admin, "more@acme.example")).status).toBe(303);
    vi.setSystemTime(Date.now() + 2 * 3_600_000);
    expect((await add(owner, "later@acme.example")).status).toBe(303);
  });

  test("forms, exports and previews are limited by person, and reading is not", async () => {
    const { home, slug, owner, admin, workspace } = await newMembers();
    const rule = { name: "r", event: "e", match: "all", scoring_signal: "s", points: "1" };
    const make = async (who: Browser, method: string, path: string, limit: RateLimit["limit"]): Promise<number> => {
      const headers = {
        cookie: await who.cookie(),
        ...OFFICE,
        ...(method === "POST" ? { ...FORM, origin: HERE } : {}),
      };
      const body = method === "POST" ? new URLSearchParams(rule).toString() : null;
      const configured = { ...env, PAGE_FORMS: { limit } };
      const request = new Request(`${HERE}/w/${slug}${path}`, { ...PAGE, method, headers, body });
      return (await worker.fetch(request, configured, createExecutionContext())).status;
    };
    const refuseOwner: RateLimit["limit"] = ({ key }) => Promise.resolve({ success: key !== owner.email });
    expect(await make(owner, "POST", "/rules", refuseOwner)).toBe(429);
    expect(await make(owner, "GET", "/people/export?records=people&format=csv", refuseOwner)).toBe(429);
    expect(await make(owner, "GET", "/rules", refuseOwner)).toBe(200);
    expect(await make(owner, "POST", "/rules/preview", refuseOwner)).toBe(200);
    const refusePreviews: RateLimit["limit"] = ({ key }) =>
      Promise.resolve({ success: key !== `preview ${owner.email}` });
    expect(await make(owner, "POST", "/rules/preview", refusePreviews)).toBe(429);
    expect(await workspace.operator("GET", "/rules")).toMatchObject({ items: [] });
    expect(await make(admin, "POST", "/rules", refuseOwner)).toBe(303);
    // A failing limiter does not delay signed-in people.
    expect(await make(owner, "POST", "/rules", () => Promise.reject(new Error("no answer")))).toBe(303);
    await owner.see(`${home}/rules`);
  });

  test("the log names the route and the reason, but never the target, an email or a token", async () => {
    const { slug, owner } = await newMembers();
    // A second in which strangers have not used up their log lines yet.
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 10_000 });
    const log = vi.spyOn(console, "log").mockImplementation(() => {});
    const origin = "http://localhost";
    const email = owner.email;
    const post = (who: string) =>
      ask("local", `${origin}/sign-in/local`, { method: "POST", headers: { ...FORM, origin }, body: `email=${who}` });
    const cookie = cookieOf(await post(email));
    await post("nobody@nowhere.example");
    await ask("local", `${origin}/sign-in?to=/w/${slug}/people%3Femail=jane@example.com`);
    await ask("local", `${origin}/w/${slug}/usage?secret=1`, { headers: { cookie } });
    const text = log.mock.calls.flat().join("\n");
    log.mockRestore();
    expect(text).toContain('"route":"/sign-in/local"');
    expect(text).toContain('"code":"no_member"');
    expect(text).toContain('"workspace":"ws_');
    for (const secret of [email, "nobody", "jane", "secret", slug, cookie.split("=")[1] ?? ""])
      expect(text).not.toContain(secret);
  });
});
