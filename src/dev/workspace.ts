/**
 * `npm run workspace -- export|import`: both ends of the file of a workspace (docs/operate.md, "A workspace is a file").
 *
 *   npm run workspace -- export ws_… FOLDER
 *   npm run workspace -- import FOLDER [--slug acme] [--deleted-people FILE | --without-deletions]
 *
 * ORIGIN and TOKEN are the deployment and its operator token. A repeated call goes on: parts that are there are not sent again.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { OperatorClient } from "./operator-client.ts";

interface FilePart {
  part: number;
  bytes: number;
  sha256: string;
}

interface Manifest {
  workspace: { id: string; slug: string };
  parts: FilePart[];
}

interface ExportAnswer {
  id: string;
  state: "waiting" | "writing" | "complete" | "failed";
  error: string | null;
  parts: number;
  manifest: Manifest | null;
}

interface ImportAnswer {
  workspace_id: string;
  missing: number[];
}

const POLL_MS = 1_000;
const USAGE =
  "Usage: npm run workspace -- export ws_… FOLDER | import FOLDER [--slug S] [--deleted-people FILE | --without-deletions]";

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    slug: { type: "string" },
    "deleted-people": { type: "string" },
    "without-deletions": { type: "boolean", default: false },
  },
});
const { ORIGIN: origin = "", TOKEN: token = "" } = process.env;
const operator = new OperatorClient(origin, token);

try {
  if (origin === "" || token === "") throw new Error("Set ORIGIN and TOKEN.");
  const [command, first, second] = positionals;
  if (command === "export" && first !== undefined && second !== undefined) await exportWorkspace(first, second);
  else if (command === "import" && first !== undefined) await importWorkspace(first);
  else throw new Error(USAGE);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function exportWorkspace(id: string, folder: string): Promise<void> {
  const home = `workspaces/${id}/exports`;
  let found = await operator.post<ExportAnswer>(home);
  for (; found.manifest === null; found = await operator.get(`${home}/${found.id}`)) {
    if (found.state === "failed") throw new Error(found.error ?? "The export has failed.");
    await sleep(POLL_MS);
  }
  const { manifest } = found;
  mkdirSync(folder, { recursive: true });
  for (const described of manifest.parts) {
    const bytes = await send("GET", `${home}/${found.id}/parts/${described.part}`);
    requireSame(described, bytes);
    writeFileSync(partFile(folder, described.part), bytes);
    console.log(`part ${described.part} of ${manifest.parts.length}`);
  }
  // Last, so that a folder with a manifest is complete.
  writeFileSync(join(folder, "manifest.json"), JSON.stringify(manifest, null, 2));
  console.log(`${folder} has the workspace ${manifest.workspace.slug}.`);
}

async function importWorkspace(folder: string): Promise<void> {
  const manifest = JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8")) as Manifest;
  const begun = await beginOrGoOn(folder, manifest);
  const home = `workspaces/${begun.workspace_id}/import`;
  for (const part of begun.missing) {
    const described = manifest.parts.find((candidate) => candidate.part === part);
    if (described === undefined) throw new Error(`The manifest has no part ${part}.`);
    const bytes = readFileSync(partFile(folder, part));
    requireSame(described, bytes);
    await send("PUT", `${home}/parts/${part}`, bytes);
    console.log(`part ${part} of ${manifest.parts.length}`);
  }
  const list = values["deleted-people"];
  const finished = await operator.post<{ deletions_repeated: number }>(`${home}/finish`, {
    ...(list === undefined ? {} : { deleted_people: readFileSync(list, "utf8").split(/\s+/).filter(Boolean) }),
    without_deletions: values["without-deletions"],
  });
  console.log(`${begun.workspace_id} is complete; ${finished.deletions_repeated} deletions were repeated.`);
}

/** The folder notes the import that it began, so that a repeated call goes on. */
async function beginOrGoOn(folder: string, manifest: Manifest): Promise<ImportAnswer> {
  const host = new URL(origin).host.replaceAll(":", "_");
  const note = join(folder, `import-${host}.json`);
  if (existsSync(note)) {
    const { workspace_id: id } = JSON.parse(readFileSync(note, "utf8")) as ImportAnswer;
    return operator.get<ImportAnswer>(`workspaces/${id}/import`);
  }
  const slug = values.slug === undefined ? {} : { slug: values.slug };
  const begun = await operator.post<ImportAnswer>("imports", { manifest, ...slug });
  writeFileSync(note, JSON.stringify(begun));
  return begun;
}

function partFile(folder: string, part: number): string {
  return join(folder, `part-${String(part).padStart(5, "0")}.ndjson.gz`);
}

function requireSame({ part, bytes, sha256 }: FilePart, body: Uint8Array): void {
  const isSame = body.length === bytes && createHash("sha256").update(body).digest("hex") === sha256;
  if (!isSame) throw new Error(`Part ${part} is not the one of the manifest. Export again.`);
}

async function send(method: "GET" | "PUT", path: string, body?: Uint8Array): Promise<Buffer> {
  const response = await fetch(`${origin}/operator/${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, connection: "close" },
    ...(body === undefined ? {} : { body: Buffer.from(body) }),
  });
  const answer = Buffer.from(await response.arrayBuffer());
  if (!response.ok) throw new Error(`${method} /operator/${path}: ${response.status} ${answer.toString()}`);
  return answer;
}
