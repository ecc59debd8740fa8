/** The payload template of an API key, by its endpoint type. A change makes a new version. */
import { compileTemplate, type CompiledTemplate, type PayloadMapping } from "../accounts/payload-template.ts";
import type { EndpointType } from "../signal/signal.ts";
import { compileStoredTemplate, type CompiledSignalTemplate, type SignalMapping } from "./signal-template.ts";

/** What the edge does with a signal that its template does not fit: a 422, or a dead letter, which a corrected template maps. */
export const MISFIT_HANDLINGS = ["reject", "keep"] as const;
export type MisfitHandling = (typeof MISFIT_HANDLINGS)[number];

/** Answers to a kept signal, at an address with a source. Some vendors take only 200 for success. */
export const SUCCESS_STATUSES = [202, 200] as const;
export type SuccessStatus = (typeof SUCCESS_STATUSES)[number];

/** The template of a `product_org` key, or of a `signal_staging` key. */
export type KeyTemplate = PayloadMapping[] | (SignalMapping & { required: boolean })[];

export interface StoredTemplate {
  /** The first key of the rotation chain, which shares the template. */
  firstKeyId: string;
  version: number;
  template: KeyTemplate;
}

export interface CompiledKeyTemplate extends Omit<StoredTemplate, "template"> {
  /** Null: the key is for signals. */
  accounts: CompiledTemplate | null;
  /** Null: the key is for account updates. */
  signals: CompiledSignalTemplate | null;
  mappings: number;
}

export function compileKeyTemplate(
  endpointType: EndpointType,
  { firstKeyId, version, template }: StoredTemplate,
): CompiledKeyTemplate {
  const isOfAccounts = endpointType === "product_org";
  return {
    firstKeyId,
    version,
    accounts: isOfAccounts ? compileTemplate(template as PayloadMapping[]) : null,
    signals: isOfAccounts ? null : compileStoredTemplate(template as SignalMapping[]),
    mappings: template.length,
  };
}

/** Null: the key is for signals, or its template was dropped. */
export function accountTemplateOf(key: {
  endpointType: EndpointType;
  payloadTemplate: KeyTemplate | null;
}): PayloadMapping[] | null {
  return key.endpointType === "product_org" ? (key.payloadTemplate as PayloadMapping[] | null) : null;
}
