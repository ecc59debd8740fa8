/** A workspace as a file: exports in parts, imports, and the closing of a workspace that moves. */
import type { Context } from "hono";
import * as z from "zod";
import { findImport } from "../d1/imports.ts";
import { boundedText, recordId } from "../http/fields.ts";
import { problem } from "../http/problem.ts";
import { beginExport, closeWorkspace, findExport, openWorkspace, readPart } from "../use-cases/export-workspace.ts";
import {
  beginImport,
  finishImport,
  importPart,
  type ImportRejection,
  missingParts,
} from "../use-cases/import-workspace.ts";
import { type FileManifest, PART_MAX_BYTES } from "../wire/workspace-file.ts";
import { conflict, contextOf, count, idOf, instant, notFound, operationsOf, type OperatorEnv } from "./operation.ts";
import { slug } from "./workspace-routes.ts";

const operation = operationsOf("Workspaces", "workspace");

const manifest = z.record(z.string(), z.unknown());
const exported = z
  .object({
    id: idOf("exp", "Of the export."),
    requested_at: instant,
    state: z.enum(["waiting", "writing", "complete", "failed"]),
    error: z.string().nullable(),
    parts: count.describe("Parts that are written."),
    bytes: count,
    manifest: manifest.nullable().describe("When it is complete: what the parts are. An import begins with it."),
  })
  .meta({ id: "WorkspaceExport" });

const NOT_A_HASH = "an `email_hash` of the source's `deletions`";
const emailHash = boundedText(64, { error: NOT_A_HASH }).regex(/^[\w+/=-]{16,64}$/, NOT_A_HASH);
const hexadecimal = boundedText(64).regex(/^[0-9a-f]{64}$/, "a SHA-256 as hexadecimal text");
const fileManifest = z.object({
  format: z.literal("workspace", "the manifest of another kind of file"),
  version: boundedText(40),
  exportId: recordId,
  exportedAtMs: z.int().min(0),
  workspace: z.object({
    id: recordId,
    slug: boundedText(63),
    name: boundedText(1_000),
    overages: z.boolean(),
    anchor: z.iso.datetime(),
    createdAt: z.iso.datetime(),
  }),
  versions: z.object({ config: z.int().min(0), rules: z.int().min(0) }),
  plan: z.object({
    id: recordId,
    signalLimit: z.int(),
    paid: z.boolean(),
    retentionDays: z.int().nullable(),
  }),
  payloadsMissing: z.int().min(0),
  leftOut: z.array(boundedText(200)).max(50),
  parts: z
    .array(
      z.object({
        part: z.int().min(1),
        bytes: z.int().min(1).max(PART_MAX_BYTES),
        sha256: hexadecimal,
        lines: z.int().min(0),
      }),
    )
    .min(1, "the manifest has no parts"),
});

const EXAMPLE = {
  format: "workspace",
  version: "1.1.1.1",
  exportId: "exp_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d6f",
  exportedAtMs: 1_796_029_200_000,
  workspace: {
    id: "ws_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d6f",
    slug: "acme",
    name: "Acme",
    overages: false,
    anchor: "2026-11-01T00:00:00.000Z",
    createdAt: "2026-11-01T00:00:00.000Z",
  },
  versions: { config: 0, rules: 0 },
  plan: { id: "growth", signalLimit: 500_000, paid: true, retentionDays: null },
  payloadsMissing: 0,
  leftOut: [],
  parts: [{ part: 1, bytes: 1_000, sha256: "0".repeat(64), lines: 20 }],
};

const imported = z
  .object({
    workspace_id: idOf("ws", "Of the new workspace."),
    slug: z.string(),
    missing: z.array(z.int()).describe("Parts that must still be sent, in any order."),
  })
  .meta({ id: "WorkspaceImport" });
const finished = z.object({
  workspace_id: idOf("ws", "Of the new workspace."),
  deletions_repeated: count.describe("Deletions of people that were requested after the export."),
});

const IMPORT_CODES = {
  slug_taken: null,
  plan_differs: null,
  file_version: null,
  part_unknown: null,
  part_differs: null,
  import_incomplete: null,
  source_active: null,
  key_in_use: null,
  already_imported: null,
  deletions_unknown: null,
} as const satisfies Record<ImportRejection["code"], null>;
const codes = Object.keys(IMPORT_CODES) as ImportRejection["code"][];

function rejected(c: Context<OperatorEnv>, { code, detail }: ImportRejection): Response {
  return conflict(c, code, detail);
}

