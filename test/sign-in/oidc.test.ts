/** Design §10: sign-in by OpenID Connect, against a real provider over HTTP, with the service as deployed. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Browser, location, type Answer } from "./support/browser.ts";
import { type Account, startProvider, type TestProvider } from "./support/provider.ts";
import { startWithMembers } from "./support/members.ts";
import type { Service } from "../support/service.ts";

const CLIENT_ID = "signal-ingestion";
const PUBLIC = { client_id: CLIENT_ID, token_endpoint_auth_method: "none" } as const;
const OWNER = { email: "Owner@Acme.example", email_verified: true };
const PAGE = "/w/acme/usage?x=1";

let provider: TestProvider;
let service: Service;

const callbackOf = ({ origin }: Service) => `${origin}/sign-in/oidc/callback`;
const isCallback = (url: URL) => url.pathname === "/sign-in/oidc/callback";

/** Starts the service for a provider. */
function startFor(issuer: string, vars: Record<string, string> = {}) {
  return startWithMembers({ vars: { SIGN_IN: "oidc", OIDC_ISSUER: issuer, OIDC_CLIENT_ID: CLIENT_ID, ...vars } });
}

beforeAll(async () => {
  provider = await startProvider();
  const { service: started, members } = await startFor(provider.issuer);
  service = started;
  await service.api.post(members, { email: "kevin@acme.example", role: "owner" });
  provider.serve({ ...PUBLIC, redirect_uris: [callbackOf(service)] });
});

afterAll(async () => {
  provider?.close();
  await service?.remove();
});

beforeEach(() => {
  provider.account = OWNER;
});

/** From the requested page to the link that leads to the provider. */
async function begin(browser: Browser, { origin }: Service = service): Promise<Answer> {
  const page = await browser.follow(origin + PAGE);
  const [, link = ""] = /href="(\/sign-in\/oidc\?[^"]*)"/.exec(page.body) ?? [];
  return browser.ask(origin + link.replaceAll("&amp;", "&"));
}

/** From there to the provider's answer, before the browser follows it. `tamper` changes the request. */
async function answerOf(browser: Browser, tamper: (asked: URL) => void = () => {}): Promise<URL> {
  const asked = location(await begin(browser));
  tamper(asked);
  return location(await browser.follow(asked, isCallback));
}

async function signIn(browser: Browser): Promise<Answer> {
  return browser.follow(await answerOf(browser));
}

async function sessions(): Promise<unknown[]> {
  const database = await service.running.miniflare.getD1Database("DB", "worker");
  return (await database.prepare("SELECT * FROM sessions").all()).results;
}

/** The page that the browser got, and whether it is signed in. */
async function outcome(browser: Browser, answer: Answer) {
  const [, title] = /<h1>([^<]*)<\/h1>/.exec(answer.body) ?? [];
  const cookie = browser.cookies(service.origin).get("session");
  return { status: answer.status, title, cookie, page: (await browser.ask(service.origin + PAGE)).status };
}

/** This message, and a redirect to sign-in for the next page. */
const nobody = (status: number, title: string) => ({ status, title, cookie: undefined, page: 303 });

describe("a member who signs in", () => {
  test("ends on the requested page; the provider was asked with PKCE, state and nonce", async () => {
    const browser = new Browser();
    const page = await signIn(browser);
    expect([page.status, page.url.pathname + page.url.search]).toEqual([200, PAGE]);
    expect(page.body).toContain("owner@acme.example");

    const asked = browser.visited.find((url) => url.origin === provider.issuer)?.searchParams;
    expect(Object.fromEntries(asked ?? [])).toEqual({
      client_id: CLIENT_ID,
      redirect_uri: callbackOf(service),
      response_type: "code",
      scope: "openid email",
      state: expect.stringMatching(/^[\w-]{43}$/),
      nonce: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge_method: "S256",
    });
  });

  test("gets new values at each attempt, and a new session", async () => {
    const [first, two] = [new Browser(), new Browser()];
    for (const browser of [first, two]) await signIn(browser);
    const asked = [first, two].map(
      ({ visited }) => visited.find(({ origin }) => origin === provider.issuer)?.searchParams,
    );
    for (const name of ["state", "nonce", "code_challenge"]) {
      expect(asked[0]?.get(name)).not.toBe(asked[1]?.get(name));
    }
    expect(first.cookies(service.origin).get("session")).not.toBe(two.cookies(service.origin).get("session"));
  });

  test("has the provider's metadata read once, not at every sign-in", async () => {
    await signIn(new Browser());
    provider.asked.length = 0;
    await signIn(new Browser());
    expect(provider.asked).toContain("/token");
    expect(provider.asked).not.toContain("/.well-known/openid-configuration");
  });

  test("leaves no session in the database after sign-out", async () => {
    const browser = new Browser();
    await signIn(browser);
    const before = await sessions();
    const out = await browser.ask(`${service.origin}/sign-out`, {});
    expect([out.status, location(out).pathname]).toEqual([303, "/sign-in"]);
    expect(await sessions()).toHaveLength(before.length - 1);
    expect((await browser.ask(service.origin + PAGE)).status).toBe(303);
  });

  test("needs no verified email, because a company's own provider creates the addresses", async () => {
    provider.account = { email: "member@acme.example" };
    expect((await signIn(new Browser())).status).toBe(200);
  });
});

