/** The texts of /docs that no schema has: how to send signals, and how to call the API. */
import { SCOPE_MEANING, TOKEN_SCOPES } from "../../domain/keys/api-token.ts";
import { REQUEST_BODY_BYTES, REQUEST_SIGNALS } from "../../domain/quota/request-rate.ts";
import { FORM_MAX_FIELDS } from "../../domain/template/form-body.ts";
import { SIGNAL_TARGETS } from "../../domain/template/signal-template.ts";
import { grouped } from "../../domain/text.ts";
import { curlLine, fetchCall, pythonCall, webhooksOf } from "../../domain/webhook-calls.ts";
import { API_CODES_PATH, SENDER_CODES_PATH } from "../../http/problem.ts";
import {
  ACTOR_MAX_CHANGES_A_DAY,
  BODY_MAX_BYTES,
  BODY_MAX_SIGNALS,
  EMAIL_MAX_LENGTH,
  IDEMPOTENCY_KEY_MAX_LENGTH,
  MISFIT_KEPT_DAYS,
  NAME_MAX_CODE_POINTS,
  PAGE_DEFAULT_ITEMS,
  PAGE_MAX_ITEMS,
  REQUEST_BURST,
  REQUEST_RATE_PER_SECOND,
  SIGNAL_MAX_BYTES,
  SIGNAL_MAX_DEPTH,
  TEMPLATE_MAX_BYTES,
  TEMPLATE_MAX_MAPPINGS,
  TRAIT_MAX_BYTES,
} from "../../limits.ts";
import { PRESETS } from "../../presets/presets.ts";
import { TOKEN_CALLS_PER_PERIOD } from "../authorise.ts";
import { OPERATOR_BODY_MAX_BYTES } from "../operation.ts";
import { ORIGIN } from "./reference.tsx";
import { PARTS } from "./site.ts";

export interface GuideSection {
  id: string;
  title: string;
  /** Paragraphs and the points of a list, with `code` between backticks. */
  text: readonly string[];
  list?: readonly string[];
  samples?: readonly (readonly [label: string, code: string])[];
  link?: readonly [text: string, href: string];
}

const KEY = "YOUR_API_KEY";

function firstCall(): GuideSection[] {
  const [webhook] = webhooksOf(ORIGIN, { key: KEY, endpointType: "signal_staging", payloadTemplate: null });
  return [
    {
      id: "first-call",
      title: "A first call",
      text: [
        `An owner or admin creates an API key on the workspace's pages, under API keys. The key is shown once. Replace \`${KEY}\` ` +
          "with it. If the key has a shared secret, send that in the header `X-Api-Secret`.",
      ],
      samples: [
        ["curl", curlLine(webhook, null)],
        ["JavaScript", fetchCall(webhook, null)],
        ["Python", pythonCall(webhook, null)],
      ],
    },
    {
      id: "accepted",
      title: "What 202 means",
      text: [
        "The signal is stored durably and will be processed. Find it by its `id` on the pages or with the API. The status `held` " +
          "means that it exceeds the plan's signal limit.",
      ],
    },
    {
      id: "batches",
      title: "Many signals in one call",
      text: [
        'Post an array, or `{"batch":[…]}`. The bulk endpoint also takes one JSON object per line. `Content-Encoding: gzip` is ' +
          "allowed. The content of a body decides, not its Content-Type.",
        "Each signal is accepted or rejected on its own. The answer lists them by `index`. The status `partial` means that some were " +
          "rejected, each with its `code` and `detail`.",
      ],
    },
    {
      id: "retries",
      title: "Retries",
      text: [],
      list: [
        "No answer, 429 or 5xx: send the same body again after `Retry-After` seconds, or without that header after 1, 2, 4, … seconds, " +
          "up to some minutes.",
        "Another 4xx: the same call would be rejected again. Fix it first.",
        "A repetition is harmless if the signal has a `messageId` (or `id`), or the call has an `Idempotency-Key`. For seven days, " +
          "repeated signals are duplicates and score nothing. Without these, the same content is a duplicate for ten minutes. Each accepted " +
          "repetition counts against the signal limit.",
      ],
    },
    {
      id: "answers",
      title: "If a call is rejected",
      text: [
        "The answer is a problem (RFC 9457) with a stable `code`, and a `detail` that says what to do. `X-Request-Id` finds the call " +
          "under Rejections.",
      ],
      link: ["Rejection codes", SENDER_CODES_PATH],
    },
  ];
}

