/**
 * The operator token of the service on this machine: random, made at the first start, kept in .dev.vars. One that everybody
 * knows would open the operator API to any page in a developer's browser.
 */
import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { parseEnv } from "node:util";

const TOKEN_BYTES = 24;
const LINE = /^[ \t]*(?:export[ \t]+)?OPERATOR_TOKEN[ \t]*=.*$/m;
/** Tokens that have been published as examples. */
const PUBLISHED = new Set(["local-operator", ""]);

/**
 * The token that stands in the file, which is made where it is missing. A missing or published token is replaced; whatever
 * else the file says stays.
 */
export async function operatorToken(varsFile: string): Promise<string> {
  const vars = await readFile(varsFile, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
  const known = parseEnv(vars)["OPERATOR_TOKEN"] ?? "";
  if (!PUBLISHED.has(known)) return known;
  const token = randomBytes(TOKEN_BYTES).toString("base64url");
  const line = `OPERATOR_TOKEN=${token}`;
  const kept = vars === "" || vars.endsWith("\n") ? vars : `${vars}\n`;
  await writeFile(varsFile, LINE.test(vars) ? vars.replace(LINE, line) : `${kept}${line}\n`, { mode: 0o600 });
  return token;
}
