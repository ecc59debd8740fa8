/**
 * Handshakes: before a sender delivers events, it asks whether the address is ours. Answered only after key and secret
 * are right, and never counted.
 */
import { isJsonObject, type JsonObject } from "../json/json-value.ts";

/** Short and without any other character, so that no caller can make us send HTML or a script. */
const CHALLENGE = /^[\w.-]{1,256}$/;

export interface HandshakeCall {
  method: string;
  /** The query of the address, by name. */
  query?: Readonly<Record<string, string>>;
  /** The parsed body; undefined: none. */
  body?: unknown;
}

/** An answer with status 200. The headers include `nosniff` wherever there is a body. */
export interface HandshakeAnswer {
  headers: Readonly<Record<string, string>>;
  body: string;
}

/** Null: the call is no handshake, so its body is a signal. */
export function handshakeAnswer({ method, query = {}, body }: HandshakeCall): HandshakeAnswer | null {
  // Intercom, Mailchimp, SurveyMonkey and Trello only ask whether something answers.
  if (method === "HEAD") return { headers: {}, body: "" };
  if (method === "GET") {
    const challenge = challengeAt(query, "hub.challenge") ?? challengeAt(query, "challenge");
    return challenge === undefined ? { headers: {}, body: "" } : asText(challenge);
  }
  if (method !== "POST" || !isJsonObject(body)) return null;
  const names = Object.keys(body);
  if (names.length > 0 && names.every((name) => name.startsWith("hub."))) {
    const challenge = challengeAt(body, "hub.challenge");
    return challenge === undefined ? null : asText(challenge);
  }
  // An event may have a field of this name too.
  if (body["type"] !== "url_verification" && names.join() !== "challenge") return null;
  const challenge = challengeAt(body, "challenge");
  return challenge === undefined ? null : asJson(challenge);
}

function challengeAt(fields: Readonly<JsonObject>, name: string): string | undefined {
  const challenge = Object.hasOwn(fields, name) ? fields[name] : undefined;
  return typeof challenge === "string" && CHALLENGE.test(challenge) ? challenge : undefined;
}

function asText(challenge: string): HandshakeAnswer {
  return answerOf("text/plain; charset=utf-8", challenge);
}

function asJson(challenge: string): HandshakeAnswer {
  return answerOf("application/json", JSON.stringify({ challenge }));
}

function answerOf(contentType: string, body: string): HandshakeAnswer {
  return { headers: { "content-type": contentType, "x-content-type-options": "nosniff" }, body };
}