function fixedBodies(): GuideSection[] {
  return [
    {
      id: "presets",
      title: "Senders by name",
      text: [
        "For these senders a key is made by choosing the name, with payload template, address and answer: " +
          `${PRESETS.map(({ name }) => name).join(", ")}.`,
      ],
      link: ["API keys", `${PARTS.api.path}/keys`],
    },
    {
      id: "payload-templates",
      title: "Payload templates",
      text: [
        "A key may have a payload template, which says where the fields of a signal stand in the body. A call of a customer data " +
          "platform ignores it.",
      ],
      list: [
        `Each mapping has a \`target\`: ${SIGNAL_TARGETS.map((target) => `\`${target}\``).join(", ")}. \`items\` is the list of signals in a ` +
          "body. Such a body has at most 1 MiB.",
        "It has a `path`, several `paths` that are tried in order, or a `text` with `{path}` in it.",
        "Paths may begin with `@header.<name>`, `@body.`, `@key` or `@source`.",
        `A form-encoded body is read as JSON: \`a[b]\` nests, \`a[]\` and repeated names are lists. It has at most ${grouped(FORM_MAX_FIELDS)} fields.`,
        `A template has at most ${TEMPLATE_MAX_MAPPINGS} mappings and ${grouped(TEMPLATE_MAX_BYTES)} bytes.`,
      ],
    },
    {
      id: "misfits",
      title: "Misfits",
      text: [
        "A misfit is a signal without an event or a `required` value, with `properties` of a wrong type, or that is no object. The key decides:",
      ],
      list: [
        '`misfits: "reject"`: 422 with the paths that were tried. Nothing is counted.',
        '`misfits: "keep"`, because most vendors never send again after a 4xx: the misfit is answered and counted like other signals, with ' +
          `\`"misfit": true\`. It becomes a dead letter, which can be replayed with a better template for ${MISFIT_KEPT_DAYS} days.`,
      ],
    },
    {
      id: "success-status",
      title: "200 for success",
      text: [
        "With `answer: 200` a key answers success at `…/webhook/{source}/{key}` with 200 instead of 202. Some vendors take only 200, " +
          "and send again after any other.",
      ],
    },
    {
      id: "handshakes",
      title: "Handshakes",
      text: [
        "Before it delivers events, a vendor may ask whether the address is yours. An active key with a template answers such a call " +
          "with 200. A key with a secret needs it here too. Nothing is counted.",
      ],
      list: [
        "GET and HEAD at a webhook URL: no body, or the `hub.challenge` or `challenge` of the query as text.",
        'POST of `{"challenge"}` or `{"type":"url_verification","challenge"}`: the challenge as JSON.',
        "A challenge has at most 256 letters, digits, `_`, `.` and `-`.",
      ],
    },
  ];
}

