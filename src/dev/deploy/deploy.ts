/** `npm run deploy [-- --env NAME]`: the check, the migrations of D1, the Worker. Nothing is changed while something is missing. */
import { checkDeploy, environmentOf, runWrangler } from "./deploy-steps.ts";

const args = process.argv.slice(2);
const environment = environmentOf(args);
const ofEnvironment = environment === undefined ? [] : ["--env", environment];
process.exitCode =
  (await checkDeploy(args)) &&
  (await runWrangler(["d1", "migrations", "apply", "DB", "--remote", ...ofEnvironment])) &&
  (await runWrangler(["deploy", ...args]))
    ? 0
    : 1;
