/** `npm run deploy:check [-- --env NAME]`: says what is missing before the service can be deployed, and how to make it. */
import { checkDeploy, environmentAsked } from "./deploy-steps.ts";

const asked = environmentAsked();
process.exitCode = asked !== null && (await checkDeploy(asked.environment)) ? 0 : 1;
