/** The page that changes the payload template of a key for signals: of its sender, or from a signal that it does not fit. */
import { changeWebhookSettings } from "../../d1/api-keys.ts";
import { changeTemplate } from "../../d1/key-templates.ts";
import { asSent } from "../../domain/json/json-value.ts";
import { LIMIT_COPY } from "../../use-cases/rejection-copy.ts";
import { livePreview, Form } from "../kit/forms.tsx";
import { sectionPath } from "../kit/layout.tsx";
import { Json, JSON_SAMPLE_CHARACTERS } from "../kit/parts.tsx";
import { fragment, notFoundPage, page } from "../page.tsx";
import {
  contextOf,
  type Ctx,
  done,
  formText,
  keyPath,
  pages,
  signalPath,
  storeOf,
  workspacePath,
} from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import { requireKey } from "./require-key.ts";
import {
  checkTemplate,
  editTemplate,
  isTemplateEdit,
  OTHER_SENDER,
  proposed,
  readTemplateForm,
  TemplateFields,
  typedTemplate,
  withSender,
  type TypedTemplate,
} from "./template-form.tsx";
import { previewTyped, TemplatePreviewPanel } from "./template-preview.tsx";

/** Account updates are mapped by another template, which is chosen with the key. */
const requireSignalKey = pages.createMiddleware(async (c, next) => {
  if (c.get("apiKey").endpointType !== "signal_staging") return notFoundPage(c, "template");
  await next();
});

export const keyTemplatePages = pages
  .createApp()
  .get("/:key_id/template", requireKey, requireSignalKey, async (c) => {
    const { sender, signal = "" } = c.req.query();
    const { payloadTemplate, misfits, answer, id } = c.get("apiKey");
    const stored = typedTemplate(payloadTemplate, { misfits, answer });
    const typed = { ...stored, signalId: signal, ...(signal !== "" && { sample: "", headers: "" }) };
    if (sender !== undefined) return templatePage(c, withSender(typed, sender));
    const isNew = signal !== "" && payloadTemplate === null;
    return templatePage(c, isNew ? await proposed(c, { ...withSender(typed, OTHER_SENDER), mappings: [] }, id) : typed);
  })
  .post("/:key_id/template", readForm(), requireKey, requireSignalKey, async (c) => {
    const [form, { id }] = [c.get("form"), c.get("apiKey")];
    const [typed, edit] = [readTemplateForm(form), formText(form, "do")];
    if (isTemplateEdit(edit)) return templatePage(c, await editTemplate(c, typed, edit, id));
    const checked = checkTemplate(typed);
    if (edit === "preview") return templatePage(c, typed);
    // An empty sender removes the template, so a form without one must not.
    if (!form.has("sender")) return templatePage(c, typed, { sender: "Choose who sends." });
    if (!checked.ok) return templatePage(c, typed, checked.rejection);
    const changed = await changeTemplate(contextOf(c), id, checked.value);
    if (changed === null) return notFoundPage(c, "key");
    if (!changed.ok) return templatePage(c, typed, { form: LIMIT_COPY[changed.rejection] });
    if (checked.value !== null) await changeWebhookSettings(contextOf(c), id, typed);
    const back = typed.signalId === "" ? `settings/api-keys/${id}` : `signals/${encodeURIComponent(typed.signalId)}`;
    return done(c, back, "template_saved");
  })
  .post("/:key_id/template/preview", readForm(), requireKey, requireSignalKey, async (c) => {
    const preview = await previewTyped(c, readTemplateForm(c.get("form")), c.get("apiKey").id);
    return fragment(c, <TemplatePreviewPanel base={workspacePath(c)} preview={preview} form="template" />);
  });

async function templatePage(c: Ctx, typed: TypedTemplate, errors: Record<string, string> = {}) {
  const [base, key] = [workspacePath(c), c.get("apiKey")];
  const path = `${sectionPath(c, "keys")}/${key.id}`;
  const [preview, signal] = await Promise.all([
    previewTyped(c, typed, key.id),
    typed.signalId === "" ? null : storeOf(c).sample(typed.signalId),
  ]);
  return page(
    c,
    {
      section: "keys",
      title: "Payload template",
      heading: `Payload template of ${key.name}`,
      crumbs: [[key.name, keyPath(base, key.id)]],
      intro:
        "Says where the fields of a signal stand in what the sender posts. A change holds within a minute, for new signals and for those that you replay.",
      fieldErrors: errors,
    },
    <div class="columns main-first">
      <Form
        action={`${path}/template`}
        submit="Save template"
        cancel={path}
        hidden={typed.signalId === "" ? {} : { signal: typed.signalId }}
        class="stack"
        id="template"
        {...livePreview(`${path}/template/preview`)}
        hasInnerButtons
      >
        <TemplateFields
          typed={typed}
          errors={errors}
          isStored
          signal={
            signal !== null && (
              <>
                <p>
                  The payload of <a href={signalPath(base, signal.id)}>this signal</a>:
                </p>
                <Json
                  label="Payload of the signal"
                  value={asSent(signal.payload)}
                  characters={JSON_SAMPLE_CHARACTERS}
                />
              </>
            )
          }
        />
      </Form>
      <TemplatePreviewPanel base={base} preview={preview} form="template" />
    </div>,
  );
}
