/** The pages of exclusions: list, form with preview, application to past signals, versions; and the trace that names one. */
import { runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, test } from "vitest";
import { deliver } from "../../support/deliver.ts";
import { type Members, newMembers } from "../../support/members.ts";
import { applyExclusions } from "../../support/rules.ts";
import type { TestWorkspace } from "../../support/workspace.ts";

let workspace: TestWorkspace;
let members: Members;
let base: string;

beforeEach(async () => {
  members = await newMembers();
  ({ workspace } = members);
  base = `${members.home}/rules/exclusions`;
});

type Row = [path: string, operator: string, value: string];

const OWN: Row = ["email", "ends_with", "@own.example"];

/** The fields of the form as a browser posts them. */
function fields(rows: readonly Row[], more: Record<string, string> = {}): [string, string][] {
  const conditions = rows.flatMap(([path, operator, value]): [string, string][] => [
    ["path", path],
    ["operator", operator],
    ["value", value],
  ]);
  return [...Object.entries({ name: "Own staff", match: "all", ...more }), ...conditions];
}

interface List {
  version: number;
  items: { id: string; name: string; conditions: object[] }[];
}
const stored = () => workspace.operator<List>("GET", "/exclusions");

async function withSignals(): Promise<void> {
  await workspace.operator("POST", "/rules", { name: "Visit", event: "Visit", scoring_signal: "v", points: 5 });
  await deliver(
    workspace.id,
    ["ann@own.example", "bob@example.com"].map((email, n) => ({ id: `sig_${n}`, payload: { event: "Visit", email } })),
  );
}

describe("the exclusions of a workspace", () => {
  test("are added, changed and removed by an admin, and a member reads them", async () => {
    expect((await members.member.read(base)).text).toContain("No exclusions yet");
    const added = await members.admin.post(base, fields([OWN]));
    expect([added.status, added.location]).toEqual([303, `${base}?done=exclusions_saved`]);
    const list = await stored();
    expect(list).toMatchObject({
      version: 1,
      items: [{ name: "Own staff", conditions: [{ path: "email", operator: "ends_with", value: "@own.example" }] }],
    });
    const path = `${base}/${list.items[0]?.id}`;
    const read = await members.member.read(base);
    expect(read.text).toContain("Own staff all conditions email ends with @own.example");

    const changed = await members.owner.post(
      path,
      fields([OWN, ["source", "equals", "test"]], { match: "any", version: "1" }),
    );
    expect(changed.status).toBe(303);
    expect(await stored()).toMatchObject({ version: 2, items: [{ id: list.items[0]?.id, match: "any" }] });
    expect((await members.owner.post(`${path}/remove`, [])).status).toBe(303);
    expect(await stored()).toEqual({ version: 3, items: [] });

    const page = await members.owner.read(base);
    expect(page.text).toContain("Version 3 (current)");
    expect(page.text).toContain("Removed: Own staff.");
    expect(page.text).toContain("Changed: Own staff.");
    const restored = await members.owner.post(`${base}/restore`, [
      ["restored", "2"],
      ["version", "3"],
    ]);
    expect(restored.location).toBe(`${base}?done=exclusions_restored`);
    expect(await stored()).toMatchObject({ version: 4, items: [{ id: list.items[0]?.id, name: "Own staff" }] });
  });

  test("are not overwritten by a form that was opened before another change", async () => {
    await members.owner.post(base, fields([OWN]));
    await members.owner.post(base, fields([["source", "equals", "test"]], { name: "Tests" }));
    const { items } = await stored();
    const path = `${base}/${items[0]?.id}`;
    const late = await members.admin.post(path, fields([OWN], { name: "Staff", version: "1" }));
    expect(late.status).toBe(409);
    expect(late.page.text).toContain("Nothing was saved: the exclusions have changed");
    expect(late.page.fields("version")[0]?.value).toBe("2");
    expect((await members.admin.post(path, fields([OWN], { name: "Staff", version: "2" }))).status).toBe(303);
    expect((await stored()).items.map(({ name }) => name)).toEqual(["Staff", "Tests"]);
  });

  test("take in the user agents of scanners by one click", async () => {
    expect((await members.owner.read(base)).targets).toContain(`${base}/new?preset=scanners`);
    const form = await members.owner.read(`${base}/new?preset=scanners`);
    expect(form.fields("name")[0]?.value).toBe("Scanners and bots");
    const rows = form
      .fields("path")
      .map(({ value }, index): Row => [
        value ?? "",
        form.fields("operator")[index]?.value ?? "",
        form.fields("value")[index]?.value ?? "",
      ]);
    const saved = await members.owner.post(base, fields(rows, { name: "Scanners and bots", match: "any" }));
    expect(saved.status).toBe(303);
    const { items } = await workspace.operator<{ items: object[] }>("GET", "/exclusions/presets");
    expect((await stored()).items).toMatchObject(items);
    expect((await members.owner.read(base)).targets).not.toContain(`${base}/new?preset=scanners`);
  });

  test("have rows of conditions that the form adds and removes", async () => {
    const added = await members.owner.post(base, fields([OWN], { do: "add" }));
    expect([added.status, added.page.fields("path").length]).toEqual([200, 2]);
    const removed = await members.owner.post(base, fields([OWN], { do: "remove-0" }));
    expect(removed.page.text).toContain("Add a condition, such as email ends with");
    const none = await members.owner.post(base, fields([]));
    expect([none.status, none.page.text]).toEqual([422, expect.stringContaining("it would cover each signal.")]);
    expect(await stored()).toMatchObject({ version: 0 });
  });
});

