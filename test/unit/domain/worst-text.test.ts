/**
 * Every exported function of domain/ that takes text or JSON gets the largest input that its callers let through, in ten shapes. It
 * takes at most 50 ms of CPU, and at most in proportion to the input. A function that is in neither list below fails a test.
 */
import { globSync } from "node:fs";
import path from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import * as accountSize from "../../../src/domain/accounts/account-size.ts";
import * as payloadTemplate from "../../../src/domain/accounts/payload-template.ts";
import * as templateSample from "../../../src/domain/accounts/template-sample.ts";
import * as customHeader from "../../../src/domain/events/custom-header.ts";
import * as destination from "../../../src/domain/events/destination.ts";
import * as requestBody from "../../../src/domain/events/request-body.ts";
import * as workspaceEvent from "../../../src/domain/events/workspace-event.ts";
import * as dotPath from "../../../src/domain/json/dot-path.ts";
import * as jsonError from "../../../src/domain/json/json-error.ts";
import * as jsonScan from "../../../src/domain/json/json-scan.ts";
import * as jsonValue from "../../../src/domain/json/json-value.ts";
import type { JsonObject } from "../../../src/domain/json/json-value.ts";
import * as apiKey from "../../../src/domain/keys/api-key.ts";
import * as apiToken from "../../../src/domain/keys/api-token.ts";
import * as clientNetwork from "../../../src/domain/keys/client-network.ts";
import * as echo from "../../../src/domain/keys/echo.ts";
import { detailForSender } from "../../../src/domain/keys/refusal.ts";
import { ok } from "../../../src/domain/result.ts";
import * as evaluateRules from "../../../src/domain/rules/evaluate-rules.ts";
import * as mappingCondition from "../../../src/domain/rules/mapping-condition.ts";
import * as mappingRule from "../../../src/domain/rules/mapping-rule.ts";
import { proposeRule } from "../../../src/domain/rules/propose-conditions.ts";
import * as ruleContent from "../../../src/domain/rules/rule-content.ts";
import * as ruleImport from "../../../src/domain/rules/rule-import.ts";
import * as canonicalForm from "../../../src/domain/signal/canonical-form.ts";
import * as identity from "../../../src/domain/signal/identity.ts";
import * as normalising from "../../../src/domain/signal/normalise.ts";
import * as occurredAt from "../../../src/domain/signal/occurred-at.ts";
import * as signalBody from "../../../src/domain/signal/signal-body.ts";
import * as traits from "../../../src/domain/signal/traits.ts";
import * as validateSignal from "../../../src/domain/signal/validate-signal.ts";
import * as text from "../../../src/domain/text.ts";
import * as webhookCalls from "../../../src/domain/webhook-calls.ts";
import {
  ANSWER_MAX_BYTES,
  DESTINATION_HEADERS_MAX,
  DESTINATION_URL_MAX_LENGTH,
  HEADER_VALUE_MAX_LENGTH,
  IDEMPOTENCY_KEY_MAX_LENGTH,
  NAME_MAX_CODE_POINTS,
  PAGE_FORM_MAX_CHARACTERS,
  PERSON_SCORED_MAX_SIGNALS,
  SIGNAL_MAX_BYTES,
  TEMPLATE_MAX_MAPPINGS,
  WORKSPACE_MAX_RULES,
} from "../../../src/limits.ts";
import {
  complaintsAbout,
  leafPayloads,
  SHAPE_NAMES,
  textOf,
  textPayloads,
  textsOf,
  type Run,
  type Shape,
} from "../../support/worst-text.ts";

const DOMAIN = path.join(import.meta.dirname, "../../../src/domain");
const BODY_MAX_BYTES = 1024 * 1024;
const NOW = Date.parse("2026-11-27T00:00:00Z");

/** The input of one shape. Each of them is as large as the caller lets through, or a part of that. */
interface Input {
  shape: Shape;
  /** Text of a name or an id, whose length its caller has checked. */
  name: string;
  text(max: number): string;
  /** Alone, and between two letters. */
  textsOf(max: number): string[];
  /** Signals or account updates: one long text in a field. */
  texts: JsonObject[];
  /** Many values, or long names. */
  trees: JsonObject[];
  /** Both. */
  payloads: JsonObject[];
}