test.each(["https://evil.example/w/", "//evil.example/w/", "/w/..//evil.example/"])(
  "who comes back from the provider stays on this site, whatever the way there named: %j",
  async (to) => {
    const browser = new Browser();
    const begun = await browser.ask(`${service.origin}/sign-in/oidc?${new URLSearchParams({ to }).toString()}`);
    const answer = await browser.follow(location(begun), isCallback);
    const back = await browser.ask(location(answer).href);
    expect(back.status).toBe(303);
    expect(new URL(String(back.headers["location"]), service.origin).href).toBe(`${service.origin}/w/`);
  },
);

describe("sign-in fails and creates no session", () => {
  const PERSONS: [who: string, account: Account | null, title: string][] = [
    ["an unverified email", { ...OWNER, email_verified: false }, "Your email is not verified"],
    ["an email that is unverified, as text", { ...OWNER, email_verified: "false" }, "Your email is not verified"],
    ["an email with another word for verified", { ...OWNER, email_verified: "no" }, "Your email is not verified"],
    [
      "an email that only Unicode normalization makes equal to a member's",
      { email: "\u212Aevin@acme.example", email_verified: true },
      "Your email cannot be used here",
    ],
    ["no email", {}, "Your email is missing"],
    [
      "an email without a membership",
      { email: "stranger@elsewhere.example", email_verified: true },
      "You are not a member of any workspace",
    ],
    ["a rejection at the provider", null, "Your sign-in provider rejected"],
  ];

  test.each(PERSONS)("for a person with %s", async (_, account, title) => {
    const before = await sessions();
    provider.account = account;
    const browser = new Browser();
    expect(await outcome(browser, await signIn(browser))).toEqual(nobody(403, title));
    expect(await sessions()).toEqual(before);
  });

  const CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

  test.each([
    ["request", "nonce", "another", 503, "Your sign-in provider failed"],
    ["request", "code_challenge", CHALLENGE, 503, "Your sign-in provider failed"],
    ["answer", "state", "another", 400, "Sign-in did not finish"],
    ["answer", "iss", "https://evil.example", 400, "Sign-in did not finish"],
  ] as const)("if somebody changed in the %s: %s", async (message, name, value, status, title) => {
    const tamper = ({ searchParams }: URL) => {
      expect(searchParams.get(name)).not.toBeNull();
      searchParams.set(name, value);
    };
    const browser = new Browser();
    const answer = await answerOf(browser, message === "request" ? tamper : undefined);
    if (message === "answer") tamper(answer);
    expect(await outcome(browser, await browser.follow(answer))).toEqual(nobody(status, title));
  });

  test("with another person's code injected into the answer", async () => {
    const [victim, attacker] = [new Browser(), new Browser()];
    const stolen = await answerOf(victim);
    const answer = await answerOf(attacker);
    answer.searchParams.set("code", stolen.searchParams.get("code") ?? "");
    expect(await outcome(attacker, await attacker.follow(answer))).toEqual(nobody(503, "Your sign-in provider failed"));
  });

  test("in another browser than the one that started", async () => {
    const answer = await answerOf(new Browser());
    const otherBrowser = new Browser();
    expect(await outcome(otherBrowser, await otherBrowser.follow(answer))).toEqual(
      nobody(400, "Sign-in did not finish"),
    );
    await begin(otherBrowser);
    expect(await outcome(otherBrowser, await otherBrowser.follow(answer))).toEqual(
      nobody(400, "Sign-in did not finish"),
    );
  });

  test("with a repeated answer, even if the cookie was kept", async () => {
    const browser = new Browser();
    const answer = await answerOf(browser);
    const kept = browser.cookies(service.origin).get("sign-in") ?? "";
    expect((await browser.follow(answer)).status).toBe(200);
    const again = new Browser();
    again.cookies(service.origin).set("sign-in", kept);
    expect(await outcome(again, await again.follow(answer))).toEqual(nobody(400, "Sign-in did not finish"));
  });

  test("after ten minutes at the provider", async () => {
    const browser = new Browser();
    const answer = await answerOf(browser);
    const database = await service.running.miniflare.getD1Database("DB", "worker");
    const { results } = await database.prepare("SELECT expires_at FROM sign_in_attempts").all<{ expires_at: string }>();
    for (const { expires_at: at } of results) expect(Date.parse(at) - Date.now()).toBeLessThanOrEqual(600_000);
    await database.prepare("UPDATE sign_in_attempts SET expires_at = ?").bind(new Date().toISOString()).run();
    expect(await outcome(browser, await browser.follow(answer))).toEqual(nobody(400, "Sign-in did not finish"));
  });
});

