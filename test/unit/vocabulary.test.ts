/** One word has one meaning (CONTRIBUTING.md, "Words"). Retired words come back through habit, so the sources are searched for them. */
import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";

const ROOT = path.join(import.meta.dirname, "../..");
/** Generated, or not ours: the customer's specification keeps its words. */
const OTHERS = /(^|\/)(assets\.ts|worker-env\.d\.ts|specification\.md|vocabulary\.test\.ts|node_modules\/.*)$/;

/** Retired in identifiers, SQL, JSON and log events, and in prose. */
const RETIRED: Record<string, RegExp> = {
  "refuse: say reject": /(?<!conn|connection_)refus(e|es|ed|ing|al|als)(?![a-z])/i,
  "redeliver, requeue: say resend": /redeliver|requeue/i,
  "hand on, hand over: say forward": /\bhand(s|ed|ing)?[ _]?(on|over)\b|hand(ed|ing)?(On|Over)/,
  "tell, told: say notify, or say": /\b(tells?|told|telling|untold)\b|Told|Telling|_(told|tell)_/,
  "carefully: say isolateFailures": /carefully/,
};
/** Retired as names. As words of a sentence they are plain English. */
const RETIRED_NAMES = ["news", "judged", "PageOf", "listedBy", "workBy", "hasRoomFor", "low"];
/** Retired as tables. */
const RETIRED_TABLES = ["returns", "once", "refusals", "revoked_keys"];
/** Retired in JSON and in names of notifications. */
const RETIRED_FIELDS = ["asked_at", "not_requeued", "refusals.burst", "wantEvents", "WorkspaceEvent"];

const sources = globSync(["src/**/*.{ts,tsx}", "test/**/*.{ts,tsx}"], { cwd: ROOT }).filter(
  (file) => !OTHERS.test(file),
);
const prose = globSync(["README.md", "*.md", "docs/**/*.md", "test/**/README.md", "migrations/**/*.sql"], {
  cwd: ROOT,
});
const files = [...sources, ...prose.filter((file) => !OTHERS.test(file))];
const read = (file: string): string => readFileSync(path.join(ROOT, file), "utf8");

function placesOf(pattern: RegExp, among: readonly string[], textOf = read): string[] {
  return among.flatMap((file) =>
    textOf(file)
      .split("\n")
      .flatMap((line, index) => (pattern.test(line) ? [`${file}:${index + 1}: ${line.trim().slice(0, 120)}`] : [])),
  );
}

/** Blanks comments and the characters of texts, but not the code in templates. Line numbers stay. */
function namesOnly(file: string): string {
  return read(file)
    .replaceAll(/\/\*[\s\S]*?\*\//g, (comment) => comment.replaceAll(/[^\n]/g, " "))
    .replaceAll(/(?<![:"'`])\/\/.*$/gm, "")
    .replaceAll(/"(?:[^"\\\n]|\\.)*"/g, '""');
}

describe("a retired word is nowhere", () => {
  test("the search reads the sources and the documents", () => {
    expect(files.length).toBeGreaterThan(500);
    expect(files).toContain("docs/api.md");
  });
  test.each(Object.entries(RETIRED))("%s", (_, pattern) => expect(placesOf(pattern, files)).toEqual([]));
});

describe("a retired name is nowhere", () => {
  const code = sources.filter((file) => file.startsWith("src/"));
  test.each(RETIRED_NAMES)("%s", (name) => {
    // A binary search has a low and a high end.
    const found = placesOf(new RegExp(`(?<![\\w'’-])${name}(?![\\w'’-])`), code, namesOnly);
    expect(
      found.filter((place) => name !== "low" || !/\bhigh\b|quota\/outbox|\[low, high\]|low = /.test(place)),
    ).toEqual([]);
  });
  test.each(RETIRED_TABLES)("the table %s", (table) => {
    const sql = new RegExp(`(FROM|INTO|UPDATE|TABLE|JOIN) \`?${table}\\b|sqliteTable\\(\\s*"${table}"`);
    expect(placesOf(sql, files)).toEqual([]);
  });
  test.each(RETIRED_FIELDS)("%s", (field) => {
    const pattern = new RegExp(`(?<![\\w])${field.replace(".", "\\.")}(?!\\w)`);
    expect(placesOf(pattern, files)).toEqual([]);
  });
});