export const transferRoutes = [
  operation("POST", "/workspaces/:workspace_id/exports", {
    summary: "Export a whole workspace",
    description:
      "Writes the workspace as a file of parts, from which `POST /operator/imports` makes a workspace again. Meanwhile scores wait, " +
      "at most five minutes; senders notice nothing. A call during an export returns that export. Exports are deleted after seven days.",
    answers: { 202: "The export. Get it until it is complete." },
    schema: exported,
    handle: (c) => beginExport(contextOf(c)),
  }),
  operation("GET", "/workspaces/:workspace_id/exports/:export_id", {
    summary: "Get the export of a workspace",
    noun: "export",
    answers: { 200: "The export." },
    schema: exported,
    handle: (c) => findExport(contextOf(c), c.req.param("export_id")),
  }),
  operation("GET", "/workspaces/:workspace_id/exports/:export_id/parts/:part", {
    summary: "Get a part of an export",
    noun: "part",
    answers: { 200: "The part: lines of JSON, as gzip." },
    content: { "application/gzip": z.string() },
    async handle(c) {
      const part = Number(c.req.param("part"));
      const found = Number.isInteger(part) ? await readPart(contextOf(c), c.req.param("export_id"), part) : null;
      if (found === null) return null;
      const headers = {
        "content-type": "application/gzip",
        "content-length": String(found.size),
        etag: found.httpEtag,
      };
      return new Response(found.body, { headers });
    },
  }),
  operation("POST", "/workspaces/:workspace_id/close", {
    summary: "Close a workspace before it moves",
    description:
      "Senders get 503 with `Retry-After` from now on. Signals on their way are recorded. Nothing is deleted.",
    answers: { 204: "It is closed." },
    handle: async (c) => {
      await closeWorkspace(contextOf(c));
      return c.body(null, 204);
    },
  }),
  operation("POST", "/workspaces/:workspace_id/open", {
    summary: "Open a closed workspace again",
    answers: { 204: "It takes signals." },
    handle: async (c) => {
      await openWorkspace(contextOf(c));
      return c.body(null, 204);
    },
  }),
  operation("POST", "/imports", {
    summary: "Begin the import of a workspace",
    description:
      "Makes a new workspace from the manifest of an export. It takes no signals until the import is finished; an import that nobody " +
      "continues for a day is deleted. The plan must exist with the same terms.",
    body: z.strictObject({ manifest: fileManifest, slug: slug.optional() }),
    bodyExample: { manifest: EXAMPLE, slug: "acme" },
    answers: { 201: "The new workspace. Send all parts, then finish the import." },
    schema: imported,
    conflicts: codes,
    async handle(c, { body }) {
      const file = body.manifest as FileManifest;
      const wanted = body.slug ?? file.workspace.slug;
      const { db, by } = c.var;
      const begun = await beginImport({ env: c.env, db, by }, file, wanted);
      if (!begun.ok) return rejected(c, begun.rejection);
      return { workspaceId: begun.value, slug: wanted, missing: missingParts({ manifest: file, parts: [] }) };
    },
  }),
  operation("GET", "/workspaces/:workspace_id/import", {
    summary: "Get the import of a workspace",
    noun: "import",
    answers: { 200: "The import." },
    schema: imported,
    async handle(c) {
      const { id, slug: of } = c.var.workspace;
      const found = await findImport(c.var.db, id);
      return found && { workspaceId: id, slug: of, missing: missingParts(found) };
    },
  }),
  operation("PUT", "/workspaces/:workspace_id/import/parts/:part", {
    summary: "Send a part of an import",
    description: "The bytes of the part, as they were exported. Parts come in any order, and each may be repeated.",
    noun: "import",
    answers: { 200: "The import." },
    schema: imported,
    conflicts: codes,
    async handle(c) {
      const body = await readBytes(c.req.raw);
      if (body === null) {
        const detail = `A part has at most ${PART_MAX_BYTES} bytes.`;
        return problem(c, { status: 413, code: "body_too_large", title: "Too large", detail });
      }
      const { id, slug: of } = c.var.workspace;
      const pagesUrl = `${new URL(c.req.url).origin}/w/${of}`;
      const sent = await importPart({ ...contextOf(c), pagesUrl }, Number(c.req.param("part")), body);
      if (sent === null) return notFound(c, "import");
      return sent.ok ? { workspaceId: id, slug: of, ...sent.value } : rejected(c, sent.rejection);
    },
  }),
  operation("POST", "/workspaces/:workspace_id/import/finish", {
    summary: "Finish the import of a workspace",
    description:
      "The workspace takes signals, with the keys of the file. In the deployment of the source, the source must be closed or ended. " +
      "Deletions of people that were requested after the export are repeated: in another deployment, or after 31 days, send their hashes " +
      "(`email_hash` of the source's `deletions`), or confirm with `without_deletions`.",
    noun: "import",
    body: z.strictObject({
      deleted_people: z.array(emailHash).max(100_000).optional(),
      without_deletions: z.boolean().default(false),
    }),
    bodyExample: { without_deletions: true },
    answers: { 200: "The workspace is complete." },
    schema: finished,
    conflicts: codes,
    async handle(c, { body }) {
      const { id } = c.var.workspace;
      const { deletedPeople = null, withoutDeletions } = body;
      const done = await finishImport(contextOf(c), { deletedPeople, withoutDeletions });
      if (done === null) return notFound(c, "import");
      return done.ok ? { workspaceId: id, ...done.value } : rejected(c, done.rejection);
    },
  }),
];

/** Null: the body is longer than any part. */
async function readBytes(request: Request): Promise<Uint8Array | null> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  if (request.body === null) return new Uint8Array();
  for await (const chunk of request.body as ReadableStream<Uint8Array>) {
    bytes += chunk.length;
    if (bytes > PART_MAX_BYTES) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
