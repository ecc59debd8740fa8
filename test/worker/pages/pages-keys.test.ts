/** Settings › API Keys (spec §2.1, §3.1, §5.6; design §5), as owners, admins, members and strangers see it. */
import { env } from "cloudflare:workers";
import { beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { WORKSPACE_MAX_ACTIVE_KEYS } from "../../../src/limits.ts";
import { newId } from "../../../src/platform/ids.ts";
import { readHtml, textOf, type Part } from "../../support/html.ts";
import { focusedIn, type Browser, newMembers, type Members } from "../../support/members.ts";
import { operator } from "../../support/workspace.ts";

const SIGNAL = { email: "jane@example.com", event: "Filled Out Form" };
const KEY = /sk_[0-9A-Za-z]{40}/;

interface ListedKey {
  id: string;
  name: string;
  masked_key: string;
  status: string;
  endpoint_type: string;
  expires_at: string | null;
  has_secret: boolean;
  payload_template: unknown;
  successor_of: string | null;
}

let members: Members;
let keysPath: string;

beforeAll(async () => {
  members = await newMembers({ key: null });
  keysPath = `${members.home}/settings/api-keys`;
});

async function listed(of: Members = members): Promise<ListedKey[]> {
  return (await operator<{ items: ListedKey[] }>("GET", `/workspaces/${of.workspace.id}/keys?limit=200`)).items;
}

async function newest(of: Members = members): Promise<ListedKey> {
  const [key] = await listed(of);
  if (key === undefined) throw new Error("no key");
  return key;
}

async function auditActions(target: string): Promise<{ action: string; actor: string }[]> {
  const { results } = await env.DB.prepare("SELECT action, actor FROM audit_log WHERE target = ? ORDER BY id")
    .bind(target)
    .all<{ action: string; actor: string }>();
  return results;
}

function tokenIn(html: string): string {
  return readHtml(html).fields("form_token")[0]?.value ?? "";
}

/** The selected radio button of this name. */
function chosenIn(html: string, name: string): (string | undefined)[] {
  const fields = readHtml(html).fields(name);
  return fields.filter(({ isChecked }) => isChecked).map(({ value }) => value);
}

/** The value of a `Copy` part, as the browser would show it. */
function copied(html: string, id: string): string {
  return readHtml(html).all(`[id="${id}"]`)[0]?.verbatim ?? "";
}

async function newForm(browser: Browser, fields: Record<string, string> = {}): Promise<Record<string, string>> {
  const html = await browser.see(`${keysPath}/new`);
  return { form_token: tokenIn(html), name: "CRM", endpoint_type: "signal_staging", lifetime: "never", ...fields };
}

async function create(browser: Browser, fields: Record<string, string> = {}): Promise<string> {
  const response = await browser.post(`${keysPath}/new`, await newForm(browser, fields));
  const html = await response.text();
  if (response.status !== 200) throw new Error(`${response.status} ${html}`);
  return html;
}

const TEMPLATE = {
  endpoint_type: "product_org",
  "rows.0.target": "external_id",
  "rows.0.path": "company.id",
  "rows.0.type": "string",
  "rows.1.target": "attributes",
  "rows.1.attribute": "region",
  "rows.1.path": "company.region",
  "rows.1.type": "string",
};

describe("§5.6: who may see and manage keys", () => {
  test("owners and admins see the list", async () => {
    await expect(members.owner.see(keysPath)).resolves.toContain("Create API Key");
    await expect(members.admin.see(keysPath)).resolves.toContain("Create API Key");
  });

  test("a member who opens its URL sees an explanation instead of the list, and cannot change anything", async () => {
    await create(members.owner, { name: "Hidden from members" });
    const { id, masked_key } = await newest();
    const count = (await listed()).length;
    const answers = await Promise.all([
      members.member.get(keysPath),
      members.member.get(`${keysPath}/new`),
      members.member.get(`${keysPath}/${id}/rotate`),
      members.member.get(`${keysPath}/${id}/deactivate`),
      members.member.post(`${keysPath}/new`, { form_token: crypto.randomUUID(), name: "x" }),
      members.member.post(`${keysPath}/new/preview`, { sample: "{}" }),
      members.member.post(`${keysPath}/${id}/rotate`, { form_token: crypto.randomUUID(), overlap: "none" }),
      members.member.post(`${keysPath}/${id}/deactivate`),
    ]);
    for (const answer of answers) {
      expect(answer.status).toBe(403);
      const html = await answer.text();
      expect(html).toContain("Only owners and admins can see or manage API keys.");
      expect(html).not.toContain("Hidden from members");
      expect(html).not.toContain(masked_key);
    }
    expect(await listed()).toHaveLength(count);
    expect((await newest()).status).toBe("Active");
    // Spec §1: the sidebar does not link there either.
    expect((await members.member.read(`${members.home}/signals`)).targets).not.toContain(keysPath);
    expect((await members.owner.read(`${members.home}/signals`)).targets).toContain(keysPath);
  });

  test("a stranger finds nothing, and another workspace's key is not found", async () => {
    expect((await members.stranger.get(keysPath)).status).toBe(404);
    const otherTeam = await newMembers({ key: null });
    await operator("POST", `/workspaces/${otherTeam.workspace.id}/keys`, { name: "theirs" });
    const { id } = await newest(otherTeam);
    for (const action of ["rotate", "deactivate"]) {
      expect((await members.owner.get(`${keysPath}/${id}/${action}`)).status).toBe(404);
      const form = { form_token: crypto.randomUUID(), overlap: "none" };
      expect((await members.owner.post(`${keysPath}/${id}/${action}`, form)).status).toBe(404);
    }
    expect((await newest(otherTeam)).status).toBe("Active");
  });
});

describe("§3.1: creating a key", () => {
  test("shows the full key once, with its webhook URLs and calls that work", async () => {
    const response = await members.admin.post(`${keysPath}/new`, await newForm(members.admin, { name: "Campaigns" }));
    expect(response.status).toBe(200);
    expect(response.headers.get("cache-control")).toBe("no-store");
    const html = await response.text();
    const key = copied(html, "new-key");
    expect(key).toMatch(KEY);
    expect(html).toContain("it will not be shown again");
    expect(html).toContain("It is stored as a hash");
    const origin = "https://signals.example";
    expect(copied(html, "url-universal")).toBe(`${origin}/api/signal-staging/webhook/${key}`);
    expect(copied(html, "url-source")).toBe(`${origin}/api/signal-staging/webhook/website/${key}`);
    expect(copied(html, "url-batch")).toBe(`${origin}/api/signal-staging/webhook/${key}/batch`);
    expect(copied(html, "url-bulk")).toBe(`${origin}/api/signal-staging/bulk/${key}`);
    expect(copied(html, "curl-universal")).toContain(`curl -X POST '${origin}/api/signal-staging/webhook/${key}'`);
    expect(html).not.toContain("X-Api-Secret");
    const made = await newest();
    expect(readHtml(html).targets).toContain(`${members.home}/connect?key=${made.id}`);
    expect((await members.workspace.send(SIGNAL, { key })).status).toBe(202);

    // No page shows the key again.
    for (const path of [keysPath, `${keysPath}/new`, `${members.home}/connect`, `${keysPath}/${made.id}/rotate`]) {
      expect(await members.admin.see(path)).not.toMatch(KEY);
    }
  });

  test("with the toggle, shows a secret that calls must contain", async () => {
    const html = await create(members.owner, { secret: "on" });
    const [key, secret] = [copied(html, "new-key"), copied(html, "new-secret")];
    expect(copied(html, "curl-universal")).toContain(`-H 'X-Api-Secret: ${secret}'`);
    expect((await members.workspace.send(SIGNAL, { key })).status).toBe(401);
    expect((await members.workspace.send(SIGNAL, { key, headers: { "x-api-secret": secret } })).status).toBe(202);
  });

  test("leaves neither the key, the secret nor the form's token in the database (invariant 6)", async () => {
    const form = await newForm(members.owner, { name: "Nowhere", secret: "on" });
    const html = await (await members.owner.post(`${keysPath}/new`, form)).text();
    const hidden = [copied(html, "new-key"), copied(html, "new-secret"), form["form_token"] ?? "-"];
    for (const table of ["api_keys", "audit_log"]) {
      const rows = JSON.stringify((await env.DB.prepare(`SELECT * FROM ${table}`).all()).results);
      for (const value of hidden) expect(rows).not.toContain(value);
    }
  });

  test("a repeated form creates no second key and shows none", async () => {
    const form = await newForm(members.owner, { name: "Once" });
    const first = await (await members.owner.post(`${keysPath}/new`, form)).text();
    const count = (await listed()).length;
    const again = await members.owner.post(`${keysPath}/new`, form);
    expect(again.status).toBe(409);
    const html = await again.text();
    expect(html).toContain("created already");
    expect(html).toContain("deactivate this key and create a new one");
    const { id } = await newest();
    expect(readHtml(html).targets).toContain(`${keysPath}/${id}/deactivate`);
    // The suggested next step: a rotation keeps the settings and ends the key that was not shown.
    expect(readHtml(html).targets).toContain(`${keysPath}/${id}/rotate?overlap=none`);
    expect(chosenIn(await members.owner.see(`${keysPath}/${id}/rotate?overlap=none`), "overlap")).toEqual(["none"]);
    expect(html).not.toMatch(KEY);
    expect(html).not.toContain(copied(first, "new-key"));
    expect(await listed()).toHaveLength(count);
  });

  test("the same form sent eight times at once creates one key and one audit entry, and one answer shows the key", async () => {
    const form = await newForm(members.owner, { name: "Double click" });
    const answers = await Promise.all(Array.from({ length: 8 }, () => members.owner.post(`${keysPath}/new`, form)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409, 409, 409, 409, 409]);
    const made = (await listed()).filter(({ name }) => name === "Double click");
    expect(made).toHaveLength(1);
    expect(await auditActions(made[0]?.id ?? "")).toEqual([{ action: "key.created", actor: members.owner.email }]);
    const entries = env.DB.prepare("SELECT 1 FROM audit_log WHERE workspace_id = ? AND detail LIKE '%Double click%'");
    expect((await entries.bind(members.workspace.id).all()).results).toHaveLength(1);
  });

  test("the same token in another workspace creates a key there: tokens reveal nothing across workspaces", async () => {
    const form = await newForm(members.owner);
    await members.owner.post(`${keysPath}/new`, form);
    const otherTeam = await newMembers({ key: null });
    expect((await otherTeam.owner.post(`${otherTeam.home}/settings/api-keys/new`, form)).status).toBe(200);
  });

  test.each([
    ["30d", 30],
    ["90d", 90],
    ["365d", 365],
  ])("a preset of %s ends the key %i days from now", async (lifetime, days) => {
    await create(members.owner, { lifetime });
    expect(Date.parse((await newest()).expires_at ?? "") / 86_400_000).toBeCloseTo(Date.now() / 86_400_000 + days, 2);
  });

  test("the expiration is in UTC, exact to the typed minute", async () => {
    await create(members.owner, { lifetime: "at", expires: "2099-12-31T23:59" });
    expect(await newest()).toMatchObject({ expires_at: "2099-12-31T23:59:00.000Z", endpoint_type: "signal_staging" });
  });

  test("the form focuses the name, and after an error the first invalid field", async () => {
    expect(focusedIn(await members.owner.see(`${keysPath}/new`))).toBe("name");
    const focused = async (fields: Record<string, string>) => {
      const answer = await members.owner.post(`${keysPath}/new`, await newForm(members.owner, fields));
      return focusedIn(await answer.text());
    };
    expect(await focused({ name: " ", lifetime: "" })).toBe("name");
    expect(await focused({ lifetime: "at", expires: "2020-01-01T00:00" })).toBe("expires");
    expect(await focused({ ...TEMPLATE, "rows.1.attribute": "", "rows.2.path": "a..b" })).toBe("rows.1.target");
  });

  test("errors are shown at their fields, and the input is kept", async () => {
    const count = (await listed()).length;
    const typed = await newForm(members.owner, {
      ...TEMPLATE,
      name: "  ",
      lifetime: "at",
      expires: "2020-01-01T00:00",
      secret: "on",
      "rows.0.target": "plan",
      "rows.0.path": "a..b",
      "rows.1.attribute": "two words",
      sample: '{"typed": "<script>alert(1)</script>"}',
    });
    const answer = await members.owner.post(`${keysPath}/new`, typed);
    expect(answer.status).toBe(422);
    const html = await answer.text();
    for (const error of [
      "Give the key a name.",
      "It must lie in the future.",
      "A mapping of external_id is missing.",
      "Not a dot path such as company.id.",
      "Give the attribute a name, without spaces and dots.",
    ]) {
      expect(html).toContain(error);
    }
    const page = readHtml(html);
    const values = page.all("input").map(({ value }) => value);
    for (const kept of ["2020-01-01T00:00", "a..b", "two words", typed["form_token"] ?? "-"]) {
      expect(values).toContain(kept);
    }
    expect(page.field("secret").isChecked).toBe(true);
    expect(chosenIn(html, "endpoint_type")).toEqual(["product_org"]);
    expect(page.inlineScripts).toHaveLength(0);
    expect(await listed()).toHaveLength(count);
  });

  test.each([
    ["no token", { form_token: "" }, "The form was not complete."],
    ["a name that is too long", { name: "x".repeat(256) }, "At most 255 characters."],
    ["a name that nobody sees", { name: "\u200b\u200d" }, "A name that can be seen, on one line."],
    ["a name on two lines", { name: "one\ntwo" }, "A name that can be seen, on one line."],
    ["a key for a name", { name: `sk_${"aB3".repeat(13)}x` }, "It holds an API key or a secret"],
    ["a day that does not exist", { lifetime: "at", expires: "2099-02-31T00:00" }, "Give a date and a time"],
    ["no lifetime", { lifetime: "" }, "Choose when the key expires."],
    ["a lifetime that is none", { lifetime: "toString" }, "Choose when the key expires."],
    ["an old key's lifetime where there is no old key", { lifetime: "keep" }, "Choose when the key expires."],
    ["a product org key without a template", { endpoint_type: "product_org" }, "A mapping of external_id is missing."],
  ])("refuses %s", async (_, fields, error) => {
    const answer = await members.owner.post(`${keysPath}/new`, await newForm(members.owner, fields));
    expect(answer.status).toBe(422);
    expect(await answer.text()).toContain(error);
  });
});

describe("§2.1: the payload template", () => {
  test("creates a product org key whose curl example is accepted", async () => {
    const html = await create(members.owner, { ...TEMPLATE, name: "Accounts" });
    const key = copied(html, "new-key");
    expect((await newest()).payload_template).toEqual([
      { target: "external_id", path: "company.id", type: "string", required: true },
      { target: "attributes.region", path: "company.region", type: "string", required: false },
    ]);
    expect(copied(html, "url-product-orgs")).toBe(`https://signals.example/api/product-orgs/webhook/${key}`);
    const body = /-d '(.*)'$/.exec(copied(html, "curl-product-orgs"))?.[1] ?? "";
    const answer = await members.workspace.send(body, { key, path: "/api/product-orgs/webhook/{key}" });
    expect(answer.status).toBe(202);
  });

  test("is edited without JavaScript: rows can be added and removed, and all input stays", async () => {
    const typed = await newForm(members.owner, { ...TEMPLATE, name: "Kept", sample: "{ not yet" });
    const more = readHtml(await (await members.owner.post(`${keysPath}/new`, { ...typed, do: "add" })).text());
    expect(more.fields("rows.2.target")).toHaveLength(1);
    expect(more.field("name").value).toBe("Kept");
    expect(more.text).toContain("{ not yet");
    const fewer = readHtml(await (await members.owner.post(`${keysPath}/new`, { ...typed, do: "remove.0" })).text());
    expect(fewer.fields("rows.1.target")).toHaveLength(0);
    expect(fewer.field("rows.0.path").value).toBe("company.region");
    expect(fewer.text).not.toContain("Nothing was saved");
  });

  test("maps a sample at once, or reports the exact error", async () => {
    const preview = async (fields: Record<string, string>): Promise<Part> => {
      const answer = await members.owner.post(`${keysPath}/new/preview`, { ...TEMPLATE, ...fields });
      expect(answer.status).toBe(200);
      return readHtml(await answer.text());
    };
    const record = await preview({ sample: '{"company":{"id":42,"region":"<b>eu</b>"}}' });
    const mapped = record.only("#mapped");
    expect(mapped.all("code").map(({ text }) => text)).toContain("42");
    expect(mapped.text).toContain("attributes.region");
    expect(mapped.text).toContain("<b>eu");
    const refusals = [
      [{ sample: '{"company":{}}' }, "`company.id` (for `external_id`) is required"],
      [{ sample: '{"company":' }, "Not valid JSON at line 1, column 12"],
      [{ sample: "[]" }, "The body holds no signals"],
      [{ sample: "{}", "rows.0.path": "" }, "Mapping 1: Give the path"],
      [{ sample: "" }, "The mapped record is shown here."],
    ] as const;
    for (const [fields, message] of refusals) expect((await preview(fields)).text).toContain(message);
  });

  test("is proposed from a sample", async () => {
    const typed = await newForm(members.owner, { ...TEMPLATE, sample: '{"account_id":"a1","mrr":"12.5","zone":"eu"}' });
    const html = await (await members.owner.post(`${keysPath}/new`, { ...typed, do: "fill" })).text();
    const values = readHtml(html)
      .all("input")
      .map(({ value }) => value);
    for (const path of ["account_id", "mrr", "zone"]) expect(values).toContain(path);
    expect(textOf(html)).toContain("The mapped record");
  });
});

describe("§2.1: the list of keys", () => {
  test("is empty at first and says what to do", async () => {
    const fresh = await newMembers({ key: null });
    expect(await fresh.owner.see(`${fresh.home}/settings/api-keys`)).toContain("No API key yet");
  });

  test("shows name, masked key, endpoint type, created, expires, status and last used, and no full key", async () => {
    const key = copied(await create(members.owner, { name: "<script>alert(1)</script>", secret: "on" }), "new-key");
    const html = await members.owner.see(keysPath);
    expect(readHtml(html).inlineScripts).toHaveLength(0);
    expect(textOf(html)).toContain("<script>alert(1)");
    expect(textOf(html)).toContain(`${key.slice(0, 8)}…${key.slice(-4)}`);
    expect(html).not.toContain(key);
    expect(html).not.toContain("data-copy");
    for (const text of ["Signal Staging", "Never", "Active", "Secret", "Last Used"]) expect(html).toContain(text);
  });

  test("shows deactivated and expired keys as Inactive, with the time", async () => {
    const fresh = await newMembers({ key: null });
    const path = `${fresh.home}/settings/api-keys`;
    await operator("POST", `/workspaces/${fresh.workspace.id}/keys`, { name: "ends" });
    const { id } = await newest(fresh);
    await operator("POST", `/workspaces/${fresh.workspace.id}/keys/${id}/deactivate`);
    const expires_at = new Date(Date.now() + 60_000).toISOString();
    await operator("POST", `/workspaces/${fresh.workspace.id}/keys`, { name: "expires", expires_at });
    expect(await fresh.owner.see(path)).toMatch(/Active<\/span>[\s\S]*Inactive<\/span>[\s\S]*Deactivated/);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.parse(expires_at) });
    try {
      expect(await fresh.owner.see(path)).toMatch(
        /Inactive<\/span>[\s\S]*Expired[\s\S]*Inactive<\/span>[\s\S]*Deactivated/,
      );
    } finally {
      vi.useRealTimers();
    }
  });

  test("shows the last use of a key", async () => {
    const html = await create(members.owner, { name: "Used" });
    await members.workspace.send(SIGNAL, { key: copied(html, "new-key") });
    const { id } = await newest();
    expect((await members.owner.read(keysPath)).only(`tr[id="${id}"]`).text).toContain("just now");
  });

  test("has several pages", async () => {
    const fresh = await newMembers({ key: null });
    const path = `${fresh.home}/settings/api-keys`;
    for (let at = 0; at < 26; at++) {
      await operator("POST", `/workspaces/${fresh.workspace.id}/keys`, { name: `key no. ${at}.` });
    }
    const first = await fresh.owner.read(path);
    expect(first.text).toContain("key no. 25.");
    expect(first.text).not.toContain("key no. 0.");
    const second = await fresh.owner.read(first.next ?? "");
    expect(second.text).toContain("key no. 0.");
    expect(second.text).not.toContain("key no. 25.");
  });
});

