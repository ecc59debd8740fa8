/** What an isolate holds of large bodies at once (src/http/large-bodies.ts): beyond it a call is told to come again. */
import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { readBody } from "../../../src/http/body.ts";
import { LARGE_BODIES_MAX_BYTES, LARGE_BODY_SILENT_MS, LargeBody } from "../../../src/http/large-bodies.ts";
import worker from "../../../src/index.ts";
import { BULK_MAX_BYTES } from "../../../src/limits.ts";
import { newWorkspace } from "../../support/workspace.ts";
import type { Problem, TestWorkspace } from "../../support/workspace.ts";

const END = '{"event":"x"}]';
const CHUNK = new Uint8Array(65_536).fill(0x20);

/** A bulk import of so many bytes, whose sender stops before the last of them until it is told to go on. */
class StalledImport {
  readonly answer: Promise<Response>;
  #end: (() => void) | null = null;

  constructor({ key }: TestWorkspace, bytes: number, headers: Record<string, string> = {}) {
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
        await new Promise<void>((resolve) => void (this.#end = resolve));
        controller.enqueue(new TextEncoder().encode(END));
        controller.close();
      },
    });
    const request = new Request(`https://signals.example/api/signal-staging/bulk/${key.key}`, {
      method: "POST",
      headers,
      body,
    });
    this.answer = worker.fetch(request, env, createExecutionContext());
  }

  /** Resolves when all but the end of the body has been sent. */
  async stalled(): Promise<this> {
    await vi.waitUntil(() => this.#end !== null, { timeout: 20_000, interval: 5 });
    return this;
  }

  end(): Promise<Response> {
    this.#end?.();
    return this.answer;
  }
}

async function gzip(text: string): Promise<Uint8Array> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const room = () => new LargeBody().room(Date.now());

describe("while large bodies take all the room that an isolate has for them", () => {
  test("another is 503 with Retry-After, however it comes, and is listed; small ones are taken; later it is taken too", async () => {
    const workspace = await newWorkspace();
    const stalled = [new StalledImport(workspace, BULK_MAX_BYTES), new StalledImport(workspace, BULK_MAX_BYTES)];
    for (const one of stalled) await one.stalled();
    expect(room()).toBeLessThan(8_000_000);

    const body = `[${" ".repeat(8_000_000)}${END}`;
    const packed = await gzip(body);
    const path = "/api/signal-staging/bulk/{key}";
    const calls = [
      () => workspace.send(body, { path }),
      () => workspace.send(packed, { path, headers: { "content-encoding": "gzip" } }),
      () => new StalledImport(workspace, 8_000_000).answer,
      () => new StalledImport(workspace, 8_000_000, { "content-length": "8000000" }).answer,
    ];
    for (const send of calls) {
      const refused = await send();
      expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "5"]);
      expect(await refused.json<Problem>()).toMatchObject({
        code: "unavailable",
        detail: expect.stringContaining("too many large bodies"),
      });
    }
    const rejections = await workspace.counter.rejections(10);
    expect(rejections).toMatchObject([
      { code: "unavailable", calls: calls.length, detail: expect.stringContaining("too many large bodies") },
    ]);
    expect((await workspace.send({ event: "small" })).status).toBe(202);
    expect(
      (await workspace.send(await gzip('{"event":"small"}'), { headers: { "content-encoding": "gzip" } })).status,
    ).toBe(202);

    for (const one of stalled) expect((await one.end()).status).toBe(202);
    for (const send of calls.slice(0, 2)) expect((await send()).status).toBe(202);
    expect(await workspace.settled()).toMatchObject({ accepted: 6, balanced: true });
  });

  test("nothing of it is kept by a call that is over, whatever came of it", async () => {
    const workspace = await newWorkspace();
    const path = "/api/signal-staging/bulk/{key}";
    const packed = await gzip(" ".repeat(BULK_MAX_BYTES + 1));
    const gzipped = { "content-encoding": "gzip" };
    for (const [body, headers, status] of [
      [`[${" ".repeat(1_000_000)}${END}`, {}, 202],
      [await gzip(`[${" ".repeat(1_000_000)}${END}`), gzipped, 202],
      [" ".repeat(1_000_000), {}, 400],
      [" ".repeat(BULK_MAX_BYTES + 1), {}, 413],
      [packed, gzipped, 413],
      [new Uint8Array(1_000_000), gzipped, 400],
    ] as const) {
      const answer = await workspace.send(body, { path, headers });
      expect(answer.status).toBe(status);
      await answer.text();
    }
    expect(room()).toBe(LARGE_BODIES_MAX_BYTES);
  });
});

test("a sender that stalls in the middle of a large body is given up", async () => {
  const workspace = await newWorkspace();
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const { answer } = await new StalledImport(workspace, 1_000_000).stalled();
  vi.advanceTimersByTime(LARGE_BODY_SILENT_MS);
  expect(await (await answer).json<Problem>()).toMatchObject({ status: 400, code: "body_unreadable" });
  expect(room()).toBe(LARGE_BODIES_MAX_BYTES);
});

test("a body of unknown length arrives whole, also where it ends with one of its parts", async () => {
  const ends = [16_384, 16_384 + 262_144, 16_384 + 2 * 262_144];
  for (const length of ends.flatMap((end) => [end - 1, end, end + 1])) {
    const body = new Uint8Array(length).map((_, index) => index % 251);
    const request = new Request("https://signals.example", { method: "POST", body: new Blob([body]).stream() });
    const read = await readBody(request, BULK_MAX_BYTES);
    expect(read.ok && Buffer.from(read.bytes).equals(body), `${length} bytes`).toBe(true);
    if (read.ok) read.place.letGo();
  }
});

describe("a place among the large bodies", () => {
  test("grows with its body while there is room, and is free when it is let go of", () => {
    const [one, other] = [new LargeBody(), new LargeBody()];
    expect(one.hold(1_000_000, 0)).toBe(true);
    expect(one.hold(LARGE_BODIES_MAX_BYTES - 10, 0)).toBe(true);
    expect(other.hold(11, 0)).toBe(false);
    expect(other.hold(10, 0)).toBe(true);
    expect([one.room(0), other.room(0)]).toEqual([LARGE_BODIES_MAX_BYTES - 10, 10]);
    one.letGo();
    expect(other.room(0)).toBe(LARGE_BODIES_MAX_BYTES);
    other.letGo();
  });

  test("is free some time after nothing was heard of its body, whose call may have ended without a word", () => {
    const [gone, other] = [new LargeBody(), new LargeBody()];
    const goneMs = 2 * LARGE_BODY_SILENT_MS;
    gone.hold(LARGE_BODIES_MAX_BYTES, 1_000);
    expect(other.hold(1, 1_000 + goneMs)).toBe(false);
    expect(other.hold(1, 1_001 + goneMs)).toBe(true);
    other.letGo();
  });
});
