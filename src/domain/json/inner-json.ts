/** JSON inside a text, as some senders quote it (`"payload": "{\"user\":1}"`). */
import { readPayload } from "./json-value.ts";

/** Characters of a text that is parsed: as many as a signal has. */
const INNER_JSON_MAX_CHARACTERS = 65_536;
/** Characters that take about as long to parse as an element takes to read. */
const CHARACTERS_A_STEP = 16;

const OPEN_BRACKET = 0x5b;
const OPEN_BRACE = 0x7b;

/** Parses each text once, because several paths may lead into it. For one signal. */
export class InnerJson {
  readonly #parsed = new Map<string, unknown>();
  #steps = 0;

  /** The price of all parsing so far, in steps of a reading. */
  get steps(): number {
    return this.#steps;
  }

  /** The texts that were read so far. */
  get texts(): Iterable<string> {
    return this.#parsed.keys();
  }

  /** The object or array that a text writes as JSON; undefined: it writes none, or is longer than 65,536 characters. */
  read(text: string): unknown {
    const first = text.charCodeAt(0);
    if ((first !== OPEN_BRACE && first !== OPEN_BRACKET) || text.length > INNER_JSON_MAX_CHARACTERS) return undefined;
    if (this.#parsed.has(text)) return this.#parsed.get(text);
    this.#steps += Math.ceil(text.length / CHARACTERS_A_STEP);
    let value: unknown;
    try {
      value = readPayload(text);
    } catch {
      value = undefined;
    }
    this.#parsed.set(text, value);
    return value;
  }
}
