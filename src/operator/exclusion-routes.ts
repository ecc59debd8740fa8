/** Exclusions: what should not score. Versions, preview and application to stored signals. */
import * as z from "zod";
import {
  findExclusions,
  listExclusionVersions,
  replaceExclusions,
  restoreExclusions,
  type CurrentExclusions,
} from "../d1/exclusions.ts";
import { PREVIEW_SAMPLES, RULES_FILE_MAX_BYTES, RULE_VERSIONS_KEPT, WORKSPACE_MAX_EXCLUSIONS } from "../limits.ts";
import { SCANNERS } from "../presets/scanners.ts";
import type { RuleJob } from "../store/protocol/store-operations.ts";
import { applyExclusions, previewExclusions } from "../use-cases/exclusions-on-history.ts";
import { exclusionFields, exclusionList } from "../use-cases/rule-schema.ts";
import { contextOf, count, idOf, isoInstant, listOf, mayRead, operationsOf, storeOf } from "./operation.ts";
import { previewEndFields, previewQuery, previewSampleFields, ruleJobFields, tooManyPreviews } from "./rule-routes.ts";

const operation = operationsOf("Exclusions", "version of the exclusions");

const exclusion = z.object({ id: idOf("exc", "Of the exclusion."), ...exclusionFields }).meta({ id: "Exclusion" });

const exclusions = z
  .object({
    version: z.int().describe("Grows with every change. 0: the workspace never had any."),
    items: z.array(exclusion).describe("The first that covers a signal counts."),
  })
  .meta({ id: "Exclusions" });

const version = z
  .object({
    version: z.int(),
    at: isoInstant.describe("When this version began."),
    by: z.string().describe("The author: a member's email, or `operator`."),
    items: z.array(exclusion),
  })
  .meta({ id: "ExclusionsVersion" });

const changedList = z.strictObject({
  items: exclusionList.describe(`All exclusions of the workspace from now on, at most ${WORKSPACE_MAX_EXCLUSIONS}.`),
  version: z.int().optional().describe("The version that the change is based on. Absent: any."),
});

const draftList = z.strictObject({ items: exclusionList });

const preview = z
  .object({
    excluded: count.describe("Signals that would become excluded."),
    included: count.describe("Signals that would not be excluded any more."),
    covered: z
      .array(z.object({ name: z.string(), signals: count }))
      .describe("Signals that each exclusion covers. The first exclusion that covers a signal counts."),
    people: count.describe("People whose score would change."),
    points: z.int().describe("Sum of the changes of their scores."),
    by_person: z
      .array(
        z.object({ email: z.string(), name: z.string().nullable(), points: z.int(), before: z.int(), after: z.int() }),
      )
      .describe("The largest changes: the score now, and after the application."),
    crossing: z
      .array(z.object({ threshold: z.int(), risen: count, fallen: count }))
      .describe("Thresholds that scores would pass, and how many people."),
    samples: z
      .array(
        z.object({
          ...previewSampleFields,
          exclusion: z.string().nullable().describe("The exclusion that would cover it. Null: it would score again."),
        }),
      )
      .describe(`Signals that change, latest first, at most ${PREVIEW_SAMPLES}.`),
    ...previewEndFields,
  })
  .meta({ id: "ExclusionsPreview" });

const job = z
  .object({
    version: z.int().nullable().describe("The version that is applied."),
    ...ruleJobFields,
    matched: count.describe("Signals that an exclusion covers."),
    added: count.describe("Signals that score again."),
    removed: count.describe("Signals that score no more."),
  })
  .meta({ id: "ExclusionsJob" });

function listed({ version: number, exclusions: items }: CurrentExclusions) {
  return { version: number, items };
}

function shownJob({ ruleVersion, ...rest }: RuleJob) {
  return { ...rest, version: ruleVersion };
}

const STAFF = {
  name: "Own staff",
  conditions: [{ path: "email", operator: "ends_with" as const, value: "@example.com" }],
};

