/** What `npm run deploy:setup` writes into wrangler.toml. Comments and all other lines stay as they are. */
import { CommandError } from "../local-service.ts";

/** `none`: the platform chooses the place of each object. */
export const PLACES = ["eu", "us", "none"] as const;
export type Place = (typeof PLACES)[number];

/** The text with the jurisdiction of the objects and of the bucket. @throws CommandError if the file names another place already. */
export function withJurisdiction(text: string, environment: string | undefined, place: Place): string {
  const wanted = place === "none" ? "" : place;
  return inSection(text, environment, (section) => {
    const named = /^JURISDICTION = "(.*)"$/m.exec(section)?.[1];
    if (named === undefined) throw new CommandError("wrangler.toml has no line JURISDICTION in this environment.");
    if (named === wanted) return section;
    if (named !== "")
      throw new CommandError(
        `wrangler.toml has JURISDICTION = "${named}" already. Data cannot be moved. If nothing is created yet, empty that line and delete the bucket's jurisdiction.`,
      );
    return section
      .replace(/^JURISDICTION = ""$/m, `JURISDICTION = "${wanted}"`)
      .replace(/^(bucket_name = ".*")$/m, `$1\njurisdiction = "${wanted}"`)
      .replace(/(bucket_name = "[^"]*") \}/, `$1, jurisdiction = "${wanted}" }`);
  });
}

/** The text with the id of the database that was created. */
export function withDatabase(text: string, environment: string | undefined, id: string): string {
  return inSection(text, environment, (section) => {
    if (!EMPTY_ID.test(section)) throw new CommandError(`wrangler.toml has no place for database_id = "${id}".`);
    return section.replace(EMPTY_ID, `database_id = "${id}"`);
  });
}

const EMPTY_ID = /database_id = "[0-]*"/;

/** In the output of `wrangler d1 create`; null: there is none. */
export function createdDatabaseId(out: string): string | null {
  return /"?database_id"?\s*[:=]\s*"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"/.exec(out)?.[1] ?? null;
}

/** An environment's lines are those from its first heading to the first heading of another one. */
function inSection(text: string, environment: string | undefined, change: (section: string) => string): string {
  const isOf = (line: string): boolean => {
    const named = /^\[+env\.([^\].]+)/.exec(line)?.[1];
    return named === environment;
  };
  const lines = text.split("\n");
  const headings = lines.flatMap((line, at) => (/^\[+[a-z]/.test(line) ? [at] : []));
  const first = environment === undefined ? 0 : headings.find((at) => isOf(lines[at] ?? ""));
  if (first === undefined) throw new CommandError(`wrangler.toml has no [env.${environment}].`);
  const end = headings.find((at) => at > first && !isOf(lines[at] ?? "")) ?? lines.length;
  const parts = [lines.slice(0, first), lines.slice(first, end), lines.slice(end)].map((part) => part.join("\n"));
  const [before = "", section = "", after = ""] = parts;
  return [...(first === 0 ? [] : [before]), change(section), ...(end === lines.length ? [] : [after])].join("\n");
}
