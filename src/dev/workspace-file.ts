/** Writes the file of a workspace into a folder, and imports it from there: the parts, and the manifest with their hashes. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Deployment } from "./deployment.ts";
import { OperatorClient } from "./operator-client.ts";

interface FilePart {
  part: number;
  bytes: number;
  sha256: string;
}

interface Manifest {
  exportedAtMs: number;
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
/** The files of a folder that this program writes. */
const OWN_FILE = /^(?:manifest|import-.+)\.json$|^part-\d{5}\.ndjson\.gz$/;

export interface ImportOptions {
  slug?: string | undefined;
  "deleted-people"?: string | undefined;
  "without-deletions": boolean;
}

export class WorkspaceFile {
  readonly #origin: string;
  readonly #operator: OperatorClient;

  constructor({ origin, token }: Deployment) {
    this.#origin = origin;
    this.#operator = new OperatorClient(origin, token);
  }

  async export(id: string, folder: string): Promise<void> {
    const home = `workspaces/${id}/exports`;
    let found = await this.#operator.post<ExportAnswer>(home);
    for (; found.manifest === null; found = await this.#operator.get(`${home}/${found.id}`)) {
      if (found.state === "failed") throw new Error(found.error ?? "The export has failed.");
      await sleep(POLL_MS);
    }
    const { manifest } = found;
    mkdirSync(folder, { recursive: true });
    // An earlier file, and the imports that it began: this is another one.
    for (const name of readdirSync(folder)) if (OWN_FILE.test(name)) rmSync(join(folder, name));
    for (const described of manifest.parts) {
      const part = await this.#operator.send("GET", `${home}/${found.id}/parts/${described.part}`);
      const bytes = Buffer.from(await part.arrayBuffer());
      requireSame(described, bytes);
      writeFileSync(partFile(folder, described.part), bytes);
      console.log(`part ${described.part} of ${manifest.parts.length}`);
    }
    // Last, so that a folder with a manifest is complete.
    writeFileSync(join(folder, "manifest.json"), JSON.stringify(manifest, null, 2));
    console.log(`${folder} has the workspace ${manifest.workspace.slug}.`);
  }

  async import(folder: string, options: ImportOptions): Promise<void> {
    const manifest = manifestOf(folder);
    const begun = await this.#beginOrGoOn(folder, manifest, options);
    const home = `workspaces/${begun.workspace_id}/import`;
    for (const part of begun.missing) {
      const described = manifest.parts.find((candidate) => candidate.part === part);
      if (described === undefined) throw new Error(`The manifest has no part ${part}.`);
      const bytes = readFileSync(partFile(folder, part));
      requireSame(described, bytes);
      await this.#operator.send("PUT", `${home}/parts/${part}`, bytes);
      console.log(`part ${part} of ${manifest.parts.length}`);
    }
    const list = options["deleted-people"];
    const finished = await this.#operator.post<{ deletions_repeated: number }>(`${home}/finish`, {
      ...(list === undefined ? {} : { deleted_people: deletedPeople(readFileSync(list, "utf8"), manifest) }),
      without_deletions: options["without-deletions"],
    });
    console.log(`${begun.workspace_id} is complete; ${finished.deletions_repeated} deletions were repeated.`);
  }

  /** The folder notes the import that it began, so that a repeated call goes on. */
  async #beginOrGoOn(folder: string, manifest: Manifest, { slug }: ImportOptions): Promise<ImportAnswer> {
    const host = new URL(this.#origin).host.replaceAll(":", "_");
    const note = join(folder, `import-${host}.json`);
    if (existsSync(note)) {
      const { workspace_id: id } = JSON.parse(readFileSync(note, "utf8")) as ImportAnswer;
      return this.#operator.get<ImportAnswer>(`workspaces/${id}/import`).catch((error: unknown) => {
        if (!String(error).includes(": 404 ")) throw error;
        throw new Error(
          `${folder} was imported as ${id}, or that import was deleted. Delete ${note} to import it again.`,
        );
      });
    }
    const begun = await this.#operator.post<ImportAnswer>("imports", {
      manifest,
      ...(slug === undefined ? {} : { slug }),
    });
    writeFileSync(note, JSON.stringify(begun));
    return begun;
  }
}

/**
 * The hashes of a list of deleted people: one a line, or what `wrangler d1 execute --json` prints of the table `deletions`. Of the
 * table, those of the workspace since its export: whoever was deleted before and came back is a person again.
 */
export function deletedPeople(text: string, { workspace, exportedAtMs }: Since): string[] {
  // The output may begin with a hint about a newer version.
  const at = text.search(/^\[/m);
  if (at === -1) return text.split(/\s+/).filter(Boolean);
  const answers = JSON.parse(text.slice(at)) as { results: DeletionRow[] }[];
  return answers
    .flatMap(({ results }) => results)
    .filter((row) => row.workspace_id === workspace.id && Date.parse(row.requested_at) >= exportedAtMs)
    .map((row) => row.email_hash);
}

type Since = Pick<Manifest, "workspace" | "exportedAtMs">;

interface DeletionRow {
  workspace_id: string;
  requested_at: string;
  email_hash: string;
}

function manifestOf(folder: string): Manifest {
  const file = join(folder, "manifest.json");
  if (!existsSync(file)) throw new Error(`${folder} has no manifest.json: it is no complete file of a workspace.`);
  return JSON.parse(readFileSync(file, "utf8")) as Manifest;
}

function partFile(folder: string, part: number): string {
  return join(folder, `part-${String(part).padStart(5, "0")}.ndjson.gz`);
}

function requireSame({ part, bytes, sha256 }: FilePart, body: Uint8Array): void {
  const isSame = body.length === bytes && createHash("sha256").update(body).digest("hex") === sha256;
  if (!isSame) throw new Error(`Part ${part} is not the one of the manifest. Export again.`);
}
