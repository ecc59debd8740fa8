/** The lifetime of a new key in the forms (spec §2.1). */
import { describe, expect, test } from "vitest";
import { expirationOf, readLifetime, type TypedLifetime } from "../../../src/pages/keys/key-form-parts.tsx";

const NOW = Date.parse("2026-11-22T10:00:00.000Z");

test.each<[fields: Record<string, string | File>, typed: TypedLifetime]>([
  [
    { lifetime: "30d", expires: "" },
    { lifetime: "30d", expires: "" },
  ],
  [{ lifetime: "keep" }, { lifetime: "keep", expires: "" }],
  [
    { lifetime: "at", expires: "2026-12-01T00:00" },
    { lifetime: "at", expires: "2026-12-01T00:00" },
  ],
  [
    { lifetime: "at", expires: new File(["2026-12-01T00:00"], "x") },
    { lifetime: "at", expires: "" },
  ],
  [{ lifetime: "toString" }, { lifetime: "", expires: "" }],
  [{}, { lifetime: "", expires: "" }],
])("the form %j is read as %j", (fields, typed) => {
  const data = new FormData();
  for (const [name, value] of Object.entries(fields)) data.set(name, value);
  expect(readLifetime(data)).toEqual(typed);
});

describe("a key's expiration", () => {
  test.each<[TypedLifetime["lifetime"], string, string | null]>([
    ["never", "", null],
    ["never", "2026-12-01T00:00", null],
    ["30d", "", "2026-12-22T10:00:00.000Z"],
    ["90d", "", "2027-02-20T10:00:00.000Z"],
    ["365d", "", "2027-11-22T10:00:00.000Z"],
    ["at", "2026-11-22T10:01", "2026-11-22T10:01:00.000Z"],
    ["at", "2026-11-22T10:00:01", "2026-11-22T10:00:01.000Z"],
  ])("by %j and %j is %j", (lifetime, expires, expiration) => {
    expect(expirationOf({ lifetime, expires }, NOW)).toEqual({ ok: true, value: expiration });
  });

  const INVALID = "Enter a date and a time, or choose another expiration.";
  test.each<[TypedLifetime["lifetime"], string, string]>([
    ["", "2026-12-01T00:00", "Choose when the key expires."],
    ["keep", "2026-12-01T00:00", "Choose when the key expires."],
    ["at", "2026-11-22T10:00", "Enter a time in the future."],
    ["at", "2020-01-01T00:00", "Enter a time in the future."],
    ["at", "", INVALID],
    ["at", "2027-02-29T00:00", INVALID],
    ["at", "2027-13-01T00:00", INVALID],
    ["at", "2027-01-01", INVALID],
    ["at", "2027-01-01T00:00Z", INVALID],
    ["at", " 2027-01-01T00:00", INVALID],
    ["at", "2027-01-01T00:00:00.000", INVALID],
    ["at", "+12027-01-01T00:00", INVALID],
  ])("by %j and %j is rejected: %s", (lifetime, expires, why) => {
    expect(expirationOf({ lifetime, expires }, NOW)).toEqual({ ok: false, rejection: why });
  });

  test.each([null, "2026-11-30T00:00:00.000Z"])("may be kept where a key is rotated: %j", (kept) => {
    const expiration = (lifetime: TypedLifetime["lifetime"]) => expirationOf({ lifetime, expires: "" }, NOW, kept);
    expect(expiration("keep")).toEqual({ ok: true, value: kept });
    expect(expiration("never")).toEqual({ ok: true, value: null });
    expect(expiration("")).toMatchObject({ ok: false });
  });
});
