/**
 * `npm run deploy [-- --env NAME]`: checks, migrates D1, and deploys the Worker. Changes nothing while a part is
 * missing.
 */
import { checkDeploy, environmentAsked, ofEnvironment, runWrangler } from "./deploy-steps.ts";

const asked = environmentAsked();
process.exitCode =
  asked !== null &&
  (await checkDeploy(asked.environment)) &&
  (await runWrangler(["d1", "migrations", "apply", "DB", "--remote", ...ofEnvironment(asked.environment)])) &&
  (await runWrangler(["deploy", ...ofEnvironment(asked.environment)]))
    ? 0
    : 1;
