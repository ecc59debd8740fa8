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
/** Long names of one word, of many words, and of each shape. */
const LONG_NAMES = ["n", "nN", "n ", ...REPEATED.map(([, text]) => text)];

/** A JSON object: one long name above as many leaves as fit. @param text repeated, it is the name. */
export function longNameAboveLeaves(bytes: number, text = "nN"): string {
  const escaped = JSON.stringify(text).length - 2;
  const name = text.repeat(Math.floor(Math.min(LONG_NAME_CHARACTERS, bytes / 2) / escaped));
  const leaves: string[] = [];
  let left = bytes - JSON.stringify(name).length - 20;
  for (let n = 0; left > 20; n++) {
    const leaf = `"k${n}":1`;
    leaves.push(leaf);
    left -= leaf.length + 1;
  }
  return `{${JSON.stringify(name)}:{${leaves.join(",")}}}`;
}

/** Signals of the maximum size: each shape as a value, and each long name above leaves. */
export function shapedSignals(): string[] {
  const most = SIGNAL_MAX_BYTES - 200;
  const values = REPEATED.map(([, text]) => fitting(repeated(text, most), most));
  return [
    ...values.map((value) => JSON.stringify({ event: "Shaped", properties: { a: value } })),
    ...LONG_NAMES.map((text) => `{"event":"Shaped","properties":${longNameAboveLeaves(most, text)}}`),
  ];
}

/** @returns the beginning of the text that takes at most so many bytes as JSON. */
export function fitting(text: string, bytes: number): string {
  return text.slice(0, Math.floor((bytes * text.length) / JSON.stringify(text).length) - 50);
}
