/** API keys (spec §2.1, §3.1, §5.6; design §5), as owners, admins and members see it. */
import { env } from "cloudflare:workers";
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { WORKSPACE_MAX_ACTIVE_KEYS } from "../../../src/limits.ts";
import { exactTime } from "../../../src/pages/kit/format.ts";
import { newId } from "../../../src/platform/ids.ts";
import { type Answer, type Browser, focusedIn, type Members, newMembers } from "../../support/members.ts";
import { masked } from "../../support/workspace.ts";

const SIGNAL = { email: "jane@example.com", event: "Filled Out Form" };
const KEY = /sk_[0-9A-Za-z]{40}/;
const DAY = 86_400_000;

interface ListedKey {
  id: string;
  name: string;
  masked_key: string;
  expires_at: string | null;
  payload_template: unknown;
  successor_of: string | null;
}

type Form = Record<string, string>;

let members: Members;
let keysPath: string;

beforeAll(async () => {
  members = await newMembers({ key: null });
  keysPath = keysPathOf(members);
});
afterEach(() => void vi.useRealTimers());

const keysPathOf = ({ home }: Members) => `${home}/settings/api-keys`;

const listed = ({ workspace } = members) => workspace.list<ListedKey>("/keys?limit=200");

async function newest(): Promise<ListedKey> {
  const [key] = await listed();
  if (key === undefined) throw new Error("no key");
  return key;
}

/** Action and actor of each entry about a key. */
async function auditOf(keyId: string): Promise<string[]> {
  const entries = (await members.workspace.auditLog("key")).filter(({ target }) => target === keyId);
  return entries.map(({ action, actor }) => `${action} ${actor}`);
}

async function newForm(browser: Browser, fields: Form = {}): Promise<Form> {
  const form_token = (await browser.read(`${keysPath}/new`)).field("form_token").value ?? "";
  return { form_token, name: "CRM", endpoint_type: "signal_staging", lifetime: "never", ...fields };
}

const post = async (fields: Form, action = "") =>
  members.owner.post(`${keysPath}/new${action}`, await newForm(members.owner, fields));

/** Creates a key with the form. */
async function create(fields: Form = {}): Promise<{ id: string; key: string; path: string; answer: Answer }> {
  const answer = await post(fields);
  if (answer.status !== 200) throw new Error(`${answer.status} ${answer.body}`);
  const { id } = await newest();
  return { id, key: answer.copied("new-key"), path: `${keysPath}/${id}`, answer };
}

/** Posts the form of a rotation at the page of a key. */
const postRotation = (path: string, fields: Form, { owner } = members) =>
  owner.post(`${path}/rotate`, { form_token: crypto.randomUUID(), lifetime: "never", ...fields });

const statusWith = async (key: string, headers: Record<string, string> = {}) =>
  (await members.workspace.send(SIGNAL, { key, headers })).status;

const TEMPLATE = {
  endpoint_type: "product_org",
  "rows.0.target": "external_id",
  "rows.0.path": "company.id",
  "rows.0.type": "string",
  "rows.1.target": "attributes.region",
  "rows.1.path": "company.region",
  "rows.1.type": "string",
};

