/** Messages arrive as they were written (design §7). */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  readMessage,
  isUnreadable,
  ROW_HEADER_BYTES,
  writeCall,
  writeMessage,
  writeRow,
  type ReceivedMessage,
  readAdmission,
  type CallHead,
  type OutboxRow,
  type Resent,
  type SignalHead,
} from "../../../src/wire/message.ts";
import { bytesOf, callOf, edited, rowOfSignals, textOf } from "../../support/wire.ts";

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
const heads = fc.record<CallHead, "key">(
  {
    key: anyText,
    endpoint: fc.constant("product_org" as const),
    source: anyText,
    idem: anyText,
    template: fc.nat(),
    headers: fc.dictionary(fc.constantFrom("x-topic", "x-event"), anyText),
    resent: resents,
  },
  { requiredKeys: ["key"] },
);
// As the reader gives it: its characters beyond ASCII are escaped.
const arounds = fc.constantFrom('{"key":"a"}', '{"body":{"a b":["\\u00e9",1]}}', '{"headers":{"x-topic":"sent"}}');
const ids = fc.uuid().map((id) => `sig_${id}`);
const signals = fc.array(
  fc.record<SignalHead & { payload: string }, "id" | "payload">(
    { id: ids, index: fc.nat(), around: arounds, payload: payloads },
    { requiredKeys: ["id", "payload"] },
  ),
  { minLength: 1, maxLength: 5 },
);
const calls = fc.array(fc.record({ head: heads, signals }), { minLength: 1, maxLength: 3 });
const rows = fc.array(fc.record({ calls, first: fc.nat(), accepted: fc.nat(5) }), { minLength: 1, maxLength: 4 });

function rowOf(row: number, first: number, count: number, accepted: number): OutboxRow {
  return { row, at: 1_771_885_735_111, period_start: 1, period_end: 2, limit: 100, first, count, accepted };
}

const signalsOf = ({ rows: received }: ReceivedMessage) => received.flatMap((row) => row.signals);

