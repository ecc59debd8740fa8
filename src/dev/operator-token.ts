/**
 * The operator token of the service on this machine: random, made at the first start, kept in .dev.vars. One that everybody
 * knows would open the operator API to any page in a developer's browser.
 */
import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { parseEnv } from "node:util";
import { Misuse } from "./single-instance.ts";

const TOKEN_BYTES = 24;
const LINE = /^[ \t]*(?:export[ \t]+)?OPERATOR_TOKEN[ \t]*=.*$/m;
/** Tokens that have been published as examples. */
const PUBLISHED = new Set(["local-operator", ""]);
/** What a request's `Authorization` can carry and a shell takes as it stands, as in the lines that are printed to be pasted. */
const USABLE = /^[\w.+/=-]+$/;

/**
 * The token that stands in the file, which is made where it is missing. A missing or published token is replaced; whatever
 * else the file says stays.
 *
 * @throws Misuse when the token is none that a call can be made with.
 */
export async function operatorToken(varsFile: string): Promise<string> {
  const vars = await readFile(varsFile, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
  const known = parseEnv(vars)["OPERATOR_TOKEN"] ?? "";
  if (!PUBLISHED.has(known)) {
    if (USABLE.test(known)) return known;
    throw new Misuse(
      `OPERATOR_TOKEN in ${varsFile} has other characters than letters, digits and . _ + / = -, or a quotation mark that is not closed.\n` +
        "Delete its line, and npm run dev makes a token.",
    );
  }
  const token = randomBytes(TOKEN_BYTES).toString("base64url");
  const line = `OPERATOR_TOKEN=${token}`;
  const kept = vars === "" || vars.endsWith("\n") ? vars : `${vars}\n`;
  await writeFile(varsFile, LINE.test(vars) ? vars.replace(LINE, line) : `${kept}${line}\n`, { mode: 0o600 });
  return token;
}