describe("§3.1: creating a key", () => {
  test("shows the full key once, with its webhook URLs and calls that work", async () => {
    const { id, key, path, answer } = await create({ name: "Campaigns" });
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(key).toMatch(KEY);
    expect(answer.text).toContain("Copy the key now");
    const api = "https://signals.example/api/signal-staging";
    expect(["universal", "source", "batch", "bulk"].map((url) => answer.copied(`url-${url}`))).toEqual([
      `${api}/webhook/${key}`,
      `${api}/webhook/website/${key}`,
      `${api}/webhook/${key}/batch`,
      `${api}/bulk/${key}`,
    ]);
    expect(answer.copied("curl-universal")).toContain(`curl -X POST '${api}/webhook/${key}'`);
    expect(answer.copied("curl-universal")).not.toContain("X-Api-Secret");
    expect(answer.text).toContain(`path: "/api/signal-staging/webhook/${key}/batch"`);
    // No button leads away from the only page that shows the key, before it is copied.
    expect(answer.page.link("I have copied it").target).toBe(`${keysPath}/${id}`);
    expect(answer.page.targets).not.toContain(`${members.home}/connect?key=${id}`);
    expect(await statusWith(key)).toBe(202);
    for (const page of [keysPath, `${keysPath}/new`, `${members.home}/connect`, path, `${path}/rotate`])
      expect(await members.admin.see(page)).not.toMatch(KEY);
  });

  test("with the toggle, shows a secret that calls must contain", async () => {
    const { key, answer } = await create({ secret: "on" });
    const secret = answer.copied("new-secret");
    expect(answer.copied("curl-universal")).toContain(`-H 'X-Api-Secret: ${secret}'`);
    expect([await statusWith(key), await statusWith(key, { "x-api-secret": secret })]).toEqual([401, 202]);
  });

  test("leaves neither the key, the secret nor the form's token in the database (invariant 6)", async () => {
    const form = await newForm(members.owner, { name: "Nowhere", secret: "on" });
    const answer = await members.owner.post(`${keysPath}/new`, form);
    const hidden = [answer.copied("new-key"), answer.copied("new-secret"), form["form_token"] ?? "-"];
    for (const table of ["api_keys", "audit_log"]) {
      const rows = JSON.stringify((await env.DB.prepare(`SELECT * FROM ${table}`).all()).results);
      for (const value of hidden) expect(rows).not.toContain(value);
    }
  });

  test("by the same form eight times at once creates one key, and one answer shows it", async () => {
    const form = await newForm(members.owner, { name: "Double click" });
    const answers = await Promise.all(Array.from({ length: 8 }, () => members.owner.post(`${keysPath}/new`, form)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array<number>(7).fill(409)]);
    const made = (await listed()).filter(({ name }) => name === "Double click");
    expect(made).toHaveLength(1);
    const id = made[0]?.id ?? "";
    expect(await auditOf(id)).toEqual([`key.created ${members.owner.email}`]);
    const again = answers.find(({ status }) => status === 409);
    expect(again?.text).toContain("This key was already created");
    expect(again?.body).not.toMatch(KEY);
    // A rotation keeps the settings and ends the key that was not shown.
    const rotate = `${keysPath}/${id}/rotate?overlap=none`;
    expect(again?.page.targets).toContain(rotate);
    expect((await members.owner.read(rotate)).field("overlap").value).toBe("none");
    // A form without a valid token is a new form each time.
    for (let n = 0; n < 2; n++) expect((await post({ form_token: "" })).status).toBe(200);
    // In another workspace the token is unknown, so that it reveals nothing.
    const otherTeam = await newMembers({ key: null });
    expect((await otherTeam.owner.post(`${keysPathOf(otherTeam)}/new`, form)).status).toBe(200);
  });

  test("sets the signal limit, and the expiration of a preset or, in UTC, the typed minute", async () => {
    await create({ lifetime: "90d", signal_limit: "250" });
    expect(await newest()).toMatchObject({ signal_limit: 250 });
    expect(Date.parse((await newest()).expires_at ?? "") / DAY).toBeCloseTo(Date.now() / DAY + 90, 2);
    await create({ lifetime: "at", expires: "2099-12-31T23:59" });
    expect(await newest()).toMatchObject({ expires_at: "2099-12-31T23:59:00.000Z" });
  });

  test("shows errors at their fields and keeps the input", async () => {
    const count = (await listed()).length;
    const answer = await post({
      ...TEMPLATE,
      name: "  ",
      lifetime: "at",
      expires: "2020-01-01T00:00",
      secret: "on",
      "rows.0.target": "plan",
      "rows.0.path": "a..b",
      "rows.1.target": "attributes.two words",
      sample: '{"typed": "<script>alert(1)</script>"}',
    });
    expect(answer.status).toBe(422);
    for (const error of [
      "Enter a name.",
      "Enter a time in the future.",
      "A mapping of external_id is missing.",
      "Not a dot path such as company.id.",
      "or attributes.<name>.",
    ])
      expect(answer.text).toContain(error);
    const { page } = answer;
    expect(focusedIn(answer.body)).toBe("name");
    // Several errors have a note above the form.
    expect(page.alerts).toEqual([
      "Nothing was created Fix the fields marked below.",
      "A mapping of external_id is missing.",
    ]);
    const kept = ["expires", "rows.0.path", "rows.1.target"].map((name) => page.field(name).value);
    expect(kept).toEqual(["2020-01-01T00:00", "a..b", "attributes.two words"]);
    expect([page.field("secret").isChecked, page.chosen("endpoint_type")]).toEqual([true, "product_org"]);
    expect(page.inlineScripts).toHaveLength(0);
    expect(await listed()).toHaveLength(count);
  });
});

