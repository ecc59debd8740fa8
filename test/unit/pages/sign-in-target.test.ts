/** Sign-in leads nowhere but to a page of a workspace, whatever the address says. */
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { composeKey } from "../../../src/domain/keys/api-key.ts";
import { safeTarget } from "../../../src/pages/session/sign-in-target.ts";

test.each(["/w/", "/w/acme/usage", "/w/acme/people?email=jane%40example.com&cursor=x", "/w/acme/a%2Fb"])(
  "the target %s is kept",
  (to) => expect(safeTarget(to)).toBe(to),
);

test.each([
  ["nothing", undefined],
  ["nothing in it", ""],
  ["another site", "https://evil.example/w/acme"],
  ["another site without a scheme", "//evil.example/w/acme"],
  ["with a backslash", "/\\evil.example/w/"],
  ["with a backslash later", "/w/\\evil.example"],
  ["out of the pages", "/w/../sign-out"],
  ["out of the pages, encoded", "/w/%2e%2e/operator/plans"],
  ["to an empty host", "/w/..//evil.example"],
  ["with a tab", "/w/\t/evil.example"],
  ["with a line break", "/w/a\r\nset-cookie: x=y"],
  ["a script", "javascript:alert(1)"],
  ["another path", "/operator/plans"],
  ["a path that only begins alike", "/wide"],
  ["white space before it", " /w/acme"],
  ["a page with a key in its query", `/w/acme/people?q=${composeKey(randomBytes)}`],
  ["a page with a key in its path", `/w/acme/people/${composeKey(randomBytes)}`],
])("a target that is not kept: %s", (_, to) => expect(safeTarget(to)).toBe("/w/"));

test("for any target, a browser stays on the site and in the pages", () => {
  const piece = fc.constantFrom(
    "/",
    "\\",
    "..",
    ".",
    "w",
    "%2e",
    "//",
    ":",
    "@",
    "?",
    "#",
    "\t",
    "evil.example",
    "https:",
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const url = new URL(safeTarget(`/w/${pieces.join("")}`), "https://signals.example");
      expect(url.origin).toBe("https://signals.example");
      expect(url.pathname).toMatch(/^\/w\//);
    }),
  );
});
