/** Messages arrive as they were written (design §7). */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  firstSignals,
  readMessage,
  isUnreadable,
  ROW_HEADER_BYTES,
  writeMessage,
  writeRow,
  writeSignal,
} from "../../../src/wire/message.ts";
import { readAdmission, type Resent, type Envelope, type OutboxRow } from "../../../src/wire/admission.ts";
import type { ReceivedMessage } from "../../../src/wire/message.ts";

const HOSTILE = [
  '{"event":"a\\u001eb"}',
  '{"event":"␞{\\"v\\":1}"}',
  '{"v":1,"workspace":"ws_other"}',
  '{"row":1,"count":99,"accepted":99}',
  ' {\n\t"event" : "x"\r\n} ',
  '{"event":"\u2028\u2029\u0085😀\ud800"}',
  '{"event":"\u007f\u0080"}',
  '{"__proto__":{"count":0}}',
  "[[[]]]",
  '""',
  "1e400",
  '{"a":1,"a":2}',
];

/** Any JSON text: no such text holds a raw control character other than white space. */
const payloads = fc.oneof(
  fc.constantFrom(...HOSTILE),
  fc.json(),
  fc.jsonValue().map((value) => JSON.stringify(value, null, "\t")),
  fc.string({ unit: "binary" }).map((text) => JSON.stringify(text)),
);
const anyText = fc.oneof(
  fc.string({ unit: "binary", maxLength: 20 }),
  fc.constantFrom("\u001e", "\u001d", "\n\u001e{", '"', "\\"),
);
const resents = fc.record<Resent>({
  from: fc.constantFrom("held", "dead"),
  place: fc.nat(),
  verdict: fc.constantFrom("accepted", "held"),
  ordinal: fc.nat(),
  at: fc.nat(),
  period_start: fc.nat(),
  period_end: fc.nat(),
  limit: fc.nat(),
});
const envelopes = fc.record<Envelope, "id" | "key">(
  {
    id: anyText,
    key: anyText,
    endpoint: fc.constant("product_org" as const),
    source: anyText,
    idem: anyText,
    resent: resents,
  },
  { requiredKeys: ["id", "key"] },
);
const signals = fc.array(fc.record({ envelope: envelopes, payload: payloads }), { minLength: 1, maxLength: 5 });
const rows = fc.array(fc.record({ signals, first: fc.nat(), accepted: fc.nat(5) }), { minLength: 1, maxLength: 4 });

function rowOf(row: number, first: number, count: number, accepted: number): OutboxRow {
  return { row, at: 1_771_885_735_111, period_start: 1, period_end: 2, limit: 100, first, count, accepted };
}

const signalsOf = ({ rows: received }: ReceivedMessage) => received.flatMap((row) => row.signals);

const written = (of: { envelope: Envelope; payload: string }[]): string =>
  of.map(({ envelope, payload }) => writeSignal(envelope, payload)).join("");

