/** The template of a key for webhooks, as the operator API and the forms take it: `payload_template` of a `signal_staging` key. */
import * as z from "zod";
import {
  compileSignalTemplate,
  MAPPING_MAX_PATHS,
  MAPPING_TEXT_MAX_LENGTH,
  SIGNAL_TARGETS,
} from "../domain/template/signal-template.ts";
import { boundedText } from "../http/fields.ts";
import {
  HEADER_VALUE_MAX_LENGTH,
  SIGNAL_MAX_BYTES,
  TEMPLATE_MAX_MAPPINGS,
  TEMPLATE_PATH_MAX_LENGTH,
} from "../limits.ts";

const path = boundedText(TEMPLATE_PATH_MAX_LENGTH);

export const signalMapping = z
  .strictObject({
    target: z.enum(SIGNAL_TARGETS).meta({
      description: "The field of a signal, or `items` for the place of the signals in a body.",
      example: "email",
    }),
    path: path.optional().meta({
      description:
        "A path into the signal, `@body.` and a path around the items, `@header.<name>`, `@source` or `@key`. Exactly one of `path`, `paths` and `text` is given.",
      example: "contact.email",
    }),
    paths: z.array(path).max(MAPPING_MAX_PATHS).optional().meta({ description: "Paths that are tried in this order." }),
    text: boundedText(MAPPING_TEXT_MAX_LENGTH)
      .optional()
      .meta({ description: "A text with `{path}` for values. Without a placeholder it is a constant." }),
    required: z.boolean().default(false).describe("Whether a payload without this value is a misfit."),
  })
  .meta({ id: "SignalMapping", outputId: "StoredSignalMapping" });

/** Each problem of a mapping is at its index and field, so that a 422 names it. */
export const signalTemplate = z
  .array(signalMapping)
  .max(TEMPLATE_MAX_MAPPINGS)
  .superRefine((template, ctx) => {
    const compiled = compileSignalTemplate(template);
    if (compiled.ok) return;
    for (const { index, field, message } of compiled.rejection) {
      const place = [index, field].filter((part) => part !== null);
      ctx.addIssue({ code: "custom", path: place, message });
    }
  });

/** Characters of a header and of a source in a sample. */
const SAMPLE_NAME_MAX_LENGTH = 255;

/** A body as a sender sends it, with the headers that a template may read. */
export const templateSample = z
  .strictObject({
    body: z.unknown().optional().describe("A JSON body."),
    form: boundedText(SIGNAL_MAX_BYTES).optional().describe("A form-encoded body, instead of `body`."),
    headers: z.record(boundedText(SAMPLE_NAME_MAX_LENGTH), boundedText(HEADER_VALUE_MAX_LENGTH)).optional(),
    source: boundedText(SAMPLE_NAME_MAX_LENGTH).optional().describe("`{source}` of the path."),
  })
  .refine(({ body, form }) => (body === undefined) !== (form === undefined), "needs either `body` or `form`")
  .meta({ id: "TemplateSample" });

export type FormSample = z.output<typeof templateSample>;
