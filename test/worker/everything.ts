/** All that an object's database and the bucket hold of a workspace, as one text: what is compressed is expanded. */
import { env } from "cloudflare:workers";
import { expandFacts, expandPayloads } from "../../src/store/log/segment.ts";

const PACKED: Record<string, (bytes: ArrayBuffer) => string> = {
  signals_facts: (bytes) => expandFacts(bytes).join("\n"),
  held_facts: (bytes) => expandFacts(bytes).join("\n"),
  signals_payloads: (bytes) => expandPayloads(bytes).join("\n"),
  held_payloads: (bytes) => expandPayloads(bytes).join("\n"),
};

export function textOfTables(sql: SqlStorage): string {
  const tables = sql.exec<{ name: string }>(
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\'",
  );
  return tables
    .toArray()
    .flatMap(({ name }) =>
      sql
        .exec(`SELECT * FROM "${name}"`)
        .toArray()
        .map(
          (row) =>
            `${name} ${Object.entries(row)
              .map(([column, value]) => textOf(name, column, value))
              .join(" ")}`,
        ),
    )
    .join("\n");
}

export async function textOfBucket(workspaceId: string): Promise<string> {
  const { objects } = await env.COLD.list({ prefix: `cold/${workspaceId}/` });
  const texts = objects.map(async ({ key }) => {
    const found = await env.COLD.get(key);
    if (found === null) return "";
    const bytes = Buffer.from(await found.arrayBuffer());
    // Segments stand one after the other: each begins as every zstd frame does.
    const frames: string[] = [];
    for (let at = bytes.indexOf(FRAME); at !== -1;) {
      const next = bytes.indexOf(FRAME, at + 1);
      frames.push(expandPayloads(bytes.subarray(at, next === -1 ? undefined : next)).join("\n"));
      at = next;
    }
    return frames.join("\n");
  });
  return (await Promise.all(texts)).join("\n");
}

const FRAME = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

function textOf(table: string, column: string, value: SqlStorageValue): string {
  if (!(value instanceof ArrayBuffer)) return String(value);
  const expand = column === "facts" || column === "payloads" ? PACKED[table] : undefined;
  return expand === undefined ? new TextDecoder().decode(value) : expand(value);
}
