/** A platform fault on a page: the error page shows the request id and nothing about the cause. */
import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import worker from "../../../src/index.ts";
import { d1Failing } from "../../support/faults.ts";
import { expectLogged } from "../../support/logged.ts";
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

describe("while a new version resets the objects", () => {
  const RESET = Object.assign(new Error("Durable Object reset because its code was updated."), { retryable: true });

  /** Objects whose next calls fail. */
  function failing(times: number, error: Error) {
    const calls = { failed: 0 };
    const getByName = (name: string) =>
      new Proxy(env.SIGNAL_STORE.getByName(name), {
        get: (stub, method: string) => {
          const call = (stub as unknown as Record<string, (...args: unknown[]) => unknown>)[method];
          return (...args: unknown[]) => {
            if (calls.failed >= times) return call?.(...args);
            calls.failed++;
            return Promise.reject(error);
          };
        },
      });
    return { bindings: { SIGNAL_STORE: { getByName } }, calls };
  }

  test("a page and an answer of the API are read again, once", async () => {
    const { workspace, home, owner } = await newMembers();
    expectLogged("error");
    const { bindings } = failing(1, RESET);
    expect((await visitWith(bindings, owner, `${home}/people`)).status).toBe(200);
    const again = failing(1, RESET);
    const request = new Request(`https://example.com/operator/workspaces/${workspace.id}/people`, {
      headers: { authorization: `Bearer ${env.OPERATOR_TOKEN}` },
    });
    const answer = await worker.fetch(
      request,
      { ...env, ...again.bindings } as object as Env,
      createExecutionContext(),
    );
    expect([answer.status, again.calls.failed]).toEqual([200, 1]);
    expect((await visitWith(failing(2, RESET).bindings, owner, `${home}/people`)).status).toBe(503);
  });

  test("nothing is repeated that changes something, or that an overloaded object did not answer", async () => {
    const { home, owner } = await newMembers();
    expectLogged("error");
    const overloaded = failing(1, Object.assign(new Error("overloaded"), { retryable: true, overloaded: true }));
    expect((await visitWith(overloaded.bindings, owner, `${home}/people`)).status).toBe(503);
    const reset = failing(1, RESET);
    const form = { email: "a@b.example" };
    const answer = await visitWith(reset.bindings, owner, `${home}/people/a@b.example/delete`, form);
    expect([answer.status, reset.calls.failed]).toEqual([503, 1]);
  });
});

describe("while the platform fails", () => {
  test.each(FAULTS)("%s: the page reports the failure", async (_, bindings, paths) => {
    const { home, owner } = await newMembers();
    expectLogged("error");
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
    ["usage/release", { QUOTA_COUNTER: brokenObjects }, { most: "1", overages: "off" }],
    ["people/a@b.example/delete", { SIGNAL_STORE: brokenObjects }, { email: "a@b.example" }],
  ])(
    "a form to %s: the page says so; what failed is in the log, and nothing of the form",
    async (path, bindings, form) => {
      const { slug, home, owner } = await newMembers();
      const logged = expectLogged("error");
      expect(faultPage(await visitWith(bindings, owner, `${home}/${path}`, form))).toBe(503);
      const lines = JSON.stringify(logged());
      // The fault occurs as planned, after the look-up of the session.
      expect(lines).toContain(SECRET);
      for (const hidden of ["@", "%40", slug]) expect(lines).not.toContain(hidden);
    },
  );
});