describe("a provider that puts claims into the ID token", () => {
  let otherProvider: TestProvider;
  let otherService: Service;
  const STRANGER = "stranger@acme.example";

  beforeAll(async () => {
    otherProvider = await startProvider();
    ({ service: otherService } = await startFor(otherProvider.issuer));
    const client = { ...PUBLIC, redirect_uris: [callbackOf(otherService)] };
    otherProvider.serve(client, { conformIdTokenClaims: false });
  });

  afterAll(async () => {
    otherProvider.close();
    await otherService.remove();
  });

  /** Signs in with these claims. */
  async function signInWith(inIdToken: object, userInfo: object): Promise<Answer> {
    Object.assign(otherProvider, { account: userInfo, inIdToken });
    const browser = new Browser();
    return browser.follow(location(await begin(browser, otherService)));
  }

  test.each([
    ["not verified in the user info", { email_verified: false }, {}, 403],
    ["not verified in the user info, as text", { email_verified: "false" }, {}, 403],
    ["not verified in the ID token, and verified in the user info", OWNER, { email_verified: false }, 403],
    ["verified in the user info", { email_verified: true }, {}, 200],
    ["without a claim in either", {}, {}, 200],
  ])("decides by its claims about an email %s", async (_, userInfo, idToken, status) => {
    const { email } = OWNER;
    const page = await signInWith({ email, ...idToken }, { ...userInfo, email });
    expect(page.status).toBe(status);
    if (status === 403) expect(page.body).toContain("Your email is not verified");
  });

  test.each([
    ["the user info verifies its own email", { email: OWNER.email }, { email: STRANGER, email_verified: true }, 403],
    ["the user info rejects its own email", { email: OWNER.email }, { email: STRANGER, email_verified: false }, 403],
    ["the ID token rejects its own email", { email: OWNER.email, email_verified: false }, { email: STRANGER }, 403],
    ["the ID token verifies no email", { email_verified: true }, { email: OWNER.email, email_verified: false }, 403],
    ["the user info verifies the member's email", { email: STRANGER }, OWNER, 200],
    ["the ID token verifies the member's email", OWNER, { email: STRANGER, email_verified: false }, 200],
    ["neither has the claim", { email: OWNER.email }, { email: STRANGER }, 200],
  ])("is trusted with a claim for the email of the same source only: %s", async (_, inIdToken, userInfo, status) => {
    const page = await signInWith(inIdToken, userInfo);
    expect(page.status).toBe(status);
    if (status === 200) expect(page.body).toContain(OWNER.email.toLowerCase());
  });
});

describe("a provider", () => {
  const SECRET = "a secret with + / : and %41";

  test.each([
    ["accepts the secret in the header", { method: "client_secret_basic", idToken: false }],
    [
      "accepts the secret in the body, and sends the email in the ID token",
      { method: "client_secret_post", idToken: true },
    ],
  ] as const)(
    "%s",
    async (_, { method, idToken }) => {
      const otherProvider = await startProvider();
      const { service: confidential } = await startFor(otherProvider.issuer, { OIDC_CLIENT_SECRET: SECRET });
      try {
        otherProvider.serve(
          {
            client_id: CLIENT_ID,
            client_secret: SECRET,
            token_endpoint_auth_method: method,
            redirect_uris: [callbackOf(confidential)],
          },
          { clientAuthMethods: [method], conformIdTokenClaims: !idToken },
        );
        otherProvider.account = OWNER;
        const browser = new Browser();
        const page = await browser.follow(location(await begin(browser, confidential)));
        expect([page.status, page.url.pathname]).toEqual([200, "/w/acme/usage"]);
        expect(otherProvider.asked.includes("/me")).toBe(!idToken);
      } finally {
        otherProvider.close();
        await confidential.remove();
      }
    },
    30_000,
  );

  test("is named in the error if it is missing or reports another issuer, and nothing is stored", async () => {
    const gone = await startProvider();
    gone.close();
    for (const issuer of [gone.issuer, provider.issuer.replace("127.0.0.1", "localhost")]) {
      const { service: lost } = await startFor(issuer);
      const answer = await begin(new Browser(), lost);
      expect([answer.status, answer.headers["set-cookie"]]).toEqual([503, undefined]);
      expect(answer.body).toContain("Your sign-in provider failed");
      await lost.remove();
    }
  });
});
