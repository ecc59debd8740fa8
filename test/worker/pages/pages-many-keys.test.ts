/** A workspace with thousands of API keys: pages list some of them, and find the others by a part of their name. */
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, test } from "vitest";
import { KEYS_OFFERED } from "../../../src/pages/keys/key-parts.tsx";
import type { Part } from "../../support/html.ts";
import { newMembers, type Members } from "../../support/members.ts";

const KEYS = 2_000;
const PAGE_MAX_BYTES = 64 * 1024;
let team: Members;
/** Older than any created key: a real id begins with the time, `key_01`. */
const idOf = (number: number) => `key_00${String(number).padStart(4, "0")}-${team.workspace.id}`;
const idsDownFrom = (newest: number, count: number) => Array.from({ length: count }, (_, n) => idOf(newest - n));

/** Keys "Region 0000" to "Region 1999", and the newest, "Shop 10%", which has received two signals. */
beforeAll(async () => {
  team = await newMembers({ key: null });
  // Created first, because the API rejects a key above the limit. The others are active in D1 without it.
  const shop = await team.workspace.operator<{ id: string; key: string }>("POST", "/keys", { name: "Shop 10%" });
  await env.DB.prepare(
    `INSERT INTO api_keys (id, first_key_id, workspace_id, name, endpoint_type, key_hash, key_first8, key_last4, created_at)
      SELECT value, value, ?1, 'Region ' || substr(value, 7, 4), 'signal_staging', value, 'sk_aaaaa', 'aaaa', ?2 FROM json_each(?3)`,
  )
    .bind(team.workspace.id, new Date().toISOString(), JSON.stringify(idsDownFrom(KEYS - 1, KEYS)))
    .run();
  for (const event of ["One", "Two"]) await team.workspace.send({ event, email: "a@example.com" }, { key: shop.key });
  await team.workspace.settled();
}, 60_000);

const PAGES = ["signals/all", "settings/activity", "live", "rejections", "connect", "settings/api-keys"];

test.each(PAGES)(
  "with any number of keys in a workspace, the page names at most one hundred and stays short: %s",
  async (path) => {
    const html = await team.owner.see(`${team.home}/${path}`);
    expect(new Set(html.match(/Region \d{4}/g)).size).toBeLessThanOrEqual(KEYS_OFFERED);
    expect(html.length).toBeLessThanOrEqual(PAGE_MAX_BYTES);
  },
);

describe.each(["signals/all", "settings/activity"])("the filter by key of %s", (path) => {
  const see = (query: Record<string, string>) =>
    team.owner.read(`${team.home}/${path}?${new URLSearchParams(query).toString()}`);
  const offered = (page: Part) =>
    page
      .field("key")
      .all("option")
      .flatMap((option) => option.attribute("value") || []);

  test("offers the newest keys, and always the chosen key", async () => {
    const page = await see({});
    expect(offered(page).slice(1)).toEqual(idsDownFrom(KEYS - 1, KEYS_OFFERED - 1));
    expect(page.field("key").value).toBe("");
    const old = await see({ key: idOf(7) });
    expect(offered(old).slice(1)).toEqual([...idsDownFrom(KEYS - 1, KEYS_OFFERED - 1), idOf(7)]);
    expect(old.field("key").value).toBe(idOf(7));
  });

  test("accepts a part of a name, in any case, if one key alone matches", async () => {
    const page = await see({ key_name: " region 0007 " });
    expect(page.field("key").value).toBe(idOf(7));
    expect(page.field("key_name").value).toBe("region 0007");
    expect(page.rows).toHaveLength(0);
    expect(page.text).toContain("Region 0007");
  });

  test("offers all matches if several keys match, and says so; then one of them can be chosen", async () => {
    const page = await see({ key_name: "Region 000" });
    expect(offered(page)).toEqual(idsDownFrom(9, 10));
    expect(page.text).toContain("10 API keys have “Region 000” in their name. Choose one of them.");
    expect((await see({ key_name: "Region" })).text).toContain("More than 100 API keys have “Region” in their name.");
    expect((await see({ key_name: "Region 000", key: idOf(3) })).field("key").value).toBe(idOf(3));
  });

  test("ignores the key chosen before if another name is typed", async () => {
    const page = await see({ key_name: "Region 0007", key: idOf(3) });
    expect(page.field("key").value).toBe(idOf(7));
    expect(offered(page)).toEqual([idOf(7)]);
  });

  test("says that no key has the name, also for characters with a meaning in LIKE", async () => {
    for (const name of ["Nobody", "_egion", "Region%"]) {
      expect((await see({ key_name: name })).text).toContain(`No API key has “${name}” in its name.`);
    }
  });

  test("shows only the list of keys if it offers all of them, without a name to type", async () => {
    const few = await newMembers();
    const page = await few.owner.read(`${few.home}/${path}`);
    expect(page.fields("key_name")).toHaveLength(0);
    expect(page.field("key").value).toBe("");
  });
});

test("All signals filters by the key whose name was typed", async () => {
  const read = (name: string) =>
    team.owner.read(`${team.home}/signals/all?${new URLSearchParams({ key_name: name }).toString()}`);
  expect((await read("shop 10%")).rows).toHaveLength(2);
  expect((await read("Region 0007")).rows).toHaveLength(0);
});

test("Live and Rejections name the key of a rejected call, however old the key is", async () => {
  await team.workspace.counter.rejected({
    keyId: idOf(7),
    code: "body_empty",
    detail: "x",
    requestId: "req_1",
    signals: 1,
  });
  for (const path of ["live", "rejections"])
    expect(await team.owner.see(`${team.home}/${path}`)).toContain("Region 0007");
});
