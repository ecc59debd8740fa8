/**
 * `npm run journeys [-- --files]`: counts the source files of which functions run in four journeys through the code (docs/code.md). Each
 * journey runs once to warm up. Then it runs again with new data, and only that run counts.
 *
 * Statements of modules, values of fields and of parameters are no functions. The service is bundled as for a deployment, but not
 * minified.
 */
import path from "node:path";
import { measureJourneys, type FunctionsRun } from "./measure.ts";

const withFiles = process.argv.includes("--files");

for (const { journey, run } of await measureJourneys()) {
  console.log(`\n${journey.name} (${journey.from}): ${run.size} files\n  ${byFolder(run)}`);
  if (withFiles) for (const [file, names] of run) console.log(`  ${file}: ${[...names].toSorted().join(", ")}`);
  if (run.size === journey.files) continue;
  console.log(
    `  docs/code.md and test/journeys/journeys.ts say ${journey.files}. Lower the figure, or find what runs without need.`,
  );
  if (run.size > journey.files) process.exitCode = 1;
}

function byFolder(run: FunctionsRun): string {
  const folders = new Map<string, number>();
  for (const file of run.keys()) folders.set(path.dirname(file), (folders.get(path.dirname(file)) ?? 0) + 1);
  return [...folders].map(([folder, files]) => `${folder} ${files}`).join(", ");
}
