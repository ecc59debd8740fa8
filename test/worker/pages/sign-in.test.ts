/** Spec §1, §5.6, design §10: access to the workspace pages: who gets it, how, and for how long. */
import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { controlDatabase } from "../../../src/d1/database.ts";
import {
  EXPIRED_SESSIONS_CLEARED,
  findSignedIn,
  openSession,
  storeAttempt,
  takeAttempt,
} from "../../../src/d1/sessions.ts";
import { AUTH_FAILURES_PER_MINUTE, countMiss, lookupWaitMs, MISSES_BURST } from "../../../src/http/auth-failures.ts";
import worker from "../../../src/index.ts";
import { ACTOR_MAX_CHANGES_A_DAY, PAGE_VIEWS_A_MINUTE, SESSION_MS, SIGN_IN_ATTEMPT_MS } from "../../../src/limits.ts";
import { pageRoutes } from "../../../src/pages/page-routes.tsx";
import { newId } from "../../../src/platform/ids.ts";
import { expectLogged } from "../../support/logged.ts";
import { Answer, Browser, type Members, newMembers, OFFICE } from "../../support/members.ts";
import { recordD1 } from "../../support/statements.ts";
import { call, masked } from "../../support/workspace.ts";

const HERE = "https://signals.example";
const FORM = { "content-type": "application/x-www-form-urlencoded", ...OFFICE };

let team: Members;
/** A page of the team's workspace. */
let usage: string;