describe("§3.1: deactivating a key", () => {
  test("asks for confirmation and names the effect; then no call is accepted, and the activity log has an entry", async () => {
    const key = copied(await create(members.owner, { name: "To end" }), "new-key");
    const { id } = await newest();
    expect((await members.workspace.send(SIGNAL, { key })).status).toBe(202);
    const question = await members.owner.see(`${keysPath}/${id}/deactivate`);
    expect(question).toContain("Every webhook request with this key is rejected with 401 from then on.");
    expect((await members.workspace.send(SIGNAL, { key })).status).toBe(202);

    const answer = await members.owner.post(`${keysPath}/${id}/deactivate`);
    expect(answer.status).toBe(303);
    expect((await members.workspace.send(SIGNAL, { key })).status).toBe(401);
    expect(await members.owner.see(answer.headers.get("location") ?? "")).toContain("The key is deactivated.");
    expect(await auditActions(id)).toEqual([
      { action: "key.created", actor: members.owner.email },
      { action: "key.deactivated", actor: members.owner.email },
    ]);
    // A repetition changes nothing.
    expect((await members.owner.post(`${keysPath}/${id}/deactivate`)).status).toBe(303);
    expect(await auditActions(id)).toHaveLength(2);
    expect((await members.owner.get(`${keysPath}/${id}/deactivate`)).status).toBe(409);
  });
});

