/**
 * The state that a version has left, as stored in test/fault/upgrade: an archive of the files of D1, of the objects
 * and of R2, of that version's Worker, and of its answers.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { brotliCompressSync, brotliDecompressSync, constants } from "node:zlib";
import type { BooksAnswer } from "../../../src/dev/operator-client.ts";
import type { ApiDocument } from "../../../src/operator/docs/api-document.ts";

const ROOT = path.resolve(import.meta.dirname, "../../..");
export const LEFT_STATES = path.join(import.meta.dirname, "../upgrade");
const ENDING = ".tar.br";

/** An unpacked archive. */
const MAX_BYTES = 64 * 1024 * 1024;

/** The content of an archive: two folders and `left.json`. */
export const PARTS = { state: "state", worker: "worker", left: "left.json" } as const;

export interface Left {
  version: string;
  commit: string;
  /** The time at which the version was stopped, in milliseconds since 1970. */
  atMs: number;
  /** Every migration of the version, by its path in the project, with a hash of its text. */
  migrations: Record<string, string>;
  workspaceId: string;
  slug: string;
  owner: string;
  keys: {
    plain: string;
    secret: { key: string; secret: string };
    accounts: string;
    deactivated: string;
    /** A rotated key that ends in seven days. */
    rotated: string;
    successor: string;
  };
  ruleId: string;
  /** Signals in the outbox at the stop, which were not recorded yet. */
  unsettled: string[];
  /** The messages that contained them. */
  messages: string[];
  /** A visitor without a person whose signals are in R2; and their number. */
  stranger: { anonymousId: string; signals: number };
  /** A signal whose payload is in R2, and that payload. */
  cold: { id: string; payload: unknown };
  /** The expected books and scores once every message has arrived. */
  arrived: { books: BooksAnswer; scores: Record<string, number> };
  /** What it promised to programs. */
  api: ApiDocument;
  /** A paused destination with a waiting failed delivery. */
  destination: { id: string; secret: string };
}

/** The versions with a stored state. */
export function leftVersions(): string[] {
  return readdirSync(LEFT_STATES)
    .filter((name) => name.endsWith(ENDING))
    .map((name) => name.slice(0, -ENDING.length));
}

export function packLeft(version: string, folder: string): string {
  const archive = path.join(LEFT_STATES, version + ENDING);
  const tar = execFileSync("tar", ["-cf", "-", "-C", folder, ...Object.values(PARTS)], { maxBuffer: MAX_BYTES });
  const params = { [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS };
  writeFileSync(archive, brotliCompressSync(tar, { params }));
  return archive;
}

/** Unpacks it into a new folder. */
export function unpackLeft(version: string, folder: string): Left {
  mkdirSync(folder, { recursive: true });
  const tar = brotliDecompressSync(readFileSync(path.join(LEFT_STATES, version + ENDING)));
  execFileSync("tar", ["-xf", "-", "-C", folder], { input: tar });
  return JSON.parse(readFileSync(path.join(folder, PARTS.left), "utf8")) as Left;
}

/** The migrations of all databases, by their path in the project, with a hash of their text. */
export function migrationsNow(): Record<string, string> {
  const files = ["d1", "quota-counter", "signal-store", "destinations"]
    .map((name) => `migrations/${name}`)
    .flatMap((folder) =>
      readdirSync(path.join(ROOT, folder))
        .filter((name) => name.endsWith(".sql"))
        .map((name) => `${folder}/${name}`),
    );
  const hashOf = (file: string) =>
    createHash("sha256")
      .update(readFileSync(path.join(ROOT, file)))
      .digest("hex");
  return Object.fromEntries(files.sort().map((file) => [file, hashOf(file)]));
}
