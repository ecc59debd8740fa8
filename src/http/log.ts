/**
 * The only place that logs: one JSON object per line. A path, a key, a secret or a payload never goes in; callers pass
 * ids, codes, counts and durations.
 */
export type LogFields = Record<string, string | number | boolean | null>;

export function logEvent(event: string, fields: LogFields): void {
  console.log(JSON.stringify({ event, ...fields }));
}
