/**
 * Runs the files project by project, in the order of the configuration, so that the files of a project can share a
 * runtime.
 */
import { BaseSequencer, type TestSpecification } from "vitest/node";

export class ByProject extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const { projects } = this.ctx;
    return sorted.toSorted((a, b) => projects.indexOf(a.project) - projects.indexOf(b.project));
  }
}
