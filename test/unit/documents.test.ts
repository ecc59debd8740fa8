/** The documents: their links lead somewhere, their commands are run by something, and what they list is what there is. */
import { existsSync, globSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { experimental_getWranglerCommands } from "wrangler";
import { REJECTIONS } from "../../src/http/rejection-table.ts";
import { JOURNEYS } from "../journeys/journeys.ts";

const ROOT = path.resolve(import.meta.dirname, "../..");
const read = (file: string): string => readFileSync(path.join(ROOT, file), "utf8");

const DOCUMENTS = ["README.md", "CONTRIBUTING.md", ...globSync("{docs,test}/**/*.md", { cwd: ROOT })];
const CI = read(".ci/run");
const PACKAGE = JSON.parse(read("package.json")) as Record<"scripts" | "dependencies" | "devDependencies", object>;

/** Who runs a script that CI does not name itself: the file that does, or why nothing does. */
const RUN_BY: Record<string, { file: string } | { reason: string }> = {
  dev: { file: "test/e2e/tour.test.ts" },
  workspace: { file: "test/fault/workspace-file.test.ts" },
  check: { reason: "CI runs its parts" },
  types: { reason: "check:types runs it with --check" },
  assets: { reason: "check:types runs it with --check" },
  migrations: { reason: "writes a new migration" },
  "test:mutation": { reason: "takes a quarter of an hour; test/mutation/README.md has what it found" },
  "test:soak": { reason: "takes half an hour; check:types checks it" },
  demo: { file: "package.json" },
  "test:long": { file: "package.json" },
  "test:longer": { reason: "test:all runs the same files" },
  "upgrade:leave": { reason: "is run once for each release; test/fault/upgrade.test.ts reads what it makes" },
  pictures: { reason: "writes the pictures; what it sends is what the sample sends" },
  bench: { reason: "takes minutes of a quiet machine; check:types checks it" },
  cost: { reason: "takes minutes of a quiet machine; check:types checks it, test/unit/bench/cost.test.ts its bill" },
  deploy: { file: "test/unit/dev/deploy/deploy.test.ts" },
  "deploy:setup": { reason: "makes what an account needs; test/unit/dev/deploy/setup-file.test.ts has what it writes" },
  "deploy:check": { file: "test/unit/dev/deploy/deploy.test.ts" },
};

describe("a document", () => {
  test.each(DOCUMENTS)("%s links only to existing files and headings", (document) => {
    for (const [, target = ""] of prose(read(document)).matchAll(/\]\((?!https?:)([^)\s]+)\)/g)) {
      const [file = "", anchor] = target.split("#");
      const linked = file === "" ? document : path.join(path.dirname(document), file);
      expect(existsSync(path.join(ROOT, linked)), `${document}: ${target}`).toBe(true);
      if (anchor !== undefined) expect(anchors(read(linked)), `${document}: ${target}`).toContain(anchor);
    }
  });

  test.each(DOCUMENTS)("%s names only npm scripts that exist and are run", (document) => {
    for (const [, run, script = run] of read(document).matchAll(/\bnpm (?:run ([\w:-]+)|(?:test)\b)/g)) {
      const name = script ?? "test";
      expect(Object.keys(PACKAGE.scripts), `${document}: npm run ${name}`).toContain(name);
      const by = RUN_BY[name];
      if (by === undefined)
        expect(CI, `${document}: npm run ${name}`).toMatch(name === "test" ? /npm test\b/ : `npm run ${name}`);
      else if ("file" in by) expect(read(by.file)).toMatch(new RegExp(`"${name}"|npm run ${name}`));
    }
  });

  test.each(DOCUMENTS)(
    "%s shows only commands of npm and wrangler, and calls of the service, besides the tested tour",
    (document) => {
      const tour = /^## A five-minute tour$.*?^## /ms;
      const text = document === "README.md" ? read(document).replace(tour, "") : read(document);
      for (const [, block = ""] of text.matchAll(/^```sh\n(.*?)^```$/gms)) {
        for (const line of block
          .replaceAll("\\\n", " ")
          .split("\n")
          .filter((command) => command.trim() !== "")) {
          expect(line, document).toMatch(/^(npm (ci|run|test)\b|npx (wrangler|vitest) |ORIGIN=|operator\b|curl )/);
        }
      }
    },
  );
});

/** Test files by kind and name, such as `unit/quota`, without other folders, because a name is unique in its kind. */
const TESTS = new Set(
  globSync("test/{unit,worker,long,sdk,sign-in,notifications,fault,e2e}/**/*.test.ts", { cwd: ROOT }).map(
    (file) => `${file.split(path.sep)[1] ?? ""}/${path.basename(file, ".test.ts")}`,
  ),
);

