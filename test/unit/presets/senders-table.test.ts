/** The table of presets in docs/senders.md. After a change of a preset, `-u` writes it anew. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { PRESETS } from "../../../src/presets/presets.ts";
import { withSendersTable } from "../../../src/presets/senders-table.ts";

const DOCUMENT = path.resolve(import.meta.dirname, "../../../docs/senders.md");

test("docs/senders.md lists the presets as they are", async () => {
  const document = readFileSync(DOCUMENT, "utf8");
  expect(document).toContain("<!-- presets: begin");
  await expect(withSendersTable(document, PRESETS)).toMatchFileSnapshot(DOCUMENT);
});
