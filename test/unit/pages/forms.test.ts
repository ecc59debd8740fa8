/** What the parts of forms say to people, browsers and screen readers. */
import { html } from "hono/html";
import type { Child } from "hono/jsx";
import { expect, test } from "vitest";
import {
  Check,
  Choices,
  Confirm,
  ErrorText,
  Form,
  FormErrors,
  LinkButton,
  livePreview,
  Menu,
  NameField,
  PostButton,
  SelectField,
  TextArea,
  TextField,
} from "../../../src/pages/kit/forms.tsx";
import { Head } from "../../../src/pages/kit/layout.tsx";
import { readHtml } from "../../support/html.ts";

const field = { name: "n", label: "Label" };
const options = [
  { value: "a", label: "A", hint: "about a" },
  { value: "b", label: "B", hint: "about b" },
];
const choices = { legend: "L", name: "n", options, value: "b" };
const select = {
  ...field,
  value: "b",
  options: [
    ["a", "A"],
    ["b", "B"],
  ] as const,
};
const form = { action: "/do", submit: "Save", children: "fields" };
const confirm = { label: "Delete…", title: "Delete it?", action: "/delete", submit: "Delete" };

/** A boolean attribute has an empty value. */
const SET = "";

test.each<[string, Child, string, string, unknown[]]>([
  ["a field has its label", TextField(field), "label", "for", ["n"]],
  ["and its name", TextField(field), "input", "name", ["n"]],
  ["it offers no earlier texts", TextField(field), "input", "autocomplete", ["off"]],
  ["without hint and error has no description", TextField(field), "input", "aria-describedby", [undefined]],
  ["with a hint is described by it", TextField({ ...field, hint: "h" }), "input", "aria-describedby", ["n-hint"]],
  ["which stands at it", TextField({ ...field, hint: "h" }), "#n-hint", "text", ["h"]],
  [
    "with both by both",
    TextField({ ...field, hint: "h", error: "e" }),
    "input",
    "aria-describedby",
    ["n-hint n-error"],
  ],
  ["with an error is invalid", TextField({ ...field, error: "e" }), "input", "aria-invalid", ["true"]],
  ["has the focus", TextField({ ...field, error: "e" }), "input", "autofocus", [SET]],
  ["and says the error", TextField({ ...field, error: "e" }), "#n-error.error", "text", ["e"]],
  ["a field of code is not corrected", TextField({ ...field, code: true }), "input", "spellcheck", ["false"]],
  ["nor capitalised", TextField({ ...field, code: true }), "input", "autocapitalize", ["off"]],
  ["it has letters of one width", TextField({ ...field, code: true }), "input", "class", ["mono"]],
  ["a field of words is corrected", TextField(field), "input", "spellcheck", [undefined]],
  [
    "suggestions belong to their field",
    NameField({ ...field, value: "", suggestions: ["s"] }),
    "input",
    "list",
    ["known-n"],
  ],
  ["and are offered", NameField({ ...field, value: "", suggestions: ["s"] }), "#known-n option", "value", ["s"]],
  ["without any there is no list", NameField({ ...field, value: "", suggestions: [] }), "datalist", "id", []],
  ["a text area keeps a first line break", TextArea({ ...field, value: "\nx" }), "textarea", "verbatim", ["\n\nx"]],
  ["a list has its option selected", SelectField(select), "option[selected]", "text", ["B"]],
  ["and all of them", SelectField(select), "option", "value", ["a", "b"]],
  ["it may press a button", SelectField({ ...select, press: "#go" }), "select", "data-press", ["#go"]],
  ["a check box sends on", Check({ id: "i", ...field, checked: true }), "input", "value", ["on"]],
  ["if it is checked", Check({ id: "i", ...field, checked: true }), "input", "checked", [SET]],
  ["and not otherwise", Check({ id: "i", ...field, checked: false }), "input", "checked", [undefined]],
  ["its label belongs to it", Check({ id: "i", ...field, checked: false }), "label", "for", ["i"]],
  ["its hint too", Check({ id: "i", ...field, hint: "h", checked: false }), "input", "aria-describedby", ["i-hint"]],
  ["one of several choices is chosen", Choices(choices), "input[checked]", "value", ["b"]],
  ["they have one name", Choices(choices), "input", "name", ["n", "n"]],
  ["and ids of their own", Choices({ ...choices, group: "g" }), "input", "id", ["g-a", "g-b"]],
  ["each says what it does", Choices(choices), ".hint", "text", ["about a", "about b"]],
  ["none has the focus", Choices(choices), "input[autofocus]", "value", []],
  ["but for an error the first one", Choices({ ...choices, error: "e" }), "input[autofocus]", "value", ["a"]],
  ["which describes them", Choices({ ...choices, error: "e" }), "fieldset", "aria-describedby", ["n-error"]],
  ["a form posts", Form(form), "form", "method", ["post"]],
  ["to its address", Form(form), "form", "action", ["/do"]],
  ["once", Form(form), "form", "data-once", ["true"]],
  ["its button is the main one", Form(form), "button", "class", ["primary"]],
  ["one can leave it", Form({ ...form, cancel: "/back" }), "a", "href", ["/back"]],
  ["if there is a way", Form(form), "a", "href", []],
  ["it sends hidden fields", Form({ ...form, hidden: { token: "t" } }), "input[type=hidden]", "value", ["t"]],
  ["Enter presses its own button", Form({ ...form, hasInnerButtons: true }), "button", "tabindex", ["-1", undefined]],
  ["that only browsers see", Form({ ...form, hasInnerButtons: true }), "button", "aria-hidden", ["true", undefined]],
  ["an error of several fields is announced", ErrorText({ text: "e" }), ".error", "role", ["alert"]],
  ["the errors of a form too", FormErrors({ errors: ["e"] }), ".notice.bad", "role", ["alert"]],
  ["they say that nothing was saved", FormErrors({ errors: ["e"] }), "strong", "text", ["Nothing was saved"]],
  ["each on its line", FormErrors({ errors: ["e", "f"] }), "li", "text", ["e", "f"]],
  ["no errors are no box", FormErrors({ errors: [] }), "div", "text", []],
  ["a menu has a name", Menu({ label: "Actions", children: "c" }), "summary", "aria-label", ["Actions"]],
  ["and dots", Menu({ label: "Actions", children: "c" }), "summary", "text", ["…"]],
  [
    "a link may look like a button",
    LinkButton({ href: "/a", text: "A", look: "primary" }),
    "a",
    "class",
    ["button primary"],
  ],
  ["a question has its action", Confirm(confirm), "form", "action", ["/delete"]],
  ["and its name", Confirm(confirm), "summary", "aria-label", ["Delete it?"]],
  ["what it does is dangerous", Confirm(confirm), "button", "class", ["danger", "needs-script"]],
  ["unless it is not", Confirm({ ...confirm, tone: "primary" }), "button", "class", ["primary", "needs-script"]],
  ["it acts once", Confirm(confirm), "form", "data-once", ["true"]],
  ["with its fields", Confirm({ ...confirm, fields: { id: "1" } }), "input[type=hidden]", "value", ["1"]],
  [
    "a button that posts has a name",
    PostButton({ action: "/a", text: "A", label: "l" }),
    "button",
    "aria-label",
    ["l"],
  ],
  ["and its fields", PostButton({ action: "/a", text: "A", fields: { id: "1" } }), "input", "name", ["id"]],
  ["a page has a heading", Head({ heading: "H", crumbs: [] }), "h1", "text", ["H"]],
  [
    "the pages above it",
    Head({
      heading: "H",
      crumbs: [
        ["A", "/a"],
        ["B", "/b"],
      ],
    }),
    ".crumbs",
    "text",
    ["A / B"],
  ],
  ["or none", Head({ heading: "H", crumbs: [] }), ".crumbs", "text", []],
  ["an introduction", Head({ heading: "H", crumbs: [], intro: "i" }), "p.quiet", "text", ["i"]],
  ["and actions", Head({ heading: "H", crumbs: [], actions: "a" }), ".row", "text", ["a"]],
])("%s", async (_, part, selector, attribute, expected) => {
  const elements = readHtml(await html`${part}`).all(selector);
  const found = elements.map((element) => {
    if (attribute === "text") return element.text;
    return attribute === "verbatim" ? element.verbatim : element.attribute(attribute);
  });
  expect(found).toEqual(expected);
});

test.each([
  ["asks for the preview when it opens", livePreview("/p"), true],
  ["has the preview already", livePreview("/p", "shown"), undefined],
] as const)("a form whose preview follows the typing %s", (_, attributes, first) => {
  expect(attributes).toMatchObject({ "data-preview": "#preview", "data-preview-url": "/p" });
  expect("data-preview-first" in attributes ? attributes["data-preview-first"] : undefined).toBe(first);
});
