/** Shared steps of the browser tests. */
import type { Browser, BrowserContext, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, inject } from "vitest";
import { clockAheadMs } from "../../../src/dev/clock-ahead.ts";
import { shiftDate } from "../../../src/dev/worker/shift-date.ts";
import { launch } from "./chromium.ts";

export { launch };

export const SIZES = {
  large: { width: 1920, height: 1080 },
  wide: { width: 1280, height: 900 },
  narrow: { width: 360, height: 780 },
} as const;

export async function newContext(browser: Browser, options: BrowserContextOptions = {}): Promise<BrowserContext> {
  const context = await browser.newContext({ baseURL: inject("origin"), viewport: SIZES.wide, ...options });
  context.setDefaultTimeout(20_000);
  await context.addInitScript(shiftDate, clockAheadMs);
  return context;
}

/** Signs in from the list of members (see session/), and ends on the page `to`. */
export async function signIn(context: BrowserContext, email: string, to = "/"): Promise<Page> {
  const page = await context.newPage();
  await page.goto(`/sign-in?to=${encodeURIComponent(to)}`);
  await page.getByRole("button", { name: email }).click();
  return page;
}

/** Answers each question of the browser with "no". Returns their types, in order. */
export function dismissed(page: Page): string[] {
  const asked: string[] = [];
  page.on("dialog", (dialog) => {
    asked.push(dialog.type());
    void dialog.dismiss();
  });
  return asked;
}

/** A browser for the tests of one file. After each test it closes the contexts of that test. */
export function browserForFile(options: Parameters<typeof launch>[0] = {}) {
  let browser: Browser;
  const contexts: BrowserContext[] = [];
  beforeAll(async () => {
    browser = await launch(options);
  });
  afterEach(async () => {
    for (const context of contexts.splice(0)) await context.close();
  });
  afterAll(() => browser?.close());

  const openContext = async (how: BrowserContextOptions = {}): Promise<BrowserContext> => {
    const context = await newContext(browser, how);
    contexts.push(context);
    return context;
  };
  /** Opens a signed-in page in a new context. */
  const open = async (email: string, to = "/", how: BrowserContextOptions = {}): Promise<Page> =>
    signIn(await openContext(how), email, to);
  return { openContext, open };
}
