/** `npm test`: a kill of the built Worker, the Worker on workerd with its real bindings, and the pure rules in Node. */
import { defineConfig } from "vitest/config";
import { builtProject, root, sharedOptions, unitProject, workerProject } from "./support/projects.ts";

export default defineConfig({
  root,
  test: {
    ...sharedOptions,
    projects: [
      builtProject("crash", ["test/fault/kill.test.ts"]),
      workerProject("worker", {
        // The outages take too long for `npm test`.
        include: ["test/worker/**/*.test.ts", "test/long/!(outages).test.ts"],
      }),
      unitProject(["test/unit/**/*.test.ts"]),
    ],
  },
});
