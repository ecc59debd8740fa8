/**
 * The template of an API key whose sender cannot change its body: maps paths of a payload to the fields of a signal
 * (spec §2.2). Templates are compiled once, and applied to each signal (apply.ts).
 *
 *     path = "@key" | "@source" | "@header." token | ["@body."] dot path (dot-path.ts)
 *     text = { literal | "{" path "}" }
 */
import {
  HEADER_NAME_MAX_LENGTH,
  TEMPLATE_MAX_BYTES,
  TEMPLATE_MAX_MAPPINGS,
  TEMPLATE_PATH_MAX_LENGTH,
} from "../../limits.ts";
import { parseDotPath, type DotPath } from "../json/dot-path.ts";
import { holdsCredential } from "../keys/api-key.ts";
import { ok, reject, type Result } from "../result.ts";
import { controlCharacterIn } from "../signal/validate-signal.ts";
import { counted, cut, grouped } from "../text.ts";

export const SIGNAL_TARGETS = [
  "items",
  "event",
  "email",
  "user_id",
  "anonymous_id",
  "id",
  "occurred_at",
  "name",
  "first_name",
  "last_name",
  "company",
  "title",
  "account",
  "source",
] as const;
export type SignalTarget = (typeof SIGNAL_TARGETS)[number];
/** The targets with a value of each signal. `items` says where the signals of a body stand. */
export type ValueTarget = Exclude<SignalTarget, "items">;

const VALUE_TARGETS = SIGNAL_TARGETS.filter((target) => target !== "items");

/** Has exactly one of `path`, `paths` and `text`. */
export interface SignalMapping {
  target: SignalTarget;
  path?: string | undefined;
  /** Tried in this order. */
  paths?: string[] | undefined;
  /** Literal text with `{path}` in it. Without a placeholder it is a constant. */
  text?: string | undefined;
  /** Whether a payload without this value is a misfit. */
  required?: boolean | undefined;
}

const SOURCE_FIELDS = ["path", "paths", "text"] as const;

/** Why a template cannot be used. `message` completes the name of its mapping (`problemInWords`). */
export interface MappingProblem {
  /** Index of the mapping; null: the template as a whole. */
  index: number | null;
  target: string | null;
  field: "target" | (typeof SOURCE_FIELDS)[number] | null;
  message: string;
}

/** A path with its text, for messages. `item`: in the signal; `body`: in what stands around the items. */
export type CompiledPath = { text: string } & (
  | { from: "key" }
  | { from: "source" }
  | { from: "header"; name: string }
  | { from: "item" | "body"; path: DotPath }
);

export type CompiledSource = { path: CompiledPath } | { text: string; parts: readonly (string | CompiledPath)[] };

export interface CompiledTarget {
  /** In the order in which they are tried. */
  sources: readonly CompiledSource[];
  required: boolean;
}

export interface CompiledSignalTemplate {
  readonly items: { readonly paths: readonly { text: string; path: DotPath }[]; readonly required: boolean } | null;
  readonly targets: Readonly<Partial<Record<ValueTarget, CompiledTarget>>>;
  /** The targets without whose value a signal is a misfit: the event, and those that the template requires. */
  readonly required: readonly ValueTarget[];
  /** The headers that it reads, in lower case. No other header needs to be kept. */
  readonly headers: readonly string[];
  /** The names in its `@body.` paths. Surroundings have little room, and these come first. */
  readonly bodyNames: ReadonlySet<string>;
}

/** Paths of one mapping. */
export const MAPPING_MAX_PATHS = 20;
/** Characters of a text with its placeholders. */
export const MAPPING_TEXT_MAX_LENGTH = 1_000;
const MESSAGE_CHARACTERS = 40;

