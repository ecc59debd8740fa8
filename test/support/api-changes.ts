/** Compares the API of two versions: what a program that was written for the first can no longer rely on. */
import {
  type ApiContent,
  type ApiDocument,
  type ApiOperation,
  type JsonSchema,
  resolve,
  schemaName,
} from "../../src/operator/docs/api-document.ts";

/** Whether the program or the service writes the value: what one may add, the other may leave out. */
type Writer = "program" | "service";

/** @returns a line for each broken promise, with its place. */
export function brokenPromises(before: ApiDocument, now: ApiDocument): string[] {
  return new Comparison(before, now).run();
}

class Comparison {
  readonly #before: ApiDocument;
  readonly #now: ApiDocument;
  readonly #compared = new Set<string>();

  constructor(before: ApiDocument, now: ApiDocument) {
    this.#before = before;
    this.#now = now;
  }

  run(): string[] {
    const [before, now] = [operationsOf(this.#before), operationsOf(this.#now)];
    return [...before].flatMap(([address, operation]) => {
      const same = now.get(address);
      return same === undefined ? [`${address} is gone`] : this.#operation(address, operation, same);
    });
  }

  #operation(address: string, before: ApiOperation, now: ApiOperation): string[] {
    const isNotification = address.startsWith("notification ");
    const known = new Set((before.parameters ?? []).map(({ name }) => name));
    const added = (now.parameters ?? []).filter(({ name, required }) => required === true && !known.has(name));
    const kept = new Map((now.parameters ?? []).filter((of) => of.in !== "path").map((of) => [of.name, of]));
    const parameters = (before.parameters ?? [])
      .filter((of) => of.in !== "path")
      .flatMap(({ name, schema }) => {
        const same = kept.get(name);
        const at = `${address} ?${name}`;
        return same === undefined ? [`${at} is gone`] : this.#schema(at, schema ?? {}, same.schema ?? {}, "program");
      });
    return [
      ...added.filter((of) => of.in !== "path").map(({ name }) => `${address} ?${name} is required`),
      ...parameters,
      ...this.#contents(address, before.requestBody, now.requestBody, isNotification ? "service" : "program"),
      ...Object.entries(before.responses).flatMap(([status, answer]) => {
        // Errors have one form, and a cause may go.
        if (!status.startsWith("2")) return [];
        const same = now.responses[status];
        const at = `${address} ${status}`;
        return same === undefined ? [`${at} is gone`] : this.#contents(at, answer, same, "service");
      }),
    ];
  }

  #contents(
    at: string,
    before: { content?: ApiContent } | undefined,
    now: { content?: ApiContent } | undefined,
    writer: Writer,
  ): string[] {
    return Object.entries(before?.content ?? {}).flatMap(([mediaType, { schema = {} }]) => {
      const same = now?.content?.[mediaType];
      return same === undefined ? [`${at} ${mediaType} is gone`] : this.#schema(at, schema, same.schema ?? {}, writer);
    });
  }

  #schema(at: string, ofBefore: JsonSchema, ofNow: JsonSchema, writer: Writer): string[] {
    const names = [schemaName(ofBefore), schemaName(ofNow)];
    if (names[0] !== undefined) {
      const pair = `${names.join(" ")} ${writer}`;
      if (this.#compared.has(pair)) return [];
      this.#compared.add(pair);
    }
    const [before, now] = [resolve(ofBefore, this.#before), resolve(ofNow, this.#now)];
    const [choicesBefore, choicesNow] = [choicesOf(before), choicesOf(now)];
    if (choicesBefore !== null || choicesNow !== null) {
      const [must, may] =
        writer === "program"
          ? [choicesBefore ?? [before], choicesNow ?? [now]]
          : [choicesNow ?? [now], choicesBefore ?? [before]];
      const isCovered = (choice: JsonSchema): boolean =>
        may.some((other) => {
          const [first, second] = writer === "program" ? [choice, other] : [other, choice];
          return this.#schema(at, first, second, writer).length === 0;
        });
      return must.every(isCovered) ? [] : [`${at} takes other forms`];
    }
    return [
      ...valuesLost(at, before, now, writer),
      ...this.#properties(at, before, now, writer),
      ...(before.items !== undefined && now.items !== undefined
        ? this.#schema(`${at}[]`, before.items, now.items, writer)
        : []),
    ];
  }

  #properties(at: string, before: JsonSchema, now: JsonSchema, writer: Writer): string[] {
    const isRequired = ({ required = [] }: JsonSchema, name: string): boolean => required.includes(name);
    const kept = Object.entries(before.properties ?? {}).flatMap(([name, schema]) => {
      const same = now.properties?.[name];
      if (same === undefined) return [`${at}.${name} is gone`];
      const mayMiss = writer === "service" && isRequired(before, name) && !isRequired(now, name);
      return [
        ...(mayMiss ? [`${at}.${name} may be missing`] : []),
        ...this.#schema(`${at}.${name}`, schema, same, writer),
      ];
    });
    const required = writer === "program" ? (now.required ?? []).filter((name) => !isRequired(before, name)) : [];
    return [...kept, ...required.map((name) => `${at}.${name} is required`)];
  }
}

function choicesOf({ anyOf, oneOf }: JsonSchema): JsonSchema[] | null {
  return anyOf ?? oneOf ?? null;
}

/** A type or a value that the reader does not know. */
function valuesLost(at: string, before: JsonSchema, now: JsonSchema, writer: Writer): string[] {
  const typesOf = ({ type = [] }: JsonSchema): string[] => (Array.isArray(type) ? type : [type]);
  const [written, read] = writer === "program" ? [before, now] : [now, before];
  const types = typesOf(read);
  const strange = typesOf(written).filter(
    (type) => types.length > 0 && !types.includes(type) && !(type === "integer" && types.includes("number")),
  );
  const valuesOf = (schema: JsonSchema): unknown[] | null =>
    schema.enum ?? (schema.const === undefined ? null : [schema.const]);
  const [valuesBefore, valuesNow] = [valuesOf(before), valuesOf(now)];
  // A program must expect new values in answers; the ones that it sends stay.
  const gone =
    writer === "program" && valuesNow !== null ? (valuesBefore ?? []).filter((of) => !valuesNow.includes(of)) : [];
  return [
    ...strange.map((type) => `${at} is ${writer === "program" ? "no longer" : "also"} of type ${type}`),
    ...gone.map((value) => `${at} is no longer ${JSON.stringify(value)}`),
  ];
}

/** Operations by method and path without the names of its parameters, and notifications by type. */
function operationsOf(document: ApiDocument): Map<string, ApiOperation> {
  const all = new Map<string, ApiOperation>();
  for (const [path, item] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(item)) {
      all.set(`${method.toUpperCase()} ${path.replaceAll(/\{\w+\}/g, "{}")}`, operation);
    }
  }
  for (const [type, { post }] of Object.entries(document.webhooks)) all.set(`notification ${type}`, post);
  return all;
}
