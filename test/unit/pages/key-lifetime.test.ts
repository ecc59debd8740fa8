/** How long a new key is to live, as the forms ask for it (spec §2.1). */
import { describe, expect, test } from "vitest";
import { expirationOf, readLifetime, type TypedLifetime } from "../../../src/pages/keys/key-lifetime.ts";

const NOW = Date.parse("2026-11-22T10:00:00.000Z");

function form(fields: Record<string, string>): FormData {
  const data = new FormData();
  for (const [name, value] of Object.entries(fields)) data.set(name, value);
  return data;
}

describe("the form of a key's lifetime", () => {
  test.each([
    [
      { lifetime: "30d", expires: "" },
      { lifetime: "30d", expires: "" },
    ],
    [{ lifetime: "keep" }, { lifetime: "keep", expires: "" }],
    [
      { lifetime: "at", expires: "2026-12-01T00:00" },
      { lifetime: "at", expires: "2026-12-01T00:00" },
    ],
    [{ lifetime: "never" }, { lifetime: "never", expires: "" }],
    [{ lifetime: "toString" }, { lifetime: "", expires: "" }],
    [{}, { lifetime: "", expires: "" }],
  ])("with %j says %j", (fields, typed) => expect(readLifetime(form(fields as Record<string, string>))).toEqual(typed));

  test("with a file where a text belongs says nothing", () => {
    const data = form({ lifetime: "at" });
    data.set("expires", new File(["2026-12-01T00:00"], "x"));
    expect(readLifetime(data)).toEqual({ lifetime: "at", expires: "" });
  });
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
  ])("asked for by %j and %j is %j", (lifetime, expires, expiration) => {
    expect(expirationOf({ lifetime, expires }, NOW)).toEqual({ ok: true, value: expiration });
  });

  test.each<[TypedLifetime["lifetime"], string, string]>([
    ["", "2026-12-01T00:00", "Choose when the key expires."],
    ["keep", "2026-12-01T00:00", "Choose when the key expires."],
    ["at", "2026-11-22T10:00", "It must lie in the future."],
    ["at", "2020-01-01T00:00", "It must lie in the future."],
    ["at", "", "Give a date and a time, or choose another lifetime."],
    ["at", "2027-02-29T00:00", "Give a date and a time, or choose another lifetime."],
    ["at", "2027-13-01T00:00", "Give a date and a time, or choose another lifetime."],
    ["at", "2027-01-01", "Give a date and a time, or choose another lifetime."],
    ["at", "2027-01-01T00:00Z", "Give a date and a time, or choose another lifetime."],
    ["at", " 2027-01-01T00:00", "Give a date and a time, or choose another lifetime."],
    ["at", "2027-01-01T00:00:00.000", "Give a date and a time, or choose another lifetime."],
    ["at", "+12027-01-01T00:00", "Give a date and a time, or choose another lifetime."],
  ])("by %j and %j is none: %s", (lifetime, expires, why) => {
    expect(expirationOf({ lifetime, expires }, NOW)).toEqual({ ok: false, refusal: why });
  });

  test.each([null, "2026-11-30T00:00:00.000Z"])("is kept where a key is rotated: %j", (kept) => {
    expect(expirationOf({ lifetime: "keep", expires: "" }, NOW, kept)).toEqual({ ok: true, value: kept });
    expect(expirationOf({ lifetime: "never", expires: "" }, NOW, kept)).toEqual({ ok: true, value: null });
    expect(expirationOf({ lifetime: "", expires: "" }, NOW, kept)).toMatchObject({ ok: false });
  });
});
