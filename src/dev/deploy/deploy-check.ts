/**
 * `npm run deploy:check [-- --env NAME]`: reports missing parts of a deployment and the commands that create them.
 */
import { checkDeploy, environmentAsked } from "./deploy-steps.ts";

const asked = environmentAsked();
process.exitCode = asked !== null && (await checkDeploy(asked.environment)) ? 0 : 1;
