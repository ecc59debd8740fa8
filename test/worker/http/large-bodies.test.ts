/** Memory of an isolate for large bodies (src/http/body.ts): above it a call is asked to retry. */
import { env } from "cloudflare:workers";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import {
  readBody,
  SMALL_BODY_MS,
  LARGE_BODIES_HOLDER_MAX_BYTES,
  LARGE_BODIES_MAX_BYTES,
  LARGE_BODY_PART_MS,
  LARGE_BODY_STORED_MS,
  MemoryReservation,
} from "../../../src/http/body.ts";
import { BODY_MAX_BYTES } from "../../../src/limits.ts";
import { expectLogged } from "../../support/logged.ts";
import { gzip, newWorkspace, type Problem, type TestWorkspace } from "../../support/workspace.ts";

const BULK = "/api/signal-staging/bulk/{key}";
const RATE = { perSecond: 500, burst: 1_000 };
const END = '{"event":"x"}]';
const CHUNK = new Uint8Array(65_536).fill(0x20);

/** A bulk import of this many bytes, whose sender pauses before the last of them until it is resumed. */
class StalledImport {
  readonly answer: Promise<Response>;
  readonly #stalled = Promise.withResolvers<void>();
  readonly #end = Promise.withResolvers<void>();

  constructor(workspace: TestWorkspace, bytes: number, headers: Record<string, string> = {}) {
    let left = bytes - END.length;
    const body = new ReadableStream({
      type: "bytes",
      pull: async (controller) => {
        const chunk = CHUNK.slice(0, Math.min(left, CHUNK.length));
        if (left === bytes - END.length) chunk[0] = "[".charCodeAt(0);
        left -= chunk.length;
        if (chunk.length > 0) {
          controller.enqueue(chunk);
          return;
        }
        this.#stalled.resolve();
        await this.#end.promise;
        controller.enqueue(new TextEncoder().encode(END));
        controller.close();
      },
    });
    this.answer = workspace.send(body, { path: BULK, headers, bindings: env });
  }

  /** Resolves when all bytes except the last are sent. */
  async stalled(): Promise<this> {
    await this.#stalled.promise;
    return this;
  }

  end(): Promise<Response> {
    this.#end.resolve();
    return this.answer;
  }
}

/** The largest bodies that fill the share of a workspace. */
const SHARE_BODIES = 2;

function fillShare(workspace: TestWorkspace): Promise<StalledImport[]> {
  const imports = Array.from({ length: SHARE_BODIES }, () => new StalledImport(workspace, BODY_MAX_BYTES));
  return Promise.all(imports.map((each) => each.stalled()));
}

/** The first gets 202. Together they are more than the workspace may send at once, so the second may get 429. */
async function statusesAtEnd(imports: StalledImport[]): Promise<number[]> {
  const answers = await Promise.all(imports.map((each) => each.end()));
  return answers.map(({ status }) => status);
}

/** The share of a holder that holds nothing. */
const room = () => new MemoryReservation("nobody").available(Date.now());

describe("while large bodies use the whole memory share of an isolate", () => {
  test("rejects another large body with 503 and Retry-After, accepts small bodies, and later accepts it too", async () => {
    const workspace = await newWorkspace();
    const otherWorkspaces = [await newWorkspace(), await newWorkspace()];
    const stalled = await Promise.all(otherWorkspaces.map(fillShare));
    expect(room()).toBeLessThan(8_000_000);

    const body = `[${" ".repeat(8_000_000)}${END}`;
    const packed = await gzip(body);
    const calls = [
      () => workspace.send(body, { path: BULK }),
      () => workspace.send(packed, { path: BULK, headers: { "content-encoding": "gzip" } }),
      () => new StalledImport(workspace, 8_000_000).answer,
      () => new StalledImport(workspace, 8_000_000, { "content-length": "8000000" }).answer,
    ];
    for (const send of calls) {
      const rejected = await send();
      expect([rejected.status, rejected.headers.get("retry-after")]).toEqual([503, "5"]);
      expect(await rejected.json<Problem>()).toMatchObject({
        code: "unavailable",
        detail: expect.stringContaining("too many large bodies"),
      });
    }
    // Only the first of them asks the counter. The others are reported together.
    const all = [
      { code: "unavailable", calls: calls.length, detail: expect.stringContaining("too many large bodies") },
    ];
    await vi.waitFor(async () => expect(await workspace.counter.rejections(10)).toMatchObject(all), 5_000);
    expect((await workspace.send({ event: "small" })).status).toBe(202);
    expect(
      (await workspace.send(await gzip('{"event":"small"}'), { headers: { "content-encoding": "gzip" } })).status,
    ).toBe(202);

    for (const ofWorkspace of stalled) expect(await statusesAtEnd(ofWorkspace)).toContain(202);
    for (const send of calls.slice(0, 2)) await vi.waitFor(async () => expect((await send()).status).toBe(202), 10_000);
    expect(await workspace.settled()).toMatchObject({ accepted: 4, balanced: true });
  });

  test("ended calls keep no memory, with any outcome", async () => {
    const packed = await gzip(" ".repeat(BODY_MAX_BYTES + 1));
    const gzipped = { "content-encoding": "gzip" };
    for (const [body, headers, status] of [
      [`[${" ".repeat(1_000_000)}${END}`, {}, 202],
      [await gzip(`[${" ".repeat(1_000_000)}${END}`), gzipped, 202],
      [" ".repeat(1_000_000), {}, 400],
      [" ".repeat(BODY_MAX_BYTES + 1), {}, 413],
      [packed, gzipped, 413],
      [new Uint8Array(1_000_000), gzipped, 400],
    ] as const) {
      const answer = await (await newWorkspace()).send(body, { path: BULK, headers });
      expect(answer.status).toBe(status);
      await answer.text();
    }
    expect(room()).toBe(LARGE_BODIES_HOLDER_MAX_BYTES);
  });
});

