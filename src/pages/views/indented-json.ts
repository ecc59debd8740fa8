/** JSON text with line breaks, for people; a text that is no JSON stays as it is. */
export function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
