/** Settings › API tokens: created and shown once, listed masked, revoked; for owners and admins only. */
import { beforeEach, describe, expect, test } from "vitest";
import { TOKEN_SCOPES, type TokenScope } from "../../../src/domain/keys/api-token.ts";
import { WORKSPACE_MAX_ACTIVE_TOKENS } from "../../../src/limits.ts";
import { type Browser, type Members, newMembers, visitWith } from "../../support/members.ts";
import { call, masked } from "../../support/workspace.ts";

const TOKEN = /wt_[0-9A-Za-z]{40}/;
const DAY_MS = 24 * 3_600_000;

type Fields = [name: string, value: string][];

let team: Members;
let path: string;

beforeEach(async () => {
  team = await newMembers({ key: null });
  path = `${team.home}/settings/api-tokens`;
});

interface ListedToken {
  id: string;
  name: string;
  scopes: TokenScope[];
  created_by: string;
  expires_at: string | null;
  status: string;
}

const listed = () => team.workspace.list<ListedToken>("/tokens?limit=200");

async function newForm(fields: Fields, browser: Browser = team.owner): Promise<Fields> {
  const formToken = (await browser.read(`${path}/new`)).field("form_token").value ?? "";
  return [["form_token", formToken], ...fields];
}

const send = async (fields: Fields, browser: Browser = team.owner) =>
  browser.post(`${path}/new`, await newForm(fields, browser));

const filled = (name: string, scopes: readonly TokenScope[] = ["read"], lifetime = "never"): Fields => [
  ["name", name],
  ["lifetime", lifetime],
  ...scopes.map((scope): [string, string] => ["scope", scope]),
];

/** Makes the call of a curl line. */
async function curl(line: string): Promise<number> {
  const [, url = ""] = /^curl '(.*?)'/.exec(line) ?? [];
  const [, authorization = ""] = /-H 'Authorization: (.*?)'/.exec(line) ?? [];
  const body = /-d '(.*)'/.exec(line)?.[1];
  const init = body === undefined ? {} : { method: "POST", body };
  const { pathname, search } = new URL(url);
  const answer = await call(pathname + search, { ...init, headers: { authorization } });
  await answer.body?.cancel();
  return answer.status;
}

test("an empty list says what a token is for and leads to the form, which explains each scope", async () => {
  const page = await team.admin.read(path);
  expect(page.text).toContain("No API tokens yet");
  expect(page.targets).toContain(`${path}/new`);
  const form = await team.admin.read(`${path}/new`);
  expect(form.fields("scope").map(({ value, isChecked }) => [value, isChecked])).toEqual(
    TOKEN_SCOPES.map((scope) => [scope, scope === "read"]),
  );
  for (const scope of TOKEN_SCOPES) expect(form.only(`#scope-${scope}-hint`).text).toMatch(/^[A-Z].*\.$/);
});