describe("§2.1: the payload template", () => {
  test("creates a product org key whose curl example is accepted", async () => {
    const { key, answer } = await create({ ...TEMPLATE, name: "Accounts" });
    expect((await newest()).payload_template).toEqual([
      { target: "external_id", path: "company.id", type: "string", required: true },
      { target: "attributes.region", path: "company.region", type: "string", required: false },
    ]);
    expect(answer.copied("url-product-orgs")).toBe(`https://signals.example/api/product-orgs/webhook/${key}`);
    const body = /-d '(.*)'$/.exec(answer.copied("curl-product-orgs"))?.[1] ?? "";
    const sent = await members.workspace.send(body, { key, path: "/api/product-orgs/webhook/{key}" });
    expect(sent.status).toBe(202);
  });

  test("is edited without JavaScript: rows can be added and removed, and all input stays", async () => {
    const typed = { ...TEMPLATE, name: "Kept", sample: "{ not yet" };
    const { page: more } = await post({ ...typed, do: "add" });
    expect([more.fields("rows.2.target").length, more.field("name").value]).toEqual([1, "Kept"]);
    expect(more.field("sample").value).toBe("{ not yet");
    const { page: fewer } = await post({ ...typed, do: "remove.0" });
    expect(fewer.fields("rows.1.target")).toHaveLength(0);
    expect(fewer.field("rows.0.path").value).toBe("company.region");
    expect(fewer.text).not.toContain("Nothing was created");
  });

  test("maps a sample at once, or reports the exact error", async () => {
    const preview = (fields: Form) => post({ ...TEMPLATE, ...fields }, "/preview");
    const { text } = await preview({ sample: '{"company":{"id":42,"region":"<b>eu</b>"}}' });
    for (const shown of ['"external_id": "42"', '"region": "<b>eu</b>"']) expect(text).toContain(shown);
    for (const [fields, message] of [
      [{ sample: '{"company":{}}' }, "`company.id` (for `external_id`) is required"],
      [{ sample: '{"company":' }, "Not valid JSON at line 1, column 12"],
      [{ sample: "[]" }, "The body holds no signals"],
      [{ sample: "{}", "rows.0.path": "" }, "Mapping 1: Not a dot path"],
      [{ sample: "" }, "The mapped account appears here."],
    ] as const)
      expect((await preview(fields)).text).toContain(message);
    const long = await preview({ sample: JSON.stringify({ company: { id: "1", region: "x".repeat(60_000) } }) });
    expect(long.body).toContain("x".repeat(200));
    expect(long.body.length).toBeLessThan(6_000);
  });

  test("is proposed from a sample", async () => {
    const sample = '{"account_id":"a1","mrr":"12.5","zone":"eu"}';
    const { page } = await post({ ...TEMPLATE, sample, do: "fill" });
    const values = page.all("input").map(({ value }) => value);
    expect(values).toEqual(expect.arrayContaining(["account_id", "mrr", "zone"]));
    expect(page.text).toContain("Mapped account");
  });
});

