/** Which signals a person's traits were taken from, as their row keeps it: mostly one for all. */
import { TRAIT_NAMES } from "../../domain/signal/traits.ts";
import type { TraitName } from "../../domain/signal/traits.ts";
import type { ReceivedOrder } from "../../wire/admission.ts";

export type TraitReceipts = Partial<Record<TraitName, ReceivedOrder>>;

/** Writes a receipt for each trait in the order of TRAIT_NAMES, in base 36; `=` stands for the one before it, nothing for none. */
export function writeReceipts(receipts: TraitReceipts): string {
  let before: ReceivedOrder | undefined;
  const texts = TRAIT_NAMES.map((trait) => {
    const receipt = receipts[trait];
    const isSame = receipt?.receivedAtMs === before?.receivedAtMs && receipt?.ordinal === before?.ordinal;
    before = receipt;
    if (receipt === undefined) return "";
    return isSame ? "=" : `${receipt.receivedAtMs.toString(36)}.${receipt.ordinal.toString(36)}`;
  });
  return texts.join();
}

export function readReceipts(text: string): TraitReceipts {
  const receipts: TraitReceipts = {};
  let before: ReceivedOrder | undefined;
  for (const [index, one] of text.split(",").entries()) {
    if (one !== "=") before = readReceipt(one);
    const trait = TRAIT_NAMES[index];
    if (trait !== undefined && before !== undefined) receipts[trait] = before;
  }
  return receipts;
}

function readReceipt(text: string): ReceivedOrder | undefined {
  const [at, ordinal] = text.split(".");
  if (at === undefined || ordinal === undefined) return undefined;
  return { receivedAtMs: Number.parseInt(at, 36), ordinal: Number.parseInt(ordinal, 36) };
}
