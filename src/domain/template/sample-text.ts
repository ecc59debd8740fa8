/** A sample as an admin pastes it into a form: a body of JSON or of a form, and headers a line each. */
import { describeJsonError } from "../json/json-error.ts";
import { findJsonError, jsonShape } from "../json/json-scan.ts";
import { readPayload } from "../json/json-value.ts";
import { ok, reject, type Result } from "../result.ts";
import { isFormBody, parseFormBody } from "./form-body.ts";

/** No useful JSON has as many levels. */
const SAMPLE_MAX_DEPTH = 64;

/** Reads a body as the webhook does: JSON first, then a form. Rejection: a sentence that says where it breaks. */
export function readSampleBody(text: string): Result<unknown, string> {
  const sample = text.trim();
  const bytes = Buffer.from(sample);
  const error = findJsonError(bytes, 0, bytes.length);
  if (error === null) {
    const { depth } = jsonShape(bytes, { start: 0, maxDepth: SAMPLE_MAX_DEPTH });
    if (depth > SAMPLE_MAX_DEPTH) return reject(`It is nested more than ${SAMPLE_MAX_DEPTH} levels deep.`);
    return ok(readPayload(sample));
  }
  if (!isFormBody(sample)) return reject(describeJsonError(bytes, 0, bytes.length, error));
  const form = parseFormBody(sample);
  return form.ok ? form : reject(form.rejection.detail);
}

/** Headers by name in lower case, of lines such as `X-Shopify-Topic: orders/create`. A line without a colon is left out. */
export function readSampleHeaders(text: string): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const line of text.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) headers[line.slice(0, colon).trim().toLowerCase()] = line.slice(colon + 1).trim();
  }
  return headers;
}
