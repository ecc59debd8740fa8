/** The beginning of a text of more than `max` characters, with an ellipsis; a shorter text as it is. */
export function cut(text: string, max: number): string {
  // Half a character may be left at the end.
  return text.length > max ? `${text.slice(0, max).toWellFormed()}…` : text;
}
