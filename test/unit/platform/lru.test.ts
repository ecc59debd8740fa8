/** The bounded cache of keys, rules and segments in isolates and objects. */
import { describe, expect, test } from "vitest";
import { Lru } from "../../../src/platform/lru.ts";

describe("a bounded cache", () => {
  test("evicts the least recently used entry; a look is no use", () => {
    const memory = new Lru<string, number>(2);
    memory.set("a", 1);
    expect(memory.get("a")).toBe(1);
    memory.set("b", 2);
    expect(memory.get("a")).toBe(1);
    expect(memory.has("b")).toBe(true);
    memory.set("c", 3);
    expect([memory.get("a"), memory.get("b"), memory.get("c")]).toEqual([1, undefined, 3]);
  });

  test("is bounded by weight, even after an entry is replaced", () => {
    const memory = new Lru<string, string>(10);
    memory.set("a", "heavy", 9);
    memory.set("a", "light", 1);
    memory.set("b", "rest", 9);
    expect([memory.get("a"), memory.get("b")]).toEqual(["light", "rest"]);
    memory.set("b", "more", 10);
    expect([memory.has("a"), memory.has("b")]).toEqual([false, true]);
  });

  test("does not store an entry heavier than itself, and deletes on request", () => {
    const memory = new Lru<string, number>(2);
    memory.set("a", 1, 3);
    expect(memory.has("a")).toBe(false);
    memory.set("b", 2, 2);
    memory.delete("b");
    memory.set("c", 3, 2);
    expect(memory.get("c")).toBe(3);
    memory.clear();
    expect(memory.has("c")).toBe(false);
    memory.set("d", 4, 2);
    expect(memory.has("d")).toBe(true);
  });
});
