/** A platform fault on a page: the error page shows the request id and nothing about the cause. */
import { afterEach, describe, expect, test, vi } from "vitest";
import { d1Failing } from "../../support/faults.ts";
import { type Answer, newMembers, visitWith } from "../../support/members.ts";

const NEW_KEY = { form_token: crypto.randomUUID(), endpoint_type: "signal_staging", lifetime: "never" };
const NEW_MEMBER = { email: "new@example.com", role: "member" };
const SECRET = "secret-of-the-platform";

/** A binding whose every call fails. */
const broken = new Proxy(
  {},
  {
    get: () => () => {
      throw new Error(SECRET);
    },
  },
);

const brokenObjects = { getByName: () => broken };

const FAULTS: [string, Record<string, unknown>, string[]][] = [
  ["D1", { DB: broken }, ["signals", "settings/members", "settings/activity", "nowhere"]],
  ["the Signal Store", { SIGNAL_STORE: brokenObjects }, ["signals", "people", "people/export", "accounts", "rules"]],
  ["the Quota Counter", { QUOTA_COUNTER: brokenObjects }, ["usage", "rejections", "live", "settings/api-keys"]],
];

/** Expects the error page. @returns the status. */
function faultPage({ status, headers, body, page }: Answer): number {
  expect(headers.get("cache-control")).toBe("no-store");
  expect(headers.get("content-security-policy")).toContain("default-src 'none'");
  expect(body.startsWith("<!doctype html>")).toBe(true);
  expect([page.only("h1").text, page.only("code").text]).toEqual(["Something went wrong", headers.get("x-request-id")]);
  expect(body).not.toContain(SECRET);
  return status;
}

afterEach(() => void vi.restoreAllMocks());

describe("while the platform fails", () => {
  test.each(FAULTS)("%s: the page reports the failure", async (_, bindings, paths) => {
    const { home, owner } = await newMembers();
    vi.spyOn(console, "log").mockImplementation(() => {});
    for (const path of paths) expect(faultPage(await visitWith(bindings, owner, `${home}/${path}`))).toBe(503);
  });

  test.each<[path: string, bindings: object, form: Record<string, string>]>([
    ["settings/members", { DB: d1Failing(/insert into "members"/, SECRET) }, NEW_MEMBER],
    ["settings/members/role", { DB: d1Failing(/select .* from "members" where/, SECRET) }, NEW_MEMBER],
    [
      "settings/api-keys/new",
      { DB: d1Failing(/insert into "api_keys"/, SECRET) },
      { ...NEW_KEY, name: "of n@x.example" },
    ],
    ["usage/release", { QUOTA_COUNTER: brokenObjects }, { x: "1" }],
    ["people/a@b.example/delete", { SIGNAL_STORE: brokenObjects }, { email: "a@b.example" }],
  ])(
    "a form to %s: the page says so; what failed is in the log, and nothing of the form",
    async (path, bindings, form) => {
      const { slug, home, owner } = await newMembers();
      const log = vi.spyOn(console, "log").mockImplementation(() => {});
      expect(faultPage(await visitWith(bindings, owner, `${home}/${path}`, form))).toBe(503);
      const lines = log.mock.calls.flat().join("\n");
      // The fault occurs as planned, after the look-up of the session.
      expect(lines).toContain(SECRET);
      for (const hidden of ["@", "%40", slug]) expect(lines).not.toContain(hidden);
    },
  );
});
