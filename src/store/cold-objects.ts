/**
 * The objects of cold storage in R2: gzip of one JSON line `[signal id, payload as it was sent]` for each signal, an
 * empty line where one has been removed, so that a line's number stays. Every call ends in time, one way or the other.
 */
import { errorText, logEvent } from "../http/log.ts";
import { COLD_READS_AT_ONCE, COLD_TIMEOUT_MS } from "../limits.ts";
import type { ColdPlace, WarmSignal } from "./cold-storage.ts";

/** Payloads by `placeKey`; places that could not be read are missing. */
export type ColdPayloads = ReadonlyMap<string, string>;

export function placeKey({ object, line }: ColdPlace): string {
  return `${object} ${line}`;
}

export class ColdObjects {
  readonly #bucket: R2Bucket;
  readonly workspaceId: string;

  constructor(bucket: R2Bucket, workspaceId: string) {
    this.#bucket = bucket;
    this.workspaceId = workspaceId;
  }

  /** @throws when it is not certain that the object has been written. */
  async write(object: string, signals: readonly Pick<WarmSignal, "id" | "payload">[]): Promise<void> {
    const body = await zip(signals.map(({ id, payload }) => JSON.stringify([id, payload])));
    await inTime(this.#bucket.put(this.#key(object), body));
  }

  /** Each object once, whatever is asked of it. What cannot be read is missing in the answer, and logged. */
  async read(places: Iterable<ColdPlace>): Promise<ColdPayloads> {
    const wanted = new Map<string, Set<number>>();
    for (const { object, line } of places) {
      const lines = wanted.get(object);
      if (lines === undefined) wanted.set(object, new Set([line]));
      else lines.add(line);
    }
    const payloads = new Map<string, string>();
    const objects = [...wanted];
    while (objects.length > 0) {
      const some = objects.splice(0, COLD_READS_AT_ONCE);
      // oxlint-disable-next-line no-await-in-loop -- only so many at a time
      await Promise.all(some.map(([object, lines]) => this.#readLines(object, lines, payloads)));
    }
    return payloads;
  }

  /**
   * Removes all other lines. One that is not there needs nothing.
   *
   * @throws when it is not certain that they are removed.
   */
  async keepOnly(object: string, lines: ReadonlySet<number>): Promise<void> {
    const found = await inTime(this.#bucket.get(this.#key(object)));
    if (found === null) return;
    const kept = (await inTime(unzip(found.body))).map((text, line) => (lines.has(line) ? text : ""));
    // Only over what was read: an attempt that was thought to have failed must not undo a later one.
    const onlyIf = { etagMatches: found.etag };
    const written = await inTime(this.#bucket.put(this.#key(object), await zip(kept), { onlyIf }));
    if (written === null) throw new Error("the object has been rewritten meanwhile");
  }

  /** @throws when it is not certain that all of them are gone. */
  async remove(objects: readonly string[]): Promise<void> {
    await inTime(this.#bucket.delete(objects.map((object) => this.#key(object))));
  }

  async #readLines(object: string, lines: ReadonlySet<number>, into: Map<string, string>): Promise<void> {
    try {
      const found = await inTime(this.#bucket.get(this.#key(object)));
      if (found === null) throw new Error("it is not in the bucket");
      const texts = await inTime(unzip(found.body));
      for (const line of lines) {
        const text = texts[line];
        if (text === undefined || text === "") throw new Error(`there is no line ${line}`);
        const [, payload] = JSON.parse(text) as [string, string];
        into.set(placeKey({ object, line }), payload);
      }
    } catch (error) {
      logEvent("cold_read_failed", { workspace: this.workspaceId, object, error: errorText(error) });
    }
  }

  #key(object: string): string {
    return `cold/${this.workspaceId}/${object}`;
  }
}

function zip(lines: readonly string[]): Promise<ArrayBuffer> {
  const stream = new Blob([lines.join("\n")]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

async function unzip(body: ReadableStream): Promise<string[]> {
  return (await new Response(body.pipeThrough(new DecompressionStream("gzip"))).text()).split("\n");
}

/** What takes longer counts as failed, although it may still take its effect. */
async function inTime<T>(work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tooLate = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("R2 did not answer in time")), COLD_TIMEOUT_MS);
  });
  try {
    return await Promise.race([work, tooLate]);
  } finally {
    clearTimeout(timer);
  }
}
