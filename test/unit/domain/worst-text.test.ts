/**
 * Every exported function of domain/ that takes text or JSON gets the largest input that its callers let through, in ten shapes. It
 * takes at most 50 ms of CPU, and at most in proportion to the input. A function that is in neither list below fails a test.
 */
import { globSync } from "node:fs";
import path from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { accountTopic } from "../../../src/domain/accounts/account-topic.ts";
import * as accountSize from "../../../src/domain/accounts/account-size.ts";
import * as payloadTemplate from "../../../src/domain/accounts/payload-template.ts";
import * as templateSample from "../../../src/domain/accounts/template-sample.ts";
import * as customHeader from "../../../src/domain/notifications/custom-header.ts";
import * as loopback from "../../../src/domain/loopback.ts";
import * as destination from "../../../src/domain/notifications/destination.ts";
import * as requestBody from "../../../src/domain/notifications/request-body.ts";
import * as catalogue from "../../../src/domain/notifications/notification.ts";
import * as dotPath from "../../../src/domain/json/dot-path.ts";
import * as innerJson from "../../../src/domain/json/inner-json.ts";
import * as jsonError from "../../../src/domain/json/json-error.ts";
import * as jsonScan from "../../../src/domain/json/json-scan.ts";
import * as jsonValue from "../../../src/domain/json/json-value.ts";
import type { JsonObject } from "../../../src/domain/json/json-value.ts";
import * as apiKey from "../../../src/domain/keys/api-key.ts";
import * as apiToken from "../../../src/domain/keys/api-token.ts";
import { browserOrigin } from "../../../src/domain/keys/browser-origin.ts";
import * as clientNetwork from "../../../src/domain/keys/client-network.ts";
import { detailForSender } from "../../../src/domain/keys/rejection.ts";
import { ok } from "../../../src/domain/result.ts";
import * as evaluateRules from "../../../src/domain/rules/evaluate-rules.ts";
import * as comparators from "../../../src/domain/rules/comparators.ts";
import * as mappingRule from "../../../src/domain/rules/mapping-rule.ts";
import { proposeRule } from "../../../src/domain/rules/propose-conditions.ts";
import * as exclusion from "../../../src/domain/rules/exclusion.ts";
import * as ruleContent from "../../../src/domain/rules/rule-content.ts";
import * as ruleImport from "../../../src/domain/rules/rule-import.ts";
import * as canonicalForm from "../../../src/domain/signal/canonical-form.ts";
import * as identity from "../../../src/domain/signal/identity.ts";
import * as normalising from "../../../src/domain/signal/normalise.ts";
import * as occurredAt from "../../../src/domain/signal/occurred-at.ts";
import * as signalBody from "../../../src/domain/signal/signal-body.ts";
import * as topic from "../../../src/domain/signal/topic.ts";
import * as traits from "../../../src/domain/signal/traits.ts";
import * as validateSignal from "../../../src/domain/signal/validate-signal.ts";
import * as applying from "../../../src/domain/template/apply.ts";
import * as eventNames from "../../../src/domain/template/event-names.ts";
import * as formBody from "../../../src/domain/template/form-body.ts";
import * as handshake from "../../../src/domain/template/handshake.ts";
import { previewTemplate } from "../../../src/domain/template/preview-template.ts";
import * as proposing from "../../../src/domain/template/propose-template.ts";
import * as readTargets from "../../../src/domain/template/read-targets.ts";
import * as sampleText from "../../../src/domain/template/sample-text.ts";
import * as sampleLeaves from "../../../src/domain/template/sample-leaves.ts";
import * as signalTemplate from "../../../src/domain/template/signal-template.ts";
import * as surroundings from "../../../src/domain/template/surroundings.ts";
import * as text from "../../../src/domain/text.ts";
import * as webhookCalls from "../../../src/domain/webhook-calls.ts";
import {
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

/** As many mappings and paths as a template may have. Paths of the shape, if it is one, read the payloads. */
const signalTemplateOf = (name: string): signalTemplate.SignalMapping[] => {
  const shape = name.slice(0, 120);
  const known = dotPath.parseDotPath(shape) === undefined ? "properties.*" : shape;
  const paths = ["properties.step", "*.*", `*[step=${shape.replaceAll("]", "")}]`, "properties.step.a", known];
  const targets = signalTemplate.SIGNAL_TARGETS.filter((target) => target !== "items");
  return times(TEMPLATE_MAX_MAPPINGS, (nth) => ({
    target: targets[nth % targets.length] ?? "event",
    ...(nth % 5 === 4 ? { text: "{properties.step}{event}{@body.properties.step}" } : { paths }),
  }));
};
const COMPILED_TEMPLATES = new Map<string, signalTemplate.CompiledSignalTemplate>();
function compiledTemplateOf(name: string): signalTemplate.CompiledSignalTemplate {
  const known = COMPILED_TEMPLATES.get(name) ?? signalTemplate.compileStoredTemplate(signalTemplateOf(name));
  COMPILED_TEMPLATES.set(name, known);
  return known;
}
const IN_ITEMS = signalTemplate.compileStoredTemplate([
  { target: "items", paths: ["items", "*"] },
  { target: "event", paths: ["@body.properties.step", "@body.deep.step", "@header.x-topic", "@key"] },
]);

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

const notificationsOf = (name: string): catalogue.AnyNotification[] => {
  const scored = catalogue.exampleNotification("person.scored");
  const [example] = "scoring_signals" in scored.data ? scored.data.scoring_signals : [];
  const signals = times(PERSON_SCORED_MAX_SIGNALS, (nth) => ({
    ...example,
    email: `${nth}@example.com`,
    event: name,
    source: name,
    scoring_signal: name,
  }));
  const crossed = catalogue.exampleNotification("account.score_crossed");
  return [
    { ...scored, data: { scoring_signals: signals } } as catalogue.AnyNotification,
    { ...crossed, data: { ...crossed.data, name, external_id: name } } as catalogue.AnyNotification,
  ];
};
const onNotifications =
  (run: (sent: catalogue.AnyNotification) => unknown) =>
  ({ name }: Input): Run[] =>
    notificationsOf(name).map((sent) => () => run(sent));

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
  "accounts/account-size updateRejection": ({ name }) => {
    const sent = new Map(times(50, (nth) => [`attributes.${nth}${name}`, { bytes: 100_000 }] as const));
    return [() => accountSize.updateRejection(1_000_000, sent, { sent, taken: sent })];
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
  "accounts/payload-template templateRejection": ({ name, payloads }) => {
    const mapped = payloads.map((payload) =>
      payloadTemplate.mapAccount(payloadTemplate.compileTemplate(templateOf(name)), payload),
    );
    return mapped.flatMap((record) => (record.ok ? [] : [() => payloadTemplate.templateRejection(record.rejection)]));
  },
  "accounts/payload-template isAccountField": onSignalText(payloadTemplate.isAccountField),
  "accounts/payload-template traitsProblemOf": onPayloads((payload) =>
    payloadTemplate.traitsProblemOf((payload["traits"] ?? payload) as JsonObject),
  ),
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
  "notifications/custom-header headerNameProblem": onForm(customHeader.headerNameProblem),
  "notifications/custom-header headerValueProblem": onForm(customHeader.headerValueProblem),
  "notifications/custom-header haveDistinctNames": ({ name }) => [
    () => customHeader.haveDistinctNames(times(DESTINATION_HEADERS_MAX, () => ({ name }))),
  ],
  "notifications/custom-header changedHeaders": (input) => {
    const target = `https://example.com/${input.text(DESTINATION_URL_MAX_LENGTH)}`;
    const headers = headersOf(input.text(HEADER_VALUE_MAX_LENGTH));
    return [() => customHeader.changedHeaders({ type: "webhook", target, headers }, { target, headers })];
  },
  "loopback isLoopback": onBody((sent) => loopback.isLoopback(`https://example.com/${sent}`)),
  "notifications/destination maskedTarget": onText(
    (sent) => destination.maskedTarget("webhook", `https://example.com/${sent}`),
    DESTINATION_URL_MAX_LENGTH,
  ),
  "notifications/destination checkDestinationUrl": onBody((sent) =>
    destination.checkDestinationUrl(sent, { local: false, ownHosts: ["example.com"] }),
  ),
  "notifications/request-body requestBody": onNotifications((sent) =>
    requestBody.requestBody({ type: "slack", notification: sent, pagesUrl: "https://example.com/w/a" }, "ws_1"),
  ),
  "notifications/request-body envelopeOf": onNotifications((sent) => requestBody.envelopeOf(sent, "ws_1")),
  "notifications/request-body slackBody": onNotifications((sent) =>
    requestBody.slackBody(sent, "https://example.com/w/a"),
  ),
  "notifications/request-body emailText": onNotifications((sent) =>
    requestBody.emailText(sent, "https://example.com/w/a"),
  ),
  "notifications/notification notificationSentence": onNotifications((sent) => catalogue.notificationSentence(sent)),
  "notifications/notification withoutPerson": onNotifications((sent) => catalogue.withoutPerson(sent, () => false)),
  "json/dot-path parseDotPath": onForm(dotPath.parseDotPath),
  "json/dot-path parseListPath": onForm((sent) => dotPath.parseListPath(`a[].${sent}`)),
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
  "json/json-error describeInvalidByte": onBytes((bytes) => jsonError.describeInvalidByte(bytes, 0, bytes.length)),
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
  "json/json-value readPayload": (input) => {
    const digits = JSON.stringify({ n: input.text(SIGNAL_MAX_BYTES - 100), one: 1 });
    const number = `{"n":1${"1".repeat(input.text(SIGNAL_MAX_BYTES - 100).length)}}`;
    const numbers = `{"n":[${"12345678901234567,".repeat(input.text(SIGNAL_MAX_BYTES / 20).length)}1]}`;
    const exponents = `{"n":[${"1e400,".repeat(input.text(SIGNAL_MAX_BYTES / 7).length)}1]}`;
    return [digits, number, numbers, exponents].map((sent) => () => jsonValue.readPayload(sent));
  },
  "json/json-value WrittenNumber": (input) => {
    const digits = `1${"1".repeat(input.text(SIGNAL_MAX_BYTES - 100).length)}`;
    return [() => new jsonValue.WrittenNumber(digits).exact];
  },
  "json/json-value decimalOf": onSignalText(jsonValue.decimalOf),
  "json/json-value parsed": onSignalText(jsonValue.parsed),
  "json/json-value asSent": onSignalText(jsonValue.asSent),
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
  "keys/api-key holdsCredential": onSignalText(apiKey.holdsCredential),
  "keys/api-key problemOfIdempotencyKey": onSignalText(apiKey.problemOfIdempotencyKey),
  "keys/api-key echo": onSignalText(apiKey.echo),
  "keys/api-key withoutCredentials": onSignalText(apiKey.withoutCredentials),
  "keys/rejection detailForSender": onName((name) => detailForSender({ detail: name, sent: name })),
  "rules/evaluate-rules evaluate": ({ shape, name, payloads }) => {
    const compiled = EVALUATED.get(shape) ?? mappingRule.compileRules(rulesOf(name));
    EVALUATED.set(shape, compiled);
    return payloads.map((payload) => {
      const signal = normalising.normalise(payload, undefined);
      return () => evaluateRules.evaluate(compiled, signal);
    });
  },
  "rules/comparators comparatorOf": ({ name }) => [
    () => comparators.comparatorOf({ path: "event", operator: "in", value: times(200, (nth) => `${nth}${name}`) }),
    () => comparators.comparatorOf({ path: "event", operator: "greater_than", value: name }),
  ],
  "rules/comparators toComparable": onSignalText(comparators.toComparable),
  "rules/comparators numberOfText": onSignalText(comparators.numberOfText),
  "rules/exclusion afterExclusionImport": ({ name }) => {
    const known = rulesOf(name);
    return [() => exclusion.afterExclusionImport(known, known, () => "exc_1")];
  },
  "rules/exclusion exclusionChanges": ({ name }) => {
    const known = rulesOf(name);
    return [() => exclusion.exclusionChanges(known, known)];
  },
  "rules/exclusion exclusionContent": onName((name) => exclusion.exclusionContent(ruleOf(name))),
  "rules/exclusion isSameExclusion": onName((name) => exclusion.isSameExclusion(ruleOf(name), ruleOf(name, 1))),
  "rules/exclusion repeatedNames": ({ name }) => {
    const known = rulesOf(name);
    return [() => exclusion.repeatedNames(known)];
  },
  "rules/exclusion withIds": ({ name }) => {
    const known = rulesOf(name);
    return [() => exclusion.withIds(known, known, () => "exc_1")];
  },
  "rules/mapping-rule isRulePath": onForm((sent) => mappingRule.isRulePath(`properties.${sent}`)),
  "rules/mapping-rule parseListRulePath": onForm((sent) => mappingRule.parseListRulePath(`properties.a[].${sent}`)),
  "rules/mapping-rule groupsOf": onName((name) => mappingRule.groupsOf(ruleOf(name).conditions)),
  "rules/mapping-rule compileRules": ({ name }) => {
    const rules = rulesOf(name);
    return [() => mappingRule.compileRules(rules)];
  },
  "rules/mapping-rule matchOf": onName((name) => mappingRule.matchOf(ruleOf(name))),
  "rules/mapping-rule isAboutEvent": ({ name }) => {
    const compiled = mappingRule.compileRules(rulesOf(name));
    return [() => mappingRule.isAboutEvent(compiled, `${name}b`)];
  },
  "rules/mapping-rule isEvaluable": ({ name }) => {
    const compiled = mappingRule.compileRules(rulesOf(name));
    return [() => mappingRule.isEvaluable(compiled, `${name}b`)];
  },
  "rules/mapping-rule needsPayload": ({ name }) => {
    const compiled = mappingRule.compileRules(rulesOf(name));
    return [() => mappingRule.needsPayload(compiled, `${name}b`)];
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
  "rules/rule-content movedConditions": ({ name }) => {
    const { conditions } = ruleOf(name);
    return [() => ruleContent.movedConditions(conditions, conditions.toReversed())];
  },
  "rules/rule-content contentOf": onName((name) => ruleContent.contentOf(ruleOf(name))),
  "rules/rule-content exclusionsSize": ({ name }) => {
    const known = rulesOf(name);
    return [() => ruleContent.exclusionsSize(known)];
  },
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
      const normalised = normalising.normalise(payload, undefined);
      const candidate = { payload, normalised, pathSource: undefined, idempotencyKey: undefined };
      return () => canonicalForm.duplicateKey(candidate);
    }),
  "signal/canonical-form idempotencyDuplicateKey": onText(
    canonicalForm.idempotencyDuplicateKey,
    IDEMPOTENCY_KEY_MAX_LENGTH,
  ),
  "signal/identity isWorthlessId": onSignalText(identity.isWorthlessId),
  "signal/identity usableId": onSignalText(identity.usableId),
  "signal/identity hasEmailShape": onSignalText(identity.hasEmailShape),
  "signal/identity isPlausibleEmail": onBody(identity.isPlausibleEmail),
  "signal/identity emailProblem": onSignalText(identity.emailProblem),
  "signal/identity idProblem": onSignalText((sent) => identity.idProblem("userId", sent)),
  "signal/identity addressIn": onSignalText(identity.addressIn),
  "signal/identity emailAsStored": onForm(identity.emailAsStored),
  "signal/identity normaliseEmail": onSignalText(identity.normaliseEmail),
  "signal/identity memberEmail": onBody(identity.memberEmail),
  "signal/identity hashOfName": onName((name) => identity.hashOfName({ kind: "email", value: name })),
  "signal/identity markOfName": onName(identity.markOfName),
  "signal/identity groupSource": ({ name, shape }) => {
    const source = textOf(shape, NAME_MAX_CODE_POINTS);
    const names = { email: `${name}@x.co`, userId: name.slice(0, 4), anonymousId: name, traits: { name } };
    return [() => identity.groupSource(source, names)];
  },
  "signal/normalise cdpCallType": onPayloads(normalising.cdpCallType),
  "signal/normalise knownCallType": onSignalText(normalising.knownCallType),
  "signal/normalise comparable": onSignalText(normalising.comparable),
  "signal/normalise normalise": onPayloads((payload) => normalising.normalise(payload, undefined)),
  "signal/normalise emailProblemOf": onPayloads(normalising.emailProblemOf),
  "signal/normalise idProblemOf": onPayloads(normalising.idProblemOf),
  "signal/normalise previousIdOf": onPayloads(normalising.previousIdOf),
  "signal/normalise propertiesRead": onPayloads((payload) => normalising.propertiesRead(payload, false)),
  "signal/normalise namesSent": onPayloads((payload) => normalising.namesSent(JSON.stringify(payload))),
  "signal/topic topicOf": onPayloads((payload) => topic.topicOf(normalising.normalise(payload, undefined))),
  "signal/topic topicText": onSignalText((sent) => topic.topicText(sent)),
  "accounts/account-topic accountTopic": onSignalText((sent) =>
    accountTopic({ externalId: sent, fields: { name: sent } } as never),
  ),
  "keys/browser-origin browserOrigin": onText(
    (sent) => browserOrigin({ origin: sent, mode: sent, site: sent }, () => "https://signals.example"),
    16_384,
  ),
  "notifications/notification subjectOf": onNotifications(catalogue.subjectOf),
  "template/preview-template previewTemplate": ({ payloads }) =>
    payloads.map((body) => {
      const template = proposing.proposeSignalTemplate([{ body }], NOW);
      return () => previewTemplate(template, [{ body }], NOW);
    }),
  "signal/normalise problemsOf": onPayloads((payload) => normalising.problemsOf(payload, { traits: null, time: null })),
  "signal/occurred-at occurredAt": onPayloads((payload) => occurredAt.occurredAt(payload, NOW)),
  "signal/occurred-at readTime": onSignalText(occurredAt.readTime),
  "signal/occurred-at timeProblemOf": onPayloads((payload) => occurredAt.timeProblemOf(payload, NOW)),
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
  "json/inner-json InnerJson": (input) => [
    ...onSignalText((sent) => new innerJson.InnerJson().read(`[${sent}]`))(input),
    ...input.payloads
      .map((payload) => JSON.stringify(payload))
      .map((sent) => () => new innerJson.InnerJson().read(sent)),
  ],
  "signal/canonical-form mappedDuplicateKey": onName((name) =>
    canonicalForm.mappedDuplicateKey({ keyId: "key_1", source: name, event: name, id: name }),
  ),
  "signal/normalise isPresentId": onSignalText(normalising.isPresentId),
  "signal/validate-signal checkName": onSignalText((sent) => validateSignal.checkName("event", sent)),
  "template/apply applyTemplate": ({ name, payloads }) => [
    ...payloads.map(
      (payload) => () => applying.applyTemplate(compiledTemplateOf(name), payload, { receivedAtMs: NOW }),
    ),
    ...payloads.map((payload) => () => applying.applyTemplate(IN_ITEMS, payload, { receivedAtMs: NOW })),
  ],
  "template/apply mapSignal": ({ name, payloads }) =>
    payloads.map(
      (payload) => () =>
        applying.mapSignal(compiledTemplateOf(name), payload, { body: payload }, { receivedAtMs: NOW }),
    ),
  "template/apply isCdpCall": onPayloads((payload) => applying.isCdpCall(payload, null)),
  "template/event-names plainName": onSignalText(eventNames.plainName),
  "template/event-names eventNamesIn": onPayloads(eventNames.eventNamesIn),
  "template/form-body isFormBody": onBody(formBody.isFormBody),
  "template/form-body parseFormBody": (input) => [
    ...onBody(formBody.parseFormBody)(input),
    ...onBody((sent) => formBody.parseFormBody(`a[${sent}]=1&a[${sent}=1`))(input),
    ...onBody((sent) => formBody.parseFormBody(`a=${sent}%`))(input),
    ...["a&", "&", "a[]&", "a[b][c]=%&", "%&", "+"].map((unit) => {
      const sent = unit.repeat(Math.floor(input.text(BODY_MAX_BYTES).length / unit.length));
      return () => formBody.parseFormBody(sent);
    }),
  ],
  "template/handshake handshakeAnswer": (input) => [
    ...onSignalText((challenge) => handshake.handshakeAnswer({ method: "POST", body: { challenge } }))(input),
    ...onPayloads((body) => handshake.handshakeAnswer({ method: "POST", body }))(input),
  ],
  "template/propose-template addressPathIn": onPayloads(proposing.addressPathIn),
  "template/sample-text readSampleBody": onBody(sampleText.readSampleBody),
  "template/sample-text readSampleHeaders": onBody(sampleText.readSampleHeaders),
  "template/propose-template proposeSignalTemplate": ({ payloads }) => [
    ...payloads.map((body) => () => proposing.proposeSignalTemplate([{ body }], NOW)),
    ...payloads.map((body) => () => proposing.proposeSignalTemplate([{ body: { items: [body] } }], NOW)),
  ],
  "template/read-targets textOf": onSignalText(readTargets.textOf),
  "template/read-targets addressOf": onSignalText(readTargets.addressOf),
  "template/read-targets timeUse": onSignalText((sent) => {
    const { read, problem } = readTargets.timeUse(NOW);
    return [read(sent), problem(sent, "a")];
  }),
  "template/read-targets TargetsReader": ({ name, payloads }) =>
    payloads.map((payload) => () => {
      const signal = { payload, around: {}, source: name };
      const reader = new readTargets.TargetsReader(compiledTemplateOf(name).targets, signal, 100_000);
      return reader.read("email", readTargets.EMAIL);
    }),
  "template/sample-leaves leavesOfSample": onPayloads(sampleLeaves.leavesOfSample),
  "template/signal-template compileSignalTemplate": ({ name }) => {
    const template = signalTemplateOf(name);
    return [() => signalTemplate.compileSignalTemplate(template)];
  },
  "template/signal-template compileStoredTemplate": ({ name }) => {
    const template = signalTemplateOf(name);
    return [() => signalTemplate.compileStoredTemplate(template)];
  },
  "template/signal-template problemInWords": onForm((sent) =>
    signalTemplate.problemInWords({ index: 0, target: sent, field: null, message: "is wrong" }),
  ),
  "template/signal-template parseTemplatePath": onForm(signalTemplate.parseTemplatePath),
  "template/surroundings keptKey": onSignalText(surroundings.keptKey),
  "template/surroundings keptHeaders": onText(
    (sent) => surroundings.keptHeaders(IN_ITEMS, { "x-topic": sent }),
    16_384,
  ),
  "template/surroundings keptBody": onPayloads((payload) => surroundings.keptBody(IN_ITEMS, payload, new Set(), 0)),
  "template/surroundings bytesOf": onSignalText(surroundings.bytesOf),
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
    duration addToDays, duration isBefore, duration latestDays, duration dayOf, duration utcDay, notifications/attempts decideAttempt, notifications/attempts notBeforeMs,
    notifications/attempts failedAgain, notifications/attempts hasFailedTooLong, notifications/key-notices expiringDays,
    notifications/key-notices silentSinceMs, notifications/notification risenTo, notifications/notification fallenBelow,
    health/alarm alarmsOf, health/alarm alarmsOfObject, health/alarm wordOf, health/alarm wordOfAlarm,
    health/alarm-post changeOf, health/alarm-post webhookBody, health/alarm-post channelText, health/alarm roomLevel, health/alarm notAsked, health/alarm unreachable,
    json/json-value isExact, json/json-scan isSpace, keys/api-key isExpired, keys/api-key keyEnd, keys/api-key keyStatus,
    keys/api-token tokenStatus, keys/rejection addRejection, keys/rejection forgetOld, quota/balance balanceBooks,
    quota/billing billingPeriodAt, quota/billing closePeriod, quota/billing overageCost, quota/forecast paceOf,
    quota/forecast expectedUsage, quota/forecast whenReached, quota/key-budget keyLevel, quota/key-budget newKeyLevels,
    quota/key-budget roomOfKey, quota/key-budget useWithin, quota/quota quotaBounds, quota/quota quotaCeiling,
    quota/quota verdictCounts, quota/quota eachVerdict, quota/quota addVerdicts, quota/quota verdictWords,
    quota/quota ordinalsTaken, quota/quota verdictInRun, quota/quota decideQuotaRun, quota/quota overageOfRun,
    quota/quota roomToRelease, quota/quota overageOfRelease, quota/request-rate requestsOfBody,
    quota/request-rate takeRequest, quota/request-rate chargeRequests,
    quota/usage-day entryOf, quota/usage-day usageCurve, quota/usage-day verdictsPerDay,
    quota/usage-day signalsPerDay, quota/usage-levels newUsageLevels, quota/usage-levels usageLevel,
    rules/evaluate-rules pointsOf, rules/comparators conditionValue, rules/comparators isComparatorName, rules/comparators negates,
    rules/mapping-rule lapseDayOf, template/signal-template pathsOf, template/key-template accountTemplateOf,
    template/key-template compileKeyTemplate, text grouped, text counted`,
  "names of a fixed list": `
    notifications/destination wantedBy, notifications/notification exampleNotification, notifications/notification thresholdsOf,
    keys/role canManage, keys/role canChangeMember, signal/traits eachTrait, signal/traits traitLabel,
    signal/traits traitsInWords`,
  "the configuration of a deployment": `
    health/alarm wrongJurisdiction`,
  "keys, secrets and hashes that the service has made": `
    keys/api-key composeKey, keys/api-key composeToken, keys/api-key keyEnds, keys/api-key maskedKey,
    keys/api-key composeSecret, webhook-calls sdkLine, signal/canonical-form hashBytes`,
  "any value, of which they look at the type only": `
    json/json-value isJsonObject, json/json-value kindInWords, signal/validate-signal checkProperties, result ok, result reject`,
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
