/** The Chromium of this machine, driven by Playwright. */
import { existsSync } from "node:fs";
import path from "node:path";
import { chromium, type Browser } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge"];
const APPLICATIONS = ["Google Chrome", "Chromium", "Microsoft Edge"].map(
  (name) => `/Applications/${name}.app/Contents/MacOS/${name}`,
);

/** The path in `CHROMIUM`, otherwise the first one on the path. */
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
    // Chromium does not start with its sandbox as root, the user in containers. It only visits loopback.
    args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
    ignoreDefaultArgs: keepPages ? ["--disable-back-forward-cache"] : [],
  });
}