describe("a queue message", () => {
  test("returns all heads and payloads", () => {
    fc.assert(
      fc.property(fc.uuid(), fc.maxSafeNat(), rows, (workspaceId, lowestUnsettledRow, groups) => {
        const outbox = groups.map((group, index) => {
          const count = group.calls.reduce((sum, call) => sum + call.signals.length, 0);
          return { calls: group.calls, row: rowOf(index + 7, group.first, count, Math.min(group.accepted, count)) };
        });
        const written = outbox.map((each) =>
          writeRow(
            each.row,
            each.calls.flatMap((call) => {
              const { head, signals: bytes } = callOf(call.head, call.signals);
              return [bytesOf(head), bytes];
            }),
          ),
        );
        expect(readMessage(writeMessage(workspaceId, lowestUnsettledRow, written))).toEqual({
          workspaceId,
          lowestUnsettledRow,
          rows: outbox.map(({ row, calls: of }) => ({
            row,
            signals: of
              .flatMap(({ head, signals: all }) => all.map((signal) => ({ head, signal })))
              .map(({ head, signal }, nth) => ({
                admission: readAdmission(row, head, signal, nth),
                payload: textOf(bytesOf(signal.payload)),
              })),
          })),
          unreadable: 0,
          newer: 0,
        });
      }),
      { numRuns: 300 },
    );
  });

  test("contains what the signals of a call share once, however many they are", () => {
    const head = { key: "key_1", source: "😀".repeat(255), idem: "x".repeat(255) };
    const size = (count: number) => {
      const {
        head: written,
        signals: bytes,
        sizes,
      } = callOf(
        head,
        Array.from({ length: count }, (_, index) => ({ id: `sig_${crypto.randomUUID()}`, index, payload: "{}" })),
      );
      expect(sizes.reduce((sum, of) => sum + of, 0)).toBe(bytes.length);
      return bytesOf(written).length + bytes.length;
    };
    expect(size(10_000) - size(1)).toBeLessThan(10_000 * 60);
  });

  test("limits the record of a row to ROW_HEADER_BYTES", () => {
    const most = Number.MAX_SAFE_INTEGER;
    const times = { at: 9_999_999_999_999, period_start: 9_999_999_999_999, period_end: 9_999_999_999_999 };
    const largest: OutboxRow = { row: most, ...times, limit: most, first: most, count: 10_000, accepted: 10_000 };
    expect(writeRow(largest, []).length).toBeLessThanOrEqual(ROW_HEADER_BYTES);
  });

  test("reads stored rows of version 1", () => {
    const row =
      '\u001d{"v":1,"row":7,"at":5,"period_start":1,"period_end":9,"limit":100,"first":100,"count":3,"accepted":2}' +
      '\u001e{"key":"key_1","endpoint":"product_org","source":"crm","idem":"x"}\u001fsig_a 0\u001f{"a":1}' +
      '\u001fsig_b 2\u001f{"b":2}' +
      '\u001e{"key":"key_1","resent":{"from":"held","place":3,"verdict":"accepted","ordinal":4,"at":2,' +
      '"period_start":1,"period_end":9,"limit":50}}\u001fsig_c\u001f{"c":3}';
    const {
      lowestUnsettledRow,
      rows: [read],
    } = readMessage(bytesOf(`ws_1 6${row}`));
    expect(lowestUnsettledRow).toBe(6);
    expect(read?.row).toMatchObject({ row: 7, at: 5, limit: 100, first: 100, count: 3, accepted: 2 });
    const shared = { pathSource: "crm", endpoint: "product_org", receivedAtMs: 5, signalLimit: 100 };
    expect(read?.signals).toMatchObject([
      {
        admission: { id: "sig_a", idempotencyKey: "x:0", verdict: "accepted", ordinal: 100, ...shared },
        payload: '{"a":1}',
      },
      {
        admission: { id: "sig_b", idempotencyKey: "x:2", verdict: "accepted", ordinal: 101, ...shared },
        payload: '{"b":2}',
      },
      {
        admission: {
          id: "sig_c",
          receivedAtMs: 2,
          signalLimit: 50,
          verdict: "accepted",
          ordinal: 4,
          endpoint: "signal_staging",
          resent: { from: "held", place: 3 },
        },
        payload: '{"c":3}',
      },
    ]);
  });

  const signal = (id: string) => ({ head: { key: "k" }, id, payload: "{}" });
  const good = (row: number) => rowOfSignals(rowOf(row, row, 1, 1), [signal(`sig_${row}`)]);

  test.each([
    ["of a version that is gone", edited(good(2), '"v":1', '"v":0')],
    ["of no version", edited(good(2), '"v":1,', "")],
    ["with fewer signals than it says", rowOfSignals(rowOf(2, 2, 2, 2), [signal("a")])],
    ["with more signals than it says", edited(good(2), '"count":1', '"count":0')],
    ["with half a signal", bytesOf(textOf(good(2)).slice(0, textOf(good(2)).lastIndexOf("\u001f")))],
    ["with a broken call", edited(good(2), '{"key"', "{key")],
    ["that is no row at all", bytesOf("\u001dhello")],
  ])("a row %s is left alone, and its neighbours are read", (_, row) => {
    const message = readMessage(writeMessage("ws_1", 0, [good(1), row, good(3)]));
    expect(message).toMatchObject({ workspaceId: "ws_1", rows: [{ row: { row: 1 } }, { row: { row: 3 } }] });
    expect(message.unreadable).toBe(1);
    expect(signalsOf(message).map(({ admission }) => admission.id)).toEqual(["sig_1", "sig_3"]);
  });

  test("distinguishes a row of a newer version from a broken row, and reads its neighbours", () => {
    const newer = edited(edited(good(2), '"v":1', '"v":2'), '{"key"', "whatever that version says");
    const message = readMessage(writeMessage("ws_1", 0, [good(1), newer, good(3)]));
    expect(message).toMatchObject({ rows: [{ row: { row: 1 } }, { row: { row: 3 } }], unreadable: 0, newer: 1 });
  });

  test("reads a payload with a byte that is not UTF-8, so that its neighbours are not lost", () => {
    const payload = Buffer.from('{"a":"\xe9"}', "latin1");
    const call = writeCall({ key: "k" }, [
      { id: "sig_1", payload },
      { id: "sig_2", payload: bytesOf("{}") },
    ]);
    const row = writeRow(rowOf(1, 1, 2, 2), [bytesOf(call.head), call.signals]);
    expect(signalsOf(readMessage(row)).map((read) => read.payload)).toEqual(['{"a":"\ufffd"}', "{}"]);
  });

  test.each(["", "hello"])("has no rows if its text is %j", (text) => {
    expect(readMessage(bytesOf(text))).toEqual({
      workspaceId: text,
      lowestUnsettledRow: 0,
      rows: [],
      unreadable: 0,
      newer: 0,
    });
  });
});

test("a row is unreadable if no release can read it, which excludes newer versions", () => {
  const row = rowOfSignals(rowOf(3, 1, 1, 1), [{ head: { key: "k" }, id: "a", payload: "{}" }]);
  const isIt = (bytes: Uint8Array) => isUnreadable(Uint8Array.from(bytes).buffer);
  for (const readable of [row, edited(row, '"v":1', '"v":2')]) expect(isIt(readable)).toBe(false);
  for (const broken of ["\u001dnonsense", "nonsense", ""]) expect(isIt(bytesOf(broken))).toBe(true);
});
