/**
 * Reads the worst bodies that a sender can send, whole and truncated. Each takes a fraction of a second of CPU time,
 * because the isolate serves no other call meanwhile. The test prints the slowest body.
 */
import { afterAll, expect, test } from "vitest";
import { readSignals } from "../../../src/domain/signal/signal-body.ts";
import { validateSignal } from "../../../src/domain/signal/validate-signal.ts";
import { BODY_MAX_BYTES, BODY_MAX_SIGNALS } from "../../../src/limits.ts";
import { amount, note } from "../../support/amount.ts";
import { cpuMs } from "../../support/cpu-ms.ts";

/**
 * Four times the time on a busy machine. One more pass over all bytes exceeds it, and so does a quadratic algorithm.
 * A body that takes longer is read again, because a collection of garbage can fall into one reading.
 */
const MAX_MS = amount(300, 1_500);
const READINGS = 3;

let worst = { ms: 0, shape: "" };
afterAll(() => {
  note(`worst body: ${worst.ms.toFixed(0)} ms, ${worst.shape}`);
});

const BYTES = amount(2_000_000, BODY_MAX_BYTES);
const fill = (unit: string, bytes = BYTES - 200): string => unit.repeat(Math.floor(bytes / unit.length));
const signals = (padding: number): string[] =>
  Array.from(
    { length: BODY_MAX_SIGNALS },
    (_, n) => `{"event":"e","email":"p${n}@example.com","x":"${"x".repeat(padding)}"}`,
  );
const SHARE = BYTES / BODY_MAX_SIGNALS;
const PADDING = Math.max(1, SHARE - 60);

const BODIES: [shape: string, body: string, result: string][] = [
  ["opening brackets", fill("["), "signal_too_deep"],
  ["opening objects", fill('{"a":'), "signal_too_deep"],
  ["balanced brackets", fill("[", BYTES / 2) + fill("]", BYTES / 2), "signal_too_deep"],
  ["an array of ones", `[${fill("1,")}1]`, "batch_too_long"],
  ["an array of small arrays", `[${fill("[[1]],")}1]`, "batch_too_long"],
  ["an array of words", `[${fill("null,")}null]`, "batch_too_long"],
  ["a batch of ones", `{"batch":[${fill("1,")}1]}`, "batch_too_long"],
  ["many batches", `{${fill('"batch":[1],')}"a":1}`, "signal_too_large"],
  ["many keys that are nearly batch", `{${fill('"b\\u0061tcx":1,')}"a":1}`, "signal_too_large"],
  ["a long text", `{"event":"${fill("x")}"}`, "signal_too_large"],
  ["backslashes", `{"event":"${fill("\\\\")}"}`, "signal_too_large"],
  ["escapes", `{"event":"${fill("\\u0041")}"}`, "signal_too_large"],
  ["a large array in one signal", `{"a":[${fill("1,")}1]}`, "signal_too_large"],
  [
    "two signals that are too large",
    `[${`{"a":[${fill("1,", BYTES / 2 - 20)}1]},`.repeat(2).slice(0, -1)}]`,
    "signal_too_large",
  ],
  ["newlines", fill("\n"), "body_empty"],
  ["white space and a letter", `${fill(" ")}x`, "body_not_json"],
  ["lines of ones", fill("1\n"), "batch_too_long"],
  ["lines of letters", fill("x\n"), "body_not_json"],
  ["many small signals", `[${signals(1).join(",")}]`, "good"],
  ["many signals", `[${signals(PADDING).join(",")}]`, "good"],
  ["lines of signals", signals(PADDING).join("\n"), "good"],
  [
    "many deep signals",
    `[${Array(BODY_MAX_SIGNALS)
      .fill(fill("[", SHARE / 2 - 1) + fill("]", SHARE / 2 - 1))
      .join(",")}]`,
    "signal_too_deep",
  ],
  ["two-byte letters", `["${"ж".repeat(BYTES / 2)}" x`, "body_not_json"],
];

test.each(BODIES)("%s: is read or rejected in a fraction of a second, whole and truncated", (shape, body, result) => {
  const bytes = new TextEncoder().encode(body);
  for (const [of, part] of [
    [shape, bytes],
    [`${shape}, cut off`, bytes.subarray(0, -1)],
    [`half of ${shape}`, bytes.subarray(0, bytes.length / 2)],
  ] as const) {
    let code: string | undefined;
    let ms = Infinity;
    for (let reading = 0; reading < READINGS && ms >= MAX_MS; reading += 1) {
      const readingMs = cpuMs(() => {
        const read = readSignals(part, { maxSignals: BODY_MAX_SIGNALS, lines: true, check: validateSignal });
        code = read.ok ? (read.value.signals[0]?.rejection?.code ?? "good") : read.rejection.code;
      });
      ms = Math.min(ms, readingMs);
    }
    if (part === bytes) expect(code).toBe(result);
    if (ms > worst.ms) worst = { ms, shape: of };
    expect(ms, of).toBeLessThan(MAX_MS);
  }
});
