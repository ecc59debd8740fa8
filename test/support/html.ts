/**
 * HTML as somebody reads and uses it. A test finds things by what they are (a link, a button, a field, a row) and by what they
 * say; how they are marked up may change without it.
 */
import { NodeType, parse, type HTMLElement, type Node } from "node-html-parser";

/** What a name may be found by: exactly this text, or one that fits. */
type Name = string | RegExp;

/** A part of a page, or all of it. */
export class Part {
  readonly #element: HTMLElement;

  constructor(element: HTMLElement) {
    this.#element = element;
  }

  /** What is to be read: without scripts and styles, and in one line. */
  get text(): string {
    return inOneLine(
      textsOf(this.#element)
        .join(" ")
        .replace(/^<!doctype html>/i, ""),
    );
  }

  /** The text with its own spaces and lines, as of a `pre`. */
  get verbatim(): string {
    return textsOf(this.#element).join("");
  }

  get tag(): string {
    return this.#element.rawTagName;
  }

  attribute(name: string): string | undefined {
    return this.#element.getAttribute(name);
  }

  /** Where a link leads, or a form is sent. */
  get target(): string | undefined {
    return this.attribute(this.tag === "form" ? "action" : "href");
  }

  /** What stands in a field, or is chosen in it. */
  get value(): string | undefined {
    if (this.tag === "textarea") return this.verbatim;
    if (this.tag !== "select") return this.attribute("value");
    const options = this.all("option");
    return (options.find((option) => option.attribute("selected") !== undefined) ?? options[0])?.attribute("value");
  }

  get isChecked(): boolean {
    return this.attribute("checked") !== undefined;
  }

  /** All parts that fit a CSS selector, for what has neither a role nor a name. */
  all(selector: string): Part[] {
    return this.#element.querySelectorAll(selector).map((element) => new Part(element));
  }

  /** The one part that fits a CSS selector. @throws where there is none, or more. */
  only(selector: string): Part {
    return only(this.all(selector), selector);
  }

  links(name?: Name): Part[] {
    return named(this.all("a[href]"), name);
  }

  link(name: Name): Part {
    return only(this.links(name), `link ${String(name)}`);
  }

  /** Where all the links lead. */
  get targets(): string[] {
    return this.links().flatMap(({ target }) => target ?? []);
  }

  /** Where the next page of a list is; undefined on the last one. */
  get next(): string | undefined {
    return this.all('a[rel="next"]')[0]?.target;
  }

  /** The scripts that stand in the page itself. It has none of its own: one that is there was somebody's text. */
  get inlineScripts(): Part[] {
    return this.all("script:not([src])");
  }

  buttons(name?: Name): Part[] {
    return named(this.all("button"), name);
  }

  button(name: Name): Part {
    return only(this.buttons(name), `button ${String(name)}`);
  }

  headings(name?: Name): Part[] {
    return named(this.all("h1, h2, h3"), name);
  }

  /** The forms that are posted; to this address, where one is named. */
  forms(action?: Name): Part[] {
    return this.all("form").filter((form) => form.attribute("method") === "post" && fits(form.target ?? "", action));
  }

  form(action: Name): Part {
    return only(this.forms(action), `form to ${String(action)}`);
  }

  /** What a form sends by this name, whatever kind of field that is; of buttons too. */
  fields(name: string): Part[] {
    return this.all("input, select, textarea, button").filter((field) => field.attribute("name") === name);
  }

  field(name: string): Part {
    return only(this.fields(name), `field ${name}`);
  }

  /** The field that the label stands for, or stands around. */
  labelled(label: Name): Part {
    const found = only(named(this.all("label"), label), `label ${String(label)}`);
    const id = found.attribute("for");
    return id === undefined ? found.only("input, select, textarea") : this.only(`[id="${id}"]`);
  }

  /** What is said of a fact, beside its name. @throws where there is no such fact, or several. */
  fact(name: string): string {
    const parts = this.all("dt, dd");
    const found = parts.flatMap((part, index) => (part.tag === "dt" && part.text === name ? [parts[index + 1]] : []));
    return only(
      found.filter((part) => part !== undefined),
      `fact ${name}`,
    ).text;
  }

  /** The table whose caption begins so. */
  table(caption: string): Part {
    const found = this.all("table").filter((table) => table.all("caption")[0]?.text.startsWith(caption));
    return only(found, `table ${caption}`);
  }

  /** The rows of all tables, without those of headings. */
  get rows(): Part[] {
    return this.all("tbody tr");
  }

  /** The one row with this text in one of its cells. */
  row(text: string): Part {
    const found = this.rows.filter((row) => row.all("th, td").some((cell) => cell.text === text));
    return only(found, `row of ${text}`);
  }

  /** The texts of a row's cells. */
  get cells(): string[] {
    return this.all("th, td").map((cell) => cell.text);
  }
}

export function readHtml(html: string): Part {
  return new Part(parse(html, { blockTextElements: { script: true, style: true } }));
}

/** What is to be read on a page: without tags, scripts and styles, in one line. */
export function textOf(html: string): string {
  return readHtml(html).text;
}

function named(parts: Part[], name: Name | undefined): Part[] {
  return parts.filter((part) => fits(part.text, name));
}

function fits(text: string, name: Name | undefined): boolean {
  if (name === undefined) return true;
  return typeof name === "string" ? text === name : name.test(text);
}

function only(parts: Part[], description: string): Part {
  const [part, ...others] = parts;
  if (part === undefined || others.length > 0) throw new Error(`${parts.length} of ${description}`);
  return part;
}

function textsOf(node: Node): string[] {
  if (node.nodeType === NodeType.TEXT_NODE) return [node.text];
  if (["script", "style"].includes(node.rawTagName)) return [];
  return node.childNodes.flatMap(textsOf);
}

function inOneLine(text: string): string {
  return text
    .replaceAll(/\s+/g, " ")
    .replaceAll(/ ([.;,])/g, "$1")
    .trim();
}
