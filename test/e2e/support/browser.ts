/** Shared steps of the browser tests. */
import type { Browser, BrowserContext, BrowserContextOptions, Page } from "playwright-core";
import { inject } from "vitest";

export { launch } from "./chromium.ts";

export const SIZES = {
  large: { width: 1920, height: 1080 },
  wide: { width: 1280, height: 900 },
  narrow: { width: 360, height: 780 },
} as const;

export async function newContext(browser: Browser, options: BrowserContextOptions = {}): Promise<BrowserContext> {
  const context = await browser.newContext({ baseURL: inject("origin"), viewport: SIZES.wide, ...options });
  context.setDefaultTimeout(20_000);
  return context;
}

/** Signs in from the list of members (see session/), and ends on the page `to`. */
export async function signIn(context: BrowserContext, email: string, to = "/"): Promise<Page> {
  const page = await context.newPage();
  await page.goto(`/sign-in?to=${encodeURIComponent(to)}`);
  await page.getByRole("button", { name: email }).click();
  return page;
}
