/** The name of a statement in the figures. */

const WRITES = /^\s*(INSERT|UPDATE|DELETE|REPLACE)\b(?:\s+OR\s+\w+)?(?:\s+(?:INTO|FROM))?\s+[`"]?(\w+)/i;

/** Verb and table of a writing statement; otherwise its first word. */
export function statementOf(query: string): string {
  const [, verb, table] = WRITES.exec(query) ?? [];
  return verb === undefined || table === undefined
    ? (/\w+/.exec(query)?.[0]?.toUpperCase() ?? "")
    : `${verb.toUpperCase()} ${table}`;
}
