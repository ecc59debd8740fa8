/** A sample payload that an admin pastes to try a payload template: read as the endpoint would read it (design §8.7). */
import { isJsonObject } from "../json/dot-path.ts";
import { readSignals } from "../signal/signal-body.ts";
import { ok, refuse, type Result } from "../result.ts";
import type { JsonObject } from "../json/json-object.ts";

/** Reads a sample; of an array its first element, for each is an update of its own. Refused with one sentence for the admin. */
export function readSample(text: string): Result<JsonObject, string> {
  const read = readSignals(new TextEncoder().encode(text), {
    maxSignals: Number.MAX_SAFE_INTEGER,
    lines: false,
    check: ok,
  });
  if (!read.ok) return refuse(read.refusal.detail);
  const [first] = read.value.signals;
  if (first === undefined) return refuse("The sample holds no payload.");
  if (first.refusal !== null) return refuse(first.refusal.detail);
  const payload: unknown = JSON.parse(read.value.text.slice(first.start, first.end));
  return isJsonObject(payload)
    ? ok(payload)
    : refuse('A payload is a JSON object such as {"company":{"id":"acme-42"}}.');
}
