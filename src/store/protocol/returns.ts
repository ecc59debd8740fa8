/** What callers of the Signal Store ask for and are told when held signals are released, or dead letters replayed. */

/** What is sent again. */
export type ReturnScope =
  /** Held signals of a billing period, with what the release begins with. Times are milliseconds since 1970. */
  | { kind: "release"; periodStartMs: number; periodEndMs: number; overages: boolean }
  /** Dead letters with these ids; null: all. */
  | { kind: "replay"; ids: string[] | null };

export interface ReturnProgress {
  /** Signals that have been sent again so far. */
  sent: number;
  /** Of a release: signals that were held when it began, and are not sent. */
  stillHeld: number;
  /** Whether the job is not done yet: the store goes on with it by itself. */
  isUnderWay: boolean;
}
