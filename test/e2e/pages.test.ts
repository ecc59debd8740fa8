/**
 * What holds on every page: accessible, no wider than the screen, nothing that the content security policy stops, light
 * over the wire.
 */
import { gzipSync } from "node:zlib";
import { AxeBuilder } from "@axe-core/playwright";
import type { Browser, BrowserContext, Page, Response } from "playwright-core";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { launch, newContext, signIn, SIZES } from "./browser.ts";

const FIRST_VIEW_MAX_BYTES = 60 * 1024;
const { slug, keyId, ruleId, scored } = inject("demo");
const HOME = `/w/${slug}`;

/** With the demo's data, and with a search that finds nothing where that is another page. */
const PATHS = [
  "/signals",
  "/signals?q=nothing",
  "/signals/group?event=Filled+Out+Form&source=marketing-automation",
  "/signals/all",
  "/signals/all?status=duplicate",
  "/signals/all?status=held",
  "/signals/dead-letters",
  `/signals/${scored}`,
  "/live",
  "/rejections",
  "/rules",
  "/rules/new",
  `/rules/new?from=${scored}`,
  `/rules/${ruleId}`,
  "/people",
  "/people?q=nobody",
  "/people/peter@example.com",
  "/people/peter@example.com/delete",
  "/accounts",
  "/accounts/one?external_id=acct-2",
  "/connect",
  "/usage",
  "/settings/api-keys",
  "/settings/api-keys/new",
  `/settings/api-keys/${keyId}/rotate`,
  `/settings/api-keys/${keyId}/deactivate`,
  "/settings/members",
  "/settings/activity",
  "/nowhere",
];

let browser: Browser;

beforeAll(async () => {
  browser = await launch();
});

afterAll(() => browser?.close());

/** What the page's console complained about: also what the content security policy has stopped. */
function complaints(context: BrowserContext): string[] {
  const said: string[] = [];
  context.on("console", (message) => {
    const expected = message.location().url.endsWith("/nowhere") && message.text().includes("404");
    if (["error", "warning"].includes(message.type()) && !expected) said.push(message.text());
  });
  context.on("weberror", (error) => said.push(String(error.error())));
  return said;
}

/** Of those that matter, what and where. */
async function violations(page: Page): Promise<string[]> {
  const { violations: found } = await new AxeBuilder({ page }).analyze();
  return found
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map(({ html, any }) => `${id}: ${html} ${any[0]?.message ?? ""}`));
}

const overflow = (page: Page) =>
  page.evaluate<number>("document.documentElement.scrollWidth - document.documentElement.clientWidth");

const LOOKS = (["light", "dark"] as const).flatMap((colorScheme) =>
  (["wide", "narrow"] as const).map((size) => ({ colorScheme, size })),
);

describe.each(LOOKS)("$colorScheme and $size", ({ colorScheme, size }) => {
  let context: BrowserContext;
  let page: Page;
  let said: string[];

  beforeAll(async () => {
    context = await newContext(browser, { colorScheme, viewport: SIZES[size], reducedMotion: "reduce" });
    page = await signIn(context, "owner@example.com", `${HOME}/signals`);
    said = complaints(context);
  });

  afterAll(() => context?.close());

  test.each(PATHS)("%s is accessible, fits, and complains of nothing", async (path) => {
    said.length = 0;
    await page.goto(HOME + path);
    expect(await violations(page)).toEqual([]);
    expect(await overflow(page)).toBe(0);
    expect(said).toEqual([]);
  });

  test("so are the sign-in page, a created key, and a form with errors", async () => {
    said.length = 0;
    const expectGood = async () => {
      expect([page.url(), await violations(page), await overflow(page)]).toEqual([page.url(), [], 0]);
    };
    await page.goto(`${HOME}/settings/api-keys/new`);
    await page.getByLabel("Name", { exact: true }).fill(`Looked at, ${colorScheme} and ${size}`);
    await page.getByLabel("Secret").check();
    await page.getByRole("button", { name: "Create API Key" }).click();
    await page.locator("#new-key").waitFor();
    await expectGood();
    expect(said).toEqual([]);
    await page.goto(`${HOME}/settings/api-keys/new`);
    await page.getByLabel("Product Org Updates").check();
    await page.getByRole("button", { name: "Create API Key" }).click();
    await page.getByRole("alert").waitFor();
    await expectGood();
    await page.goto(`${HOME}/rules/new`);
    await page.getByRole("button", { name: "Create rule" }).click();
    await page.getByRole("alert").waitFor();
    await expectGood();
    await page.goto("/sign-in");
    await expectGood();
  });
});

describe("a first view weighs at most 60 KB", () => {
  test.each([...PATHS.map((path) => HOME + path), "/sign-in"])("%s", async (path) => {
    // A new browser profile: nothing is cached.
    const context = await newContext(browser);
    const page = await signIn(context, "owner@example.com", "/w/");
    // The style and script are cached by the sign-in page, and are to be counted here.
    const session = await context.newCDPSession(page);
    await session.send("Network.setCacheDisabled", { cacheDisabled: true });
    const responses: Response[] = [];
    page.on("response", (response) => responses.push(response));
    await page.goto(path, { waitUntil: "networkidle" });
    const weights = await Promise.all(responses.map(weight));
    expect(responses.length).toBeGreaterThanOrEqual(3);
    expect(weights.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThanOrEqual(FIRST_VIEW_MAX_BYTES);
    await context.close();
  });
});

/**
 * Bytes of headers and body. The local runtime does not compress; Cloudflare compresses HTML, CSS and JavaScript on the
 * way to a browser, so the body counts as gzip makes it, which is the least of what is used there.
 */
async function weight(response: Response): Promise<number> {
  const { responseHeadersSize } = await response.request().sizes();
  return responseHeadersSize + gzipSync(await response.body().catch(() => Buffer.alloc(0))).byteLength;
}