describe("creating a token", () => {
  test("shows the full token once, and lists it masked with its scopes, creator and expiration", async () => {
    const answer = await send(filled("Nightly export", ["read", "export"], "90d"), team.admin);
    const token = answer.copied("new-token");
    expect(answer.status).toBe(200);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(token).toMatch(TOKEN);
    const [stored] = await listed();
    expect(stored).toMatchObject({ name: "Nightly export", scopes: ["read", "export"], created_by: team.admin.email });
    expect(Date.parse(stored?.expires_at ?? "") - Date.now()).toBeGreaterThan(89 * DAY_MS);
    const page = await team.owner.read(path);
    const [row] = page.rows;
    expect(row?.cells.slice(0, 3)).toEqual([`Nightly export ${masked(token)}`, "read export", "Active"]);
    expect(row?.cells[3]).toContain(team.admin.email);
    expect(row?.cells[5]).toBe("Never");
    expect(page.text).not.toMatch(TOKEN);
  });

  test.each(TOKEN_SCOPES)("with the scope %s shows a curl line that the API answers", async (scope) => {
    const line = (await send(filled("A", [scope]))).copied("token-curl");
    expect(await curl(line)).toBe(scope === "delete" ? 404 : 200);
    expect(await curl(line.replace(TOKEN, "wt_wrong"))).toBe(401);
  });

  test("by a form that is sent again creates no second token and does not show the first again", async () => {
    const form = await newForm(filled("Once"));
    expect((await team.owner.post(`${path}/new`, form)).text).toMatch(TOKEN);
    const again = await team.owner.post(`${path}/new`, form);
    expect([again.status, again.text]).toEqual([409, expect.stringContaining("This token was already created")]);
    expect(again.body).not.toMatch(TOKEN);
    expect(await listed()).toHaveLength(1);
  });

  test("with an unknown scope is rejected", async () => {
    const answer = await send([...filled("A", []), ["scope", "admin"]]);
    expect([answer.status, answer.text]).toEqual([422, expect.stringContaining("Choose at least one scope.")]);
  });

  test("at the limit says what to do", async () => {
    for (let made = 0; made < WORKSPACE_MAX_ACTIVE_TOKENS; made++) await team.workspace.newToken(["read"]);
    const answer = await send(filled("One more"));
    expect([answer.status, answer.text]).toEqual([
      422,
      expect.stringContaining("Revoke a token that is no longer used."),
    ]);
    expect(answer.page.field("name").value).toBe("One more");
  });
});

describe("a listed token", () => {
  test("can be revoked, and then says when", async () => {
    const expires_at = new Date(Date.now() + 9.5 * DAY_MS).toISOString();
    const token = await team.workspace.newToken(["read"], { name: "Old script", expires_at });
    const { rows, text } = await team.owner.read(path);
    expect(rows[0]?.cells[4]).toContain("in 9 days");
    expect(text).toContain(
      "Calls with this token get 401 from now on. This cannot be undone. No call has used it yet.",
    );
    await team.workspace.askWith(token, "GET", "/rules");
    expect((await team.owner.read(path)).text).toContain("The last call came just now.");
    const revoked = await team.admin.post(`${path}/${token.id}/revoke`);
    expect(revoked.location).toBe(`${path}?done=token_revoked`);
    expect((await team.workspace.askWith(token, "GET", "/rules")).status).toBe(401);
    const page = await team.owner.read(revoked.location);
    expect(page.text).toContain("API token revoked.");
    expect(page.rows[0]?.cells[2]).toBe("Revoked just now");
    expect(page.rows[0]?.cells[4]).not.toContain("in 9 days");
    expect(page.forms(/revoke/)).toHaveLength(0);
  });

  test("of a person without the role says why it ended", async () => {
    await send(filled("Theirs"), team.admin);
    await team.owner.post(`${team.home}/settings/members/role`, { email: team.admin.email, role: "member" });
    const [row] = (await team.owner.read(path)).rows;
    expect(row?.cells[2]).toMatch(/^Revoked just now ?: its creator lost the role$/);
  });

  test("leads to its changes", async () => {
    const token = await team.workspace.newToken(["rules"], { name: "Rules from Git" });
    const rule = { name: "Visits", event: "Visit", scoring_signal: "visit", points: 1 };
    await team.workspace.askWith(token, "POST", "/rules", rule);
    const link = `${team.home}/settings/activity?actor=${token.id}`;
    expect((await team.owner.read(path)).targets).toContain(link);
    const changes = (await team.owner.read(link)).rows.map(({ cells }) => `${cells[0]} | ${cells[2]}`);
    expect(changes).toEqual(["Mapping rule created | Rules from Git API token"]);
  });
});

test("the dialogs of the members' page say that API tokens end", async () => {
  const page = await team.owner.read(`${team.home}/settings/members`);
  const dialogs = page.forms(/members\/(role|remove)/).map(({ text }) => text);
  expect(dialogs.filter((text) => text.includes("API tokens"))).toHaveLength(4);
});

test("a deployment without an operator token says that the API is switched off, and offers no form", async () => {
  const { page } = await visitWith({ OPERATOR_TOKEN: "" }, team.owner, path);
  expect(page.text).toContain("The API is switched off");
  expect(page.targets).not.toContain(`${path}/new`);
});
