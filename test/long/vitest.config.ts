/** `npm run test:all`: tests that take minutes. test/README.md has the command of each part. */
import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config";
import { browserProject, builtProject, root, sharedOptions, unitProject, workerProject } from "../support/projects.ts";

const variables = { LONG_RUN: "yes" };
/** Tests that do less in `npm test`: properties with fewer cases, and large numbers that are smaller there. */
const shortened = (folder: string): string[] =>
  globSync(`${folder}/**/*.test.ts`, { cwd: root }).filter((file) =>
    /from "[./]+support\/(amount|for-so-long)\.ts"/.test(readFileSync(path.join(root, file), "utf8")),
  );

/** Tests that measure waiting times run when the others have ended, one after another. */
const MEASURING = ["worst-input", "neighbour"];

function alone({ test, ...project }: TestProjectInlineConfiguration): TestProjectInlineConfiguration {
  return { ...project, test: { ...test, fileParallelism: false, sequence: { groupOrder: 1 } } };
}

export default defineConfig({
  root,
  test: {
    ...sharedOptions,
    env: variables,
    projects: [
      // First, because its longest file takes two minutes alone.
      browserProject,
      // What thousands of lives and calls leave running makes a runtime unreliable.
      workerProject("long", { include: ["test/long/*.test.ts"], isolate: true, variables }),
      workerProject("plain", {
        include: ["test/worker/store/**/!(cold-storage|head-budget).test.ts", "test/long/model.test.ts"],
        variables: { STORE_LOG: "plain" },
      }),
      workerProject("properties", { include: shortened("test/worker"), variables }),
      unitProject(shortened("test/unit"), variables),
      builtProject("built", [`test/{sdk,sign-in,notifications,fault}/**/!(${MEASURING.join("|")}).test.ts`], variables),
      alone(
        builtProject(
          "alone",
          MEASURING.map((name) => `test/fault/${name}.test.ts`),
          variables,
        ),
      ),
    ],
  },
});
