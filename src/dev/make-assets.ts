/**
 * `npm run assets`: makes src/pages/assets.ts, the pages' style and script as the Worker serves them, from
 * src/pages/kit/style.css and src/pages/client. `--check` says whether that file is up to date.
 */
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { build } from "esbuild";
import { PROJECT_DIR } from "./local-service.ts";

const PAGES = path.join(PROJECT_DIR, "src/pages");
const OUTPUT = path.join(PAGES, "assets.ts");

const style = await bundle("kit/style.css");
const script = await bundle("client/main.ts");
const text = `/** Made by \`npm run assets\` from kit/style.css and client/: do not edit. */
export const STYLE_PATH = "/assets/${fingerprint(style)}.css";
export const SCRIPT_PATH = "/assets/${fingerprint(script)}.js";
export const STYLE = ${JSON.stringify(style)};
export const SCRIPT = ${JSON.stringify(script)};
`;

if (!process.argv.includes("--check")) await writeFile(OUTPUT, text);
else if ((await readFile(OUTPUT, "utf8")) !== text) {
  console.error("src/pages/assets.ts is not up to date: run `npm run assets`.");
  process.exitCode = 1;
}

async function bundle(entry: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [path.join(PAGES, entry)],
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    target: "es2022",
    charset: "utf8",
  });
  return outputFiles[0]?.text.trim() ?? "";
}

function fingerprint(content: string): string {
  return createHash("sha256").update(content).digest("hex").slice(0, 12);
}
