/** Design §10: sign-in by Cloudflare Access, as the runtime simulates it: the service reads the real `ctx.access`. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Browser, location } from "./support/browser.ts";
import { startWithMembers } from "./support/members.ts";
import type { Service } from "../support/service.ts";

const services: Service[] = [];

const AUDIENCE = "an application";

interface BehindAccess {
  service: Service;
  /** The path of the workspace's members. */
  members: string;
  /** The Worker's own socket, without Access in front of it. */
  origin: string;
  /** The address behind Access. */
  address: string;
}

/** A service whose requests all have passed Access with this identity. */
async function behindAccess(
  identity: Record<string, string> | undefined,
  vars: Record<string, string> = { ACCESS_AUD: AUDIENCE },
): Promise<BehindAccess> {
  const started = await startWithMembers({ vars, access: { aud: AUDIENCE, ...(identity && { identity }) } });
  const { service } = started;
  services.push(service);
  const address = (await service.running.miniflare.ready).origin;
  return { ...started, origin: service.origin, address };
}

let owner: BehindAccess;

beforeAll(async () => {
  owner = await behindAccess({ email: "Owner@Acme.example" });
});

afterAll(async () => {
  for (const service of services) await service.remove();
});

test("Access is the default for a deployment; the pages know the visitor and need no sign-in page", async () => {
  const browser = new Browser();
  const page = await browser.follow(`${owner.address}/`);
  expect([page.status, page.url.pathname]).toEqual([200, "/w/acme"]);
  expect(page.body).toContain("owner@acme.example");
  expect([...browser.cookies(owner.address)]).toEqual([]);
  const signIn = await browser.ask(`${owner.address}/sign-in?to=/w/acme/usage`);
  expect([signIn.status, location(signIn).pathname]).toEqual([303, "/w/acme/usage"]);
});

test("a request that bypasses Access gets nothing, regardless of its content", async () => {
  const browser = new Browser();
  for (const path of ["/w/acme/usage", "/w/", "/sign-in"]) {
    const answer = await browser.ask(owner.origin + path);
    expect([path, answer.status]).toEqual([path, 401]);
    expect(answer.body).toContain("did not come through the Cloudflare Access application");
  }
  browser.cookies(owner.origin).set("session", "a".repeat(43));
  expect((await browser.ask(`${owner.origin}/w/acme/usage`)).status).toBe(401);
  const headers = { "cf-access-authenticated-user-email": "owner@acme.example", "cf-access-jwt-assertion": "e30.e30." };
  expect((await fetch(`${owner.origin}/w/acme/usage`, { headers })).status).toBe(401);
});

test("a cross-site form is rejected behind Access too, although the browser sends its cookie", async () => {
  const headers = { origin: "https://evil.example", "content-type": "application/x-www-form-urlencoded" };
  const answer = await fetch(`${owner.address}/w/acme/settings/members`, { method: "POST", headers, body: "a=b" });
  expect(answer.status).toBe(403);
});

test("sign-out leads to the URL where Access ends its session", async () => {
  const answer = await new Browser().ask(`${owner.address}/sign-out`, {});
  expect([answer.status, answer.headers["refresh"]]).toEqual([200, "0; url=/cdn-cgi/access/logout"]);
});

test("a removed member loses access at once, though Access still lets them through", async () => {
  const browser = new Browser();
  const member = await behindAccess({ email: "member@acme.example" });
  expect((await browser.ask(`${member.address}/w/acme/usage`)).status).toBe(200);
  await member.service.api.call("DELETE", `${member.members}/member@acme.example`);
  expect((await browser.ask(`${member.address}/w/acme/usage`)).status).toBe(404);
  const first = await browser.follow(`${member.address}/`);
  expect([first.status, first.body.includes("not a member of any workspace")]).toEqual([403, true]);
});

test("an identity without an email, such as a service token, is no member", async () => {
  const machine = await behindAccess({ common_name: "a machine" });
  expect((await new Browser().ask(`${machine.address}/w/acme/usage`)).status).toBe(401);
});

test.each([
  ["another application of the account", { ACCESS_AUD: "another application" }],
  ["any application, where none is configured", {}],
])(
  "who comes through %s is nobody",
  async (_, vars) => {
    const service = await behindAccess({ email: "owner@acme.example" }, vars);
    for (const path of ["/w/acme/usage", "/sign-in"]) {
      const answer = await new Browser().ask(service.address + path);
      expect([path, answer.status]).toEqual([path, 401]);
      expect(answer.body).toContain("ACCESS_AUD");
    }
  },
  30_000,
);

test("an email that only Unicode normalization makes equal to a member's is no member", async () => {
  const lookalike = await behindAccess({ email: "owner@acme.e\uFF58ample" });
  expect((await new Browser().ask(`${lookalike.address}/w/acme/usage`)).status).toBe(401);
});
