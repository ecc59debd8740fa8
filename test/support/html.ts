/**
 * HTML as a person reads and uses it. A test finds elements by role (a link, a button, a field, a row) and text, so
 * that the markup may change.
 */
import { HTMLElement, NodeType, parse, type Node } from "node-html-parser";

/** A name matches exactly this text, or this pattern. */
type Name = string | RegExp;

/** A page or a part of it. */
export class Part {
  readonly #element: HTMLElement;

  constructor(element: HTMLElement) {
    this.#element = element;
  }

  /** The visible text on one line, without scripts and styles. */
  get text(): string {
    return inOneLine(
      textsOf(this.#element)
        .join(" ")
        .replace(/^<!doctype html>/i, ""),
    );
  }

  /** The text with its own spaces and line ends, as in a `pre`. */
  get verbatim(): string {
    return textsOf(this.#element).join("").replaceAll("\u2060", "");
  }

  get tag(): string {
    return this.#element.rawTagName;
  }

  attribute(name: string): string | undefined {
    return this.#element.getAttribute(name);
  }

  /** The target of a link or form. */
  get target(): string | undefined {
    return this.attribute(this.tag === "form" ? "action" : "href");
  }

  /** The value of a field, or its selected option. */
  get value(): string | undefined {
    if (this.tag === "textarea") return this.verbatim;
    if (this.tag !== "select") return this.attribute("value");
    const options = this.all("option");
    return (options.find((option) => option.attribute("selected") !== undefined) ?? options[0])?.attribute("value");
  }

  get isChecked(): boolean {
    return this.attribute("checked") !== undefined;
  }

  /** All parts that match a CSS selector, for elements without role and name. */
  all(selector: string): Part[] {
    return this.#element.querySelectorAll(selector).map((element) => new Part(element));
  }

  /** The only part that matches a CSS selector. @throws if none or several match. */
  only(selector: string): Part {
    return only(this.all(selector), selector);
  }

  links(name?: Name): Part[] {
    return named(this.all("a[href]"), name);
  }

  link(name: Name): Part {
    return only(this.links(name), `link ${String(name)}`);
  }

  /** The targets of all links. */
  get targets(): string[] {
    return this.links().flatMap(({ target }) => target ?? []);
  }

  /** The link to the next page of a list; undefined on the last one. */
  get next(): string | undefined {
    return this.all('a[rel="next"]')[0]?.target;
  }

  /** The link to the slice of a list before; undefined on the first one. */
  get previous(): string | undefined {
    return this.all('a[rel="prev"]')[0]?.target;
  }

  /** The form that searches and filters the list of the page. */
  get search(): Part {
    return this.only('main form[role="search"]');
  }

  /** The filters in use, such as `Status: Held`, each with the address without it. */
  get chips(): Record<string, string | undefined> {
    const links = this.all("a[aria-label]").map((link) => [link.attribute("aria-label") ?? "", link.target] as const);
    return Object.fromEntries(
      links.flatMap(([label, target]) => {
        const name = /^Remove filter (.*)$/s.exec(label)?.[1];
        return name === undefined ? [] : [[name, target]];
      }),
    );
  }

  /** The texts of errors that a screen reader says at once. */
  get alerts(): string[] {
    return this.all('[role="alert"]').map(({ text }) => text);
  }

  /** A menu or a question, by the name of the button that opens it. */
  opened(label: Name): Part {
    const found = this.all("details").filter((details) => {
      const summary = details.all("summary")[0];
      return summary !== undefined && fits(summary.attribute("aria-label") ?? summary.text, label);
    });
    return only(found, `details ${String(label)}`);
  }

  /** Inline scripts. The pages have none of their own, so that any inline script comes from a sender's text. */
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

  /** The forms that are posted; if named, to this address. */
  forms(action?: Name): Part[] {
    return this.all("form").filter((form) => form.attribute("method") === "post" && fits(form.target ?? "", action));
  }

  form(action: Name): Part {
    return only(this.forms(action), `form to ${String(action)}`);
  }

  /** The fields and buttons with this name. */
  fields(name: string): Part[] {
    return this.all("input, select, textarea, button").filter((field) => field.attribute("name") === name);
  }

  field(name: string): Part {
    return only(this.fields(name), `field ${name}`);
  }

  /** The value of the selected radio button with this name. */
  chosen(name: string): string | undefined {
    return this.fields(name).find(({ isChecked }) => isChecked)?.value;
  }

  /** The field that the label refers to or encloses. */
  labelled(label: Name): Part {
    const found = only(named(this.all("label"), label), `label ${String(label)}`);
    const id = found.attribute("for");
    return id === undefined ? found.only("input, select, textarea") : this.only(`[id="${id}"]`);
  }

  /** The value with a label in a list of values. @throws if there is none or several. */
  detail(name: string): string {
    const parts = this.all("dt, dd");
    const found = parts.flatMap((part, index) => (part.tag === "dt" && part.text === name ? [parts[index + 1]] : []));
    return only(
      found.filter((part) => part !== undefined),
      `value ${name}`,
    ).text;
  }

  /** The table whose caption begins with this text. */
  table(caption: string): Part {
    const found = this.all("table").filter((table) => table.all("caption")[0]?.text.startsWith(caption));
    return only(found, `table ${caption}`);
  }

  /** The rows of all tables, without heading rows. */
  get rows(): Part[] {
    return this.all("tbody tr");
  }

  /** The names of the rows of all tables. */
  get rowHeads(): string[] {
    return this.rows.map((row) => row.only("th").text);
  }

  /** The only row with a cell of this text. */
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

/** The visible text of a page on one line, without tags, scripts and styles. */
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
  const texts = node.childNodes.flatMap(textsOf);
  // The second half of an email, without a space in front of it
  return node instanceof HTMLElement && node.classList.contains("domain") ? ["\u2060", ...texts] : texts;
}

function inOneLine(text: string): string {
  return text
    .replaceAll(/\s+/g, " ")
    .replaceAll(/ ?\u2060 ?/g, "")
    .replaceAll(/ ([.;,])/g, "$1")
    .trim();
}

/** The fields of a rendered form, in the order in which a browser sends them, with its line ends. */
export function unchangedFields(form: Part): [name: string, value: string][] {
  return form.all("input, select, textarea").flatMap((field): [string, string][] => {
    const name = field.attribute("name");
    const type = field.attribute("type") ?? "";
    if (name === undefined || ["submit", "button"].includes(type)) return [];
    if (["checkbox", "radio"].includes(type) && !field.isChecked) return [];
    return [[name, sent(field)]];
  });
}

/** The rules are those of the HTML Standard: preprocessing of the input stream, values of fields, encoding of forms. */
function sent(field: Part): string {
  const drawn = (field.value ?? "").replaceAll(/\r\n?/g, "\n").replaceAll("\0", "\uFFFD").toWellFormed();
  if (field.tag === "textarea") return drawn.replace(/^\n/, "").replaceAll("\n", "\r\n");
  return field.attribute("type") === "hidden" ? drawn.replaceAll("\n", "\r\n") : drawn.replaceAll("\n", "");
}