describe("§2.1: the list of keys", () => {
  let fresh: Members;
  let path: string;

  beforeEach(async () => {
    fresh = await newMembers({ key: null });
    path = keysPathOf(fresh);
  });

  const deactivate = (id: string) => fresh.workspace.operator("POST", `/keys/${id}/deactivate`);

  test("says what to do if it is empty, and shows each key masked, with its settings and last use", async () => {
    expect(await fresh.owner.see(path)).toContain("No API keys yet");
    const { id, key } = await fresh.workspace.newKey({ name: "<script>alert(1)</script>" });
    const { page, body } = await fresh.owner.get(path);
    expect([page.inlineScripts.length, body.includes(key)]).toEqual([0, false]);
    const row = page.only(`tr[id="${id}"]`).text;
    for (const text of ["<script>alert(1)", masked(key), "Signal Staging", "Never", "Active"])
      expect(row).toContain(text);
    expect(page.form(/deactivate$/).text).toContain("No call has used it yet.");
    await fresh.workspace.send(SIGNAL, { key });
    const used = await fresh.owner.read(path);
    expect(used.only(`tr[id="${id}"]`).text).toContain("just now");
    expect(used.form(/deactivate$/).text).toContain("The last call came just now.");
  });

  test("shows deactivated and expired keys as Inactive with the time, without actions, and active keys alone", async () => {
    await deactivate((await fresh.workspace.newKey({ name: "ends" })).id);
    const expires_at = new Date(Date.now() + 60_000).toISOString();
    await fresh.workspace.newKey({ name: "expires", expires_at });
    const all = await fresh.owner.read(path);
    expect(all.text).toMatch(/expires.* Active .*ends.* Inactive Deactivated just now/);
    const active = all.link("Active").target ?? "";
    expect((await fresh.owner.read(active)).rows.map(({ text }) => text)).toEqual([expect.stringMatching(/^expires /)]);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.parse(expires_at) });
    expect((await fresh.owner.read(active)).text).toContain("No active API keys");
    const { text, rows } = await fresh.owner.read(path);
    expect(text).toMatch(/expires.* Inactive Expired .*ends.* Inactive Deactivated/);
    expect(rows.flatMap((row) => row.buttons())).toHaveLength(0);
  });

  test("highlights a key from thirty days before its expiration, and no other key", async () => {
    const now = Date.now();
    vi.useFakeTimers({ toFake: ["Date"], now });
    const add = (name: string, ms: number) =>
      fresh.workspace.newKey({ name, expires_at: new Date(now + ms).toISOString() });
    const highlighted = async () => (await fresh.owner.read(path)).all("small.warn").length;
    await add("far", 30 * DAY);
    expect(await highlighted()).toBe(0);
    const near = await add("near", 30 * DAY - 1);
    expect(await highlighted()).toBe(1);
    await deactivate(near.id);
    expect(await highlighted()).toBe(0);
  });

  test("distinguishes the keys of a rotation in every link and button", async () => {
    const { id } = await fresh.workspace.newKey({ name: "Website" });
    await postRotation(`${path}/${id}`, { overlap: "7d" }, fresh);
    const page = await fresh.owner.read(path);
    const labels = page.rows.flatMap((row) =>
      row.all("a, summary").map((part) => part.attribute("aria-label") ?? part.text),
    );
    expect([labels.length, new Set(labels).size]).toEqual([8, 8]);
    for (const label of labels) expect(label).toMatch(/Website .*sk_.{5}…/);
  });
});

test("§3.1: deactivating a key asks first and names the effect; then no call is accepted, with one log entry", async () => {
  const { id, key, path } = await create({ name: "To end" });
  for (const page of [keysPath, path]) {
    const question = (await members.owner.read(page)).form(`${path}/deactivate`).text;
    expect(question).toContain(`Deactivate To end (${masked(key)})?`);
    expect(question).toContain("Calls with this key are rejected with 401 from now on.");
  }
  expect(await statusWith(key)).toBe(202);
  const answer = await members.owner.post(`${path}/deactivate`);
  expect([answer.status, await statusWith(key)]).toEqual([303, 401]);
  expect(await members.owner.see(answer.location)).toContain("API key deactivated.");
  expect((await members.owner.post(`${path}/deactivate`)).status).toBe(303);
  expect((await members.owner.read(path)).forms(`${path}/deactivate`)).toHaveLength(0);
  const { email } = members.owner;
  expect(await auditOf(id)).toEqual([`key.created ${email}`, `key.deactivated ${email}`]);
});