const cache = new Map<string, Pick<Input, "texts" | "trees" | "payloads">>();

function inputOf(shape: Shape, part: number): Input {
  const key = `${shape} ${part}`;
  let payloads = cache.get(key);
  if (payloads === undefined) {
    const texts = textPayloads(shape, SIGNAL_MAX_BYTES * part);
    const trees = leafPayloads(shape, SIGNAL_MAX_BYTES * part);
    cache.set(key, (payloads = { texts, trees, payloads: [...texts, ...trees] }));
  }
  return {
    shape,
    ...payloads,
    name: textOf(shape, NAME_MAX_CODE_POINTS),
    text: (max) => textOf(shape, Math.floor(max * part)),
    textsOf: (max) => textsOf(shape, Math.floor(max * part)),
  };
}

const onText =
  (run: (text: string) => unknown, max: number) =>
  (input: Input): Run[] =>
    input.textsOf(max).map((sent) => () => run(sent));
/** The caller is the form of a page. */
const onForm = (run: (text: string) => unknown) => onText(run, PAGE_FORM_MAX_CHARACTERS);
/** The caller is a body of the API. */
const onBody = (run: (text: string) => unknown) => onText(run, BODY_MAX_BYTES);
/** The caller has a text of a signal. */
const onSignalText = (run: (text: string) => unknown) => onText(run, SIGNAL_MAX_BYTES);
/** The caller has a name or an id, whose length has been checked. */
const onName =
  (run: (text: string) => unknown) =>
  ({ name }: Input): Run[] => [() => run(name)];
const onBytes =
  (run: (bytes: Uint8Array) => unknown) =>
  (input: Input): Run[] =>
    input.textsOf(BODY_MAX_BYTES).map((sent) => {
      const bytes = new TextEncoder().encode(sent);
      return () => run(bytes);
    });
const onPayloads =
  (run: (payload: JsonObject) => unknown) =>
  ({ payloads }: Input): Run[] =>
    payloads.map((payload) => () => run(payload));

const times = <T>(count: number, make: (nth: number) => T): T[] => Array.from({ length: count }, (_, nth) => make(nth));

const templateOf = (name: string): payloadTemplate.PayloadMapping[] => [
  { target: "external_id", path: "event", type: "string", required: true },
  ...times(TEMPLATE_MAX_MAPPINGS - 1, (nth) => ({
    target: `attributes.a${nth}`,
    path: dotPath.parseDotPath(name) === undefined ? `properties.k${nth} step` : name,
    type: payloadTemplate.PAYLOAD_TYPES[nth % payloadTemplate.PAYLOAD_TYPES.length] ?? "json",
    required: true,
  })),
];

const ruleOf = (name: string, nth = 0): ruleContent.RuleContent & { id: string; version: number } => ({
  id: `rule_${nth}`,
  version: 1,
  name: `${name.slice(0, 250)}${nth}`,
  event: `${name.slice(0, 250)}*`,
  match: "any",
  conditions: [
    { path: `properties.${name.slice(0, 240)}`, operator: "equals", value: name },
    { path: "properties.step", operator: "contains", value: name },
    { path: "event", operator: "in", value: times(20, (at) => `${name.slice(0, 200)}${at}`) },
  ],
  scoringSignal: name,
  points: 1,
  frequency: "every_time",
  pointsLastDays: null,
  enabled: true,
});
/** As many rules as a workspace may have, of this size. */
const rulesOf = (name: string) => times(WORKSPACE_MAX_RULES / 10, (nth) => ruleOf(name, nth));

const eventsOf = (name: string): workspaceEvent.AnyEvent[] => {
  const scored = workspaceEvent.exampleEvent("person.scored");
  const [example] = "scoring_signals" in scored.data ? scored.data.scoring_signals : [];
  const signals = times(PERSON_SCORED_MAX_SIGNALS, (nth) => ({
    ...example,
    email: `${nth}@example.com`,
    event: name,
    source: name,
    scoring_signal: name,
  }));
  const crossed = workspaceEvent.exampleEvent("account.score_crossed");
  return [
    { ...scored, data: { scoring_signals: signals } } as workspaceEvent.AnyEvent,
    { ...crossed, data: { ...crossed.data, name, external_id: name } } as workspaceEvent.AnyEvent,
  ];
};
const onEvents =
  (run: (event: workspaceEvent.AnyEvent) => unknown) =>
  ({ name }: Input): Run[] =>
    eventsOf(name).map((event) => () => run(event));

