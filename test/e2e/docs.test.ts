/** The documentation in a browser: accessible, within the screen, small, and searchable without scripts. */
import { gzipSync } from "node:zlib";
import type { Page, Response } from "playwright-core";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { ACCESS } from "../support/access.ts";
import { launch, newContext, SIZES } from "./support/browser.ts";
import { overflow, problems } from "./support/problems.ts";

const FIRST_VIEW_MAX_BYTES = 60 * 1024;
const PATHS = [
  ...Object.keys(ACCESS).flatMap((route) => /^GET (\/docs.*)$/.exec(route)?.[1] ?? []),
  "/docs/search?q=signal",
  "/docs/search?q=nothing+like+this",
  `/docs/search?q=${"n".repeat(300)}`,
];

let browser: Awaited<ReturnType<typeof launch>>;
let page: Page;
/** Errors in the page's console, including violations of the content security policy. */
const consoleErrors: string[] = [];

beforeAll(async () => {
  browser = await launch();
  const context = await newContext(browser, { reducedMotion: "reduce" });
  page = await context.newPage();
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) consoleErrors.push(message.text());
  });
});

beforeEach(() => void consoleErrors.splice(0));
afterAll(() => browser?.close());

test.each(PATHS)("%s is accessible and within the screen, in light and dark", async (path) => {
  await page.goto(path);
  expect(await problems(page)).toEqual([]);
  expect(consoleErrors).toEqual([]);
});

test.each(PATHS)("a first view weighs at most 60 KB: %s", async (path) => {
  const view = await (await newContext(browser)).newPage();
  const responses: Response[] = [];
  view.on("response", (response) => void responses.push(response));
  await view.goto(path);
  const sizes = await Promise.all(responses.map(async (response) => gzipSync(await response.body()).byteLength));
  await view.context().close();
  // The page and its style sheet.
  expect(sizes).toHaveLength(2);
  expect(sizes.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThanOrEqual(FIRST_VIEW_MAX_BYTES);
});

test("the names of codes and fields stay on one line, and their tables fit", async () => {
  const context = await newContext(browser);
  const plain = await context.newPage();
  for (const path of ["/docs/senders/codes", "/docs/api/codes", "/docs/api/keys", "/docs/api/destinations"]) {
    await plain.goto(path);
    for (const width of [360, 768, 1024, 1280, 1440]) {
      await plain.setViewportSize({ width, height: 900 });
      const broken = await plain.evaluate<string[]>(`
        [...document.querySelectorAll("tbody th code")].filter((name) => name.getClientRects().length > 1).map((name) => name.textContent)
      `);
      expect([broken, await overflow(plain)], `${path}, ${width} pixels`).toEqual([[], []]);
    }
  }
  await context.close();
});

test("without scripts a person searches, reads the result, and returns to the product", async () => {
  const context = await newContext(browser, { javaScriptEnabled: false, viewport: SIZES.narrow });
  const plain = await context.newPage();
  await plain.goto("/docs");
  await plain.getByRole("searchbox", { name: "Search the documentation of" }).fill("rotate");
  await plain.getByRole("button", { name: "Search" }).click();
  await plain.getByRole("link", { name: "Rotate an API key" }).click();
  expect(new URL(plain.url()).pathname).toBe("/docs/api/keys");
  await plain.getByRole("heading", { name: "Rotate an API key" }).waitFor();
  await plain.getByLabel("Show the menu").check({ force: true });
  const current = plain.getByRole("navigation", { name: "Documentation" }).getByRole("link", { name: "API keys" });
  expect(await current.getAttribute("aria-current")).toBe("page");
  const field = plain.getByRole("searchbox", { name: "Search the documentation" });
  await field.fill("event_missing");
  await field.press("Enter");
  await plain.getByRole("link", { name: "event_missing" }).click();
  await plain.getByText('Fill in "event": mapping rules match on it.').waitFor();
  await plain.getByLabel("Show the menu").check({ force: true });
  await plain.getByRole("link", { name: "Your workspaces" }).click();
  await plain.getByRole("heading", { name: "Sign in" }).waitFor();
  await context.close();
});
