/** Settings › API Keys › Create: the form, with the template editor of Product Org Updates, and the key that it makes. */
import { createKey } from "../../control/new-keys.ts";
import { readSample, proposeTemplate } from "../../domain/accounts/template-sample.ts";
import { readForm } from "../read-form.tsx";
import { LIMIT_COPY } from "../../workspace/refusal-copy.ts";
import { fragment, page } from "../page.tsx";
import { pages, contextOf } from "../pages-env.ts";
import { createdPage, KEYS_PAGE, keysPath, madeBeforePage, type KeyContext } from "./key-answers.tsx";
import {
  checkKeyForm,
  emptyKey,
  emptyRow,
  formTokenOf,
  mapSample,
  NO_ERRORS,
  readKeyForm,
  toRow,
  type KeyFormErrors,
  type TypedKey,
} from "./key-form.ts";
import { KeyFormView } from "./key-form-view.tsx";
import { MappedRecord } from "./template-editor.tsx";

export const newKeyPages = pages
  .createApp()
  .get("/new", (c) => keyForm(c, emptyKey(crypto.randomUUID(), c.req.query("endpoint_type")), NO_ERRORS, 200))
  .post("/new", readForm(), async (c) => {
    const form = c.get("form");
    const typed = readKeyForm(form, crypto.randomUUID());
    const edit = form.get("do");
    if (typeof edit === "string") return keyForm(c, edited(typed, edit), NO_ERRORS, 200);
    const { key, errors } = checkKeyForm(typed, Date.now());
    if (formTokenOf(form) === null) errors.form = "The form was not complete. Look it over and send it again.";
    if (key === null || errors.form !== undefined) return keyForm(c, typed, errors, 422);

    const result = await createKey(contextOf(c), key, typed.formToken);
    if (result.ok) return createdPage(c, result.value, null);
    if (result.refusal.reason === "made_before") return madeBeforePage(c, result.refusal.key);
    return keyForm(c, typed, { ...NO_ERRORS, form: LIMIT_COPY[result.refusal.reason] }, 422);
  })
  .post("/new/preview", readForm(), (c) => {
    const typed = readKeyForm(c.get("form"), "");
    return fragment(c, <MappedRecord mapped={mapSample(typed)} />);
  });

function keyForm(c: KeyContext, typed: TypedKey, errors: KeyFormErrors, status: 200 | 422) {
  const view = <KeyFormView path={keysPath(c)} typed={typed} errors={errors} mapped={mapSample(typed)} />;
  return page(c, { ...KEYS_PAGE, title: "Create API Key", status }, view);
}

/** The form after a button of the template editor: `add`, `remove.2`, `fill` or `preview`. */
function edited(typed: TypedKey, edit: string): TypedKey {
  const [what, at] = edit.split(".");
  const product: TypedKey = { ...typed, endpointType: "product_org" };
  if (what === "add") return { ...product, rows: [...typed.rows, emptyRow()] };
  if (what === "remove") return { ...product, rows: typed.rows.filter((_, index) => index !== Number(at)) };
  if (what !== "fill") return product;
  const sample = readSample(typed.sample);
  return sample.ok ? { ...product, rows: proposeTemplate(sample.value).map(toRow) } : product;
}