describe("a queue message", () => {
  test("returns all envelopes and payloads", () => {
    fc.assert(
      fc.property(fc.uuid(), fc.maxSafeNat(), rows, (workspaceId, low, groups) => {
        const outbox = groups.map((group, index) => {
          const count = group.signals.length;
          return { signals: group.signals, row: rowOf(index + 7, group.first, count, Math.min(group.accepted, count)) };
        });
        const text = writeMessage(
          workspaceId,
          low,
          outbox.map((each) => writeRow(each.row, written(each.signals))).join(""),
        );
        expect(readMessage(text)).toEqual({
          workspaceId,
          low,
          rows: outbox.map(({ row, signals: of }) => ({
            row,
            signals: of.map(({ envelope, payload }, index) => ({
              admission: readAdmission(row, envelope, index),
              payload,
            })),
          })),
          unreadable: 0,
          newer: 0,
        });
      }),
      { numRuns: 300 },
    );
  });

  test("limits the record of a row to ROW_HEADER_BYTES", () => {
    const most = Number.MAX_SAFE_INTEGER;
    const times = { at: 9_999_999_999_999, period_start: 9_999_999_999_999, period_end: 9_999_999_999_999 };
    const largest: OutboxRow = { row: most, ...times, limit: most, first: most, count: 10_000, accepted: 10_000 };
    expect(writeRow(largest, "").length).toBeLessThanOrEqual(ROW_HEADER_BYTES);
  });

  test("reads stored rows of version 1", () => {
    const row =
      '\u001d{"v":1,"row":7,"at":5,"period_start":1,"period_end":9,"limit":100,"first":100,"count":2,"accepted":1}' +
      '\u001e{"id":"sig_a","key":"key_1","endpoint":"product_org","source":"crm","idem":"x 0"}\u001e{"a":1}' +
      '\u001e{"id":"sig_b","key":"key_1","resent":{"from":"held","place":3,"verdict":"accepted","ordinal":4,"at":2,' +
      '"period_start":1,"period_end":9,"limit":50}}\u001e{"b":2}';
    const [read] = readMessage(`ws_1${row}`).rows;
    expect(read?.row).toMatchObject({ row: 7, at: 5, limit: 100, first: 100, count: 2, accepted: 1 });
    expect(read?.signals).toMatchObject([
      {
        admission: {
          id: "sig_a",
          pathSource: "crm",
          idempotencyKey: "x 0",
          verdict: "accepted",
          ordinal: 100,
          endpoint: "product_org",
          receivedAtMs: 5,
          signalLimit: 100,
        },
        payload: '{"a":1}',
      },
      {
        admission: {
          id: "sig_b",
          receivedAtMs: 2,
          signalLimit: 50,
          verdict: "accepted",
          ordinal: 4,
          endpoint: "signal_staging",
          resent: { from: "held", place: 3 },
        },
        payload: '{"b":2}',
      },
    ]);
  });

  const good = (row: number) => writeRow(rowOf(row, row, 1, 1), writeSignal({ id: `sig_${row}`, key: "k" }, "{}"));

  test.each([
    ["of a version that is gone", good(2).replace('"v":1', '"v":0')],
    ["of no version", good(2).replace('"v":1,', "")],
    ["with fewer signals than it says", writeRow(rowOf(2, 2, 2, 2), writeSignal({ id: "a", key: "k" }, "1"))],
    ["with more signals than it says", good(2).replace('"count":1', '"count":0')],
    ["with half a signal", good(2).slice(0, good(2).lastIndexOf("\u001e"))],
    ["with a broken envelope", good(2).replace('{"id"', "{id")],
    ["that is no row at all", "\u001dhello"],
  ])("a row %s is left alone, and its neighbours are read", (_, row) => {
    const message = readMessage(writeMessage("ws_1", 0, good(1) + row + good(3)));
    expect(message).toMatchObject({ workspaceId: "ws_1", rows: [{ row: { row: 1 } }, { row: { row: 3 } }] });
    expect(message.unreadable).toBe(1);
    expect(signalsOf(message).map((signal) => signal.admission.id)).toEqual(["sig_1", "sig_3"]);
  });

  test("distinguishes a row of a newer version from a broken row, and reads its neighbours", () => {
    const newer = good(2).replace('"v":1', '"v":2').replace('{"id":"sig_2"', "whatever that version says");
    const message = readMessage(writeMessage("ws_1", 0, good(1) + newer + good(3)));
    expect(message).toMatchObject({ rows: [{ row: { row: 1 } }, { row: { row: 3 } }], unreadable: 0, newer: 1 });
  });

  test.each(["", "hello"])("has no rows if its text is %j", (text) => {
    expect(readMessage(text)).toEqual({ workspaceId: text, low: 0, rows: [], unreadable: 0, newer: 0 });
  });
});

test("takes the first signals of a text, at most all", () => {
  fc.assert(
    fc.property(signals, fc.nat(7), (of, count) => {
      expect(firstSignals(written(of), count)).toBe(written(of.slice(0, count)));
    }),
  );
});

test("a row is unreadable if no release can read it, which excludes newer versions", () => {
  const text = writeRow(rowOf(3, 1, 1, 1), writeSignal({ id: "a", key: "k" }, "{}"));
  for (const readable of [text, text.replace('"v":1', '"v":2')]) expect(isUnreadable(readable)).toBe(false);
  for (const broken of ["\u001dnonsense", "nonsense", ""]) expect(isUnreadable(broken)).toBe(true);
});
