/** A form that is rejected says why at the field, focuses it, keeps what was typed, and changes nothing. */
import { beforeAll, expect, test } from "vitest";
import { unchangedFields } from "../../support/html.ts";
import { focusedIn, type Members, newMembers } from "../../support/members.ts";

/** Values of a field with several; none: the field is not sent. */
type Typed = Record<string, string | string[]>;

const PAST = { lifetime: "at", expires: "2020-01-01T00:00" };
const CONDITION = { path: ["email"], operator: ["equals"], value: ["a@example.com"] };
const RULE = { name: "R", event: "E", match: "all", scoring_signal: "s", points: "5", enabled: "on" };

/** Forms that would be accepted, by their paths. */
const FORMS: Record<string, Typed> = {
  "people/ann%40example.com/delete": { email: "ann@example.com" },
  rules: { ...RULE, ...CONDITION },
  "rules/{rule}": { ...RULE, version: "1" },
  "rules/exclusions": { name: "Own staff", match: "all", ...CONDITION },
  "settings/api-keys/new": { name: "CRM", endpoint_type: "signal_staging", lifetime: "never" },
  "settings/api-keys/{key}": { name: "CRM", silent_after_days: "3", signal_limit: "" },
  "settings/api-keys/{key}/rotate": { overlap: "1h", lifetime: "90d" },
  "settings/api-tokens/new": { name: "Program", lifetime: "never", scope: "rules" },
  "settings/members": { email: "new@example.com", role: "member" },
  "settings/notifications/new": {
    name: "<b>",
    type: "webhook",
    target: "https://crm.example.com/",
    notifications: "key.silent",
  },
  "settings/notifications/thresholds": { thresholds: "50", account_thresholds: "200" },
};

let team: Members;
let ids: Record<string, string>;

beforeAll(async () => {
  team = await newMembers();
  const { workspace } = team;
  const rule = { name: "R", event: "E", scoring_signal: "s", points: 5 };
  const { id } = await workspace.operator<{ id: string }>("POST", "/rules", rule);
  await workspace.operator("PUT", "/exclusions", {
    items: [{ name: "Taken", conditions: [{ path: "email", operator: "exists" }] }],
  });
  await workspace.send({ event: "E", email: "ann@example.com" });
  await workspace.settled();
  ids = { key: workspace.key.id, rule: id };
});

const pathOf = (form: string) => `${team.home}/${form.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? "")}`;

const POINTS = "Enter a whole number from -1,000,000 to 1,000,000.";
const LIMIT = "Enter a whole number of signals from 1 on, or leave it empty.";

test.each<[form: string, typed: Typed, error: string, focused: string]>([
  ["people/ann%40example.com/delete", { email: 'someone@"<b>' }, "Type ann@example.com to confirm.", "email"],
  ["rules", { points: "many" }, POINTS, "points"],
  ["rules", { path: ["user"] }, "Use event, source, email, or a path", "path-0"],
  ["rules", { operator: ["in"], value: [","] }, "Enter at least one value.", "value-0"],
  ["rules/{rule}", { event: "" }, "An event name or pattern of 1 to 255 characters.", "event"],
  ["rules/exclusions", { name: " " }, "Enter a name.", "name"],
  ["rules/exclusions", { name: "Taken" }, "Another exclusion has this name.", "name"],
  ["rules/exclusions", { path: ["user"] }, "Use event, source, email, or a path", "path-0"],
  ["rules/exclusions", { value: [""] }, "A value is needed.", "value-0"],
  ["settings/api-keys/new", { name: " " }, "Enter a name.", "name"],
  ["settings/api-keys/new", { name: "x".repeat(256) }, "At most 255 characters.", "name"],
  ["settings/api-keys/new", { name: "\u200b\u200d" }, "A name that can be seen, on one line.", "name"],
  ["rules", { name: "" }, "Enter a name.", "name"],
  ["settings/api-keys/new", PAST, "Enter a time in the future.", "expires"],
  ["settings/api-keys/new", { signal_limit: "-1" }, LIMIT, "signal_limit"],
  [
    "settings/api-keys/{key}",
    { silent_after_days: "0" },
    "Enter 1 to 365 days, or leave it empty.",
    "silent_after_days",
  ],
  [
    "settings/api-keys/{key}",
    { silent_after_days: "soon" },
    "Enter 1 to 365 days, or leave it empty.",
    "silent_after_days",
  ],
  ...["0", "many", "1.5", "9".repeat(30)].map((limit): [string, Typed, string, string] => [
    "settings/api-keys/{key}",
    { signal_limit: limit },
    LIMIT,
    "signal_limit",
  ]),
  ["settings/api-keys/{key}/rotate", { overlap: [] }, "Choose when the old key ends.", "overlap"],
  ["settings/api-keys/{key}/rotate", { lifetime: "" }, "Choose when the key expires.", "lifetime"],
  ["settings/api-tokens/new", { name: " " }, "Enter a name.", "name"],
  ["settings/api-tokens/new", { scope: [] }, "Choose at least one scope.", "scope-read"],
  ["settings/api-tokens/new", PAST, "Enter a time in the future.", "expires"],
  ["settings/members", { email: "no-address<script>" }, "not an email address", "email"],
  ["settings/members", { email: "" }, "Enter the email", "email"],
  ["settings/members", { email: "\u212Aevin@example.com" }, "letters of several alphabets", "email"],
  ["settings/notifications/new", { target: "http://127.0.0.1/x" }, "The URL must begin with https://.", "target"],
  ["settings/notifications/new", { target: "https://10.0.0.1/x" }, "instead of an IP address", "target"],
  ["settings/notifications/new", { target: "" }, "Enter the URL.", "target"],
  [
    "settings/notifications/new",
    { header_name_0: "X-Key", header_value_0: "" },
    "Enter a value for X-Key.",
    "header_value_0",
  ],
  [
    "settings/notifications/new",
    { header_name_0: "X Key", header_value_0: "v" },
    "Only letters, digits and hyphens",
    "header_name_0",
  ],
  ["settings/notifications/new", { notifications: [] }, "Choose at least one", "notification-person.score_crossed"],
  ["settings/notifications/thresholds", { thresholds: "50, lots" }, "Enter whole numbers", "thresholds"],
  [
    "settings/notifications/thresholds",
    { account_thresholds: "1 2 3 4 5 6" },
    "Enter at most 5 scores.",
    "account_thresholds",
  ],
  [
    "settings/notifications/thresholds",
    { account_thresholds: "50, 50" },
    "The same score twice.",
    "account_thresholds",
  ],
])("the form %s with %j is rejected at its field", async (form, change, error, focused) => {
  const typed = Object.entries({ ...FORMS[form], ...change }).flatMap(([name, values]) =>
    [values].flat().map((value): [string, string] => [name, value]),
  );
  const before = await team.workspace.auditLog();
  const { status, body, page } = await team.admin.post(pathOf(form), typed);
  expect([status, focusedIn(body)]).toEqual([422, focused]);
  // At the field only: neither in a box above nor in a bubble of the browser.
  const shown = page.only(".error");
  expect([shown.text, page.alerts, page.inlineScripts]).toEqual([expect.stringContaining(error), [], []]);
  expect(page.all(`[aria-describedby~="${shown.attribute("id")}"]`)).not.toEqual([]);
  const again = page.form(pathOf(form));
  expect(again.attribute("novalidate")).toBeDefined();
  expect(unchangedFields(again)).toEqual(expect.arrayContaining(typed));
  expect(await team.workspace.auditLog()).toEqual(before);
});
