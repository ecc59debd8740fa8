/** Calls, rows and messages as text, for tests that write and change them by hand. */
import {
  type CallHead,
  type OutboxRow,
  type SignalHead,
  writeCall,
  type WrittenCall,
  writeRow,
} from "../../src/wire/message.ts";

/** A signal of a call of its own. */
export interface WireSignal extends SignalHead {
  head: CallHead;
  payload: string;
}

export const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);
export const textOf = (bytes: ArrayBuffer | Uint8Array): string => new TextDecoder().decode(bytes);

/** A call of some signals. */
export function callOf(head: CallHead, signals: readonly (SignalHead & { payload: string })[]): WrittenCall {
  return writeCall(
    head,
    signals.map(({ payload, ...signal }) => ({ ...signal, payload: bytesOf(payload) })),
  );
}

export function rowOfSignals(row: OutboxRow, signals: readonly WireSignal[]): Uint8Array {
  const calls = signals.flatMap(({ head, ...signal }) => {
    const written = callOf(head, [signal]);
    return [bytesOf(written.head), written.signals];
  });
  return writeRow(row, calls);
}

/** The same bytes with another text in place of the first `search`, as if a bug or another version had written them. */
export function edited(bytes: Uint8Array, search: string, replacement: string): Uint8Array {
  const text = textOf(bytes);
  if (!text.includes(search)) throw new Error(`${search} is not in the text`);
  return bytesOf(text.replace(search, replacement));
}
