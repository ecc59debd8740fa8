/** R2, as cold storage uses it: one object holds the compressed payloads of many segments, one after the other. */
import { errorText, logEvent } from "../../platform/log.ts";
import { within } from "../../platform/time-limit.ts";

/** A call of R2 that takes longer has failed: whatever waits for it goes on, and it is tried again. */
const COLD_TIMEOUT_MS = 10_000;

export class ColdObjects {
  readonly #bucket: R2Bucket;
  readonly workspaceId: string;

  constructor(bucket: R2Bucket, workspaceId: string) {
    this.#bucket = bucket;
    this.workspaceId = workspaceId;
  }

  /** Writes an object. @throws when it is not certain that the object has been written. */
  async write(object: string, body: Uint8Array): Promise<void> {
    await inTime(this.#bucket.put(this.#key(object), body));
  }

  /** Part of an object. Null where it cannot be had, which is logged. */
  async read(object: string, offset: number, length: number): Promise<Uint8Array | null> {
    try {
      const found = await inTime(this.#bucket.get(this.#key(object), { range: { offset, length } }));
      if (found === null) throw new Error("it is not in the bucket");
      const bytes = new Uint8Array(await inTime(found.arrayBuffer()));
      if (bytes.length !== length) throw new Error(`it has ${bytes.length} bytes instead of ${length}`);
      return bytes;
    } catch (error) {
      logEvent("cold_read_failed", { workspace: this.workspaceId, object, error: errorText(error) });
      return null;
    }
  }

  /** Names of all objects of the workspace. @throws when R2 does not answer. */
  async list(): Promise<Set<string>> {
    const names = new Set<string>();
    for (let cursor: string | undefined, more = true; more;) {
      const page: R2Objects = await inTime(
        this.#bucket.list({ prefix: this.#key(""), ...(cursor === undefined ? {} : { cursor }) }),
      );
      for (const { key } of page.objects) names.add(key.slice(this.#key("").length));
      more = page.truncated;
      cursor = page.truncated ? page.cursor : undefined;
    }
    return names;
  }

  /** Removes objects. @throws when it is not certain that all of them are gone. */
  async remove(objects: readonly string[]): Promise<void> {
    await inTime(this.#bucket.delete(objects.map((object) => this.#key(object))));
  }

  #key(object: string): string {
    return `cold/${this.workspaceId}/${object}`;
  }
}

/** Waits for R2. A call that takes longer counts as failed, although it may still take its effect. */
function inTime<T>(work: Promise<T>): Promise<T> {
  return within(COLD_TIMEOUT_MS, work);
}
