/** Which calls a browser has made, by their headers. */
import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { browserOrigin } from "../../../../src/domain/keys/browser-origin.ts";
import { composeKey } from "../../../../src/domain/keys/api-key.ts";

const OWN = "https://signals.example";
const SHOP = "https://shop.example";
const key = composeKey(randomBytes);

test.each([
  ["a server", {}, null],
  ["Node.js, whose fetch sends a mode", { mode: "cors" }, null],
  ["a page of another origin", { origin: SHOP, mode: "cors", site: "cross-site" }, SHOP],
  ["an old browser without the mode", { origin: SHOP }, SHOP],
  ["a page of this service", { origin: OWN, mode: "cors", site: "same-origin" }, null],
  ["a page of this service without an origin", { mode: "cors", site: "same-origin" }, null],
  ["an image or a form of another page", { mode: "no-cors", site: "cross-site" }, "null"],
  ["a file or a sandboxed frame", { origin: "null", mode: "cors", site: "cross-site" }, "null"],
  ["an address with a path and a user", { origin: "https://jane:pw@shop.example/cart?x=1" }, SHOP],
  ["no address", { origin: "shop" }, "null"],
  ["an address that is too long", { origin: `https://${"a".repeat(300)}.example` }, "null"],
  ["a header with a key", { origin: `https://${key}.example` }, "null"],
])("a call of %s", (_, headers, origin) => {
  const sent = { origin: undefined, mode: undefined, site: undefined, ...headers };
  expect(browserOrigin(sent, () => OWN)).toBe(origin);
});
