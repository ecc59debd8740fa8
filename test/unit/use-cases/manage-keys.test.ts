/** The size of a payload template, which each lookup of its key reads. */
import { expect, test } from "vitest";
import { TEMPLATE_MAX_BYTES } from "../../../src/limits.ts";
import { payloadTemplate } from "../../../src/use-cases/manage-keys.ts";

const bytesOf = (template: object) => Buffer.byteLength(JSON.stringify(template));

/** Mappings that have this many bytes as JSON. */
function templateOf(bytes: number) {
  const mapping = (target: string, path: string) => ({ target, path, type: "string", required: true });
  const template = [mapping("external_id", "id")];
  const missing = () => bytes - bytesOf(template);
  while (missing() > 1_000) template.push(mapping(`attributes.a${template.length}`, "語".repeat(250)));
  while (missing() > 300) template.push(mapping(`attributes.a${template.length}`, "p".repeat(100)));
  const empty = bytesOf([...template, mapping("attributes.last", "")]);
  return [...template, mapping("attributes.last", "p".repeat(bytes - empty))];
}

test("a payload template may have exactly as many bytes as the limit", () => {
  for (const [bytes, isValid] of [
    [TEMPLATE_MAX_BYTES, true],
    [TEMPLATE_MAX_BYTES + 1, false],
  ] as const) {
    const template = templateOf(bytes);
    expect(bytesOf(template)).toBe(bytes);
    expect(payloadTemplate.safeParse(template).success).toBe(isValid);
  }
});
