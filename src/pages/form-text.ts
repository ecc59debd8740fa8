/** What a form says in a field; empty where it has no such field, or a file in its place. */
export function formText(form: FormData, name: string): string {
  const value = form.get(name);
  return typeof value === "string" ? value : "";
}
