/** The text that a destination receives for a notification, by type of destination. It is the same at each attempt. */
import { cut } from "../text.ts";
import type { DestinationType } from "./destination.ts";
import { type AnyNotification, notificationSentence } from "./notification.ts";

interface RequestParts {
  type: DestinationType;
  notification: AnyNotification;
  pagesUrl: string;
}

export function requestBody({ type, notification, pagesUrl }: RequestParts, workspaceId: string): string {
  switch (type) {
    case "webhook":
      return JSON.stringify(envelopeOf(notification, workspaceId));
    case "slack":
      return JSON.stringify(slackBody(notification, pagesUrl));
    case "email":
      return emailText(notification, pagesUrl).text;
  }
}

export function envelopeOf({ id, type, time, data }: AnyNotification, workspaceId: string) {
  return { id, type, time: new Date(time).toISOString(), workspace: workspaceId, data };
}

/**
 * The body for a Slack-compatible incoming webhook. Slack reads `&`, `<` and `>` as mark-up and turns any address into a link.
 * Names that users or senders chose are written as code, so that no sender can place a link.
 */
export function slackBody(notification: AnyNotification, pagesUrl: string): { text: string } {
  const { text, page } = notificationSentence(notification, (name) => `\`${name.replaceAll(/[`\r\n]/g, " ")}\``);
  const plain = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return { text: `${plain} <${pagesUrl}/${page}|Show>` };
}

/** Characters of a subject; mail clients show about as many. */
const SUBJECT_MAX = 120;

export function emailText(notification: AnyNotification, pagesUrl: string): { subject: string; text: string } {
  const { text, page } = notificationSentence(notification);
  // A line end in a subject would begin another header.
  const subject = cut(text, SUBJECT_MAX).replaceAll(/[\r\n]+/g, " ");
  return { subject, text: `${text}\n\n${pagesUrl}/${page}\n` };
}
