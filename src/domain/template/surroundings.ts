/**
 * The surroundings of an item in a body: the item's key, the headers that its template reads, and texts and numbers of
 * the body outside the items. Kept beside the payload of an item, so that it maps the same way again from the queue
 * and in a replay. No part of the content hash.
 */
import { isJsonObject, type JsonObject } from "../json/json-value.ts";
import type { CompiledSignalTemplate } from "./signal-template.ts";

export interface Surroundings {
  /** The name of the member that the item is, where the path of the items has a `*`. */
  key?: string;
  /** By name in lower case. */
  headers?: Readonly<Record<string, string>>;
  /** The body without its items, as far as there is room. Absent: the body is the signal. */
  body?: JsonObject;
}

/** Bytes of all surroundings of a payload, as JSON. */
export const SURROUNDINGS_MAX_BYTES = 2_048;
const KEY_MAX_BYTES = 512;
const HEADERS_MAX_BYTES = 1_024;
/** Values of the body that are looked at, the outer ones first. */
const VISITED_MAX = 1_000;
/** Elements of an array that are looked at. */
const ELEMENTS_MAX = 10;

/** Undefined: it has none, or has more than its room. */
export function keptKey(key: string | undefined): string | undefined {
  return key === undefined || bytesOf(key) > KEY_MAX_BYTES ? undefined : key;
}

/** The named headers, while they have room. @param headers by name in lower case. */
export function keptHeaders(
  { headers: names }: CompiledSignalTemplate,
  headers: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> | undefined {
  const kept: Record<string, string> = {};
  let bytes = 2;
  for (const name of names) {
    const value = Object.hasOwn(headers, name) ? headers[name] : undefined;
    if (value === undefined) continue;
    const more = bytesOf(name) + bytesOf(value) + 2;
    if (bytes + more > HEADERS_MAX_BYTES) continue;
    bytes += more;
    kept[name] = value;
  }
  return Object.keys(kept).length === 0 ? undefined : kept;
}

/**
 * The texts and numbers of a body outside its items, at their places, outer ones first; those at names that the template
 * reads come before all others.
 *
 * @param items are left out, by identity.
 * @param taken bytes that the headers take.
 */
export function keptBody(
  { bodyNames }: CompiledSignalTemplate,
  body: JsonObject,
  items: ReadonlySet<unknown>,
  taken: number,
): JsonObject {
  const copy = new PrunedCopy(items, SURROUNDINGS_MAX_BYTES - KEY_MAX_BYTES - taken - OTHER_BYTES);
  if (bodyNames.size > 0) copy.add(body, bodyNames);
  copy.add(body, null);
  return copy.root;
}

/** The names of the fields and their punctuation. */
const OTHER_BYTES = 40;

export function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value) ?? "");
}

type Container = JsonObject | unknown[];

interface Place {
  value: Container;
  parent: Place | null;
  /** Its name or index in its parent. */
  name: string | number;
}

/** A copy of a body that gets a value at a time, while there is room for its JSON. */
class PrunedCopy {
  readonly root: JsonObject = {};
  readonly #items: ReadonlySet<unknown>;
  /** The copies of the objects and arrays in which something is kept. */
  readonly #copies = new Map<Container, Container>();
  #room: number;

  constructor(items: ReadonlySet<unknown>, room: number) {
    this.#items = items;
    this.#room = room;
  }

  /** Breadth first, because what distinguishes the signals stands at the top. @param names null: any. */
  add(body: JsonObject, names: ReadonlySet<string> | null): void {
    this.#copies.set(body, this.root);
    const places: Place[] = [{ value: body, parent: null, name: "" }];
    let visited = 0;
    for (const place of places) {
      const inner = Array.isArray(place.value) ? indexesOf(place.value) : namesOf(place.value, names);
      for (const name of inner) {
        if ((visited += 1) > VISITED_MAX) return;
        const value: unknown = (place.value as Record<string | number, unknown>)[name];
        if (this.#items.has(value)) continue;
        if (Array.isArray(value) || isJsonObject(value)) places.push({ value, parent: place, name });
        else if (value !== null && value !== undefined) this.#keep(place, name, value);
      }
    }
  }

  #keep(place: Place, name: string | number, value: unknown): void {
    const copy = this.#copies.get(place.value);
    // An element before a kept one is null.
    const known: unknown = copy !== undefined && Object.hasOwn(copy, name) ? Reflect.get(copy, name) : null;
    // A text that has no room by its length alone is not measured: it may be as long as a body.
    if (isLonger(name, this.#room) || isLonger(value, this.#room)) return;
    const price = priceOf(name, copy) + bytesOf(value) + this.#priceOfContainers(place);
    if (known !== null || price > this.#room) return;
    this.#room -= price;
    setAt(this.#copyOf(place), name, value);
  }

  #priceOfContainers(place: Place): number {
    let price = 0;
    for (let at = place; at.parent !== null && !this.#copies.has(at.value); at = at.parent) {
      if (isLonger(at.name, this.#room)) return Number.POSITIVE_INFINITY;
      price += 2 + priceOf(at.name, this.#copies.get(at.parent.value));
    }
    return price;
  }

  #copyOf({ value, parent, name }: Place): Container {
    const known = this.#copies.get(value);
    if (known !== undefined || parent === null) return known ?? this.root;
    const copy: Container = Array.isArray(value) ? [] : {};
    setAt(this.#copyOf(parent), name, copy);
    this.#copies.set(value, copy);
    return copy;
  }
}

/** Bytes of a name with its colon and comma; of an element with its comma and the `null` of each that is not kept before it. */
function priceOf(name: string | number, within: Container | undefined): number {
  if (typeof name === "string") return bytesOf(name) + 2;
  return 1 + 5 * Math.max(0, name - (Array.isArray(within) ? within.length : 0));
}

function isLonger(value: unknown, room: number): boolean {
  return typeof value === "string" && value.length > room;
}

function setAt(container: Container, name: string | number, value: unknown): void {
  if (Array.isArray(container)) while (container.length < Number(name)) container.push(null);
  // Plain assignment of `__proto__` would set the prototype.
  Object.defineProperty(container, name, { value, enumerable: true, configurable: true, writable: true });
}

function indexesOf(elements: readonly unknown[]): Iterable<number> {
  return elements.slice(0, ELEMENTS_MAX).keys();
}

function* namesOf(object: JsonObject, names: ReadonlySet<string> | null): Generator<string> {
  for (const name in object) if (Object.hasOwn(object, name) && (names === null || names.has(name))) yield name;
}
