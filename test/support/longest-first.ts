/**
 * The files that take longest begin first, so that the run does not end with some cores waiting for one file. Without what an
 * earlier run has measured, Vitest goes by the size of a file, which says little of how long it takes.
 */
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** A quarter of a minute and more each, the longest first. */
const LONGEST = [
  "service/model-1",
  "service/model-2",
  "service/model-3",
  "fault/jobs",
  "fault/deliveries",
  "service/outages",
  "sdk/sdk",
  "events/receivers",
  "service/delivery.property",
  "ingest/authentication",
  "fault/overload",
  "service/hostile",
];

function rank({ moduleId }: TestSpecification): number {
  const place = LONGEST.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
  return place === -1 ? LONGEST.length : place;
}

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.toSorted((one, other) => rank(one) - rank(other));
  }
}
