/** Seeds of property tests: a failing property names its seed and ends with the command that repeats it alone. */
import * as fc from "fast-check";
import { expect } from "vitest";
import { isLongRun } from "./amount.ts";

/** Configures all `fc.assert` calls of this runtime. The seed is PROPERTY_SEED; without the variable each property draws a seed. */
export function configureProperties(): void {
  const seed = process.env["PROPERTY_SEED"];
  fc.configureGlobal({
    ...(seed === undefined ? {} : { seed: Number(seed) }),
    reporter: reportWith(commandOfThisTest),
  });
}

/** @param command repeats the failing property from its seed. */
export function reportWith<Case>(command: (seed: number) => string): (details: fc.RunDetails<Case>) => void {
  return (details) => {
    if (!details.failed) return;
    const message = `${fc.defaultReportMessage(details)}\n\nRepeat it alone: ${command(details.seed)}`;
    throw new Error(message, { cause: details.errorInstance });
  };
}

function commandOfThisTest(seed: number): string {
  const { testPath = "", currentTestName = "" } = expect.getState();
  const file = testPath.slice(testPath.lastIndexOf("/test/") + 1);
  const config = isLongRun ? "test/long/vitest.config.ts" : "test/vitest.config.ts";
  // Vitest matches this pattern against the names of the suites and of the test, with spaces between them.
  const pattern = currentTestName.replaceAll(" > ", " ").replaceAll(/[$()*+.?[\\\]^{|}]/g, String.raw`\$&`);
  return `PROPERTY_SEED=${seed} npx vitest run --config ${config} ${file} -t '${pattern.replaceAll("'", String.raw`'\''`)}'`;
}