beforeEach(async () => {
  team = await newMembers();
  usage = `${team.home}/usage`;
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** Calls the Worker without a session, unless the headers have one. */
const visit = (path: string, init: RequestInit = {}) => Answer.of(call(path, { redirect: "manual", ...init }));

/** Calls the Worker with other bindings or variables, at any address. */
function visitWith(bindings: object, url: string, init: RequestInit = {}): Promise<Answer> {
  const request = new Request(url, { redirect: "manual", ...init });
  const configured = { ...env, OIDC_ISSUER: "", ...bindings } as unknown as Env;
  return Answer.of(worker.fetch(request, configured, createExecutionContext()));
}

const visitAs = (SIGN_IN: string, url: string, init: RequestInit = {}) => visitWith({ SIGN_IN }, url, init);

async function sessionsOf(email: string): Promise<object[]> {
  return (await env.DB.prepare("SELECT * FROM sessions WHERE email = ?").bind(email).all()).results;
}

/** Repeats a call up to `most` times until the answer is a 429. */
async function untilLimited(most: number, make: (n: number) => Promise<Answer>): Promise<Answer> {
  for (let n = 0; n < most; n++) {
    const answer = await make(n);
    if (answer.status === 429) return answer;
  }
  throw new Error(`no limit after ${most} calls`);
}

test.each(["/sign-in", "/w"])(
  'with SIGN_IN "off" says at %s that the pages are closed, also with a session',
  async (path) => {
    const answer = await visitAs("off", `${HERE}${path}`, { headers: { "sec-fetch-mode": "navigate" } });
    expect(answer.status).toBe(403);
    expect(answer.body).toContain("The pages are closed");
    expect((await visitAs("off", `${HERE}${usage}`, { headers: { "sec-fetch-mode": "cors" } })).status).toBe(401);
  },
);

describe("access", () => {
  test("every page requires sign-in first, and then redirects back", async () => {
    const answer = await visit(`${usage}?period=1&x=a%26b`);
    expect(answer.status).toBe(303);
    expect(new URL(answer.location, HERE).searchParams.get("to")).toBe(`${usage}?period=1&x=a%26b`);
    expect((await visit(usage, { headers: { "sec-fetch-mode": "cors" } })).status).toBe(401);
  });

  test("a workspace of other people and a missing one look the same to a person who is not a member", async () => {
    const otherTeam = await newMembers();
    for (const slug of [otherTeam.slug, "nowhere", otherTeam.workspace.id, team.slug.toUpperCase()]) {
      const { status, body } = await team.owner.get(`/w/${slug}/usage`);
      expect([status, body]).toEqual([404, expect.stringContaining("This page does not exist")]);
    }
    expect((await new Browser("nobody@nowhere.example").get(usage)).status).toBe(404);
  });

  test("the first page is the only workspace, or a list to choose from, or says who can help", async () => {
    const second = await newMembers();
    expect((await visit("/")).location).toBe("/w/");
    expect((await team.admin.get("/w/")).location).toBe(team.home);
    await second.workspace.operator("POST", "/members", { email: team.admin.email, role: "member" });
    expect((await team.admin.read("/w/")).targets).toEqual(expect.arrayContaining([team.home, second.home]));
    expect((await team.admin.read(`${second.home}/usage`)).targets).toContain(`${team.home}/`);
    const nobody = await new Browser("nobody@nowhere.example").get("/w/");
    expect([nobody.status, nobody.body]).toEqual([403, expect.stringContaining("not a member of any workspace")]);
  });
});

describe("the duration of access", () => {
  test("a changed role or membership takes effect at once", async () => {
    const { workspace, home, admin } = team;
    const seesKeys = async () => (await admin.read(usage)).targets.includes(`${home}/settings/api-keys`);
    expect(await seesKeys()).toBe(true);
    await workspace.operator("PATCH", `/members/${admin.email}`, { role: "member" });
    expect(await seesKeys()).toBe(false);
    await workspace.operator("DELETE", `/members/${admin.email}`);
    expect((await admin.get(usage)).status).not.toBe(200);
  });

  test("a person removed from the last workspace is signed out; removed from another one, the session stays", async () => {
    const { workspace, owner, member } = team;
    const second = await newMembers();
    await second.workspace.operator("POST", "/members", { email: member.email, role: "member" });
    await member.see(usage);
    await workspace.operator("DELETE", `/members/${member.email}`);
    expect((await member.get(usage)).status).toBe(404);
    await member.see(`${second.home}/usage`);
    await second.workspace.operator("DELETE", `/members/${member.email}`);
    expect(await sessionsOf(member.email)).toEqual([]);
    expect((await member.get(`${second.home}/usage`)).status).toBe(303);
    // The last owner cannot be removed.
    await owner.see(usage);
    await expect(workspace.operator("DELETE", `/members/${owner.email}`)).rejects.toThrow("409");
    await owner.see(usage);
  });

  test("sign-out ends the session itself, not only the cookie; other sessions stay", async () => {
    const { owner } = team;
    const elsewhere = new Browser(owner.email);
    await elsewhere.see(usage);
    const out = await owner.post("/sign-out");
    expect([out.status, out.location]).toEqual([303, "/sign-in"]);
    expect(out.headers.getSetCookie()[0]).toMatch(/^__Host-session=; Max-Age=0; Path=\/;.* Secure/);
    expect((await owner.get(usage)).status).toBe(303);
    await elsewhere.see(usage);
  });

  test("a session ends after 12 hours, to the millisecond, regardless of activity", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
    const startedMs = Date.now();
    await team.owner.cookie();
    vi.setSystemTime(startedMs + SESSION_MS - 1);
    await team.owner.see(usage);
    vi.setSystemTime(startedMs + SESSION_MS);
    expect((await team.owner.get(usage)).status).toBe(303);
  });

  test("a session of one way to sign in is invalid under another", async () => {
    const cookie = await team.owner.cookie();
    for (const [signIn, status] of [
      ["oidc", 200],
      ["access", 401],
      ["", 404],
      ["none", 404],
    ] as const)
      expect((await visitAs(signIn, HERE + usage, { headers: { cookie } })).status).toBe(status);
    // On loopback the cookie without the prefix is accepted.
    const local = { headers: { cookie: cookie.replace("__Host-", "") } };
    expect((await visitAs("oidc", `http://localhost${usage}`, local)).status).toBe(200);
    expect((await visitAs("local", `http://localhost${usage}`, local)).status).toBe(303);
  });

  test("expired sessions and sign-in attempts are deleted by the next one, a bounded number at a time", async () => {
    const db = controlDatabase(env.DB);
    const { email } = team.owner;
    const attempt = { state: "s", nonce: "n", codeVerifier: "v", target: "/w/" };
    const attempts = async () => (await env.DB.prepare("SELECT 1 FROM sign_in_attempts").all()).results;
    const begin = async (name: string, atMs: number) => {
      await openSession(db, { tokenHash: `${team.slug}-${name}`, email, driver: "oidc" }, atMs);
      await storeAttempt(db, `${team.slug}-${name}`, attempt, atMs);
    };
    for (let n = 0; n <= EXPIRED_SESSIONS_CLEARED; n++) await begin(String(n), Date.UTC(2026, 0, 1));
    expect(await sessionsOf(email)).toHaveLength(EXPIRED_SESSIONS_CLEARED + 1);
    expect(await attempts()).toHaveLength(EXPIRED_SESSIONS_CLEARED + 1);
    await begin("new", Date.now());
    expect(await sessionsOf(email)).toHaveLength(2);
    expect(await attempts()).toHaveLength(2);
  });

  test("a sign-in attempt can be taken once, within ten minutes", async () => {
    const db = controlDatabase(env.DB);
    const attempt = { state: "s", nonce: "n", codeVerifier: "v", target: "/w/" };
    const atMs = Date.UTC(2031, 0, 1);
    const takeAfter = async (ms: number) => {
      await storeAttempt(db, `${team.slug}-once`, attempt, atMs);
      const taken = await takeAttempt(db, `${team.slug}-once`, atMs + ms);
      expect(await takeAttempt(db, `${team.slug}-once`, atMs)).toBeNull();
      return taken;
    };
    expect(await takeAfter(SIGN_IN_ATTEMPT_MS - 1)).toMatchObject(attempt);
    expect(await takeAfter(SIGN_IN_ATTEMPT_MS)).toBeNull();
  });

  test("the database holds no token, and no statement of a request scans a table", async () => {
    const token = (await team.owner.cookie()).split("=")[1] ?? "";
    expect(JSON.stringify(await sessionsOf(team.owner.email))).not.toContain(token);
    const { d1, queries, plans } = recordD1(env.DB);
    await findSignedIn(controlDatabase(d1), { tokenHash: "x", driver: "oidc" }, team.slug, Date.now());
    expect(queries()).toHaveLength(3);
    const scans = (await plans()).map(({ detail }) => detail).filter((detail) => detail.startsWith("SCAN"));
    expect(scans.filter((detail) => !/^SCAN (CONSTANT ROW|\(subquery)/.test(detail))).toEqual([]);
  });
});

/** Posts the form of local sign-in. */
const signInAt = (origin: string, form: Record<string, string>, cookie = "", signIn = "local") =>
  visitAs(signIn, `${origin}/sign-in/local`, {
    method: "POST",
    headers: { ...FORM, origin, cookie },
    body: new URLSearchParams(form).toString(),
  });

describe("local sign-in", () => {
  test.each(["http://localhost", "http://localhost:8787", "http://127.0.0.1:8787", "http://[::1]:8787"])(
    "at %s the members are listed, and one click signs in as any of them",
    async (origin) => {
      const { email } = team.member;
      const list = await visitAs("local", `${origin}/sign-in?to=${usage}`, { headers: { "sec-fetch-site": "none" } });
      expect([list.status, list.body]).toEqual([200, expect.stringContaining(email)]);
      const signedIn = await signInAt(origin, { email, to: usage });
      expect([signedIn.status, signedIn.location]).toEqual([303, usage]);
      const page = await visitAs("local", origin + usage, { headers: { cookie: signedIn.cookie } });
      expect([page.status, page.body]).toEqual([200, expect.stringContaining(email)]);
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
    const { email } = team.owner;
    const local = await signInAt("http://localhost", { email });
    const cookie = `${local.cookie}; __Host-${local.cookie}`;
    expect((await visitAs("local", `http://localhost${usage}`, { headers: { cookie } })).status).toBe(200);
    for (const path of ["/sign-in", "/w/", usage]) {
      const { status, body } = await visitAs("local", origin + path, { headers: { cookie } });
      expect([path, status, body.includes(team.slug)]).toEqual([path, 403, false]);
    }
    const posted = await signInAt(new URL(origin).origin, { email });
    expect([posted.status, posted.headers.getSetCookie()]).toEqual([403, []]);
    expect(await sessionsOf(email)).toHaveLength(1);
  });

  const ROUTES = "/sign-in /w/ /operator/workspaces /docs /openapi.json /healthz /assets/none.css /nowhere";
  const WEBHOOK = `/api/signal-staging/webhook/sk_${"a".repeat(40)}`;

  test.each([...ROUTES.split(" "), WEBHOOK])(
    "%s rejects a Host or an Origin that is not loopback, also with a right operator token",
    async (path) => {
      const authorization = `Bearer ${env.OPERATOR_TOKEN}`;
      const codeFor = async (headers: Record<string, string>, signIn = "local") => {
        const init = { method: path === WEBHOOK ? "POST" : "GET", headers: { authorization, ...headers } };
        const { status, body } = await visitAs(signIn, `http://localhost:8787${path}`, init);
        // The documentation names the code too, with 200.
        return status === 403 && body.includes('"loopback_only"') ? status : "other";
      };
      for (const headers of [
        { host: "evil.example:8787" },
        { host: "localhost.evil.example" },
        { origin: "http://evil.example:8787" },
        { origin: "null" },
        { host: "localhost:8787", origin: "https://localhost.evil.example" },
      ])
        expect([headers, await codeFor(headers)]).toEqual([headers, 403]);
      expect(await codeFor({ host: "localhost:8787", origin: "http://127.0.0.1:3000" })).toBe("other");
      // The other sign-in methods have their own protection.
      expect(await codeFor({ host: "a.example" }, "oidc")).toBe("other");
    },
  );

  test("only a browser that states the request's origin gets the list of members", async () => {
    const { status, body } = await visitAs("local", "http://localhost:8787/sign-in");
    expect([status, body]).toEqual([200, expect.stringContaining("Email of a member")]);
    expect(body).not.toContain("@example.com");
  });

  test.each(["access", "oidc", "", "LOCAL", "local "])(
    "with SIGN_IN %j does not exist, even on loopback",
    async (on) => {
      expect((await visitAs(on, "http://localhost/sign-in")).body).not.toContain(team.slug);
      expect((await signInAt("http://localhost", { email: team.owner.email }, "", on)).status).toBe(404);
      expect(await sessionsOf(team.owner.email)).toEqual([]);
    },
  );

  test("gives no session to a person who is not a member", async () => {
    const email = "stranger@nowhere.example";
    const { cookie } = await signInAt("http://localhost", { email: team.owner.email });
    const answer = await signInAt("http://localhost", { email }, cookie);
    expect([answer.status, await sessionsOf(email)]).toEqual([403, []]);
    // The earlier session has ended, so its cookie goes too.
    expect(answer.headers.get("set-cookie")).toMatch(/^session=; Max-Age=0;/);
  });

  test("opens a new session and ends the browser's last one; a token set by another site is never adopted", async () => {
    const { email } = team.owner;
    const planted = "session=planted-by-somebody";
    const first = (await signInAt("http://localhost", { email }, planted)).cookie;
    const second = (await signInAt("http://localhost", { email }, first)).cookie;
    expect(first).toMatch(/^session=[\w-]{43}$/);
    expect(second).not.toBe(first);
    const statuses: number[] = [];
    for (const cookie of [planted, first, second])
      statuses.push((await visitAs("local", `http://localhost${usage}`, { headers: { cookie } })).status);
    expect(statuses).toEqual([303, 303, 200]);
  });

  test.each(["https://evil.example/", "//evil.example", "/\\evil.example", "/operator/plans"])(
    "does not redirect to %s",
    async (to) => {
      expect((await signInAt("http://localhost", { email: team.owner.email, to })).location).toBe("/w/");
      const { body } = await visitAs("local", `http://localhost/sign-in?to=${encodeURIComponent(to)}`);
      expect(body).not.toContain(to);
    },
  );
});

test("without a valid session, no answer contains a key from the address or the form", async () => {
  const key = `sk_${"aB3".repeat(13)}x`;
  const at = (path: string, body?: string) =>
    visitAs("local", `http://localhost${team.home}/people/${path}`, {
      ...(body !== undefined && { method: "POST", body, headers: { ...FORM, origin: "http://localhost" } }),
    });
  for (const { headers, body } of [await at(key), await at(key, "note=typed")])
    expect(`${[...headers].join()} ${body}`).not.toContain("sk_");
  expect((await at("x", `note=${key}`)).page.field("note").value).toBe(masked(key));
});

test("the cookie is for this host alone, and over HTTPS it needs the prefix that says so", async () => {
  const cookieAt = async (origin: string) =>
    (await signInAt(origin, { email: team.owner.email })).headers.getSetCookie().join();
  const https = /^__Host-session=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Lax$/;
  expect(await cookieAt("https://localhost")).toMatch(https);
  // HTTP means on this machine.
  const http = /^session=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Lax$/;
  expect(await cookieAt("http://localhost")).toMatch(http);
  // A neighbouring host could set a cookie without the prefix.
  const cookie = (await team.owner.cookie()).replace("__Host-", "");
  expect((await visit(usage, { headers: { cookie } })).status).toBe(303);
});

// Against a provider: test/sign-in/oidc.test.ts.
describe("OpenID Connect", () => {
  test.each(["", "not an address", "http://issuer.example"])(
    "answers 503 for the invalid issuer %j",
    async (OIDC_ISSUER) => {
      expectLogged("sign_in_failed");
      const answer = await visitWith({ SIGN_IN: "oidc", OIDC_ISSUER }, `${HERE}/sign-in/oidc`);
      expect([answer.status, answer.headers.getSetCookie()]).toEqual([503, []]);
    },
  );

  test.each(["access", "local", ""])("with SIGN_IN %j does not exist", async (on) => {
    for (const path of ["/sign-in/oidc", "/sign-in/oidc/callback?code=x&state=y"])
      expect((await visitAs(on, `http://localhost${path}`)).status).toBe(404);
  });
});

/** The paths of the pages for a method, with a value for each parameter. */
function pathsOf(method: "GET" | "POST"): string[] {
  const valueFor = (parameter: string) => (parameter.includes("{[1-9]") ? "1" : "x");
  const routes = pageRoutes.routes.filter((route) => route.method === method && !route.path.startsWith("/assets/"));
  return [...new Set(routes.map(({ path }) => path.replace(":slug", team.slug).replaceAll(/:[^/]+/g, valueFor)))];
}

describe("every page", () => {
  test("rejects every cross-site request: a form, a script's JSON, and one without an origin", async () => {
    const cookie = await team.owner.cookie();
    const paths = [...pathsOf("POST"), `${team.home}/anything`];
    expect(paths).toEqual(expect.arrayContaining(["/sign-in/local", "/sign-out"]));
    const evil = "https://evil.example";
    const foreign: [Record<string, string>, number][] = [
      [{ ...FORM, origin: evil }, 403],
      [{ ...FORM, origin: "http://signals.example" }, 403],
      [{ ...FORM, origin: "null" }, 403],
      [{ ...FORM, origin: evil, "sec-fetch-site": "cross-site" }, 403],
      [{ ...FORM, origin: "https://x.signals.example", "sec-fetch-site": "same-site" }, 403],
      [FORM, 403],
      [{ "content-type": "multipart/form-data; boundary=x", origin: evil }, 403],
      [{}, 403],
      [{ "content-type": "text/plain", origin: evil }, 415],
      [{ "content-type": "application/json", origin: evil }, 415],
      [{ "content-type": "application/json", origin: HERE }, 415],
    ];
    for (const path of paths) {
      for (const [headers, status] of foreign) {
        // Without a body the runtime sets no content type.
        const answer = await visit(path, { method: "POST", headers: { ...headers, cookie } });
        expect([path, headers, answer.status]).toEqual([path, headers, status]);
      }
    }
    // Still signed in.
    await team.owner.see(usage);
  });

  test("answers 400 to an unreadable form if it reads forms", async () => {
    const cookie = await team.owner.cookie();
    const withoutForm =
      /(sign-out|enable|disable|apply|pause|resume|test|again|deactivate|revoke|release|(notifications\/[^/]+\/delete|exclusions\/[^/]+\/remove))$/;
    const paths = pathsOf("POST").filter((path) => path.startsWith("/w/") && !withoutForm.test(path));
    expect(paths.length).toBeGreaterThan(15);
    for (const path of paths) {
      for (const [type, body] of [
        ["multipart/form-data", "x"],
        ["multipart/form-data; boundary=x", "--x\r\nx"],
      ] as const) {
        const headers = { origin: HERE, cookie, ...OFFICE, "content-type": type };
        expect([path, (await visit(path, { method: "POST", headers, body })).status]).toEqual([path, 400]);
      }
    }
  });

  test("answers other methods than GET, HEAD and POST with 405", async () => {
    const headers = { ...FORM, origin: HERE, cookie: await team.owner.cookie() };
    for (const method of ["PUT", "PATCH", "DELETE", "OPTIONS"]) {
      for (const path of ["/sign-in", usage]) {
        const answer = await visit(path, { method, headers });
        expect([method, answer.status, answer.headers.get("allow")]).toEqual([method, 405, "GET, HEAD, POST"]);
      }
    }
  });

  test("forbids caches to store it and other sites to frame it", async () => {
    expectLogged("sign_in_failed");
    const paths = pathsOf("GET");
    expect(paths.length).toBeGreaterThan(10);
    for (const path of [...paths, "/w/nowhere/usage", `${team.home}/nowhere`]) {
      const { headers } = await team.owner.get(path);
      expect([path, headers.get("cache-control"), headers.get("x-frame-options")]).toEqual([path, "no-store", "DENY"]);
      expect(headers.get("referrer-policy")).toBe("same-origin");
      expect(headers.get("content-security-policy")?.replaceAll(/'nonce-[^']{20,}'/g, "NONCE")).toBe(
        "default-src 'none'; style-src NONCE; script-src NONCE; img-src 'self' data:; connect-src 'self'; " +
          "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
      );
    }
  });
});

test("another site cannot start an export in a member's name; the pages and a typed address can", async () => {
  const cookie = await team.owner.cookie();
  const exporting = async (headers: Record<string, string>) =>
    (await visit(`${team.home}/people/export?records=people&format=csv`, { headers: { ...headers, cookie } })).status;
  for (const site of ["cross-site", "same-site"]) expect(await exporting({ "sec-fetch-site": site })).toBe(403);
  const select = "SELECT count(*) AS n FROM audit_log WHERE workspace_id = ? AND action = 'data.exported'";
  const exports = () => env.DB.prepare(select).bind(team.workspace.id).first<number>("n");
  expect(await exports()).toBe(0);
  for (const site of ["same-origin", "none"]) expect(await exporting({ "sec-fetch-site": site })).toBe(200);
  expect([await exporting({}), await exports()]).toEqual([200, 3]);
});

/** At most two windows of the limiter by network, because the first may end during the test. */
const TWO_WINDOWS = 2 * AUTH_FAILURES_PER_MINUTE + 1;

describe("the limit of attempts", () => {
  test("rejects invented sessions from one network before they reach the database, but no valid session", async () => {
    const address = { "cf-connecting-ip": "192.0.2.77" };
    const see = (cookie: string) => visit(usage, { headers: { cookie, ...address } });
    const good = await team.owner.cookie();
    expect((await see(good)).status).toBe(200);
    const rejected = await untilLimited(TWO_WINDOWS, (n) => see(`__Host-session=invented${n}`));
    expect([rejected.headers.get("retry-after"), rejected.body]).toEqual([
      "60",
      expect.stringContaining("Too many attempts"),
    ]);
    // A penalised network has at most 50 look-ups a second, even in a burst.
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
    const { d1, queries } = recordD1(env.DB);
    for (let n = 0; n < 100; n++)
      await visitWith({ DB: d1 }, HERE + usage, { headers: { cookie: `__Host-session=more${n}`, ...address } });
    // Three statements each.
    expect(queries().length).toBeLessThanOrEqual(3 * 50);
    // This isolate remembers the member's session, so that it does not wait, and forgets a session that has ended.
    expect((await see(good)).status).toBe(200);
    await env.DB.prepare("DELETE FROM sessions WHERE email = ?").bind(team.owner.email).run();
    const before = queries().length;
    for (let n = 0; n < 5; n++) await visitWith({ DB: d1 }, HERE + usage, { headers: { cookie: good, ...address } });
    expect(queries().length - before).toBe(3);
  });

  const signOut = (address: string) =>
    visit("/sign-out", {
      method: "POST",
      headers: { ...FORM, origin: HERE, cookie: "__Host-session=invented", "cf-connecting-ip": address },
    });
  const beginOidc = (address: string) => visit("/sign-in/oidc", { headers: { "cf-connecting-ip": address } });

  test.each([
    // An invented session costs a look-up.
    ["sign-outs", signOut, () => "192.0.2.78", "192.0.2.79"],
    ["sign-ins", beginOidc, () => "192.0.2.1", "192.0.2.2"],
    ["sign-ins of an IPv6 network", beginOidc, (n: number) => `2001:db8:7:7::${n.toString(16)}`, "2001:db8:7:8::1"],
  ] as const)("applies to %s by network, and not to other networks", async (_, make, addressOf, otherAddress) => {
    expectLogged("sign_in_failed");
    expect((await untilLimited(TWO_WINDOWS, (n) => make(addressOf(n)))).body).toContain("Too many attempts");
    expect((await make(otherAddress)).status).not.toBe(429);
  });

  test("applies to the pages, exports and polls of a person over all sessions, and not to other people and to forms", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
    const { home, owner, admin } = team;
    const elsewhere = new Browser(owner.email);
    // Exports of people and of rules, the polls of Live, a HEAD, and the way to the only workspace.
    const paths = [
      "/people/export?records=people&format=csv",
      "/rules/export.json",
      "/live/signals",
      "/live/rejections",
    ];
    for (const path of paths) expect((await owner.get(home + path)).status).toBeLessThan(300);
    const head = { method: "HEAD", headers: { cookie: await elsewhere.cookie(), ...OFFICE } };
    expect((await visit(usage, head)).status).toBe(200);
    for (let n = paths.length + 1; n < PAGE_VIEWS_A_MINUTE; n++) {
      expect((await (n % 2 === 0 ? owner : elsewhere).get("/w/")).location).toBe(home);
    }
    for (const path of ["/w/", usage, ...paths.map((each) => home + each)]) {
      const rejected = await owner.get(path);
      expect([path, rejected.status, rejected.headers.get("retry-after")]).toEqual([path, 429, "10"]);
      expect(rejected.text).toContain(`One person may open ${PAGE_VIEWS_A_MINUTE} pages a minute`);
    }
    // A known session is rejected before the database is asked, and a new one once its person is known.
    const { d1, queries } = recordD1(env.DB);
    const answerTo = async (browser: Browser) =>
      visitWith({ DB: d1 }, HERE + usage, { headers: { cookie: await browser.cookie(), ...OFFICE } });
    expect([(await answerTo(elsewhere)).status, queries()]).toEqual([429, []]);
    expect((await answerTo(new Browser(owner.email))).status).toBe(429);
    expect((await owner.post(`${home}/dismiss`, { what: "none", state: "x", back: usage })).status).toBe(303);
    await admin.see(usage);
    vi.setSystemTime(Date.now() + 60_000 / PAGE_VIEWS_A_MINUTE);
    await owner.see(usage);
    expect((await owner.get(usage)).status).toBe(429);
  });

  test("applies to the forms of a person over all sessions, and not to other people", async () => {
    const { home, owner, admin } = team;
    const sessions = [owner, new Browser(owner.email)];
    const back = { what: "none", state: "x", back: usage };
    const rejected = await untilLimited(241, (n) => (sessions[n % 2] ?? owner).post(`${home}/dismiss`, back));
    expect([rejected.headers.get("retry-after"), rejected.body]).toEqual([
      "60",
      expect.stringContaining("Too many changes at a time"),
    ]);
    expect((await admin.post(`${home}/dismiss`, back)).status).toBe(303);
  });

  test("applies to the changes of a person in 24 hours, and not to other people and the next day", async () => {
    const { home, owner, admin, workspace } = team;
    const insert = (count: number, atMs: number) =>
      env.DB.prepare(
        `INSERT INTO audit_log (id, workspace_id, at, actor, action, target, detail)
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
         SELECT ? || substr('00000' || i, -5), ?, ?, ?, 'rule.updated', 'x', '{}' FROM n`,
      )
        .bind(count, newId("aud", atMs).slice(0, -5), workspace.id, new Date(atMs).toISOString(), owner.email)
        .run();
    await insert(10, Date.now() - 24 * 3_600_000 - 1_000);
    await insert(ACTOR_MAX_CHANGES_A_DAY - 1, Date.now() - 23 * 3_600_000);
    const add = (who: Browser, email: string) => who.post(`${home}/settings/members`, { email, role: "member" });
    expect((await add(owner, "last@acme.example")).status).toBe(303);
    const rejected = await add(owner, "more@acme.example");
    expect([rejected.status, rejected.headers.get("retry-after")]).toEqual([429, "3600"]);
    expect(rejected.body).toContain(`One person may make ${ACTOR_MAX_CHANGES_A_DAY} changes in 24 hours.`);
    expect((await add(admin, "more@acme.example")).status).toBe(303);
    expect((await owner.get(`${home}/people/export?records=people&format=csv`)).status).toBe(429);
    vi.setSystemTime(Date.now() + 2 * 3_600_000);
    expect((await add(owner, "later@acme.example")).status).toBe(303);
  });

  test("applies to forms, exports and previews of a person, and not to reading", async () => {
    expectLogged("limiter_failed");
    const { home, owner, admin, workspace } = team;
    const rule = new URLSearchParams({ name: "r", event: "e", match: "all", scoring_signal: "s", points: "1" });
    const make = async (who: Browser, method: string, path: string, limit: RateLimit["limit"]): Promise<number> => {
      const form = method === "POST" ? { headers: { ...FORM, origin: HERE }, body: rule.toString() } : {};
      const headers = { ...OFFICE, ...form.headers, cookie: await who.cookie() };
      return (await visitWith({ PAGE_FORMS: { limit } }, HERE + home + path, { method, ...form, headers })).status;
    };
    const rejecting =
      (rejected: string): RateLimit["limit"] =>
      ({ key }) =>
        Promise.resolve({ success: key !== rejected });
    const noForms = rejecting(owner.email);
    expect(await make(owner, "POST", "/rules", noForms)).toBe(429);
    expect(await make(owner, "GET", "/people/export?records=people&format=csv", noForms)).toBe(429);
    expect(await make(owner, "GET", "/rules", noForms)).toBe(200);
    expect(await make(owner, "POST", "/rules/preview", noForms)).toBe(200);
    expect(await make(owner, "POST", "/rules/preview", rejecting(`preview ${owner.email}`))).toBe(429);
    expect(await workspace.operator("GET", "/rules")).toMatchObject({ items: [] });
    expect(await make(admin, "POST", "/rules", noForms)).toBe(303);
    // A failing limiter does not delay signed-in people.
    expect(await make(owner, "POST", "/rules", () => Promise.reject(new Error("no answer")))).toBe(303);
  });
});

describe("the cap of an isolate on asking the database for strangers", () => {
  const ISSUER = "https://issuer.example";
  const nextNetwork = () => ({ "cf-connecting-ip": crypto.randomUUID() });

  /** Later in each test, because a clock that is set back pays off nothing. */
  let startMs = Date.now();

  beforeEach(() => {
    startMs += 60_000;
    vi.useFakeTimers({ toFake: ["Date"], now: startMs });
    const metadata = { issuer: ISSUER, authorization_endpoint: `${ISSUER}/auth` };
    vi.spyOn(globalThis, "fetch").mockImplementation(async () => Response.json(metadata));
  });
  afterEach(waitUntilAllMayAsk);

  /** In a later test of this isolate nobody waits. */
  function waitUntilAllMayAsk(): void {
    vi.setSystemTime(Date.now() + 10_000);
    countMiss(Date.now());
  }

  /** Leaves room for so many strangers. */
  function useUpAllBut(left: number): void {
    for (let n = left; n < MISSES_BURST; n++) countMiss(Date.now());
    if (left === 0) useUpTheRest();
  }

  /** What an isolate may still ask in a second in which too many strangers have asked. */
  function useUpTheRest(): void {
    for (let n = 0; n < 50; n++) lookupWaitMs("192.0.2.81", Date.now());
  }

  /** Calls with a recorded database, each from another network. */
  function recorded() {
    const { d1, queries } = recordD1(env.DB);
    const ask = (path: string, cookie: string, init: RequestInit = {}) =>
      visitWith({ DB: d1, OIDC_ISSUER: ISSUER }, HERE + path, {
        ...init,
        headers: { ...FORM, ...nextNetwork(), origin: HERE, cookie },
      });
    return {
      queries,
      signOut: (cookie: string) => ask("/sign-out", cookie, { method: "POST" }),
      begin: () => ask("/sign-in/oidc", ""),
      comeBack: (cookie: string) => ask("/sign-in/oidc/callback?code=x&state=y", cookie),
    };
  }

  const INVENTED = "__Host-session=invented; __Host-sign-in=invented";

  test("rejects the start of a sign-in, its end and a sign-out with an unknown cookie, and keeps the cookie", async () => {
    useUpAllBut(0);
    const { queries, signOut, begin, comeBack } = recorded();
    for (const [answer, title] of [
      [await begin(), "Too many attempts"],
      [await comeBack(INVENTED), "Too many attempts"],
      [await signOut(INVENTED), "You are still signed in"],
    ] as const) {
      expect([answer.page.only("h1").text, answer.status, answer.headers.get("retry-after")]).toEqual([
        title,
        429,
        "60",
      ]);
      expect(answer.headers.getSetCookie()).toEqual([]);
    }
    expect(queries()).toEqual([]);
    waitUntilAllMayAsk();
    const begun = await begin();
    expect([begun.status, begun.location]).toEqual([303, expect.stringContaining(`${ISSUER}/auth?`)]);
    expect((await comeBack(INVENTED)).status).toBe(400);
    const out = await signOut(INVENTED);
    expect([out.status, out.location, out.cookie]).toEqual([303, "/sign-in", "__Host-session="]);
  });

  test.each(["begin", "comeBack", "signOut"] as const)("counts each call: %s", async (step) => {
    const calls = recorded();
    useUpAllBut(3);
    for (let n = 0; n < 3; n++) expect((await calls[step](INVENTED)).status).not.toBe(429);
    useUpTheRest();
    expect((await calls[step](INVENTED)).status).toBe(429);
  });

  test("never delays the sign-out of a session that the isolate knows, and never ends another one silently", async () => {
    const { email } = team.owner;
    const elsewhere = new Browser(email);
    const [known, unknown] = [await team.owner.cookie(), await elsewhere.cookie()];
    await team.owner.see(usage);
    useUpAllBut(0);
    const { signOut, queries } = recorded();
    const rejected = await signOut(unknown);
    expect([rejected.status, rejected.headers.getSetCookie(), queries()]).toEqual([429, [], []]);
    expect(rejected.page.only('form[action="/sign-out"]').text).toBe("Sign out");
    expect(await sessionsOf(email)).toHaveLength(2);

    const out = await signOut(known);
    expect([out.status, out.cookie]).toEqual([303, "__Host-session="]);
    expect(await sessionsOf(email)).toHaveLength(1);
    // It is no longer known, so it waits like an invented one.
    expect((await signOut(known)).status).toBe(429);

    waitUntilAllMayAsk();
    expect((await signOut(unknown)).status).toBe(303);
    expect(await sessionsOf(email)).toEqual([]);
  });

  test("a sign-out without a cookie asks neither the database nor a limiter", async () => {
    useUpAllBut(0);
    const { signOut, queries } = recorded();
    for (let n = 0; n < 2; n++) expect((await signOut("")).location).toBe("/sign-in");
    expect(queries()).toEqual([]);
  });
});

test("a full network does not keep a member signed in", async () => {
  const address = { "cf-connecting-ip": "192.0.2.83" };
  const cookie = await team.owner.cookie();
  await team.owner.see(usage);
  const headers = { ...FORM, ...address, origin: HERE };
  const out = (sent: string) => visit("/sign-out", { method: "POST", headers: { ...headers, cookie: sent } });
  await untilLimited(TWO_WINDOWS, (n) => out(`__Host-session=invented${n}`));
  expect((await out(cookie)).status).toBe(303);
  expect(await sessionsOf(team.owner.email)).toEqual([]);
});

test("the log names the route and the reason, but never the target, an email or a token", async () => {
  // A second in which strangers have not used up their log lines yet.
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 10_000 });
  const log = vi.spyOn(console, "log").mockImplementation(() => {});
  const origin = "http://localhost";
  const { email } = team.owner;
  const { cookie } = await signInAt(origin, { email });
  await signInAt(origin, { email: "nobody@nowhere.example" });
  await visitAs("local", `${origin}/sign-in?to=${team.home}/people%3Femail=jane@example.com`);
  await visitAs("local", `${origin}${usage}?secret=1`, { headers: { cookie } });
  const text = log.mock.calls.flat().join("\n");
  for (const logged of ['"route":"/sign-in/local"', '"code":"no_member"', '"workspace":"ws_'])
    expect(text).toContain(logged);
  for (const secret of [email, "nobody", "jane", "secret", team.slug, cookie.split("=")[1] ?? ""])
    expect(text).not.toContain(secret);
});
