/** The calls between steps.ts and its Worker, and the sizes of the measured steps. */

export type StepName =
  | "first step of a night"
  | "step of a night"
  | "page of a person"
  | "replacement"
  | "batch with lapses"
  | "batch without lapses"
  | "deletion"
  | "retention";

export interface StepCall {
  /** Each measurement has an object of its own. */
  object: string;
  step: StepName;
  act: "prepare" | "take";
}

/** People whose points lapse in one night, on one of so many days on which points of them lapse. */
export const NIGHT_PEOPLE = 10_000;
export const LAPSE_DAYS = 366;
/** Scored signals of the person whose page is read. */
export const SCORED_SIGNALS = 20_000;
/** Segments with a signal of the person whose match is replaced. */
export const SEGMENTS = 400;
/** The most signals that the consumer records at once. */
export const BATCH_SIGNALS = 1_500;
/** Notifications that wait while a person is deleted. */
export const WAITING_BYTES = 30_000_000;
/** The most signals of a segment, each of another person, and the scored signals that each has in newer ones. */
export const SEGMENT_LINES = 512;
export const SCORED_DAYS = 30;