/** Checks and compiles a template of 1 to 100 mappings and at most 65,536 bytes of JSON. The rejection names each bad mapping. */
export function compileSignalTemplate(
  template: readonly SignalMapping[],
): Result<CompiledSignalTemplate, MappingProblem[]> {
  const whole = problemOfWhole(template);
  if (whole !== null) return reject([{ index: null, target: null, field: null, message: whole }]);
  const problems: MappingProblem[] = [];
  const itemPaths: { text: string; path: DotPath }[] = [];
  let areItemsRequired = false;
  const targets: Partial<Record<ValueTarget, { sources: CompiledSource[]; required: boolean }>> = {};
  for (const [index, mapping] of template.entries()) {
    const compiled = compileMapping(mapping);
    if (!compiled.ok) {
      problems.push({ index, target: mapping.target, ...compiled.rejection });
    } else if (mapping.target === "items") {
      areItemsRequired ||= mapping.required === true;
      for (const source of compiled.value) {
        if ("path" in source && "path" in source.path) itemPaths.push(source.path);
      }
    } else {
      const target = (targets[mapping.target] ??= { sources: [], required: false });
      target.sources.push(...compiled.value);
      target.required ||= mapping.required === true;
    }
  }
  if (problems.length > 0) return reject(problems);
  const paths = Object.values(targets).flatMap(({ sources }) => sources.flatMap(pathsOf));
  return ok({
    items: itemPaths.length === 0 ? null : { paths: itemPaths, required: areItemsRequired },
    targets,
    required: VALUE_TARGETS.filter((target) => target === "event" || targets[target]?.required === true),
    headers: [...new Set(paths.flatMap((path) => (path.from === "header" ? [path.name] : [])))],
    bodyNames: new Set(paths.flatMap((path) => (path.from === "body" ? namesIn(path.path) : []))),
  });
}

/** The template of a stored key. @throws where no key could have been saved with it. */
export function compileStoredTemplate(template: readonly SignalMapping[]): CompiledSignalTemplate {
  const compiled = compileSignalTemplate(template);
  if (compiled.ok) return compiled.value;
  throw new Error(compiled.rejection.map(problemInWords).join(" "));
}

/** A sentence such as "Mapping 3 (`event`): …". */
export function problemInWords({ index, target, message }: MappingProblem): string {
  if (index === null) return `The template ${message}.`;
  const name = target === null ? "" : ` (\`${cut(target, MESSAGE_CHARACTERS)}\`)`;
  return `Mapping ${grouped(index + 1)}${name}: ${message}.`;
}

export function pathsOf(source: CompiledSource): CompiledPath[] {
  return "path" in source ? [source.path] : source.parts.filter((part) => typeof part !== "string");
}

function problemOfWhole(template: readonly SignalMapping[]): string | null {
  if (template.length === 0) return "has no mapping; map at least one target";
  if (template.length > TEMPLATE_MAX_MAPPINGS) {
    return `has ${counted(template.length, "mapping")}; at most ${grouped(TEMPLATE_MAX_MAPPINGS)} are taken`;
  }
  const bytes = Buffer.byteLength(JSON.stringify(template));
  if (bytes <= TEMPLATE_MAX_BYTES) return null;
  return `has ${counted(bytes, "byte")} as JSON; at most ${grouped(TEMPLATE_MAX_BYTES)} are taken`;
}

type FieldProblem = Pick<MappingProblem, "field" | "message">;

function compileMapping(mapping: SignalMapping): Result<CompiledSource[], FieldProblem> {
  const { target } = mapping;
  if (!SIGNAL_TARGETS.includes(target)) {
    return reject({ field: "target", message: `there is no such target; one of ${SIGNAL_TARGETS.join(", ")}` });
  }
  const given = SOURCE_FIELDS.filter((field) => mapping[field] !== undefined);
  const [field] = given;
  if (field === undefined) return reject({ field: null, message: "needs a `path`, `paths` or a `text`" });
  if (given.length > 1) {
    const names = given.map((name) => `\`${name}\``).join(" and ");
    return reject({ field, message: `has ${names}; send exactly one of them` });
  }
  const sources = mapping.text === undefined ? compilePaths(mapping) : compileText(mapping.text, target);
  return sources.ok ? sources : reject({ field, message: sources.rejection });
}

function compilePaths({ target, path, paths = [] }: SignalMapping): Result<CompiledSource[], string> {
  const texts = path === undefined ? paths : [path];
  if (texts.length === 0) return reject("has no path");
  if (texts.length > MAPPING_MAX_PATHS) {
    return reject(`has ${counted(texts.length, "path")}; at most ${MAPPING_MAX_PATHS} are taken`);
  }
  const sources: CompiledSource[] = [];
  for (const text of texts) {
    const compiled = parseTemplatePath(text);
    if (!compiled.ok) return compiled;
    if (target === "items" && !("path" in compiled.value)) {
      return reject(`\`${text}\` is no path of the body, where the items stand`);
    }
    sources.push({ path: compiled.value });
  }
  return ok(sources);
}