describe("the page of a key", () => {
  test("shows the key's settings, creator and mapping, and only its masked value", async () => {
    const { path, key } = await create({ ...TEMPLATE, name: "CRM updates", secret: "on", lifetime: "90d" });
    const page = await members.admin.read(path);
    for (const expected of [
      masked(key),
      "Product Org Updates",
      "Shared secret Required",
      `by ${members.owner.email}`,
      "external_id company.id string Yes",
      "attributes.region company.region string No",
      "Last used Never",
      "No calls in the last 30 days",
    ])
      expect(page.text).toContain(expected);
    expect(page.text).not.toMatch(KEY);
    expect(page.targets).toContain(`${path}/rotate`);
  });

  test("shows the rejected calls of the key by reason, with times", async () => {
    const { path, key } = await create({ name: "Sender" });
    const otherKey = await create({ name: "Other sender" });
    for (const body of [SIGNAL, { event: "" }, { event: "" }, "{ broken"]) await members.workspace.send(body, { key });
    await members.workspace.send({ event: "", email: "a" }, { key: otherKey.key });
    const { text } = await members.owner.read(path);
    expect(text).toContain("1 call accepted and 3 rejected in 30 days");
    expect(text).toContain("3 rejected calls in 30 days");
    expect(text).toMatch(/Not JSON 1 just now just now .*No event 2 just now just now/);
    expect(text).not.toMatch(/Last used Never/);
  });

  test("has charts of calls and signals that begin on the same day", async () => {
    const { path, key } = await create({ name: "Sender" });
    await members.workspace.send(SIGNAL, { key });
    await members.workspace.settled();
    const page = await members.owner.read(path);
    const [calls, signals] = page.all("figure").map((figure) => figure.all("svg text").map(({ text }) => text));
    expect(signals).toEqual(calls);
  });

  test("links a key to its successor and back", async () => {
    const { path } = await create({ name: "Chained" });
    await postRotation(path, { overlap: "1h" });
    const nextPath = `${keysPath}/${(await newest()).id}`;
    const [old, successor] = [await members.owner.read(path), await members.owner.read(nextPath)];
    expect([old.text, old.targets]).toEqual([
      expect.stringContaining("Replaced by"),
      expect.arrayContaining([nextPath]),
    ]);
    expect([successor.text, successor.targets]).toEqual([
      expect.stringContaining("Replaces"),
      expect.arrayContaining([path]),
    ]);
  });

  test("changes the name and the inactivity alert with an audit entry each", async () => {
    const { id, path } = await create({ name: "Before" });
    const saved = await members.admin.post(path, { name: " After ", silent_after_days: "3" });
    expect([saved.status, saved.location]).toEqual([303, `${path}?done=saved`]);
    await members.admin.post(path, { name: "After", silent_after_days: "3" });
    const page = await members.owner.read(path);
    expect([page.field("name").value, page.field("silent_after_days").value]).toEqual(["After", "3"]);
    const { email } = members.admin;
    expect((await auditOf(id)).slice(1)).toEqual([`key.renamed ${email}`, `key.silence_changed ${email}`]);
    await members.admin.post(path, { name: "After", silent_after_days: "3", signal_limit: "10" });
    await members.admin.post(path, { name: "After", silent_after_days: "3", signal_limit: "10" });
    expect((await auditOf(id)).slice(3)).toEqual([`key.limit_changed ${email}`]);
    await members.owner.post(`${path}/deactivate`);
    await members.owner.post(path, { name: "Ended" });
    expect((await auditOf(id)).slice(-2)).toEqual([
      `key.deactivated ${members.owner.email}`,
      `key.renamed ${members.owner.email}`,
    ]);
  });
});

