/**
 * The only place that logs: one JSON object per line. A path, a key, a secret or a payload never goes in; callers pass
 * ids, codes, counts and durations.
 */
export type LogFields = Record<string, string | number | boolean | null | Record<string, number>>;

/** What went wrong, without what it went wrong with: a failed query's own message repeats its parameters. */
export function errorText(error: unknown): string {
  const { cause } = error as { cause?: unknown };
  return String(cause instanceof Error ? cause : error);
}

export function logEvent(event: string, fields: LogFields): void {
  console.log(JSON.stringify({ event, ...fields }));
}
