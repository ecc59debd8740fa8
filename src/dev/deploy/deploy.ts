/** `npm run deploy [-- --env NAME]`: the check, the migrations of D1, the Worker. Nothing is changed while something is missing. */
import { checkDeploy, environmentAsked, ofEnvironment, runWrangler } from "./deploy-steps.ts";

const asked = environmentAsked();
process.exitCode =
  asked !== null &&
  (await checkDeploy(asked.environment)) &&
  (await runWrangler(["d1", "migrations", "apply", "DB", "--remote", ...ofEnvironment(asked.environment)])) &&
  (await runWrangler(["deploy", ...ofEnvironment(asked.environment)]))
    ? 0
    : 1;
