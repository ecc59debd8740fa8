/** The paths of a signal's properties, as conditions of mapping rules name them. */
import { expect, test } from "vitest";
import { propertyPaths } from "../../../../src/domain/rules/property-paths.ts";

const ALL = 100;

test("every value has its path, of an array the first element, each path once", () => {
  const samples = [
    { plan: "pro", cart: { items: [{ sku: "a", tags: ["x"] }, { other: 1 }] }, "utm[source]": "s", gone: null },
    { plan: "free", late: true },
  ];
  expect(propertyPaths(samples, ALL)).toEqual([
    "properties.plan",
    "properties.cart.items[].sku",
    "properties.cart.items[].tags[]",
    "properties.utm[source]",
    "properties.gone",
    "properties.late",
  ]);
});

test("what no path reaches is not proposed: empty names and names without end; odd ones are, where a path reaches them", () => {
  const properties = {
    "": 1,
    "a[0]": 1,
    nothing: {},
    none: [],
    "a.b": { "": 2 },
    ["x".repeat(300)]: 1,
    fine: 1,
  };
  expect(propertyPaths([properties], ALL)).toEqual(["properties.a[0]", "properties.fine"]);
});

test("no more paths are proposed than are asked for, and no more is looked at", () => {
  const endless = new Proxy(
    {},
    {
      ownKeys: () => {
        throw new Error("looked at");
      },
    },
  );
  expect(propertyPaths([{ a: 1, b: 2, c: 3, endless }], 2)).toEqual(["properties.a", "properties.b"]);
});