/** These name one person, one signal or one moment, so they cannot be the same in every signal. */
const NEVER_CONSTANT: readonly SignalTarget[] = ["email", "user_id", "anonymous_id", "id", "occurred_at"];

function compileText(text: string, target: SignalTarget): Result<CompiledSource[], string> {
  if (target === "items") return reject("takes a `path` or `paths`, not a text");
  if (text.trim() === "") return reject("its text is blank");
  if (text.length > MAPPING_TEXT_MAX_LENGTH) {
    return reject(
      `its text has ${counted(text.length, "character")}; at most ${grouped(MAPPING_TEXT_MAX_LENGTH)} are taken`,
    );
  }
  if (holdsCredential(text)) return reject("its text holds an API key or a secret");
  const control = controlCharacterIn(text);
  if (control !== null) return reject(`its text has ${control}`);
  const parts = partsOf(text);
  if (!parts.ok) return parts;
  if (NEVER_CONSTANT.includes(target) && parts.value.every((part) => typeof part === "string")) {
    return reject(`its text needs a placeholder such as {data.id}, or \`${target}\` is the same in every signal`);
  }
  return ok([{ text, parts: parts.value }]);
}

function partsOf(text: string): Result<(string | CompiledPath)[], string> {
  const parts: (string | CompiledPath)[] = [];
  for (let at = 0; at < text.length;) {
    const open = text.indexOf("{", at);
    if (open !== at) parts.push(text.slice(at, open === -1 ? text.length : open));
    if (open === -1) break;
    const close = text.indexOf("}", open);
    if (close === -1)
      return reject(`its text has an open brace at position ${open + 1}; write a placeholder as {path}`);
    const path = parseTemplatePath(text.slice(open + 1, close));
    if (!path.ok) return path;
    parts.push(path.value);
    at = close + 1;
  }
  return ok(parts);
}

const AT = "@";
const BODY_PREFIX = "@body.";
const HEADER_PREFIX = "@header.";

/** Reads a path of a template. The rejection completes the name of its mapping. */
export function parseTemplatePath(text: string): Result<CompiledPath, string> {
  if (text === "") return reject("its path is empty");
  if (text.length > TEMPLATE_PATH_MAX_LENGTH) {
    return reject(`its path has ${counted(text.length, "character")}; at most ${TEMPLATE_PATH_MAX_LENGTH} are taken`);
  }
  if (holdsCredential(text)) return reject("its path holds an API key or a secret");
  if (text === "@key") return ok({ text, from: "key" });
  if (text === "@source") return ok({ text, from: "source" });
  if (text.startsWith(HEADER_PREFIX)) {
    const name = text.slice(HEADER_PREFIX.length).toLowerCase();
    const problem = problemOfHeader(name);
    return problem === null ? ok({ text, from: "header", name }) : reject(`\`${text}\`: ${problem}`);
  }
  const isBody = text.startsWith(BODY_PREFIX);
  if (text.startsWith(AT) && !isBody) {
    return reject(
      `\`${text}\` is unknown; after @ comes key, source, header.<name> or body.<path>. A name with an @ is written in quotes: "${text}"`,
    );
  }
  const path = parseDotPath(isBody ? text.slice(BODY_PREFIX.length) : text);
  if (path === undefined) return reject(`\`${text}\` is not a path such as data.items[0].name`);
  return ok({ text, from: isBody ? "body" : "item", path });
}

/** Headers with credentials, and those that the network sets. */
const UNREADABLE_HEADER = /^(?:cf-|x-forwarded-)|authorization|cookie|x-api-secret|signature|hmac|token|secret/;

/** Why a template may not read a header; null: it may. @param name in lower case. */
function problemOfHeader(name: string): string | null {
  if (name.length > HEADER_NAME_MAX_LENGTH || !/^[\w!#$%&'*+.^`|~-]+$/.test(name)) return "this is no name of a header";
  return UNREADABLE_HEADER.test(name)
    ? "this header may hold a credential or is set by the network, so it is not read"
    : null;
}

function namesIn(path: DotPath): string[] {
  return path.flatMap((step) => {
    if (step.kind === "name") return [step.name, step.rest];
    return step.kind === "selector" ? namesIn(step.path) : [];
  });
}