describe("design §5: rotating a key", () => {
  async function rotation(overlap: string) {
    const { id, key, path } = await create({ name: `Rotated ${overlap}` });
    const page = await members.owner.read(`${path}/rotate`);
    for (const text of ["Now", "1 hour", "24 hours", "7 days"]) expect(page.text).toContain(text);
    const form: Form = { form_token: page.field("form_token").value ?? "", overlap };
    return { id, old: key, rotate: (fields: Form = {}) => postRotation(path, { ...form, ...fields }) };
  }

  test("shows the successor once, keeps both keys working, and the list shows which is still in use", async () => {
    const { id, old, rotate } = await rotation("1h");
    const answer = await rotate();
    expect([answer.status, answer.headers.get("cache-control")]).toEqual([200, "no-store"]);
    const successor = answer.copied("new-key");
    expect(successor).not.toBe(old);
    expect(answer.text).toContain(`Replaces ${masked(old)}`);
    expect((await newest()).successor_of).toBe(id);
    expect(await members.owner.see(keysPath)).toContain("not used since");
    const ended = (await listed()).find((key) => key.id === id);
    const endsAt = `${exactTime(Date.parse(ended?.expires_at ?? ""))} in 1 hour`;
    for (const path of [keysPath, `${keysPath}/${id}`]) expect((await members.owner.read(path)).text).toContain(endsAt);
    expect(await statusWith(old)).toBe(202);
    const list = await members.owner.see(keysPath);
    for (const use of ["still in use", "not in use yet"]) expect(list).toContain(use);
    const { id: successorId } = await newest();
    await members.owner.post(`${keysPath}/${id}/deactivate`);
    const row = (await members.owner.read(keysPath)).only(`tr[id="${successorId}"]`).text;
    expect(row).toContain("Replaces");
    expect(row).not.toContain("not in use yet");
    expect(await statusWith(successor)).toBe(202);
    expect(await auditOf(id)).toContain(`key.rotated ${members.owner.email}`);
  });

  test("without an overlap ends the old key before the new one is shown; a repeated form changes nothing", async () => {
    const { old, rotate } = await rotation("none");
    expect((await rotate()).text).toContain("The old key has ended");
    expect(await statusWith(old)).toBe(401);
    const count = (await listed()).length;
    const again = await rotate();
    expect([again.status, again.text]).toEqual([409, expect.stringContaining("This key was already created")]);
    const ended = await rotate({ form_token: crypto.randomUUID(), overlap: "1h" });
    expect([ended.status, ended.text]).toEqual([409, expect.stringContaining("An inactive key cannot be rotated")]);
    expect(ended.page.forms(/rotate$/)).toHaveLength(0);
    expect(await listed()).toHaveLength(count);
  });

  test("by the same form eight times at once creates one successor, and the old key ends as that request said", async () => {
    const { id, rotate } = await rotation("24h");
    const overlaps = ["1h", "24h", "7d", "1h", "24h", "7d", "1h", "24h"];
    const answers = await Promise.all(overlaps.map((overlap) => rotate({ overlap })));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array<number>(7).fill(409)]);
    const keys = await listed();
    expect(keys.filter(({ successor_of }) => successor_of === id)).toHaveLength(1);
    const select =
      "SELECT at, detail ->> 'overlap_ms' AS overlap FROM audit_log WHERE target = ? AND action = 'key.rotated'";
    const { results } = await env.DB.prepare(select).bind(id).all<{ at: string; overlap: number }>();
    const ends = results.map(({ at, overlap }) => new Date(Date.parse(at) + overlap).toISOString());
    expect(ends).toEqual([keys.find((key) => key.id === id)?.expires_at]);
  });

  test("is rejected for a form that created another key, and ends nothing", async () => {
    const form = await newForm(members.owner);
    await members.owner.post(`${keysPath}/new`, form);
    const { old, rotate } = await rotation("none");
    expect((await rotate({ form_token: form["form_token"] ?? "" })).status).toBe(409);
    expect(await statusWith(old)).toBe(202);
  });

  test("asks for the successor's expiration if the old key has one, and offers to keep it", async () => {
    const { path } = await create({ name: "Expiring", lifetime: "30d" });
    const { expires_at: old } = await newest();
    expect((await members.owner.read(`${path}/rotate`)).field("lifetime").value).toBe("");
    const rotated = async (lifetime: string) => {
      expect((await postRotation(path, { overlap: "1h", lifetime })).status).toBe(200);
      return (await newest()).expires_at;
    };
    // Also the second time, when the old key already ends within the hour.
    for (let n = 0; n < 2; n++) expect(await rotated("keep")).toBe(old);
    expect(Date.parse((await rotated("365d")) ?? "") / DAY).toBeCloseTo(Date.now() / DAY + 365, 2);
  });
});