test.each([2, 4, 10])("leaves room for another workspace beside %i stalled bulk imports of one key", async (count) => {
  const [workspace, otherWorkspace] = [await newWorkspace(), await newWorkspace()];
  const imports = Array.from({ length: count }, () => new StalledImport(workspace, BODY_MAX_BYTES));
  const rejected = new Map<StalledImport, number>();
  for (const each of imports) void each.answer.then(({ status }) => rejected.set(each, status));
  await vi.waitUntil(() => rejected.size === count - SHARE_BODIES, 10_000);
  const stalled = imports.filter((each) => !rejected.has(each));
  await Promise.all(stalled.map((each) => each.stalled()));
  expect([...rejected.values()]).toEqual(Array(count - SHARE_BODIES).fill(503));
  const largest = `[${" ".repeat(BODY_MAX_BYTES - END.length - 1)}${END}`;
  expect((await otherWorkspace.send(largest, { path: BULK })).status).toBe(202);
  expect(await statusesAtEnd(stalled)).toContain(202);
});

test("gives the keys of a workspace one common share", async () => {
  const workspace = await newWorkspace();
  const another = await workspace.newKey();
  const stalled = await fillShare(workspace);
  const body = `[${" ".repeat(8_000_000)}${END}`;
  const rejected = await workspace.send(body, { path: BULK, key: another.key });
  expect(rejected.status).toBe(503);
  await statusesAtEnd(stalled);
});

test("rejects a gzip body without room before unpacking it", async () => {
  const holder = new MemoryReservation("packed");
  expect(holder.reserve(LARGE_BODIES_HOLDER_MAX_BYTES - 1_000_000, Date.now())).toBe(true);
  const headers = { "content-encoding": "gzip" };
  const body = await gzip(" ".repeat(8_000_000));
  const request = new Request("https://signals.example", { method: "POST", headers, body });
  const read = await readBody(request, { maxBytes: BODY_MAX_BYTES, holder: "packed", rate: RATE });
  holder.release();
  expect(read).toMatchObject({ ok: false, bytes: body.length, rejection: { code: "unavailable" } });
});

test("reports how many bytes a failed body took", async () => {
  let readers = 0;
  const readOf = async (body: BodyInit, headers: Record<string, string>, maxBytes = 1_000_000) => {
    const request = new Request("https://signals.example", { method: "POST", headers, body });
    const read = await readBody(request, { maxBytes, holder: `teller ${++readers}`, rate: RATE });
    return read.ok ? read.bytes.length : [read.rejection.code, read.bytes];
  };
  const gzipped = { "content-encoding": "gzip" };
  const stream = (bytes: number) => new Blob([new Uint8Array(bytes)]).stream();
  expect(await readOf(await gzip(" ".repeat(2_000_000)), gzipped)).toEqual(["body_too_large", 1_000_000]);
  expect(await readOf(stream(2_000_000), {})).toEqual(["body_too_large", expect.any(Number)]);
  expect(await readOf(new Uint8Array(2_000_000), { "content-length": "2000000" })).toEqual(["body_too_large", 0]);
  expect(await readOf(new Uint8Array(5_000), gzipped)).toEqual(["body_unreadable", 5_000]);
  expect(await readOf(stream(5_000), {}, 4_000)).toEqual(["body_too_large", 5_000]);
  expect(await readOf(stream(20_000), {}, 4_000)).toEqual(["body_too_large", 16_384]);
  expect(await readOf(new Uint8Array(5_000), { "content-length": "5000" }, 4_000)).toEqual(["body_too_large", 0]);
});

