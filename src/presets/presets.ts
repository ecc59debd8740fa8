/** All presets, in the order in which pages and documents list them. */
import { ACTIVECAMPAIGN } from "./activecampaign.ts";
import { BRAZE } from "./braze.ts";
import { BREVO } from "./brevo.ts";
import { CALENDLY } from "./calendly.ts";
import { CHARGEBEE } from "./chargebee.ts";
import { CLOUDEVENTS } from "./cloudevents.ts";
import { CUSTOMER_IO } from "./customer-io.ts";
import { GITHUB } from "./github.ts";
import { HUBSPOT_APP } from "./hubspot-app.ts";
import { HUBSPOT_WORKFLOW } from "./hubspot-workflow.ts";
import { INTERCOM } from "./intercom.ts";
import { ITERABLE } from "./iterable.ts";
import { KLAVIYO } from "./klaviyo.ts";
import { MAILCHIMP } from "./mailchimp.ts";
import { MAILGUN } from "./mailgun.ts";
import { MAILJET } from "./mailjet.ts";
import { MARKETO } from "./marketo.ts";
import { MAUTIC } from "./mautic.ts";
import { PIPEDRIVE } from "./pipedrive.ts";
import { POSTMARK } from "./postmark.ts";
import { SENDGRID } from "./sendgrid.ts";
import { SHOPIFY } from "./shopify.ts";
import { STRIPE } from "./stripe.ts";
import { TYPEFORM } from "./typeform.ts";
import { WOOCOMMERCE } from "./woocommerce.ts";
import { ZENDESK } from "./zendesk.ts";
import type { Preset } from "./preset.ts";

export const PRESETS: readonly Preset[] = [
  HUBSPOT_WORKFLOW,
  HUBSPOT_APP,
  TYPEFORM,
  CALENDLY,
  INTERCOM,
  CUSTOMER_IO,
  ITERABLE,
  KLAVIYO,
  BRAZE,
  MAUTIC,
  MAILCHIMP,
  ACTIVECAMPAIGN,
  SENDGRID,
  BREVO,
  MAILGUN,
  POSTMARK,
  STRIPE,
  CHARGEBEE,
  PIPEDRIVE,
  SHOPIFY,
  MARKETO,
  MAILJET,
  ZENDESK,
  WOOCOMMERCE,
  GITHUB,
  CLOUDEVENTS,
];

/** The path to give to the vendor. */
export function presetAddress({ address }: Preset, key: string): string {
  return `/api/signal-staging${address.replace("{key}", key)}`;
}

export function presetNamed(id: string): Preset | undefined {
  return PRESETS.find((preset) => preset.id === id);
}
