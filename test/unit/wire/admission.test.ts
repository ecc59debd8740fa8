/** An admission is the same for every reader, even of a resent signal (design §6, §8). */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { headOfResent, readAdmission, type Admission, type OutboxRow } from "../../../src/wire/message.ts";

const rows = fc.record<OutboxRow>({
  row: fc.nat(),
  at: fc.nat(),
  period_start: fc.nat(),
  period_end: fc.nat(),
  limit: fc.nat(),
  first: fc.nat(),
  count: fc.nat(),
  accepted: fc.nat(3),
});
const admissions = fc.record<Required<Admission>>({
  id: fc.string(),
  keyId: fc.string(),
  endpoint: fc.constantFrom("signal_staging", "product_org"),
  verdict: fc.constantFrom("accepted", "held"),
  ordinal: fc.nat(),
  signalLimit: fc.nat(),
  receivedAtMs: fc.nat(),
  periodStartMs: fc.nat(),
  periodEndMs: fc.nat(),
  pathSource: fc.string(),
  idempotencyKey: fc.string(),
  templateVersion: fc.nat(),
  around: fc.constant('{"key":"a"}'),
  resent: fc.record({ from: fc.constantFrom("held", "dead"), place: fc.nat() }),
});

test("a resent signal keeps its first admission in any row and place", () => {
  fc.assert(
    fc.property(admissions, fc.constantFrom("none", "source", "key"), rows, fc.nat(5), (all, lacks, row, index) => {
      const { pathSource, idempotencyKey, ...rest } = all;
      const admission = {
        ...rest,
        ...(lacks === "source" ? {} : { pathSource }),
        ...(lacks === "key" ? {} : { idempotencyKey }),
      };
      expect(readAdmission(row, headOfResent(admission), { id: admission.id, around: all.around }, index)).toEqual(
        admission,
      );
    }),
  );
});

test("a new signal shares time, period and limit with its row", () => {
  const row = { row: 7, at: 5, period_start: 1, period_end: 9, limit: 100, first: 99, count: 3, accepted: 2 };
  const read = [0, 1, 2].map((index) => readAdmission(row, { key: "key_1" }, { id: `sig_${index}` }, index));
  const shared = {
    keyId: "key_1",
    endpoint: "signal_staging",
    signalLimit: 100,
    receivedAtMs: 5,
    periodStartMs: 1,
    periodEndMs: 9,
  };
  expect(read).toEqual([
    { ...shared, id: "sig_0", verdict: "accepted", ordinal: 99 },
    { ...shared, id: "sig_1", verdict: "accepted", ordinal: 100 },
    { ...shared, id: "sig_2", verdict: "held", ordinal: 101 },
  ]);
});

test("the Idempotency-Key of a call has the index of each signal in the body", () => {
  const row = { row: 7, at: 5, period_start: 1, period_end: 9, limit: 100, first: 99, count: 2, accepted: 2 };
  const head = { key: "key_1", idem: "order 7" };
  const keys = [0, 3].map((index, nth) => readAdmission(row, head, { id: "sig_1", index }, nth).idempotencyKey);
  expect(keys).toEqual(["order 7:0", "order 7:3"]);
});
