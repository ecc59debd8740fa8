/** Searches what queries show, and at the end all storage, for texts that only deleted signals have. */
import { expect } from "vitest";
import type { Model, ModelSignal } from "./model.ts";
import type { Real } from "./real.ts";

/** The texts that name somebody in a signal, and its mark. */
function textsOf({ content }: ModelSignal): string[] {
  const { emailName, userName, deviceName, previousName, mark } = content;
  return [emailName, userName, deviceName, previousName, mark].filter((text) => text !== null);
}

/**
 * Texts that a deletion has taken with it: each signal that had one is deleted, or was purged, or is a duplicate, which keeps no names. An
 * id that somebody else has too, by a device of theirs, is still theirs.
 */
function deletedTexts(model: Model): string[] {
  const isTheirs = (kind: "user" | "device", name: string): boolean => model.hasPerson(`${kind} ${name}`);
  const carriers = new Map<string, ModelSignal[]>();
  for (const signal of model.signals) {
    if (signal.place === "flight") continue;
    for (const text of textsOf(signal)) carriers.set(text, [...(carriers.get(text) ?? []), signal]);
  }
  return [...carriers]
    .filter(([, signals]) => signals.some(({ place }) => place === "deleted"))
    .filter(([, signals]) => signals.every(isNamed))
    .map(([text]) => text)
    .filter((text) => !isTheirs("user", text) && !isTheirs("device", text));
}

function isNamed({ place, isLearned, leaves, deletion }: ModelSignal): boolean {
  if (place === "deleted") return (!isLearned && leaves === null) || deletion?.isFinished === true;
  return place === "duplicate" || place === "purged";
}

export async function expectNobodyNamed(model: Model, real: Real, { inStorage = false } = {}): Promise<void> {
  const texts = deletedTexts(model);
  if (texts.length === 0) return;
  const emails = model.people.map(({ email }) => email);
  const signals = model.signals.filter(({ place }) => place === "deleted" || place === "duplicate");
  const shown = await real.everything(signals, emails);
  expect(
    texts.filter((text) => shown.includes(text)),
    "a query shows names of deleted people",
  ).toEqual([]);
  if (!inStorage) return;
  const stored = await real.storage();
  const found = texts.filter((text) => stored.includes(text)).map((text) => around(stored, text));
  expect(found, "storage has names of deleted people").toEqual([]);
}

function around(stored: string, text: string): string {
  const at = stored.indexOf(text);
  return stored.slice(Math.max(0, at - 60), at + 60);
}
