/** `npm run deploy:check [-- --env NAME]`: says what is missing before the service can be deployed, and how to make it. */
import { checkDeploy } from "./deploy-steps.ts";

process.exitCode = (await checkDeploy(process.argv.slice(2))) ? 0 : 1;
