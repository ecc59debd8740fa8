/** Reading a request's body once, with a cap on what it decompresses to. */
import type { BodyRefusal } from "../domain/refusal.ts";
import type { Result } from "../domain/result.ts";
import { ok, refuse } from "../domain/result.ts";

export interface BodyText {
  text: string;
  /** Its UTF-8 length; with a byte order mark, which is no part of the text, three more. */
  bytes: number;
}

/** Bytes that are not UTF-8 become U+FFFD: a stray character must not lose the signal around it. */
const utf8 = new TextDecoder();
const encoder = new TextEncoder();

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
    // HTTP keeps a declared length: without compression the fast way needs no cap of its own.
    if (declared !== null && !gzip) return ok(measured(await request.text(), Number(declared)));
    return await readStream(request, gzip, maxBytes);
  } catch {
    const detail = gzip ? "The body is labelled gzip and could not be decompressed." : "The body could not be read.";
    return refuse({ code: "body_unreadable", detail });
  }
}

async function readStream(request: Request, gzip: boolean, maxBytes: number): Promise<Result<BodyText, BodyRefusal>> {
  if (request.body === null) return ok({ text: "", bytes: 0 });
  const stream = gzip ? request.body.pipeThrough(new DecompressionStream("gzip")) : request.body;
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of stream as ReadableStream<Uint8Array>) {
    bytes += part.byteLength;
    // Leaving the loop cancels the stream: a small body that unpacks to gigabytes is given up here.
    if (bytes > maxBytes) return tooLarge(maxBytes);
    parts.push(part);
  }
  const whole = new Uint8Array(bytes);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.byteLength;
  }
  return ok(measured(utf8.decode(whole), bytes));
}

/** U+FFFD takes three bytes where one was received: what is passed on is what counts. */
function measured(text: string, receivedBytes: number): BodyText {
  return { text, bytes: text.includes("\ufffd") ? encoder.encode(text).byteLength : receivedBytes };
}

function tooLarge(maxBytes: number): Result<never, BodyRefusal> {
  const detail = `The body is larger than ${maxBytes} bytes after decompression. Send fewer signals per request.`;
  return refuse({ code: "body_too_large", detail });
}
