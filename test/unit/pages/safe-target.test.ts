/** Sign-in redirects only to a page of a workspace, even if the address names another target. */
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { composeKey } from "../../../src/domain/keys/api-key.ts";
import { safeTarget } from "../../../src/pages/safe-target.ts";

test.each(["/w/", "/w/acme/usage", "/w/acme/people?email=jane%40example.com&cursor=x", "/w/acme/a%2Fb"])(
  "the target %s is kept",
  (to) => expect(safeTarget(to)).toBe(to),
);

test.each([
  ["missing", undefined],
  ["empty", ""],
  ["another site", "https://evil.example/w/acme"],
  ["another site without a scheme", "//evil.example/w/acme"],
  ["behind a backslash", "/\\evil.example/w/"],
  ["behind a later backslash", "/w/\\evil.example"],
  ["outside the pages", "/w/../sign-out"],
  ["outside the pages, encoded", "/w/%2e%2e/operator/plans"],
  ["on an empty host", "/w/..//evil.example"],
  ["split by a tab", "/w/\t/evil.example"],
  ["split by a line break", "/w/a\r\nset-cookie: x=y"],
  ["a script", "javascript:alert(1)"],
  ["another path", "/operator/plans"],
  ["a path with a similar beginning", "/wide"],
  ["indented by white space", " /w/acme"],
  ["a page with a key in its query", `/w/acme/people?q=${composeKey(randomBytes)}`],
  ["a page with a key in its path", `/w/acme/people/${composeKey(randomBytes)}`],
])("sign-in ignores a target that is %s", (_, to) => expect(safeTarget(to)).toBe("/w/"));

test("for any target, a browser stays on the site and in the pages", () => {
  const piece = fc.constantFrom(..."/ \\ .. . w %2e // : @ ? # \t evil.example https:".split(" "));
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const url = new URL(safeTarget(`/w/${pieces.join("")}`), "https://signals.example");
      expect(url.origin).toBe("https://signals.example");
      expect(url.pathname).toMatch(/^\/w\//);
    }),
  );
});
