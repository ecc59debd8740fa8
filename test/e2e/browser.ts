/** A Chromium that is on this machine, driven by Playwright; and what the tests do in it again and again. */
import { existsSync } from "node:fs";
import path from "node:path";
import { chromium } from "playwright-core";
import type { Browser, BrowserContext, BrowserContextOptions, Page } from "playwright-core";
import { inject } from "vitest";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge"];
const APPLICATIONS = ["Google Chrome", "Chromium", "Microsoft Edge"].map(
  (name) => `/Applications/${name}.app/Contents/MacOS/${name}`,
);

/** `CHROMIUM` names it; otherwise the first on the path. */
export function findChromium(): string {
  const named = process.env["CHROMIUM"];
  if (named !== undefined && named !== "") return named;
  const folders = (process.env["PATH"] ?? "").split(path.delimiter);
  const candidates = [...NAMES.flatMap((name) => folders.map((folder) => path.join(folder, name))), ...APPLICATIONS];
  const found = candidates.find((file) => existsSync(file));
  if (found !== undefined) return found;
  throw new Error("No Chromium or Chrome was found. Install one, or name its executable in the variable CHROMIUM.");
}

/** @param keepPages whether a page that was left is kept for the way back, as people's browsers do. */
export function launch({ keepPages = false } = {}): Promise<Browser> {
  return chromium.launch({
    executablePath: findChromium(),
    // As root, which is what containers run as, Chromium does not start with its sandbox. It only sees loopback.
    args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
    ignoreDefaultArgs: keepPages ? ["--disable-back-forward-cache"] : [],
  });
}

export const SIZES = { wide: { width: 1280, height: 900 }, narrow: { width: 360, height: 780 } } as const;

export async function newContext(browser: Browser, options: BrowserContextOptions = {}): Promise<BrowserContext> {
  const context = await browser.newContext({ baseURL: inject("origin"), viewport: SIZES.wide, ...options });
  context.setDefaultTimeout(10_000);
  return context;
}

/** Signs in from the list of members (see session/), and ends on the page of `to`. */
export async function signIn(context: BrowserContext, email: string, to = "/"): Promise<Page> {
  const page = await context.newPage();
  await page.goto(`/sign-in?to=${encodeURIComponent(to)}`);
  await page.getByRole("button", { name: email }).click();
  return page;
}