test("reads a body whose Content-Length is no number as one of unknown length", async () => {
  for (const length of ["abc", "", "-1", "1e3"]) {
    const request = new Request("https://signals.example", {
      method: "POST",
      headers: { "content-length": length },
      body: new Uint8Array(5_000),
    });
    // oxlint-disable-next-line no-await-in-loop -- one after the other
    const read = await readBody(request, { maxBytes: 1_000_000, holder: "odd length", rate: RATE });
    expect(read.ok && read.bytes.length, length).toBe(5_000);
  }
});

test("gives up a large body that stalls within seconds and states the minimum speed", async () => {
  const workspace = await newWorkspace();
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  expect(LARGE_BODY_PART_MS).toBeLessThan(6_000);
  const { answer } = await new StalledImport(workspace, 1_000_000).stalled();
  vi.advanceTimersByTime(LARGE_BODY_PART_MS);
  const given = await Promise.race([answer, scheduler.wait(3_000)]);
  const problem = await given?.json<Problem>();
  expect(problem).toMatchObject({ status: 400, code: "body_unreadable" });
  expect(problem?.detail).toContain("50000 bytes a second");
  expect(problem?.detail).toContain("smaller parts");
  expect(room()).toBe(LARGE_BODIES_HOLDER_MAX_BYTES);
});

test("counts stalled bodies of some kilobytes in their workspace's share and gives them up after 30 seconds", async () => {
  // The moved timers end the copy of a key, too.
  expectLogged("key_copy_failed");
  const [workspace, otherWorkspace] = [await newWorkspace(), await newWorkspace()];
  const length = { "content-length": "262144" };
  const many = Math.floor(LARGE_BODIES_HOLDER_MAX_BYTES / 262_144);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const stalled = Array.from({ length: many }, () => new StalledImport(workspace, 262_144, length));
  for (const stalledImport of stalled) await stalledImport.stalled();
  expect((await new StalledImport(workspace, 262_144, length).answer).status).toBe(503);
  stalled.push(await new StalledImport(otherWorkspace, 262_144, length).stalled());
  vi.advanceTimersByTime(SMALL_BODY_MS);
  for (const stalledImport of stalled) {
    const answer = await stalledImport.answer;
    expect([answer.status, (await answer.json<Problem>()).detail]).toEqual([
      400,
      expect.stringContaining("30 seconds"),
    ]);
  }
  expect(room()).toBe(LARGE_BODIES_HOLDER_MAX_BYTES);
});

test("reads a body of unknown length, even if it ends with a whole part", async () => {
  const ends = [16_384, 16_384 + 262_144, 16_384 + 2 * 262_144];
  for (const length of ends.flatMap((end) => [end - 1, end, end + 1])) {
    const body = new Uint8Array(length).map((_, index) => index % 251);
    const request = new Request("https://signals.example", { method: "POST", body: new Blob([body]).stream() });
    const read = await readBody(request, { maxBytes: BODY_MAX_BYTES, holder: `reader ${length}`, rate: RATE });
    expect(read.ok && Buffer.from(read.bytes).equals(body), `${length} bytes`).toBe(true);
    if (read.ok) read.release();
  }
});

describe("a reservation for a large body", () => {
  const half = LARGE_BODIES_HOLDER_MAX_BYTES;

  test("grows with the body while there is room, and is free after its release", () => {
    const [first, second] = [new MemoryReservation("a"), new MemoryReservation("a")];
    expect(first.reserve(1_000_000, 0)).toBe(true);
    expect(first.reserve(half - 10, 0)).toBe(true);
    expect(second.reserve(11, 0)).toBe(false);
    expect(second.reserve(10, 0)).toBe(true);
    expect([first.available(0), second.available(0)]).toEqual([half - 10, 10]);
    first.release();
    expect(second.available(0)).toBe(half);
    second.release();
  });

  test("counts in its holder's share and in the common room", () => {
    const [first, second, third] = [new MemoryReservation("a"), new MemoryReservation("b"), new MemoryReservation("c")];
    expect(first.reserve(half + 1, 0)).toBe(false);
    expect(first.reserve(half, 0)).toBe(true);
    expect(third.available(0)).toBe(half);
    expect(second.reserve(LARGE_BODIES_MAX_BYTES - half - 1_000_000, 0)).toBe(true);
    expect(third.available(0)).toBe(1_000_000);
    first.release();
    second.release();
  });

  test("expires after its call ended silently", () => {
    const [gone, second] = [new MemoryReservation("a"), new MemoryReservation("a")];
    const goneMs = 2 * LARGE_BODY_PART_MS;
    gone.reserve(half, 1_000);
    expect(second.reserve(1, 1_000 + goneMs)).toBe(false);
    expect(second.reserve(1, 1_001 + goneMs)).toBe(true);
    second.release();
    gone.reserve(half, 1_000, LARGE_BODY_STORED_MS);
    expect(second.reserve(1, 1_000 + LARGE_BODY_STORED_MS)).toBe(false);
    expect(second.reserve(1, 1_001 + LARGE_BODY_STORED_MS)).toBe(true);
    second.release();
  });
});
