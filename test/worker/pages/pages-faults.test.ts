/** A platform fault on a page: the error page shows the request id and nothing about the cause. */
import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import worker from "../../../src/index.ts";
import { readHtml } from "../../support/html.ts";
import { d1Failing } from "../../support/faults.ts";
import { newMembers } from "../../support/members.ts";
import type { Browser } from "../../support/members.ts";

const HERE = "https://signals.example";
const NEW_KEY = `form_token=${crypto.randomUUID()}&endpoint_type=signal_staging&lifetime=never`;
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

async function ask(slug: string, browser: Browser, path: string, bindings: object, form?: string): Promise<Response> {
  const headers = {
    cookie: await browser.cookie(),
    origin: HERE,
    "content-type": "application/x-www-form-urlencoded",
  };
  const init = form === undefined ? { headers } : { method: "POST", headers, body: form };
  const request = new Request(`${HERE}/w/${slug}/${path}`, { ...init, redirect: "manual" });
  return worker.fetch(request, { ...env, ...bindings } as unknown as Env, createExecutionContext());
}

async function expectFaultPage(answer: Response): Promise<void> {
  const html = await answer.text();
  expect(answer.headers.get("cache-control")).toBe("no-store");
  expect(answer.headers.get("content-security-policy")).toContain("default-src 'none'");
  expect(html.startsWith("<!doctype html>")).toBe(true);
  const page = readHtml(html);
  expect(page.only("h1").text).toBe("Something went wrong");
  expect(page.only("code").text).toBe(answer.headers.get("x-request-id"));
  expect(html).not.toContain(SECRET);
}

describe("while the platform fails", () => {
  test.each(FAULTS)("%s: the page reports the failure", async (_, bindings, paths) => {
    const { slug, owner } = await newMembers();
    vi.spyOn(console, "log").mockImplementation(() => {});
    const statuses: number[] = [];
    for (const page of paths) {
      const answer = await ask(slug, owner, page, bindings);
      statuses.push(answer.status);
      await expectFaultPage(answer);
    }
    expect(statuses).toEqual(paths.map(() => 503));
    vi.restoreAllMocks();
  });

  test.each([
    ["settings/members", { DB: d1Failing(/insert into "members"/, SECRET) }, "email=new@example.com&role=member"],
    [
      "settings/members/role",
      { DB: d1Failing(/select .* from "members" where/, SECRET) },
      "email=new@example.com&role=member",
    ],
    [
      "settings/api-keys/new",
      { DB: d1Failing(/insert into "api_keys"/, SECRET) },
      `${NEW_KEY}&name=of+new@example.com`,
    ],
    ["usage/release", { QUOTA_COUNTER: brokenObjects }, "x=1"],
    ["people/a@b.example/delete", { SIGNAL_STORE: brokenObjects }, "email=a@b.example"],
  ])(
    "a form to %s: the page says so; what failed is in the log, and nothing of the form",
    async (page, bindings, form) => {
      const { slug, owner } = await newMembers();
      const log = vi.spyOn(console, "log").mockImplementation(() => {});
      const answer = await ask(slug, owner, page, bindings, form);
      expect(answer.status).toBe(503);
      await expectFaultPage(answer);
      const lines = log.mock.calls.flat().join("\n");
      vi.restoreAllMocks();
      // The fault occurs as planned, after the look-up of the session.
      expect(lines).toContain(SECRET);
      expect(lines).not.toContain("@");
      expect(lines).not.toContain("%40");
      expect(lines).not.toContain(slug);
    },
  );
});