function limits(): GuideSection[] {
  return [
    {
      id: "sizes",
      title: "Sizes",
      text: [],
      list: [
        `Signal: ${grouped(SIGNAL_MAX_BYTES)} bytes, ${SIGNAL_MAX_DEPTH} levels.`,
        `Body: ${grouped(BODY_MAX_BYTES)} bytes after decompression, ${grouped(BODY_MAX_SIGNALS)} signals.`,
        `Event and source: ${NAME_MAX_CODE_POINTS} characters, without control characters.`,
        `Email: ${EMAIL_MAX_LENGTH} characters. \`Idempotency-Key\`: ${IDEMPOTENCY_KEY_MAX_LENGTH} printable ASCII characters.`,
        `A person's name, company and title: ${grouped(TRAIT_MAX_BYTES)} bytes each; the rest is cut off.`,
      ],
    },
    {
      id: "request-rate",
      title: "Request rate",
      text: [
        `A key may make ${grouped(REQUEST_RATE_PER_SECOND)} requests a second, and ${grouped(REQUEST_BURST)} at once, unless the deployment has other ` +
          "limits. The headers `RateLimit` and `RateLimit-Policy` show them, with what remains.",
        `A body counts as one request for each started ${grouped(REQUEST_BODY_BYTES)} bytes after decompression, or for each started ` +
          `${REQUEST_SIGNALS} signals if that is more. It never counts as more than the burst.`,
      ],
    },
    {
      id: "signal-limit",
      title: "Signal limit",
      text: [
        "The plan limits the signals of a billing period. Signals between the limit and twice the limit are held, and change no scores. " +
          "Beyond that they are rejected, until the next period, an upgrade, or overages.",
        "A key may have a signal limit of its own. Beyond it, its signals are rejected.",
      ],
    },
    {
      id: "speed",
      title: "Speed of a body",
      text: [
        "The first 262,144 bytes of a body have 30 seconds. A larger body must arrive with at least 50,000 bytes a second. A slower one " +
          "gets 400 `body_unreadable`.",
      ],
    },
    {
      id: "share",
      title: "Share of a workspace",
      text: [
        "All keys of a workspace share what it may take of a server. Beyond the share, large bodies get 429 `rate_limited`, or 503 " +
          "`unavailable` while too many of them are under way. Small bodies have the rate of their key. Other workspaces do not notice.",
      ],
    },
  ];
}

function calls(): GuideSection[] {
  return [
    {
      id: "tokens",
      title: "Tokens",
      text: [
        "A call needs `Authorization: Bearer` with one of two tokens. An API token is for the programs of one workspace. The operator token " +
          "(the Worker's secret OPERATOR_TOKEN) is for the deployer's own systems, and calls everything.",
        "Owners and admins create API tokens on the workspace's pages, under API tokens. A token ends when it is revoked or expires, and when " +
          "its creator is no owner or admin any more. Other workspaces do not exist for it: 404.",
      ],
      link: ["API tokens", `${PARTS.api.path}/tokens`],
    },
    {
      id: "addresses",
      title: "Addresses",
      text: [
        "`{workspace_id}` in a path is the id of the workspace, such as `ws_…`. The call that is shown with a new API token has it.",
      ],
    },
    {
      id: "scopes",
      title: "Scopes",
      text: [
        "Each operation names the scope that an API token needs. An operation without a scope is for the operator token only.",
      ],
      list: TOKEN_SCOPES.map((scope) => `\`${scope}\`: ${SCOPE_MEANING[scope]}`),
    },
    {
      id: "lists",
      title: "Lists",
      text: [
        `A list is \`{"items": […], "next": …}\`. It has ${PAGE_DEFAULT_ITEMS} items, or as many as \`limit\` says, at most ${PAGE_MAX_ITEMS}. Send ` +
          "`next` as `cursor` to get the following ones. On the last page it is null.",
      ],
    },
    {
      id: "changes",
      title: "Changes",
      text: [
        "The answer to a change waits for the change, for a minute at most. If the answer to a creation or rotation of an API key is lost, " +
          "send the same call again within ten minutes, with the same `Idempotency-Key`. The unseen key ends at once, and the answer has a new one.",
      ],
    },
    {
      id: "api-limits",
      title: "Limits",
      text: [
        `An API token may make ${TOKEN_CALLS_PER_PERIOD} calls in ten seconds, and ${grouped(ACTOR_MAX_CHANGES_A_DAY)} changes in 24 hours. Then it gets ` +
          `429 with \`Retry-After\`. A body has at most ${grouped(OPERATOR_BODY_MAX_BYTES)} bytes, unless its operation says otherwise.`,
      ],
    },
    {
      id: "api-errors",
      title: "Errors",
      text: [
        "An error is a problem (RFC 9457) with a stable `code`. `validation_failed` names each wrong field in `errors`.",
      ],
      link: ["Error codes", API_CODES_PATH],
    },
  ];
}

const GUIDE: Record<string, () => GuideSection[]> = {
  [PARTS.senders.path]: firstCall,
  "/docs/senders/templates": fixedBodies,
  "/docs/senders/limits": limits,
  [PARTS.api.path]: calls,
};

/** @param path of a page. */
export function guideOf(path: string): readonly GuideSection[] {
  return GUIDE[path]?.() ?? [];
}
