import { topicText } from "../signal/topic.ts";
import type { AccountRecord } from "./payload-template.ts";

/** What an account update is about: the name of the account, or its external id. */
export function accountTopic({ externalId, fields }: AccountRecord): string | undefined {
  return topicText(fields.name) ?? topicText(externalId);
}