const onWebhook =
  (run: (webhook: webhookCalls.Webhook) => unknown) =>
  ({ name }: Input): Run[] => {
    const body = templateSample.exampleFor(templateOf(name));
    return [() => run({ id: "a", label: "a", note: "a", url: "https://example.com", body })];
  };

const headersOf = (value: string) => times(DESTINATION_HEADERS_MAX, (nth) => ({ name: `X-${nth}`, value }));
const EVALUATED = new Map<Shape, mappingRule.CompiledRules>();

/** Each function with foreign text, and how its caller calls it with the largest input. */
const FOREIGN: Record<string, (input: Input) => Run[]> = {
  "accounts/account-size valueBytes": onSignalText((sent) => accountSize.valueBytes("attributes.a", sent, sent)),
  "accounts/account-size updateRefusal": ({ name }) => {
    const sent = new Map(times(50, (nth) => [`attributes.${nth}${name}`, { bytes: 100_000 }] as const));
    return [() => accountSize.updateRefusal(1_000_000, sent, { sent, taken: sent })];
  },
  "accounts/payload-template isAccountTarget": onSignalText((sent) =>
    payloadTemplate.isAccountTarget(`attributes.${sent}`),
  ),
  "accounts/payload-template compileTemplate": ({ name }) => {
    const template = templateOf(name);
    return [() => payloadTemplate.compileTemplate(template)];
  },
  "accounts/payload-template mapAccount": ({ name, payloads }) => {
    const template = payloadTemplate.compileTemplate(templateOf(name));
    return payloads.map((payload) => () => payloadTemplate.mapAccount(template, payload));
  },
  "accounts/payload-template templateRefusal": ({ name, payloads }) => {
    const mapped = payloads.map((payload) =>
      payloadTemplate.mapAccount(payloadTemplate.compileTemplate(templateOf(name)), payload),
    );
    return mapped.flatMap((record) => (record.ok ? [] : [() => payloadTemplate.templateRefusal(record.refusal)]));
  },
  "accounts/payload-template isAccountField": onSignalText(payloadTemplate.isAccountField),
  "accounts/payload-template recordOfGroup": onPayloads((payload) =>
    payloadTemplate.recordOfGroup("g", (payload["traits"] ?? payload) as JsonObject),
  ),
  "accounts/template-sample readSample": (input) => [
    ...onForm(templateSample.readSample)(input),
    ...input.payloads.map((payload) => JSON.stringify(payload)).map((sent) => () => templateSample.readSample(sent)),
  ],
  "accounts/template-sample proposeTemplate": ({ trees }) => [
    ...trees.map((payload) => () => templateSample.proposeTemplate(payload)),
    // Numbers that no mapping takes.
    ...trees.map((payload) => {
      const sample = JSON.parse(
        JSON.stringify(payload["properties"] ?? {}).replaceAll(/:1(?=[,}])/g, ":1e999"),
      ) as JsonObject;
      return () => templateSample.proposeTemplate(sample);
    }),
  ],
  "accounts/template-sample exampleFor": ({ name }) => {
    const template = templateOf(name);
    return [() => templateSample.exampleFor(template)];
  },
  "events/custom-header headerNameProblem": onForm(customHeader.headerNameProblem),
  "events/custom-header headerValueProblem": onForm(customHeader.headerValueProblem),
  "events/custom-header haveDistinctNames": ({ name }) => [
    () => customHeader.haveDistinctNames(times(DESTINATION_HEADERS_MAX, () => ({ name }))),
  ],
  "events/custom-header changedHeaders": (input) => {
    const target = `https://example.com/${input.text(DESTINATION_URL_MAX_LENGTH)}`;
    const headers = headersOf(input.text(HEADER_VALUE_MAX_LENGTH));
    return [() => customHeader.changedHeaders({ type: "webhook", target, headers }, { target, headers })];
  },
  "events/custom-header withoutHeaderValues": (input) => {
    const answer = input.text(ANSWER_MAX_BYTES + customHeader.ESCAPED_VALUE_MAX_LENGTH);
    const headers = headersOf(textOf(input.shape, HEADER_VALUE_MAX_LENGTH));
    const words = headersOf(textOf(input.shape, 12));
    return [
      () => customHeader.withoutHeaderValues(answer, headers),
      () => customHeader.withoutHeaderValues(answer, words),
    ];
  },
  "events/destination maskedTarget": onText(
    (sent) => destination.maskedTarget("webhook", `https://example.com/${sent}`),
    DESTINATION_URL_MAX_LENGTH,
  ),
  "events/destination checkDestinationUrl": onBody((sent) =>
    destination.checkDestinationUrl(sent, { local: false, ownHosts: ["example.com"] }),
  ),
  "events/request-body requestBody": onEvents((event) =>
    requestBody.requestBody({ type: "slack", event, pagesUrl: "https://example.com/w/a" }, "ws_1"),
  ),
  "events/request-body envelopeOf": onEvents((event) => requestBody.envelopeOf(event, "ws_1")),
  "events/request-body slackBody": onEvents((event) => requestBody.slackBody(event, "https://example.com/w/a")),
  "events/request-body emailText": onEvents((event) => requestBody.emailText(event, "https://example.com/w/a")),
  "events/workspace-event eventSentence": onEvents((event) => workspaceEvent.eventSentence(event)),
  "events/workspace-event withoutPerson": onEvents((event) => workspaceEvent.withoutPerson(event, () => false)),
  "json/dot-path parseDotPath": onForm(dotPath.parseDotPath),
  "json/dot-path PathReading": ({ name, payloads }) => {
    const steps = dotPath.parseDotPath(name) ?? [];
    return payloads.map((payload) => () => new dotPath.PathReading(steps, { maxSteps: 50_000 }).read(payload));
  },
  "json/dot-path readValue": ({ name, payloads }) => {
    const steps = dotPath.parseDotPath(name) ?? [];
    return payloads.map((payload) => () => dotPath.readValue(payload, steps));
  },
  "json/json-error describeJsonError": onBytes((bytes) => {
    const error = jsonScan.findJsonError(bytes, 0, bytes.length);
    return error && jsonError.describeJsonError(bytes, 0, bytes.length, error);
  }),
  "json/json-error describePlace": onBytes((bytes) => jsonError.describePlace(bytes, 0, bytes.length)),
  "json/json-scan jsonShape": onBytes((bytes) => jsonScan.jsonShape(bytes, {})),
  "json/json-scan scanItems": onBytes((bytes) => [
    jsonScan.scanItems(bytes, "array", 5_000),
    jsonScan.scanItems(bytes, "batch", 5_000),
  ]),
  "json/json-scan closesAtEnd": onBytes((bytes) => jsonScan.closesAtEnd(bytes, 0, bytes.length)),
  "json/json-scan skipSpace": onBytes((bytes) => jsonScan.skipSpace(bytes, 0)),
  "json/json-scan withoutSpaceBefore": onBytes((bytes) => jsonScan.withoutSpaceBefore(bytes, bytes.length)),
  "json/json-scan findJsonError": onBytes((bytes) => jsonScan.findJsonError(bytes, 0, bytes.length)),
  "json/json-value parsed": onSignalText(jsonValue.parsed),
  "json/json-value isAbsent": onSignalText(jsonValue.isAbsent),
  "json/json-value presentText": onSignalText(jsonValue.presentText),
  "keys/api-key isWellFormedKey": onBody(apiKey.isWellFormedKey),
  "keys/api-key isWellFormedToken": onBody(apiKey.isWellFormedToken),
  "keys/api-key holdsKey": onBody(apiKey.holdsKey),
  "keys/api-key withoutKeys": onSignalText((sent) => apiKey.withoutKeys(`sk_${sent}`)),
  "keys/api-key holdsSecret": onSignalText(apiKey.holdsSecret),
  "keys/api-token readTokenActor": onName((name) => apiToken.readTokenActor(`token tok_1 (${name})`)),
  "keys/api-token tokenActor": onName((name) => apiToken.tokenActor({ id: "tok_1", name })),
  "keys/client-network networkOf": onText(clientNetwork.networkOf, 16_384),
  "keys/echo holdsCredential": onSignalText(echo.holdsCredential),
  "keys/echo echo": onSignalText(echo.echo),
  "keys/echo withoutCredentials": onSignalText(echo.withoutCredentials),
  "keys/refusal detailForSender": onName((name) => detailForSender({ detail: name, sent: name })),
  "rules/evaluate-rules evaluate": ({ shape, name, payloads }) => {
    const compiled = EVALUATED.get(shape) ?? mappingRule.compileRules(rulesOf(name));
    EVALUATED.set(shape, compiled);
    return payloads.map((payload) => {
      const signal = normalising.normalise(payload, undefined);
      return () => evaluateRules.evaluate(compiled, signal);
    });
  },
  "rules/mapping-condition comparatorOf": ({ name }) => [
    () => mappingCondition.comparatorOf({ path: "event", operator: "in", value: times(200, (nth) => `${nth}${name}`) }),
    () => mappingCondition.comparatorOf({ path: "event", operator: "greater_than", value: name }),
  ],
  "rules/mapping-condition toComparable": onSignalText(mappingCondition.toComparable),
  "rules/mapping-condition numberOfText": onSignalText(mappingCondition.numberOfText),
  "rules/mapping-rule isRulePath": onForm((sent) => mappingRule.isRulePath(`properties.${sent}`)),
  "rules/mapping-rule compileRules": ({ name }) => {
    const rules = rulesOf(name);
    return [() => mappingRule.compileRules(rules)];
  },
  "rules/mapping-rule isAboutEvent": ({ name }) => {
    const compiled = mappingRule.compileRules(rulesOf(name));
    return [() => mappingRule.isAboutEvent(compiled, `${name}b`)];
  },
  "rules/mapping-rule isEventPattern": onForm(mappingRule.isEventPattern),
  "rules/mapping-rule fitsWildcard": onName((name) =>
    mappingRule.fitsWildcard({ first: name.slice(0, 1), middle: times(100, () => name.slice(0, 2)), last: "x" }, name),
  ),
  "rules/mapping-rule eventRange": onForm(mappingRule.eventRange),
  "rules/mapping-rule leavesOf": onPayloads((payload) => {
    let characters = 0;
    // As the callers do, this reads each path.
    for (const [leaf] of mappingRule.leavesOf(payload)) characters += leaf.indexOf("\u{f8ff}");
    return characters;
  }),
  "rules/mapping-rule propertyPaths": onPayloads((payload) => {
    const { properties } = normalising.normalise(payload, undefined);
    return mappingRule.propertyPaths([properties, properties, properties], 100);
  }),
  "rules/propose-conditions proposeRule": ({ trees }) => {
    const signals = trees.map((payload) => normalising.normalise(payload, undefined));
    const [other = signals[0]] = signals.slice(-1);
    const elements = (value: unknown): JsonObject[] => times(4_000, () => value as JsonObject);
    const listed = signals.map((signal) => ({ ...signal, properties: { list: [signal.properties] } }));
    const similar = { ...signals[0], properties: { list: elements({}) } } as (typeof signals)[number];
    return [
      ...signals.map((signal) => () => proposeRule(signal, [signal, ...(other === undefined ? [] : [other])])),
      ...listed.map((signal) => () => proposeRule(signal, [similar, similar])),
    ];
  },
  "rules/rule-content ruleDifferences": ({ name }) => [
    () => ruleContent.ruleDifferences(ruleOf(name), ruleOf(name, 1)),
  ],
  "rules/rule-content contentOf": onName((name) => ruleContent.contentOf(ruleOf(name))),
  "rules/rule-content ruleSize": onForm((sent) => ruleContent.ruleSize(ruleOf(sent))),
  "rules/rule-import planImport": ({ name }) => {
    const rules = rulesOf(name);
    return [() => ruleImport.planImport(rules, rules)];
  },
  "rules/rule-import afterImport": ({ name }) => {
    const rules = rulesOf(name);
    const steps = ruleImport.planImport(rules, rules);
    return [() => ruleImport.afterImport(rules, steps)];
  },
  "signal/canonical-form canonicalJson": onPayloads((payload) => canonicalForm.canonicalJson(payload)),
  "signal/canonical-form duplicateKey": ({ payloads }) =>
    payloads.map((payload) => {
      const [sent, normalised] = [JSON.stringify(payload), normalising.normalise(payload, undefined)];
      const candidate = { payload, text: sent, normalised, pathSource: undefined, idempotencyKey: undefined };
      return () => canonicalForm.duplicateKey(candidate);
    }),
  "signal/canonical-form idempotencyDuplicateKey": onText(
    canonicalForm.idempotencyDuplicateKey,
    IDEMPOTENCY_KEY_MAX_LENGTH,
  ),
  "signal/canonical-form asWritten": (input) => {
    const digits = JSON.stringify({ n: input.text(SIGNAL_MAX_BYTES - 100), one: 1 });
    const number = `{"n":1${"1".repeat(input.text(SIGNAL_MAX_BYTES - 100).length)}}`;
    const numbers = `{"n":[${"12345678901234567,".repeat(input.text(SIGNAL_MAX_BYTES / 20).length)}1]}`;
    return [digits, number, numbers].map((sent) => () => canonicalForm.asWritten(JSON.parse(sent), sent));
  },
  "signal/identity isWorthlessId": onSignalText(identity.isWorthlessId),
  "signal/identity usableId": onSignalText(identity.usableId),
  "signal/identity hasEmailShape": onSignalText(identity.hasEmailShape),
  "signal/identity isPlausibleEmail": onBody(identity.isPlausibleEmail),
  "signal/identity emailProblem": onSignalText(identity.emailProblem),
  "signal/identity emailAsStored": onForm(identity.emailAsStored),
  "signal/identity normaliseEmail": onSignalText(identity.normaliseEmail),
  "signal/identity memberEmail": onBody(identity.memberEmail),
  "signal/identity hashOfName": onName((name) => identity.hashOfName({ kind: "email", value: name })),
  "signal/identity groupSource": ({ name, shape }) => {
    const source = textOf(shape, NAME_MAX_CODE_POINTS);
    const names = { email: `${name}@x.co`, userId: name.slice(0, 4), anonymousId: name, traits: { name } };
    return [() => identity.groupSource(source, names)];
  },
  "signal/normalise cdpCallType": onPayloads(normalising.cdpCallType),
  "signal/normalise normalise": onPayloads((payload) => normalising.normalise(payload, undefined)),
  "signal/normalise emailProblemOf": onPayloads(normalising.emailProblemOf),
  "signal/occurred-at occurredAt": onPayloads((payload) => occurredAt.occurredAt(payload, NOW)),
  "signal/occurred-at readTime": onSignalText(occurredAt.readTime),
  "signal/occurred-at timeProblemOf": onPayloads(occurredAt.timeProblemOf),
  "signal/signal-body readSignals": (input) => {
    const rules = { maxSignals: 10_000, lines: true, check: ok };
    const bodies = [
      ...input.textsOf(BODY_MAX_BYTES).map((sent) => new TextEncoder().encode(sent)),
      ...input.payloads.map((payload) => new TextEncoder().encode(JSON.stringify(payload))),
    ];
    return bodies.map((body) => () => signalBody.readSignals(body, rules));
  },
  "signal/signal-body BodyText": onBytes((bytes) => {
    const body = new signalBody.BodyText(bytes);
    return [body.slice(0, bytes.length), body.error()];
  }),
  "signal/traits traitsSent": onPayloads((payload) => {
    const sent = (payload["traits"] ?? payload) as JsonObject;
    return traits.traitsSent(sent, sent, (payload["properties"] ?? {}) as JsonObject);
  }),
  "signal/traits folded": onSignalText(traits.folded),
  "signal/validate-signal validateSignal": onPayloads(validateSignal.validateSignal),
  "signal/validate-signal fitsName": onBody(validateSignal.fitsName),
  "signal/validate-signal controlCharacterIn": onSignalText(validateSignal.controlCharacterIn),
  "text cut": onBody((sent) => text.cut(sent, 400)),
  "webhook-calls webhooksOf": ({ name }) => {
    const key = { key: "sk_1", endpointType: "product_org" as const, payloadTemplate: templateOf(name) };
    return [() => webhookCalls.webhooksOf("https://example.com", key)];
  },
  "webhook-calls curlLine": onWebhook((webhook) => webhookCalls.curlLine(webhook, "secret")),
  "webhook-calls fetchCall": onWebhook((webhook) => webhookCalls.fetchCall(webhook, "secret")),
  "webhook-calls pythonCall": onWebhook((webhook) => webhookCalls.pythonCall(webhook, "secret")),
  "webhook-calls composedEvent": onForm((sent) => webhookCalls.composedEvent(sent, sent)),
  "webhook-calls marketingTemplate": onForm(webhookCalls.marketingTemplate),
};

