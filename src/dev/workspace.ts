/**
 * `npm run workspace -- export|import`: both ends of the file of a workspace (docs/operate.md, "A workspace is a file").
 *
 *   npm run workspace -- export ws_… FOLDER --origin https://signals.example.com
 *   npm run workspace -- import FOLDER --origin … [--slug acme] [--deleted-people FILE | --without-deletions]
 *
 * OPERATOR_TOKEN has the operator token. A repeated import goes on: parts that are there are not sent again.
 */
import { deploymentAt } from "./deployment.ts";
import { CommandError, readOptions, reportErrors } from "./local-service.ts";
import { WorkspaceFile } from "./workspace-file.ts";

const USAGE =
  "Usage: npm run workspace -- export ws_… FOLDER --origin URL\n" +
  "       npm run workspace -- import FOLDER --origin URL [--slug S] [--deleted-people FILE | --without-deletions]";
const OPTIONS = {
  origin: { type: "string" },
  slug: { type: "string" },
  "deleted-people": { type: "string" },
  "without-deletions": { type: "boolean", default: false },
} as const;

await reportErrors(run);

async function run(): Promise<number> {
  const { positionals, values } = readOptions({ allowPositionals: true, options: OPTIONS }, USAGE);
  const [command, first, second] = positionals;
  const isExport = command === "export" && first !== undefined && second !== undefined;
  if (values.origin === undefined || !(isExport || (command === "import" && first !== undefined)))
    throw new CommandError(USAGE);
  const file = new WorkspaceFile(deploymentAt(values.origin));
  try {
    if (isExport) await file.export(first, second);
    else await file.import(first ?? "", values);
  } catch (error) {
    throw error instanceof Error ? new CommandError(error.message) : error;
  }
  return 0;
}