test.each(DOCUMENTS)("%s names only existing files and tests", (document) => {
  const text = withoutBlocks(read(document));
  for (const [, file = ""] of text.matchAll(/`((?:src|test|docs|migrations)\/[\w./-]*\w)`/g)) {
    expect(existsSync(path.join(ROOT, file)), `${document}: ${file}`).toBe(true);
  }
  for (const [, name = ""] of text.matchAll(/`((?:unit|worker|long|fault|sdk|e2e)\/[\w.-]+)`/g)) {
    expect([...TESTS], `${document}: ${name}`).toContain(name);
  }
});

test("docs/security.md names an existing test of each protection", () => {
  const protections = /^## The key in the URL$(.*)^## Known limits$/ms.exec(read("docs/security.md"))?.[1] ?? "";
  const entries = protections.split(/^(?:- |\d+\. )/m).slice(1);
  expect(entries.length).toBeGreaterThan(30);
  const withoutTest = entries.filter((entry) => {
    if (entry.includes("](#")) return false;
    const names = [...entry.matchAll(/`((?:unit|worker|long|fault|sdk|sign-in|e2e)\/[\w.-]+)`/g)].map(
      ([, name = ""]) => name,
    );
    return names.length === 0 || names.some((name) => !TESTS.has(name));
  });
  expect(withoutTest).toEqual([]);
});

test("test/README.md names only existing tests", () => {
  const names = read("test/README.md").matchAll(
    /(?<![\w/.])(unit|worker|long|sdk|sign-in|notifications|fault|e2e)\/(?:\{([^}]+)\}|(\w[\w.-]*))(?![\w/])/g,
  );
  const named = [...names].flatMap(([, kind = "", several, one = ""]) =>
    (several ?? one).split(",").map((name) => `${kind}/${name.trim()}`),
  );
  expect(named.length).toBeGreaterThan(100);
  expect(named.filter((name) => !TESTS.has(name))).toEqual([]);
});

describe("a call of the operator API that a document names", () => {
  /** `GET /operator/workspaces/{}/health`, from the sources of the routes. */
  const known = new Set(
    globSync("src/operator/*-routes.ts", { cwd: ROOT }).flatMap((file) =>
      [...read(file).matchAll(/ operation\("([A-Z]+)", "(\/[^"]*)/g)].map(
        ([, method = "", route = ""]) => `${method} /operator${route.replaceAll(/:\w+/g, "{}")}`,
      ),
    ),
  );

  test.each(DOCUMENTS)("in %s exists", (document) => {
    const named = [...read(document).matchAll(/\b(GET|PUT|POST|PATCH|DELETE)\s+(…|\/operator)(\/[\w{}/-]+)/g)];
    for (const [, method, root, route = ""] of named) {
      const address = (root === "…" ? "/operator/workspaces/{}" : "/operator") + route.replaceAll(/\{\w+\}/g, "{}");
      expect([...known], `${document}: ${method} ${root}${route}`).toContain(`${method} ${address}`);
    }
    for (const [line, method, address = ""] of read(document).matchAll(/^operator ([A-Z]+) (\S+)/gm)) {
      const route = address.replaceAll(/ws_…|(?<=^plans\/)[\w-]+/g, "{}");
      expect([...known], `${document}: ${line}`).toContain(`${method} /operator/${route}`);
    }
  });
});

