/** Documents whose tables stand between two markers. */
import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { promisify } from "node:util";

const BEGIN = "<!-- written by npm run cost -->";
const END = "<!-- until here -->";

/** @throws when the markers are not there. */
export async function writeTables(file: string, tables: readonly string[]): Promise<void> {
  const text = await readFile(file, "utf8");
  const from = text.indexOf(BEGIN);
  const to = text.indexOf(END, from);
  if (from === -1 || to === -1) throw new Error(`${file} has no place for the tables`);
  await writeFile(file, `${text.slice(0, from + BEGIN.length)}\n\n${tables.join("\n")}\n${text.slice(to)}`);
  await promisify(execFile)("oxfmt", [file]);
}
