/**
 * The files that take longest begin first, so that the run does not end with some cores waiting for one file. Without what an
 * earlier run has measured, Vitest goes by the size of a file, which says little of how long it takes.
 */
import { existsSync } from "node:fs";
import path from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** A quarter of a minute and more each, the longest first. */
const LONGEST = [
  "worker/service/model-1",
  "worker/service/model-2",
  "worker/service/model-3",
  "fault/jobs",
  "fault/deliveries",
  "worker/service/outages",
  "sdk/sdk",
  "events/receivers",
  "worker/service/delivery.property",
  "worker/ingest/authentication",
  "fault/overload",
  "worker/service/hostile",
].map((name) => path.join(import.meta.dirname, "..", `${name}.test.ts`));

for (const file of LONGEST) if (!existsSync(file)) throw new Error(`There is no ${file}: longest-first.ts names it.`);

/** Files that share a process or a runtime come last, kind by kind: a runtime ends when the next file is of another kind. */
function rank({ moduleId, project }: TestSpecification): number {
  const place = LONGEST.indexOf(moduleId);
  if (place !== -1) return place;
  return project.config.isolate ? LONGEST.length : LONGEST.length + 1;
}

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.toSorted((one, other) => rank(one) - rank(other));
  }
}