describe("a command of wrangler in a document", () => {
  const { registry } = experimental_getWranglerCommands();

  test.each(DOCUMENTS)("in %s exists in the installed version, with its flags", (document) => {
    for (const [, line = ""] of read(document).matchAll(/npx wrangler ([^`\n#]+)/g)) {
      const words = line.trim().split(/\s+/);
      let { subtree } = registry;
      let definition;
      for (const word of words) {
        const node = subtree.get(word);
        if (node === undefined) break;
        ({ subtree, definition } = node);
      }
      expect(definition?.type, `${document}: wrangler ${line}`).toBe("command");
      const flags = definition?.type === "command" ? Object.keys(definition.args ?? {}) : [];
      for (const [, flag = ""] of line.matchAll(/ --([\w-]+)/g)) {
        expect([...flags, "env"], `${document}: wrangler ${line}`).toContain(flag);
      }
    }
  });
});

describe("README.md", () => {
  test("states the purpose of each dependency", () => {
    const [, list = ""] = read("README.md").split("## Libraries");
    const named = Object.keys({ ...PACKAGE.dependencies, ...PACKAGE.devDependencies }).filter(
      (name) => !name.startsWith("@types/") && name !== "@cloudflare/workers-types",
    );
    // A line may name a second package of the same family by its last part.
    for (const name of named)
      expect(list).toMatch(new RegExp(`^- (.*, )?${name.replace("@stryker-mutator/vitest", "vitest")}[,:]`, "m"));
  });

  test("has at most 160 lines", () => {
    expect(read("README.md").split("\n").length).toBeLessThanOrEqual(161);
  });
});

test("docs/code.md prints the files of each journey that npm run journeys checks", () => {
  const printed = [...read("docs/code.md").matchAll(/^\| (.+?) +\| (webhook|operator API|page) +\| (\d+) +\|$/gm)];
  expect(printed.map(([, name, from, files]) => [name, from, Number(files)])).toEqual(
    JOURNEYS.map(({ name, from, files }) => [name, from, files]),
  );
});

test("docs/api.md lists every code for senders in the line of its status", () => {
  const rows = [...read("docs/api.md").matchAll(/^\| (\d{3}) +\| ([^|]*)\|/gm)];
  const documented = rows.flatMap(([, status, codes = ""]) =>
    [...codes.matchAll(/`(\w+)`/g)].map(([, code]) => `${status} ${code}`),
  );
  const rejections = Object.entries(REJECTIONS).map(([code, { status }]) => `${status} ${code}`);
  expect(documented.toSorted()).toEqual([...rejections, "404 not_found", "405 method_not_allowed"].toSorted());
});

test("docs/operate.md and docs/alerts.yml name metrics that exist, and sections", () => {
  const source = read("src/operator/health-routes.ts");
  const [operate, alerts] = [read("docs/operate.md"), read("docs/alerts.yml")];
  const named = [...(operate + alerts).matchAll(/\bsignal_ingestion_(queue_)?(\w+)/g)];
  expect(named.length).toBeGreaterThan(4);
  for (const [metric, , name] of named)
    expect(source.includes(`"${name}"`) || source.includes(`{PREFIX}${name}`), metric).toBe(true);
  const sections = [...alerts.matchAll(/operate\.md#([\w-]+)/g)].map(([, section]) => section);
  expect(anchors(operate)).toEqual(expect.arrayContaining(sections));
});

test("docs/operate.md explains each log line, and no other", () => {
  const [, log = ""] = /\n## The log\n(.*?)\n## /s.exec(read("docs/operate.md")) ?? [];
  const documented = [...log.matchAll(/^- (`.*?):/gm)].flatMap(([, names = ""]) =>
    [...names.matchAll(/`(\w+)`/g)].map(([, name]) => name),
  );
  const logged = globSync("src/**/*.{ts,tsx}", { cwd: ROOT, exclude: ["src/dev/**", "src/pages/assets.ts"] }).flatMap(
    (file) => [...read(file).matchAll(/\b(?:logEvent\(\s*|failureEvent(?::| =) )"(\w+)"/g)].map(([, name]) => name),
  );
  expect(documented.toSorted()).toEqual([...new Set(logged)].toSorted());
});

test("docs/operate.md names each chore of the store", () => {
  const [, section = ""] = /\n### `chore_failing`\n(.*?)\n### /s.exec(read("docs/operate.md")) ?? [];
  const jobs = [...read("src/store/signal-store.ts").matchAll(/\bname: "(\w+)"/g)].map(([, name]) => name);
  expect(jobs.length).toBeGreaterThan(5);
  expect(jobs.filter((name) => !section.includes(`\`${name}\``))).toEqual([]);
});

describe("a paragraph cited by the code", () => {
  const sources = globSync("{src,test}/**/*.{ts,tsx}", { cwd: ROOT }).filter(
    (file) => !file.includes("documents.test"),
  );

  test.each([
    ["specification", /\b[Ss]pec(?:ification)? (§[\d.]+\d|§\d)/g, "docs/specification.md"],
    ["design", /\b[Dd]esign (§[\d.]*\d[a-z]?)/g, "docs/design.md"],
  ])("is in the %s", (_, cited, document) => {
    const known = paragraphs(read(document));
    const unknown = sources.flatMap((file) =>
      [...read(file).matchAll(cited)].filter(([, cite = ""]) => !known.has(cite)).map(([cite]) => `${file}: ${cite}`),
    );
    expect(unknown).toEqual([]);
  });
});

/** `§8` of a heading, `§8.5` of its fifth point. */
function paragraphs(document: string): Set<string> {
  const found = new Set<string>();
  let section = "";
  for (const line of document.split("\n")) {
    const heading = /^##+ (\d+[a-z]?(?:\.\d+)?)\.? /.exec(line)?.[1];
    if (heading !== undefined) {
      found.add(`§${heading}`);
      section = heading;
    }
    const point = /^(\d+)\. /.exec(line)?.[1];
    if (point !== undefined) found.add(`§${section}.${point}`);
  }
  return found;
}

function prose(document: string): string {
  return withoutBlocks(document).replaceAll(/`[^`\n]*`/g, "");
}

function withoutBlocks(document: string): string {
  return document.replaceAll(/^```.*?^```$/gms, "");
}

/** As GitHub makes them of headings. */
function anchors(document: string): string[] {
  return [...withoutBlocks(document).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );
}