describe("the page of a key", () => {
  /** The page of a new key with this name, and the shown values. */
  async function made(name: string, fields: Record<string, string> = {}) {
    const value = copied(await create(members.owner, { name, ...fields }), "new-key");
    const { id } = await newest();
    return { id, value, path: `${keysPath}/${id}` };
  }

  test("shows the key's settings, creator and mapping, and only its masked value", async () => {
    const { path, value } = await made("CRM updates", { ...TEMPLATE, secret: "on", lifetime: "90d" });
    const html = await members.admin.see(path);
    const text = textOf(html);
    expect(text).toContain(`${value.slice(0, 8)}…${value.slice(-4)}`);
    for (const expected of [
      "Product Org Updates",
      "Calls must carry the shared secret",
      `by ${members.owner.email}`,
      "external_id company.id string Yes",
      "attributes.region company.region string No",
      "Last Used Never",
      "None in the last 30 days",
    ]) {
      expect(text).toContain(expected);
    }
    expect(html).not.toMatch(KEY);
    expect(readHtml(html).targets).toContain(`${path}/rotate`);
  });

  test("shows the refused calls of the key by reason, with times", async () => {
    const { path, value } = await made("Sender");
    const otherKey = await made("Other sender");
    for (const body of [{ event: "" }, { event: "" }, "{ broken"]) await members.workspace.send(body, { key: value });
    await members.workspace.send({ event: "", email: "a" }, { key: otherKey.value });
    const text = textOf(await members.owner.see(path));
    expect(text).toContain("3 calls in the last 30 days: 2 × No event, 1 × Not JSON.");
    expect(text).toMatch(/No event 2 just now just now/);
    expect(text).not.toMatch(/Last Used Never/);
  });

  test("links a key to its successor and back", async () => {
    const { id, path } = await made("Chained");
    const form = { form_token: crypto.randomUUID(), overlap: "1h", lifetime: "never" };
    await members.owner.post(`${path}/rotate`, form);
    const { id: next } = await newest();
    const [old, successor] = [await members.owner.read(path), await members.owner.read(`${keysPath}/${next}`)];
    expect(old.text).toContain("Replaced by");
    expect(old.targets).toContain(`${keysPath}/${next}`);
    expect(successor.text).toContain("Replaces");
    expect(successor.targets).toContain(path);
    expect((await members.member.get(`${keysPath}/${id}`)).status).toBe(403);
  });

  test("renames the key with one audit entry; an invalid name changes nothing", async () => {
    const { id, path } = await made("Before");
    for (const name of ["", "two\nlines", `sk_${"aB3".repeat(13)}x`]) {
      const refused = await members.owner.post(`${path}/name`, { name });
      expect(refused.status).toBe(422);
    }
    const renamed = await members.admin.post(`${path}/name`, { name: " After " });
    expect([renamed.status, renamed.headers.get("location")]).toEqual([303, `${path}?done=saved`]);
    await members.admin.post(`${path}/name`, { name: "After" });
    expect((await newest()).name).toBe("After");
    expect(await auditActions(id)).toEqual([
      { action: "key.created", actor: members.owner.email },
      { action: "key.renamed", actor: members.admin.email },
    ]);
    expect(textOf(await members.owner.see(`${members.home}/settings/activity`))).toContain("the name “After”");
    const otherTeam = await newMembers({ key: null });
    expect(
      (await otherTeam.owner.post(`${otherTeam.home}/settings/api-keys/${id}/name`, { name: "Mine" })).status,
    ).toBe(404);
    expect((await otherTeam.owner.get(`${otherTeam.home}/settings/api-keys/${id}`)).status).toBe(404);
  });
});