describe("exclusions and past signals", () => {
  test("are previewed as soon as their form opens, if it has conditions", async () => {
    await withSignals();
    await members.owner.post(base, fields([OWN]));
    const [exclusion] = (await stored()).items;
    expect((await members.owner.read(`${base}/${exclusion?.id}`)).text).toContain("ann@own.example -5 5 → 0");
    const scanners = await members.owner.read(`${base}/new?preset=scanners`);
    expect(scanners.text).toContain("All signals in the last 30 days have been read.");
    expect((await members.owner.read(`${base}/new`)).text).toContain("Press Preview");
  });

  test("are previewed by person, saved, applied, and named by the trace", async () => {
    await withSignals();
    await workspace.operator("PUT", "/thresholds", { thresholds: [5] });
    const preview = await members.owner.post(base, fields([OWN], { name: "", do: "preview", days: "30" }));
    expect(preview.page.text).toContain("1 person falls below 5.");
    expect(preview.page.text).toContain("ann@own.example -5 5 → 0");
    expect(preview.page.text).toContain("Newly excluded 1 No longer excluded 0");
    expect(await stored()).toMatchObject({ version: 0 });

    await members.owner.post(base, fields([OWN]));
    const saved = await members.owner.read(`${base}?done=exclusions_saved`);
    expect(saved.forms(`${base}/apply`).length).toBeGreaterThan(0);
    const started = await members.owner.post(`${base}/apply`, []);
    expect(started.location).toBe(`${base}#job`);
    expect((await members.owner.read(base)).text).toContain("Applying version 1 to past signals");
    await runInDurableObject(workspace.store, (instance) => instance.alarm());
    const done = await members.member.read(base);
    expect(done.text).toContain("Version 1 applied to past signals");
    expect(done.text).toContain("2 signals read, 1 signal excluded. Scoring signals: 0 added, 1 removed.");
    const people = await workspace.list<{ email: string; score: number }>("/people");
    expect(people.map(({ email, score }) => [email, score]).toSorted()).toEqual([
      ["ann@own.example", 0],
      ["bob@example.com", 5],
    ]);
    const trace = await members.member.read(`${members.home}/signals/sig_0`);
    expect(trace.text).toContain("Excluded: scores nothing");
    expect(trace.text).toContain("Covered by Own staff");
    const person = await members.member.read(`${members.home}/people/ann@own.example`);
    expect(person.text).toMatch(/Today \d\d:\d\d Visit .*Excluded/);
    expect(person.text).toContain(
      "No signal of this person scores: no mapping rule matched it when it came, or an exclusion covers it.",
    );
    for (const query of ["", "?show=scores", "?cursor=1.2.3"]) {
      const { text } = await members.member.read(`${members.home}/people/ann@own.example${query}`);
      expect(text, query).toContain("Score 0 no scoring signals: some signals are excluded");
    }
    const bob = await members.member.read(`${members.home}/people/bob@example.com`);
    expect(bob.text).not.toMatch(/excluded/i);
    const again = await members.owner.post(base, fields([["source", "equals", "x"]], { name: "Other", do: "preview" }));
    expect(again.page.text).toContain("Newly excluded 0");
  });

  test("are part of the file of rules", async () => {
    await members.owner.post(base, fields([OWN]));
    const { body: file } = await members.owner.get(`${members.home}/rules/export.json`);
    const { exclusions } = JSON.parse(file) as { exclusions: object[] };
    expect(exclusions).toEqual((await stored()).items);
    const other = await newMembers();
    const load = `${other.home}/rules/import`;
    const shown = await other.owner.post(load, [["text", file]]);
    expect(shown.page.text).toContain("Exclusions added: Own staff.");
    expect(shown.page.text).toContain("Import 1 exclusion");
    const confirmed = shown.page.fields("rules_version")[0]?.value ?? "";
    const fingerprint = shown.page.fields("fingerprint")[0]?.value ?? "";
    const imported = await other.owner.post(load, [
      ["text", file],
      ["do", "import"],
      ["rules_version", confirmed],
      ["fingerprint", fingerprint],
    ]);
    expect(imported.status).toBe(303);
    const { items } = await other.workspace.operator<List>("GET", "/exclusions");
    expect(items).toMatchObject([{ name: "Own staff" }]);
    const wrong = JSON.stringify({ items: [], exclusions: [{ name: "Bad", conditions: [] }] });
    const rejected = await other.owner.post(load, [["text", wrong]]);
    expect(rejected.page.text).toContain("Exclusion 1, Bad:");
    expect(rejected.page.text).toContain("Add a condition");
  });

  test("say when they have changed since they were applied", async () => {
    await members.owner.post(base, fields([OWN]));
    await applyExclusions(workspace);
    await members.owner.post(base, fields([["source", "equals", "x"]], { name: "Other" }));
    expect((await members.owner.read(base)).text).toContain("The exclusions have changed since.");
  });
});
