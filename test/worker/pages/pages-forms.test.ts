/** A form that is rejected says why at the field, focuses it, keeps what was typed, and changes nothing. */
import { beforeAll, expect, test } from "vitest";
import { unchangedFields } from "../../support/html.ts";
import { focusedIn, type Members, newMembers } from "../../support/members.ts";

/** Values of a field with several; none: the field is not sent. */
type Typed = Record<string, string | string[]>;

const CONDITION = { path: ["email"], operator: ["equals"], value: ["a@example.com"] };
const RULE = { name: "R", event: "E", match: "all", scoring_signal: "s", points: "5", enabled: "on" };
const WEBHOOK = { type: "webhook", target: "https://crm.example.com/", notifications: "key.silent" };

/** Forms that would be accepted. */
const FORMS: Record<string, [path: string, typed: Typed]> = {
  deletion: ["people/ann%40example.com/delete", { email: "ann@example.com" }],
  "new rule": ["rules", { ...RULE, ...CONDITION }],
  rule: ["rules/{rule}", { ...RULE, version: "1" }],
  exclusion: ["rules/exclusions", { name: "Own staff", match: "all", ...CONDITION }],
  "new key": ["settings/api-keys/new", { name: "CRM", endpoint_type: "signal_staging", lifetime: "never" }],
  key: ["settings/api-keys/{key}", { name: "CRM", silent_after_days: "3", signal_limit: "" }],
  rotation: ["settings/api-keys/{key}/rotate", { overlap: "1h", lifetime: "90d" }],
  token: ["settings/api-tokens/new", { name: "Program", lifetime: "never", scope: "rules" }],
  member: ["settings/members", { email: "new@example.com", role: "member" }],
  destination: ["settings/notifications/new", { name: "<b>", ...WEBHOOK }],
  thresholds: ["settings/notifications/thresholds", { thresholds: "50", account_thresholds: "200" }],
};

let team: Members;
let ids: Record<string, string>;

beforeAll(async () => {
  team = await newMembers();
  const { workspace } = team;
  const rule = { name: "R", event: "E", scoring_signal: "s", points: 5 };
  const { id } = await workspace.operator<{ id: string }>("POST", "/rules", rule);
  const conditions = [{ path: "email", operator: "exists" }];
  await workspace.operator("PUT", "/exclusions", { items: [{ name: "Taken", conditions }] });
  await workspace.send({ event: "E", email: "ann@example.com" });
  await workspace.settled();
  ids = { key: workspace.key.id, rule: id };
});

const PAST = { expires: "2020-01-01T00:00", lifetime: "at" };
const PATH = "Use event, source, email, or a path";
const DAYS = "Enter 1 to 365 days, or leave it empty.";
const LIMIT = "Enter a whole number of signals from 1 on, or leave it empty.";

/** `focused`: the id of the focused field; without it, the name of the first field of `typed`. */
test.each<[form: string, typed: Typed, error: string, focused?: string]>([
  ["deletion", { email: 'someone@"<b>' }, "Type ann@example.com to confirm."],
  ["new rule", { name: "" }, "Enter a name."],
  ["new rule", { points: "many" }, "Enter a whole number from -1,000,000 to 1,000,000."],
  ["new rule", { path: ['<script>"n"'] }, PATH, "path-0"],
  ["new rule", { operator: ["in"], value: [","] }, "Enter at least one value.", "value-0"],
  ["rule", { event: "" }, "An event name or pattern of 1 to 255 characters."],
  ["exclusion", { name: " " }, "Enter a name."],
  ["exclusion", { name: "Taken" }, "Another exclusion has this name."],
  ["exclusion", { path: ["user"] }, PATH, "path-0"],
  ["exclusion", { value: [""] }, "A value is needed.", "value-0"],
  ["new key", { name: " " }, "Enter a name."],
  ["new key", { name: "x".repeat(256) }, "At most 255 characters."],
  ["new key", { name: "\u200b\u200d" }, "A name that can be seen, on one line."],
  ["new key", PAST, "Enter a time in the future."],
  ["new key", { signal_limit: "-1" }, LIMIT],
  ["key", { silent_after_days: "0" }, DAYS],
  ["key", { silent_after_days: "soon" }, DAYS],
  ["key", { signal_limit: "0" }, LIMIT],
  ["key", { signal_limit: "many" }, LIMIT],
  ["key", { signal_limit: "1.5" }, LIMIT],
  ["key", { signal_limit: "9".repeat(30) }, LIMIT],
  ["rotation", { overlap: [] }, "Choose when the old key ends."],
  ["rotation", { lifetime: "" }, "Choose when the key expires."],
  ["token", { name: " " }, "Enter a name."],
  ["token", { scope: [] }, "Choose at least one scope.", "scope-read"],
  ["token", PAST, "Enter a time in the future."],
  ["member", { email: "no-address<script>" }, "not an email address"],
  ["member", { email: "" }, "Enter the email"],
  ["member", { email: "\u212Aevin@example.com" }, "letters of several alphabets"],
  ["destination", { target: "http://127.0.0.1/x" }, "The URL must begin with https://."],
  ["destination", { target: "https://10.0.0.1/x" }, "instead of an IP address"],
  ["destination", { target: "" }, "Enter the URL."],
  ["destination", { header_value_0: "", header_name_0: "X-Key" }, "Enter a value for X-Key."],
  ["destination", { header_name_0: "X Key", header_value_0: "v" }, "Only letters, digits and hyphens"],
  ["destination", { notifications: [] }, "Choose at least one", "notification-person.score_crossed"],
  ["thresholds", { thresholds: "50, lots" }, "Enter whole numbers"],
  ["thresholds", { account_thresholds: "1 2 3 4 5 6" }, "Enter at most 5 scores."],
  ["thresholds", { account_thresholds: "50, 50" }, "The same score twice."],
])("the form “%s” with %j is rejected at its field", async (form, change, error, focused) => {
  const [page, fields = {}] = FORMS[form] ?? [""];
  const path = `${team.home}/${page.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? "")}`;
  const typed = Object.entries({ ...fields, ...change }).flatMap(([name, values]) =>
    [values].flat().map((value): [string, string] => [name, value]),
  );
  const before = await team.workspace.auditLog();
  const answer = await team.admin.post(path, typed);
  expect([answer.status, focusedIn(answer.body)]).toEqual([422, focused ?? Object.keys(change)[0]]);
  // At the field only: neither in a box above nor in a bubble of the browser.
  const shown = answer.page.only(".error");
  expect([shown.text, answer.page.alerts, answer.page.inlineScripts]).toEqual([expect.stringContaining(error), [], []]);
  expect(answer.page.all(`[aria-describedby~="${shown.attribute("id")}"]`)).not.toEqual([]);
  const again = answer.page.form(path);
  expect(again.attribute("novalidate")).toBeDefined();
  expect(unchangedFields(again)).toEqual(expect.arrayContaining(typed));
  expect(await team.workspace.auditLog()).toEqual(before);
});
