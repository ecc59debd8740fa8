/** Design §8.7: the size limit of an account. */
import { describe, expect, test } from "vitest";
import {
  VALUE_MAX_BYTES,
  updateRejection,
  valueBytes,
  type SizedValues,
} from "../../../../src/domain/accounts/account-size.ts";
import { ROW_MAX_BYTES } from "../../../../src/limits.ts";

const values = (bytes: Record<string, number>): SizedValues =>
  new Map(Object.entries(bytes).map(([target, size]) => [target, { bytes: size }] as const));
const sum = (sized: SizedValues) => [...sized.values()].reduce((total, { bytes }) => total + bytes, 0);

/** The rejection of an update that is later than all stored values. */
function rejection(stored: SizedValues, sent: SizedValues, taken = sent): string | null {
  return updateRejection(sum(stored), stored, { sent, taken });
}

describe("§8.7 an account's size", () => {
  test("is limited to ROW_MAX_BYTES exactly", () => {
    const stored = values({ name: 12, "attributes.a": 600_000 });
    const room = ROW_MAX_BYTES - 600_012;
    expect(rejection(stored, values({ plan: 400_000, "attributes.b": room - 400_000 }))).toBeNull();
    expect(rejection(stored, values({ plan: 400_000, "attributes.b": room - 399_999 }))).toContain("1,500,001 bytes");
  });

  test("excludes the values that an update replaces", () => {
    const stored = values({ "attributes.a": 700_000, "attributes.b": 700_000 });
    expect(rejection(stored, values({ "attributes.a": 740_000 }))).toBeNull();
    expect(rejection(stored, values({ "attributes.c": 740_000 }))).not.toBeNull();
  });

  test("excludes values that arrive too late to be taken", () => {
    const stored = values({ plan: 700_000, "attributes.b": 700_000 });
    expect(rejection(stored, values({ plan: 720_000, "attributes.c": 90_000 }), values({}))).toBeNull();
  });

  test("is rejected with its largest values and what to do", () => {
    const stored = values({ plan: 5, "attributes.a": 700_000, "attributes.b": 720_000 });
    expect(rejection(stored, values({ "attributes.c": 100_000 }))).toBe(
      "The account would take 1,520,005 bytes with this update, and one account may take 1,500,000 bytes. " +
        "Its largest values would be `attributes.b` (720,000 bytes), `attributes.a` (700,000 bytes), " +
        "`attributes.c` (100,000 bytes), `plan` (5 bytes). " +
        "It stays as it was. Send smaller values for these, then replay this update.",
    );
  });

  test("limits each value to half a row, even a value that arrives too late", () => {
    expect(2 * VALUE_MAX_BYTES).toBeLessThan(ROW_MAX_BYTES);
    expect(rejection(values({}), values({ plan: VALUE_MAX_BYTES }))).toBeNull();
    expect(rejection(values({}), values({ plan: VALUE_MAX_BYTES + 1 }), values({}))).toContain("`plan` would take");
  });

  test("counts UTF-8 bytes, not characters", () => {
    const [target, text, claim] = ["attributes.größe", '"€"', '{"signalId":"s"}'];
    const row = `{${JSON.stringify(target)}:${text},}{${JSON.stringify(target)}:${claim},}`;
    expect(valueBytes(target, text, claim)).toBe(Buffer.byteLength(row) - "{}{}".length);
  });
});
