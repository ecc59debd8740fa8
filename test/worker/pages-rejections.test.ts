/** The Rejections page (spec §7): what was refused and why, by key and code, with what the sender should change. */
import { describe, expect, test } from "vitest";
import { PAGE_ROWS, REJECTIONS_KEPT } from "../../src/limits.ts";
import { newMembers } from "./members.ts";
import { textOf } from "./pages.ts";
import type { NewWorkspace } from "./workspace.ts";

/** The people of a new workspace, and the path of its Rejections page. */
async function atRejections(options: NewWorkspace = {}) {
  const members = await newMembers(options);
  return { ...members, path: `${members.home}/rejections` };
}

describe("the Rejections page", () => {
  test("is glad when nothing was refused", async () => {
    const { path, member } = await atRejections();
    expect(textOf(await member.see(path))).toContain("Nothing was refused");
  });

  test("sums up by key and code with advice, and lists each call with detail and request id", async () => {
    const { workspace, path, owner } = await atRejections();
    const other = await workspace.newKey({ name: "Old campaign" });
    await workspace.send({ event: "" });
    await workspace.send({ email: "a@example.com" });
    await workspace.send([{ event: "ok" }, { event: "ok", email: "{{lead.Email}}" }]);
    const broken = await workspace.send("{ nonsense", { key: other.key });
    const html = await owner.see(path);
    const text = textOf(html);
    expect(text).toMatch(
      /No event 422 event_missing test key 2 2 just now Fill in "event"|No event 422 event_missing test key 2 2/,
    );
    expect(text).toMatch(/Invalid email 422 email_invalid test key 1 1/);
    expect(text).toMatch(/Not JSON 400 body_not_json Old campaign 1 1/);
    expect(text).toContain("Mend the template where the detail says.");
    expect(html).toContain(broken.headers.get("x-request-id") ?? "none");
    expect(text).toContain("The latest 4 refused calls");
  });

  test("is narrowed down by key and by code", async () => {
    const { workspace, path, owner } = await atRejections();
    const other = await workspace.newKey({ name: "Old campaign" });
    const requestId = async (answer: Promise<Response>) => (await answer).headers.get("x-request-id") ?? "none";
    const first = await requestId(workspace.send({ email: "a@example.com" }));
    const second = await requestId(workspace.send("{ nonsense"));
    const third = await requestId(workspace.send("{ nonsense", { key: other.key }));
    const shown = async (query: string) => {
      const html = await owner.see(path + query);
      return [first, second, third].map((id) => html.includes(id));
    };
    expect(await shown("")).toEqual([true, true, true]);
    expect(await shown("?code=body_not_json")).toEqual([false, true, true]);
    expect(await shown(`?code=body_not_json&key=${other.id}`)).toEqual([false, false, true]);
    expect(await shown(`?code=&key=`)).toEqual([true, true, true]);
    expect(await shown(`?code=nonsense`)).toEqual([true, true, true]);
    expect(textOf(await owner.see(`${path}?key=key_of_nobody`))).toContain("No such call among the latest");
  });

  test("pages by cursor: each call once, newest first; a cursor that is gone begins anew", async () => {
    const { workspace, path, owner } = await atRejections();
    const ids: string[] = [];
    for (let n = 0; n < PAGE_ROWS + 5; n++) {
      ids.push((await workspace.send({ event: "" })).headers.get("x-request-id") ?? "none");
    }
    const pageOf = async (query: string) => {
      const html = await owner.see(path + query);
      return {
        ids: [...html.matchAll(/<code class="small nowrap">(req_[^<]*)</g)].map(([, id]) => id),
        next: /href="[^"]*\?([^"]*)" rel="next"/.exec(html)?.[1]?.replaceAll("&amp;", "&"),
      };
    };
    const first = await pageOf("?code=event_missing");
    expect(first.ids).toEqual(ids.slice(5).toReversed());
    expect(first.next).toContain("code=event_missing");
    const second = await pageOf(`?${first.next}`);
    expect(second).toEqual({ ids: ids.slice(0, 5).toReversed(), next: undefined });
    expect((await pageOf("?cursor=gone")).ids).toEqual(first.ids);
  });

  test("says so when more was refused than is kept", async () => {
    const { workspace, path, owner } = await atRejections();
    const rejection = { keyId: workspace.key.id, code: "event_missing", detail: null, signals: 1, authenticated: true };
    for (let n = 0; n <= REJECTIONS_KEPT; n++) {
      await workspace.counter.refused({ ...rejection, code: "event_missing", requestId: `req_${n}` });
    }
    expect(textOf(await owner.see(path))).toContain(`The latest ${REJECTIONS_KEPT} refused calls`);
    expect(textOf(await owner.see(path))).toContain("earlier ones are not kept");
  });

  test("members see it without the keys, of which they get the ids alone; hostile names and details are text", async () => {
    const { workspace, path, owner, member } = await atRejections();
    const key = await workspace.newKey({ name: "<script>alert(1)</script>" });
    const call = { keyId: key.id, code: "email_invalid", requestId: "req_1", signals: 1, authenticated: true } as const;
    await workspace.counter.refused({ ...call, detail: "<script>alert(2)</script>" });
    for (const browser of [owner, member]) {
      const html = await browser.see(path);
      expect(html).toContain("&lt;script&gt;alert(2)&lt;/script&gt;");
      expect(html.includes("&lt;script&gt;alert(1)&lt;/script&gt;")).toBe(browser === owner);
      expect(html).toContain(key.id);
      expect(html).not.toContain("<script>alert");
      expect(html.includes(`settings/api-keys#${key.id}`)).toBe(browser === owner);
    }
    expect((await owner.get(path)).headers.get("cache-control")).toBe("no-store");
  });

  test("another workspace's refusals, and a stranger's look, show nothing", async () => {
    const { workspace } = await atRejections();
    await workspace.send({ event: "" });
    const { path, owner, stranger } = await atRejections();
    expect(textOf(await owner.see(`${path}?key=${workspace.key.id}`))).toContain("Nothing was refused");
    expect((await stranger.get(path)).status).toBe(404);
  });
});
