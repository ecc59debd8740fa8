/** Reading a request's body once, with a cap on what it decompresses to. */
import type { BodyRefusal } from "../domain/keys/refusal.ts";
import type { Result } from "../domain/result.ts";
import { ok, refuse } from "../domain/result.ts";
import { utf8Length } from "../platform/utf8-length.ts";
import { zlib } from "../platform/node.ts";

export interface BodyText {
  text: string;
  /** Its UTF-8 length. */
  bytes: number;
}

export async function readBody(request: Request, maxBytes: number): Promise<Result<BodyText, BodyRefusal>> {
  const encoding = request.headers.get("content-encoding")?.trim().toLowerCase() ?? "identity";
  const gzip = encoding === "gzip" || encoding === "x-gzip";
  if (!gzip && encoding !== "identity" && encoding !== "") {
    const detail = "The body's Content-Encoding is not supported. Send it plain or with Content-Encoding: gzip.";
    return refuse({ code: "content_encoding_unsupported", detail });
  }
  const declared = request.headers.get("content-length");
  if (declared !== null && Number(declared) > maxBytes) return tooLarge(maxBytes);
  try {
    if (gzip) return await readGzip(request, maxBytes);
    // HTTP keeps a declared length: the fast way needs no cap of its own.
    if (declared !== null) return ok(measured(await request.text(), Number(declared)));
    return await readStream(request, maxBytes);
  } catch {
    const detail = gzip ? "The body is labelled gzip and could not be decompressed." : "The body could not be read.";
    return refuse({ code: "body_unreadable", detail });
  }
}

async function readStream(request: Request, maxBytes: number): Promise<Result<BodyText, BodyRefusal>> {
  // Bytes that are not UTF-8 become U+FFFD: a stray character must not lose the signal around it.
  const utf8 = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const part of request.body ?? []) {
    bytes += part.byteLength;
    // Leaving the loop cancels the stream.
    if (bytes > maxBytes) return tooLarge(maxBytes);
    text += utf8.decode(part, { stream: true });
  }
  return ok(measured(text + utf8.decode(), bytes));
}

/** By Node's gunzip: the platform's stream refuses a body of several members, as log shippers append them. */
async function readGzip(request: Request, maxBytes: number): Promise<Result<BodyText, BodyRefusal>> {
  const compressed = await readBytes(request, maxBytes);
  if (compressed === null) return tooLarge(maxBytes);
  let bytes: Uint8Array;
  try {
    // A small body that unpacks to gigabytes is given up at the limit.
    bytes = zlib().gunzipSync(compressed, { maxOutputLength: maxBytes });
  } catch (error) {
    if (error instanceof RangeError) return tooLarge(maxBytes);
    throw error;
  }
  return ok(measured(new TextDecoder().decode(bytes), bytes.byteLength));
}

/** Null: more than there may be. */
async function readBytes(request: Request, maxBytes: number): Promise<Uint8Array | null> {
  if (request.headers.has("content-length")) return new Uint8Array(await request.arrayBuffer());
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of request.body ?? []) {
    bytes += part.byteLength;
    if (bytes > maxBytes) return null;
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** What is passed on is what counts: U+FFFD takes three bytes where one was received, and a byte order mark is left out. */
function measured(text: string, receivedBytes: number): BodyText {
  const isAscii = receivedBytes === text.length && !text.includes("\ufffd");
  return { text, bytes: isAscii ? receivedBytes : utf8Length(text) };
}

function tooLarge(maxBytes: number): Result<never, BodyRefusal> {
  const detail = `The body is larger than ${maxBytes} bytes after decompression. Send fewer signals per request.`;
  return refuse({ code: "body_too_large", detail });
}
