/** Names as they are searched for. */
import { expect, test } from "vitest";
import { folded } from "../../../../src/domain/signal/folded.ts";

test.each([
  ["Zoë", "zoe"],
  ["ÉCOLE Ünïversität", "ecole universitat"],
  ["Ａｃｍｅ", "acme"],
  ["ﬁne", "fine"],
  ["한국", "한국".normalize("NFKD")],
  ["Ångström AB", "angstrom ab"],
])("%s is searched for as %s", (text, same) => {
  expect(folded(text)).toBe(same);
  expect(folded(text.normalize("NFD"))).toBe(same);
});
