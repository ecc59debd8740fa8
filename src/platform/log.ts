/** The only place that logs. Callers pass ids, codes, counts and durations, never a path, key, secret or payload. */
type LogFields = Record<string, string | number | boolean | null | Record<string, number>>;

/** The error without its parameters: the message of a failed query repeats them. */
export function errorText(error: unknown): string {
  const { cause } = error as { cause?: unknown };
  return String(cause instanceof Error ? cause : error);
}

export function logEvent(event: string, fields: LogFields): void {
  console.log(JSON.stringify({ event, ...fields }));
}
