/** A deployment uses only workspaces of its own jurisdiction (design §3). */
import { expect, test } from "vitest";
import { JurisdictionError, jurisdictionProblem, requireJurisdiction } from "../../src/env.ts";

test.each([
  ["", "", null],
  ["eu", "eu", null],
  ["us", "us", null],
  ["eu", "", /^JURISDICTION is "eu", but this deployment's data is in no jurisdiction\. Set JURISDICTION = "" again:/],
  [
    "",
    "eu",
    /^JURISDICTION is "", but this deployment's data is in "eu"\. Set JURISDICTION = "eu" again: .* objects\.$/,
  ],
  ["mars", "mars", /^JURISDICTION is "mars", which is none of "eu", "us" and ""\. Correct it\.$/],
])("the variable %j with a workspace in %j", (configured, recorded, problem) => {
  const found = jurisdictionProblem(configured, recorded);
  if (problem === null) {
    expect(found).toBeNull();
    requireJurisdiction(configured, recorded);
  } else {
    expect(found).toMatch(problem);
    expect(() => requireJurisdiction(configured, recorded)).toThrow(JurisdictionError);
  }
});