/** Functions that take no text or JSON of somebody else, by what they take. */
const OWN: Record<string, string> = {
  "numbers, times and states of the service": `
    day-counts addToDays, day-counts latestDays, duration dayOf, events/attempts judgeAttempt, events/attempts notBeforeMs,
    events/attempts failedAgain, events/attempts hasFailedTooLong, events/key-notices expiringDays,
    events/key-notices silentSinceMs, events/workspace-event risenTo, events/workspace-event fallenBelow,
    health/alarm alarmsOf, health/alarm wordOf, health/alarm roomLevel, health/alarm notAsked, health/alarm unreachable,
    json/json-value isExact, json/json-scan isSpace, keys/api-key isExpired, keys/api-key keyEnd, keys/api-key keyStatus,
    keys/api-token tokenStatus, keys/refusal addRejection, keys/refusal forgetOld, quota/balance balanceBooks,
    quota/billing billingPeriodAt, quota/billing closePeriod, quota/billing overageCost, quota/forecast paceOf,
    quota/forecast expectedUsage, quota/forecast whenReached, quota/quota quotaBounds, quota/quota quotaCeiling,
    quota/quota verdictCounts, quota/quota eachVerdict, quota/quota addVerdicts, quota/quota verdictWords,
    quota/quota ordinalsTaken, quota/quota verdictInRun, quota/quota decideQuotaRun, quota/quota overageOfRun,
    quota/quota roomToRelease, quota/quota overageOfRelease, quota/request-rate requestsOfBody,
    quota/request-rate takeRequest, quota/request-rate chargeRequests,
    quota/usage-day utcDay, quota/usage-day entryOf, quota/usage-day usageCurve, quota/usage-day verdictsPerDay,
    quota/usage-day signalsPerDay, quota/usage-levels newUsageLevels, quota/usage-levels usageLevel,
    rules/evaluate-rules pointsOf, rules/mapping-rule lapseDayOf, text grouped, text counted`,
  "names of a fixed list": `
    events/destination wantedBy, events/workspace-event exampleEvent, events/workspace-event thresholdsOf,
    keys/role canManage, keys/role canChangeMember, signal/traits eachTrait, signal/traits traitLabel,
    signal/traits traitsInWords`,
  "the configuration of a deployment": `
    jurisdiction JurisdictionError, jurisdiction jurisdictionProblem, jurisdiction requireJurisdiction,
    health/alarm wrongJurisdiction`,
  "keys and secrets that the service has made": `
    keys/api-key composeKey, keys/api-key composeToken, keys/api-key keyEnds, keys/api-key maskedKey,
    keys/api-key composeSecret, webhook-calls sdkLine`,
  "any value, of which they look at the type only": `
    json/dot-path isJsonObject, json/json-value kindInWords, result ok, result refuse`,
};

const exported: string[] = [];

beforeAll(async () => {
  for (const file of globSync("**/*.ts", { cwd: DOMAIN }).toSorted()) {
    const module = (await import(path.join(DOMAIN, file))) as Record<string, unknown>;
    const functions = Object.entries(module).filter(([, value]) => typeof value === "function");
    exported.push(...functions.map(([name]) => `${file.replace(/\.ts$/, "")} ${name}`));
  }
});

describe("each function of domain/ that takes foreign text", () => {
  test("is known, and so is each other function", () => {
    const own = Object.values(OWN).flatMap((names) => names.split(",").map((name) => name.trim()));
    expect([...Object.keys(FOREIGN), ...own].toSorted()).toEqual(exported.toSorted());
  });

  test.each(Object.entries(FOREIGN))("%s takes linear time, and at most 50 ms", (name, runsOf) => {
    const complaints = SHAPE_NAMES.flatMap((shape) =>
      complaintsAbout(`${name}, ${shape}`, (part) => runsOf(inputOf(shape, part))),
    );
    expect(complaints).toEqual([]);
  });
});
