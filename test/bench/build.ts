/** Bundles a Worker exactly as a deployment would: `wrangler deploy --dry-run --minify`. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";

export interface BuiltWorker {
  configPath: string;
  outDir: string;
  /** The main module first. */
  modules: { type: "ESModule" | "Text"; path: string; contents: string }[];
  /** All uploaded modules, gzipped. */
  gzippedBytes: number;
}

export const ROOT = path.join(import.meta.dirname, "../..");
export const SERVICE_CONFIG = path.join(ROOT, "wrangler.toml");

/** The configuration of another Worker of the bench, or its main module. */
export const benchWorker = (name: string): string => path.join(import.meta.dirname, "workers", name);

/** @param entry a main module other than the configuration's. It runs with the same bindings. */
export async function build(configPath: string, outDir: string, entry?: string): Promise<BuiltWorker> {
  return bundle(configPath, outDir, "--minify", entry);
}

/** With the names of functions, and a line with the path of each source file. */
export async function buildReadable(configPath: string, outDir: string): Promise<BuiltWorker> {
  return bundle(configPath, outDir, "--no-minify");
}

async function bundle(configPath: string, outDir: string, minify: string, entry?: string): Promise<BuiltWorker> {
  const main = entry === undefined ? [] : [entry];
  await wrangler(["deploy", ...main, "--config", configPath, "--dry-run", minify, "--outdir", outDir]);
  return readBuilt(configPath, outDir);
}

const wranglerPackage = createRequire(import.meta.url).resolve("wrangler/package.json");

export async function wrangler(args: string[], cwd = ROOT): Promise<void> {
  await promisify(execFile)(process.execPath, [path.join(path.dirname(wranglerPackage), "bin/wrangler.js"), ...args], {
    cwd,
    env: { ...process.env, WRANGLER_SEND_METRICS: "false", WRANGLER_HIDE_BANNER: "true", CI: "true" },
  });
}

const builds = new Map<string, Promise<BuiltWorker>>();

/** The built Worker, for all test files that this process runs. */
export function buildOnce(configPath: string, entry?: string): Promise<BuiltWorker> {
  const name = `${configPath} ${entry}`;
  const built = builds.get(name) ?? buildInMemory(configPath, entry);
  builds.set(name, built);
  return built;
}

async function buildInMemory(configPath: string, entry?: string): Promise<BuiltWorker> {
  const outDir = await mkdtemp(path.join(os.tmpdir(), "signal-ingestion-built-"));
  try {
    return await build(configPath, outDir, entry);
  } finally {
    await rm(outDir, { recursive: true, force: true });
  }
}

/** A Worker built into a folder. */
export async function readBuilt(configPath: string, outDir: string): Promise<BuiltWorker> {
  const names = (await readdir(outDir)).filter((name) => name.endsWith(".js") || name.endsWith(".sql"));
  const modules = await Promise.all(
    names
      .toSorted((a, b) => Number(b.endsWith(".js")) - Number(a.endsWith(".js")))
      .map(async (name) => {
        const file = path.join(outDir, name);
        const type = name.endsWith(".js") ? ("ESModule" as const) : ("Text" as const);
        return { type, path: file, contents: await readFile(file, "utf8") };
      }),
  );
  const gzippedBytes = gzipSync(modules.map((module) => module.contents).join("\n"), { level: 9 }).byteLength;
  return { configPath, outDir, modules, gzippedBytes };
}