export const exclusionRoutes = [
  operation("GET", "/workspaces/:workspace_id/exclusions", {
    summary: "List the exclusions",
    scope: "read",
    description:
      "What should not score, such as own staff, test traffic and scanners that click the links of a mail. A covered signal " +
      "is recorded and counted like others, makes people, traits and groups, and never scores.",
    answers: { 200: "The current version." },
    schema: exclusions,
    handle: async (c) => listed(await findExclusions(c.var.db, c.var.workspace.id)),
  }),
  operation("PUT", "/workspaces/:workspace_id/exclusions", {
    summary: "Change the exclusions",
    scope: "rules",
    description:
      "Replaces the whole list, in a new version. An item with the `id`, or else the `name`, of an exclusion replaces it. " +
      "Takes effect with the next processed signal. An exclusion by `email` waits for a signal's person, as a rule does. " +
      "Stored signals change when the exclusions are applied to them.",
    body: changedList,
    bodyMaxBytes: RULES_FILE_MAX_BYTES,
    bodyExample: { items: [STAFF] },
    answers: { 200: "The new version." },
    schema: exclusions,
    conflicts: ["exclusions_changed"],
    async handle(c, { body }) {
      const replaced = await replaceExclusions(contextOf(c), body.items, { version: body.version });
      return replaced.ok ? listed(replaced.value) : replaced;
    },
  }),
  operation("GET", "/workspaces/:workspace_id/exclusions/presets", {
    summary: "List ready-made exclusions",
    scope: "read",
    description: "Nothing applies them: send one as an item of the list to use it, changed or not.",
    answers: { 200: "User agents of known scanners and bots." },
    schema: z.object({ items: z.array(z.object(exclusionFields)) }),
    handle: () => ({ items: [SCANNERS] }),
  }),
  operation("GET", "/workspaces/:workspace_id/exclusions/versions", {
    summary: "List the versions of the exclusions",
    scope: "read",
    description: `The current version and at most ${RULE_VERSIONS_KEPT} earlier versions, newest first, in one page.`,
    answers: { 200: "The list in each version." },
    schema: listOf(version),
    async handle(c) {
      const versions = await listExclusionVersions(c.var.db, c.var.workspace.id);
      return { items: versions.map(({ exclusions: items, ...rest }) => ({ ...rest, items })), next: null };
    },
  }),
  operation("POST", "/workspaces/:workspace_id/exclusions/versions/:version/restore", {
    summary: "Restore a version of the exclusions",
    scope: "rules",
    description:
      "Creates a new version with the list of the earlier version. Stored signals change when it is applied.",
    answers: { 200: "The new version." },
    schema: exclusions,
    conflicts: ["exclusions_changed"],
    async handle(c) {
      const restored = await restoreExclusions(contextOf(c), Number(c.req.param("version")));
      return restored.ok ? listed(restored.value) : restored;
    },
  }),
  operation("POST", "/workspaces/:workspace_id/exclusions/preview", {
    summary: "Try exclusions on stored signals",
    scope: "rules",
    description:
      "Shows what would change if the list was saved and applied: who would lose or gain points, and who would pass a " +
      "threshold. Reads the processed signals of known people, latest first. Changes nothing. A token without the scope " +
      "`read` gets no people and no samples.",
    body: draftList,
    bodyMaxBytes: RULES_FILE_MAX_BYTES,
    bodyExample: { items: [STAFF] },
    query: previewQuery,
    answers: { 200: "What would change." },
    schema: preview,
    async handle(c, { body, query }) {
      const found = await previewExclusions(contextOf(c), body.items, query.days);
      if (found === null) return tooManyPreviews(c);
      return mayRead(c, "read") ? found : { ...found, byPerson: [], samples: [] };
    },
  }),
  operation("POST", "/workspaces/:workspace_id/exclusions/apply", {
    summary: "Apply the exclusions to stored signals",
    scope: "rules",
    description:
      "Changes scores as if the exclusions had always been as they are now, for all rules at once: signals that they cover " +
      "score no more, and others score again exactly as they would have. Signals that are no longer stored keep their " +
      "scores. Runs in the background. A repeated call starts again with the current version.",
    answers: { 202: "The application has started." },
    schema: job,
    handle: async (c) => shownJob(await applyExclusions(contextOf(c))),
  }),
  operation("GET", "/workspaces/:workspace_id/exclusions/apply", {
    summary: "Follow the application of the exclusions",
    scope: "read",
    description: "The latest application, even if it has finished.",
    answers: { 200: "The progress." },
    schema: job,
    noun: "application of the exclusions",
    async handle(c) {
      const found = await storeOf(c).exclusionsJob();
      return found && shownJob(found);
    },
  }),
];