describe("the list of keys", () => {
  test("highlights a key from thirty days before its expiration, and no other key", async () => {
    const of = await newMembers({ key: null });
    const path = `${of.home}/settings/api-keys`;
    const now = Date.now();
    const inDays = (days: number) => new Date(now + days * 86_400_000).toISOString();
    vi.useFakeTimers({ toFake: ["Date"], now });
    try {
      await of.workspace.newKey({ name: "far", expires_at: inDays(30) });
      expect((await of.owner.read(path)).all(".warn-text")).toHaveLength(0);
      const expires_at = new Date(now + 30 * 86_400_000 - 1).toISOString();
      const near = await of.workspace.newKey({ name: "near", expires_at });
      expect((await of.owner.read(path)).all(".warn-text")).toHaveLength(1);
      await of.workspace.operator("POST", `/keys/${near.id}/deactivate`);
      expect((await of.owner.read(path)).all(".warn-text")).toHaveLength(0);
    } finally {
      vi.useRealTimers();
    }
  });

  test("collapses inactive keys, unless there is no active one", async () => {
    const of = await newMembers({ key: null });
    const path = `${of.home}/settings/api-keys`;
    const { id } = await of.workspace.newKey({ name: "Ended" });
    await of.workspace.operator("POST", `/keys/${id}/deactivate`);
    const folded = async () => {
      const part = (await of.owner.read(path)).only("details.inactive-keys");
      return { isOpen: part.attribute("open") !== undefined, text: part.text };
    };
    expect(await folded()).toMatchObject({ isOpen: true, text: expect.stringMatching(/^1 inactive key/) });
    await of.workspace.newKey({ name: "Alive" });
    const { isOpen, text } = await folded();
    expect([isOpen, text]).toEqual([false, expect.stringMatching(/^1 inactive key.*Ended/)]);
    expect(text).not.toContain("Alive");
    expect(textOf(await of.owner.see(path))).toMatch(/Alive.*1 inactive key.*Ended/);
  });
});