describe("a workspace with the maximum number of API keys", () => {
  const LIMIT = "This workspace has reached its limit of 100 active API keys. Deactivate a key that is no longer used.";
  let full: Members;
  let path: string;
  let ids: string[];
  let firstId: string;

  beforeEach(async () => {
    full = await newMembers({ key: null });
    path = keysPathOf(full);
    ids = Array.from({ length: WORKSPACE_MAX_ACTIVE_KEYS }, () => newId("key", Date.now() - 7 * DAY));
    [firstId = ""] = ids;
    await env.DB.prepare(
      `INSERT INTO api_keys (id, first_key_id, workspace_id, name, endpoint_type, key_hash, key_first8, key_last4, created_at)
       SELECT value, value, ?1, 'Old', 'signal_staging', value, 'sk_aaaaa', 'aaaa', ?2 FROM json_each(?3)`,
    )
      .bind(full.workspace.id, new Date().toISOString(), JSON.stringify(ids))
      .run();
  });

  test("lists all of them, the newest first", async () => {
    const rows = (await full.owner.readAll(path)).flatMap((page) => page.rows);
    expect(rows.map((row) => row.attribute("id"))).toEqual(ids.toSorted().toReversed());
  });

  test("rejects a further key, says what to do, keeps the input, and accepts the same form later", async () => {
    const form_token = (await full.owner.read(`${path}/new`)).field("form_token").value ?? "";
    const form = { form_token, name: "Shop", lifetime: "90d", secret: "on", ...TEMPLATE };
    const rejected = await full.owner.post(`${path}/new`, form);
    expect([rejected.status, rejected.text]).toEqual([422, expect.stringContaining(LIMIT)]);
    const { page } = rejected;
    const kept = ["name", "lifetime", "rows.0.path", "form_token"].map((name) => page.field(name).value);
    expect(kept).toEqual(["Shop", "90d", "company.id", form_token]);
    expect(page.chosen("endpoint_type")).toBe("product_org");
    await full.owner.post(`${path}/${firstId}/deactivate`);
    expect((await full.owner.post(`${path}/new`, form)).status).toBe(200);
  });

  test("accepts a rotation of each key, and rejects a second one while its successor is active", async () => {
    const rotate = (fields: Form) => postRotation(`${path}/${firstId}`, fields, full);
    expect((await rotate({ overlap: "7d" })).status).toBe(200);
    const rejected = await rotate({ overlap: "1h", lifetime: "30d" });
    expect([rejected.status, rejected.text]).toEqual([422, expect.stringContaining(LIMIT)]);
    expect([rejected.page.field("overlap").value, rejected.page.field("lifetime").value]).toEqual(["1h", "30d"]);
    expect((await listed(full))[0]).toMatchObject({ successor_of: firstId });
  });

  test("rejects an oversized payload template before it checks the number of keys", async () => {
    const rows = Array.from({ length: 100 }, (_, n) => ({
      [`rows.${n}.target`]: n === 0 ? "external_id" : `attributes.a${n}`,
      [`rows.${n}.path`]: "語".repeat(255),
      [`rows.${n}.type`]: "string",
    }));
    const fields = { name: "Shop", endpoint_type: "product_org", lifetime: "never", form_token: crypto.randomUUID() };
    const rejected = await full.owner.post(`${path}/new`, Object.assign(fields, ...rows) as Form);
    expect(rejected.status).toBe(422);
    expect(rejected.text).toContain("All mappings together have more than 65536 bytes.");
  });
});

test("a new key can have a signal limit; its page, Overview and Usage show how much of it is used", async () => {
  const { workspace, owner, member, home } = await newMembers({ key: { name: "Website", signal_limit: 5 } });
  const path = `${home}/settings/api-keys/${workspace.key.id}`;
  const notice = async () =>
    (await owner.read(path))
      .all(".notice")
      .map((shown) => `${shown.attribute("class") ?? ""}: ${shown.text}`)
      .join();
  const attention = async (browser: typeof owner) =>
    (await browser.read(`${home}/`))
      .all("#attention .badge")
      .map((badge) => `${badge.attribute("class") ?? ""}: ${badge.text}`);
  await workspace.send([{ event: "Visit" }, { event: "Visit" }, { event: "Visit" }]);
  expect((await owner.read(path)).text).toContain("3 of 5 signals used");
  expect(await notice()).not.toContain("limit");
  await workspace.send({ event: "Visit" });
  await workspace.settled();
  expect(await notice()).toContain("notice warn: 80% of the key's signal limit used");
  expect(await attention(owner)).toEqual(["badge warn: 80% of a key's signal limit used"]);
  await workspace.send([{ event: "Visit" }, { event: "Visit" }]);
  await workspace.settled();
  expect(await notice()).toMatch(
    /notice bad: Signal limit of the key reached.*Calls are rejected with 429.*Deactivate/,
  );
  expect(await attention(owner)).toEqual(["badge bad: Signal limit of a key reached"]);
  expect((await member.read(`${home}/`)).text).not.toContain("Website");
  const usage = await owner.read(`${home}/usage`);
  expect(usage.table("Signals by key").rows.map(({ cells }) => cells.slice(1))).toEqual([["5", "5"]]);
  expect((await member.read(`${home}/usage`)).text).not.toContain("Signals by key");
  // A rotation keeps both.
  const successor = await workspace.operator<{ id: string }>("POST", `/keys/${workspace.key.id}/rotate`, {
    overlap: "none",
  });
  expect((await owner.read(`${home}/settings/api-keys/${successor.id}`)).text).toContain("5 of 5 signals used");
  expect(await attention(owner)).toEqual(["badge bad: Signal limit of a key reached"]);
});
