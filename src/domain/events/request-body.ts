/** What a destination is sent, as text. It is the same at each attempt. */
import type { DestinationType } from "./destination.ts";
import { emailText, slackBody } from "./sentence.ts";
import type { AnyEvent } from "./workspace-event.ts";

export interface RequestParts {
  type: DestinationType;
  event: AnyEvent;
  pagesUrl: string;
}

export function requestBody({ type, event, pagesUrl }: RequestParts, workspaceId: string): string {
  switch (type) {
    case "webhook":
      return JSON.stringify(envelopeOf(event, workspaceId));
    case "slack":
      return JSON.stringify(slackBody(event, pagesUrl));
    case "email":
      return emailText(event, pagesUrl).text;
  }
}

/** The body of a webhook, before it is JSON. */
export function envelopeOf({ id, type, time, data }: AnyEvent, workspaceId: string) {
  return { id, type, time: new Date(time).toISOString(), workspace: workspaceId, data };
}
