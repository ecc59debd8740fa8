/** The data that a browser posts for an unchanged form. */
import type { Part } from "./html.ts";

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
