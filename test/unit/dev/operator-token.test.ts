/** `npm run dev`: the operator token of the service on one's own machine. */
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseEnv } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { operatorToken } from "../../../src/dev/local-setup.ts";

let folder: string;
let made = 0;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "operator-token-"));
});

afterAll(() => rm(folder, { recursive: true, force: true }));

async function varsWith(text: string | null): Promise<string> {
  const file = path.join(folder, `vars-${made++}`);
  if (text !== null) await writeFile(file, text);
  return file;
}

test("a token is created at the first start, kept for later starts, and random", async () => {
  const [file, other] = [await varsWith(null), await varsWith(null)];
  const token = await operatorToken(file);
  expect(token).toMatch(/^[\w-]{32}$/);
  expect(await operatorToken(file)).toBe(token);
  expect(await readFile(file, "utf8")).toBe(`OPERATOR_TOKEN=${token}\n`);
  expect((await stat(file)).mode & 0o077).toBe(0);
  expect(await operatorToken(other)).not.toBe(token);
});

test.each([
  ["empty", "OPERATOR_TOKEN=\n", {}],
  ["the published token", "OPERATOR_TOKEN=local-operator", {}],
  ["the published token in quotes", 'OPERATOR_TOKEN = "local-operator"\nA=1', { A: "1" }],
  ["empty between two variables", "A=1\nOPERATOR_TOKEN=\nB=2\n", { A: "1", B: "2" }],
])("if the token is %s, a token is created and the other variables stay", async (_, text, others) => {
  const file = await varsWith(text);
  const token = await operatorToken(file);
  expect(token).toMatch(/^[\w-]{32}$/);
  expect(parseEnv(await readFile(file, "utf8"))).toEqual({ OPERATOR_TOKEN: token, ...others });
});

test.each(["A=1", "A=1\n", "\nA=1\n"])("if the file contains only %j, a line is added to it", async (text) => {
  const file = await varsWith(text);
  const token = await operatorToken(file);
  expect(await readFile(file, "utf8")).toBe(`${text.trimEnd()}\nOPERATOR_TOKEN=${token}\n`);
});

test("a developer's token is kept", async () => {
  const text = "# mine\nOPERATOR_TOKEN=mine\n";
  const file = await varsWith(text);
  expect(await operatorToken(file)).toBe("mine");
  expect(await readFile(file, "utf8")).toBe(text);
});

test.each([
  ["a quotation mark that is not closed", 'OPERATOR_TOKEN="mine\n'],
  ["a space", "OPERATOR_TOKEN=my token\n"],
  ["a letter that is invalid in headers", "OPERATOR_TOKEN=schlüssel\n"],
])("a token with %s is rejected with advice, and the file stays", async (_, text) => {
  const file = await varsWith(text);
  await expect(operatorToken(file)).rejects.toThrow("Delete its line");
  expect(await readFile(file, "utf8")).toBe(text);
});

test("an unreadable file is not replaced", async () => {
  await expect(operatorToken(folder)).rejects.toThrow("EISDIR");
});
