/**
 * Text in the shapes on which code takes more than linear time: brackets, line ends, spaces, `@`, dots, commas, stars,
 * digits, quotes, and one long name above many leaves.
 */
import { SIGNAL_MAX_BYTES } from "../../../src/limits.ts";

/** Repeated, each of these is a shape. */
export const REPEATED: [name: string, text: string][] = [
  ["brackets", "[]"],
  ["opening brackets", "["],
  ["line ends", "\r\n"],
  ["spaces", " "],
  ["at signs", "a@"],
  ["dots", "a."],
  ["commas", "a,"],
  ["stars", "*a"],
  ["digits", "0"],
  ["quotes", '"'],
];

/** @returns text of a shape that ends with a character that fits no pattern. */
export function repeated(text: string, characters: number): string {
  return `a${text.repeat(Math.max(0, Math.floor((characters - 2) / text.length)))}!`;
}

const LONG_NAME_CHARACTERS = 30_000;

/** A JSON object: one long name above as many leaves as fit. */
export function longNameAboveLeaves(
  bytes: number,
  name = "n".repeat(Math.min(LONG_NAME_CHARACTERS, bytes / 2)),
): string {
  const leaves: string[] = [];
  let left = bytes - name.length - 20;
  for (let n = 0; left > 20; n++) {
    const leaf = `"k${n}":1`;
    leaves.push(leaf);
    left -= leaf.length + 1;
  }
  return `{${JSON.stringify(name)}:{${leaves.join(",")}}}`;
}

/** One signal of each shape, of the maximum size: the shape in names, in values and in the known fields. */
export function shapedSignals(): string[] {
  const most = SIGNAL_MAX_BYTES - 200;
  const fits = (text: string): string =>
    text.slice(0, Math.floor((text.length * most) / JSON.stringify(text).length) - 4);
  const ofShapes = REPEATED.map(([, text]) =>
    JSON.stringify({ event: "Shaped", properties: { a: fits(repeated(text, most)) } }),
  );
  const long = longNameAboveLeaves(most);
  return [...ofShapes, `{"event":"Shaped","properties":${long}}`, `{"event":"Shaped","traits":${long}}`];
}