describe("design §5: rotating a key", () => {
  async function rotation(overlap: string): Promise<{ id: string; old: string; form: Record<string, string> }> {
    const old = copied(await create(members.owner, { name: `Rotated ${overlap}` }), "new-key");
    const { id } = await newest();
    const html = await members.owner.see(`${keysPath}/${id}/rotate`);
    for (const text of ["Now", "1 hour", "24 hours", "7 days"]) expect(html).toContain(text);
    return { id, old, form: { form_token: tokenIn(html), overlap, lifetime: "never" } };
  }

  test("shows the successor once, keeps both keys working, and the list shows which is still in use", async () => {
    const { id, old, form } = await rotation("1h");
    const answer = await members.owner.post(`${keysPath}/${id}/rotate`, form);
    expect(answer.status).toBe(200);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    const html = await answer.text();
    const successor = copied(html, "new-key");
    expect(successor).not.toBe(old);
    expect(html).toContain(`It replaces ${old.slice(0, 8)}…`);
    const made = await newest();
    expect(made.successor_of).toBe(id);
    expect(await members.owner.see(keysPath)).toContain("not used since");
    expect((await members.workspace.send(SIGNAL, { key: old })).status).toBe(202);
    const list = await members.owner.see(keysPath);
    expect(list).toContain("still in use");
    expect(list).toContain("not in use yet");
    expect((await members.workspace.send(SIGNAL, { key: successor })).status).toBe(202);
    expect(await auditActions(id)).toContainEqual({ action: "key.rotated", actor: members.owner.email });
  });

  test("without an overlap ends the old key before the new one is shown; a repeated form changes nothing", async () => {
    const { id, old, form } = await rotation("none");
    const html = await (await members.owner.post(`${keysPath}/${id}/rotate`, form)).text();
    expect(html).toContain("The old key has ended");
    expect((await members.workspace.send(SIGNAL, { key: old })).status).toBe(401);
    const count = (await listed()).length;
    const again = await members.owner.post(`${keysPath}/${id}/rotate`, form);
    expect(again.status).toBe(409);
    expect(await again.text()).toContain("created already");
    expect(await listed()).toHaveLength(count);
    const otherForm = { ...form, form_token: crypto.randomUUID(), overlap: "1h" };
    expect((await members.owner.post(`${keysPath}/${id}/rotate`, otherForm)).status).toBe(409);
  });

  test("the same form sent eight times at once creates one successor and one audit entry, and the old key ends as that request said", async () => {
    const { id, form } = await rotation("24h");
    const overlaps = ["1h", "24h", "7d", "1h", "24h", "7d", "1h", "24h"];
    const answers = await Promise.all(
      overlaps.map((overlap) => members.owner.post(`${keysPath}/${id}/rotate`, { ...form, overlap })),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(7);
    const keys = await listed();
    expect(keys.filter(({ successor_of }) => successor_of === id)).toHaveLength(1);
    const { results } = await env.DB.prepare(
      "SELECT at, detail FROM audit_log WHERE target = ? AND action = 'key.rotated'",
    )
      .bind(id)
      .all<{ at: string; detail: string }>();
    expect(results).toHaveLength(1);
    const [{ at, detail } = { at: "", detail: "{}" }] = results;
    const end = Date.parse(at) + (JSON.parse(detail) as { overlap_ms: number }).overlap_ms;
    expect(keys.find((key) => key.id === id)?.expires_at).toBe(new Date(end).toISOString());
  });

  test("a form that created another key ends nothing if it is sent for this key", async () => {
    const form = await newForm(members.owner);
    await members.owner.post(`${keysPath}/new`, form);
    const { id, old, form: rotating } = await rotation("none");
    const token = form["form_token"] ?? "";
    const answer = await members.owner.post(`${keysPath}/${id}/rotate`, { ...rotating, form_token: token });
    expect(answer.status).toBe(409);
    expect((await members.workspace.send(SIGNAL, { key: old })).status).toBe(202);
  });

  test("requires the end of the old key and the expiration of the new one, and keeps the input", async () => {
    const { id } = await rotation("1h");
    const post = (fields: Record<string, string>) =>
      members.owner.post(`${keysPath}/${id}/rotate`, { form_token: crypto.randomUUID(), ...fields });
    const noEnd = await post({ lifetime: "90d" });
    expect(noEnd.status).toBe(422);
    const html = await noEnd.text();
    expect(textOf(html)).toContain("Choose when the old key ends.");
    expect(readHtml(html).field("lifetime").value).toBe("90d");
    const noExpiration = await post({ overlap: "7d" });
    expect(noExpiration.status).toBe(422);
    const again = await noExpiration.text();
    expect(textOf(again)).toContain("Choose when the key expires.");
    expect(chosenIn(again, "overlap")).toEqual(["7d"]);
  });

  test("asks for the successor's expiration if the old key has one, and offers to keep it", async () => {
    await create(members.owner, { name: "Expiring", lifetime: "30d" });
    const { id, expires_at: old } = await newest();
    const html = await members.owner.see(`${keysPath}/${id}/rotate`);
    const asked = readHtml(html).field("lifetime");
    expect([asked.value, asked.only("option[selected]").text]).toEqual(["", "Choose…"]);
    const post = async (lifetime: string) => {
      const form = { form_token: crypto.randomUUID(), overlap: "1h", lifetime };
      expect((await members.owner.post(`${keysPath}/${id}/rotate`, form)).status).toBe(200);
      return (await newest()).expires_at;
    };
    expect(await post("keep")).toBe(old);
    expect(Date.parse((await post("365d")) ?? "") / 86_400_000).toBeCloseTo(Date.now() / 86_400_000 + 365, 2);
  });
});

describe("a workspace with the maximum number of API keys", () => {
  let full: Members;
  let path: string;
  let ids: string[];

  beforeEach(async () => {
    full = await newMembers({ key: null });
    path = `${full.home}/settings/api-keys`;
    ids = Array.from({ length: WORKSPACE_MAX_ACTIVE_KEYS }, () => newId("key", Date.now() - 7 * 86_400_000));
    await env.DB.prepare(
      `INSERT INTO api_keys (id, workspace_id, name, endpoint_type, key_hash, key_first8, key_last4, created_at)
       SELECT value, ?1, 'Old', 'signal_staging', value, 'sk_aaaaa', 'aaaa', ?2 FROM json_each(?3)`,
    )
      .bind(full.workspace.id, new Date().toISOString(), JSON.stringify(ids))
      .run();
  });

  const LIMIT = "This workspace has 100 active API keys, the most it may have. Deactivate one that is no longer used.";

  test("refuses a further key, says what to do, keeps the input, and accepts the same form later", async () => {
    const form = {
      form_token: tokenIn(await full.owner.see(`${path}/new`)),
      name: "Shop",
      lifetime: "90d",
      secret: "on",
      ...TEMPLATE,
    };
    const refused = await full.owner.post(`${path}/new`, form);
    expect(refused.status).toBe(422);
    const html = await refused.text();
    expect(textOf(html)).toContain(LIMIT);
    expect(html).not.toMatch(KEY);
    const page = readHtml(html);
    const values = ["name", "lifetime", "rows.0.path"].map((name) => page.field(name).value);
    expect(values).toEqual(["Shop", "90d", "company.id"]);
    expect(chosenIn(html, "endpoint_type")).toEqual(["product_org"]);
    expect(tokenIn(html)).toBe(form.form_token);
    await full.owner.post(`${path}/${ids[0] ?? ""}/deactivate`, {});
    expect((await full.owner.post(`${path}/new`, form)).status).toBe(200);
    expect((await full.owner.post(`${path}/new`, form)).status).toBe(409);
  });

  test("accepts a rotation of each key, and refuses a second one while its successor is active", async () => {
    const rotate = (fields: Record<string, string>) =>
      full.owner.post(`${path}/${ids[0] ?? ""}/rotate`, { form_token: crypto.randomUUID(), ...fields });
    expect((await rotate({ overlap: "7d", lifetime: "never" })).status).toBe(200);
    const refused = await rotate({ overlap: "1h", lifetime: "30d" });
    expect(refused.status).toBe(422);
    const html = await refused.text();
    expect(textOf(html)).toContain(LIMIT);
    expect(chosenIn(html, "overlap")).toEqual(["1h"]);
    expect(readHtml(html).field("lifetime").value).toBe("30d");
    expect((await listed(full))[0]).toMatchObject({ successor_of: ids[0] });
  });

  test("refuses an oversized payload template before it checks the number of keys", async () => {
    const rows = Array.from({ length: 100 }, (_, n) => ({
      [`rows.${n}.target`]: n === 0 ? "external_id" : "attributes",
      [`rows.${n}.attribute`]: `a${n}`,
      [`rows.${n}.path`]: "語".repeat(255),
      [`rows.${n}.type`]: "string",
    }));
    const fields = { name: "Shop", endpoint_type: "product_org", lifetime: "never", form_token: crypto.randomUUID() };
    const refused = await full.owner.post(`${path}/new`, Object.assign({}, fields, ...rows) as Record<string, string>);
    expect(refused.status).toBe(422);
    expect(textOf(await refused.text())).toContain("All mappings together have more than 65536 bytes.");
  });
});
