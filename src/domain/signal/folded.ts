/** A name as it is searched for: in lower case, and without accents, so that "zoe" finds "Zoë". */

/** The marks that a letter is taken apart from. Those of other scripts than Latin, Greek and Cyrillic are letters' own. */
const ACCENTS = /[\u0300-\u036f]/g;

export function folded(text: string): string {
  return text.normalize("NFKD").replace(ACCENTS, "").toLowerCase();
}
