/** `npm run test:overload -- --seconds 60`: the test under four times the capacity, for a chosen time. */
import { parseArgs } from "node:util";
import { countAsked, runLonger } from "./run-longer.ts";

const { values } = parseArgs({ options: { seconds: { type: "string", default: "6" } } });
await runLonger("test/fault/overload.test.ts", {
  OVERLOAD_SECONDS: countAsked("seconds", values.seconds, 86_400),
});
