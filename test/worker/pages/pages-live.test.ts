/** The Live page: signals and rejected calls as they arrive, for members only. */
import { describe, expect, test } from "vitest";
import { type Browser, newMembers } from "../../support/members.ts";
import { until } from "../../support/until.ts";
import type { NewWorkspace } from "../../support/workspace.ts";

/** The people of a new workspace, and the path of its Live page. */
async function atLive(options: NewWorkspace = {}) {
  const members = await newMembers(options);
  return { ...members, path: `${members.home}/live` };
}

/** Opens the page and polls like its script. `poll` returns the status of the answer. */
async function open(browser: Browser, path: string, what: "signals" | "rejections") {
  let seen = (await browser.read(path)).only("[data-live]").attribute(`data-live-${what}`) ?? "";
  const rows: string[] = [];
  const poll = async (): Promise<number> => {
    const { status, page } = await browser.get(`${path}/${what}?after=${encodeURIComponent(seen)}`);
    if (status !== 200) return status;
    seen = page.only("[data-seen]").attribute("data-seen") ?? "";
    rows.push(...page.rows.map(({ text }) => text).toReversed());
    return status;
  };
  return { rows, poll };
}

const signal = (n: number) => ({ event: "Signed Up", email: `p${n}@example.com`, properties: { n } });

describe("while the live page is open", () => {
  test("each signal appears once when it is recorded, with its status and reason; otherwise the answer is empty", async () => {
    const { workspace, member, path } = await atLive({ signalLimit: 3 });
    await workspace.operator("POST", "/rules", { name: "up", event: "Signed Up", scoring_signal: "up", points: 7 });
    await workspace.send({ event: "Before" });
    await workspace.settled();
    const live = await open(member, path, "signals");
    expect(await live.poll()).toBe(204);
    for (const n of [1, 1, 3]) {
      await workspace.send(signal(n));
      await workspace.settled();
      expect(await live.poll()).toBe(200);
    }
    expect(await live.poll()).toBe(204);
    expect(live.rows).toEqual([
      expect.stringMatching(/^Signed Up Processed p1@example.com .*\+7 points/),
      expect.stringMatching(/^Signed Up Duplicate .*Same content as an earlier signal/),
      expect.stringMatching(/^Signed Up Held p3@example.com .*Beyond the signal limit/),
    ]);
  });

  test("each rejected call appears once, with its reason", async () => {
    const { workspace, member, path } = await atLive();
    const live = await open(member, path, "rejections");
    expect(await live.poll()).toBe(204);
    await workspace.send([{ event: "" }, { event: "" }]);
    await until(async () => expect(await live.poll()).toBe(200));
    expect(await live.poll()).toBe(204);
    expect(live.rows).toEqual([expect.stringMatching(/Rejected .*2 signals\. /)]);
  });

  test("a call with a deactivated key has the reason of its page", async () => {
    const { workspace, member, path, home } = await atLive();
    const live = await open(member, path, "rejections");
    await workspace.operator("POST", `/keys/${workspace.key.id}/deactivate`);
    await workspace.send({ event: "Late" });
    await until(async () => expect(await live.poll()).toBe(200));
    expect((await member.read(`${home}/rejections`)).rowHeads).toEqual([
      expect.stringMatching(/^The key is deactivated/),
    ]);
    expect(live.rows).toEqual([
      expect.stringMatching(/^The key is deactivated Rejected .*Switch the sender to an active key/),
    ]);
  });

  test("an answer has at most 50 rows and counts the rest; the page has at most 50 rows", async () => {
    const { workspace, member, path } = await atLive();
    const live = await open(member, path, "signals");
    await workspace.send(Array.from({ length: 130 }, (_, n) => signal(n)));
    await workspace.settled();
    await live.poll();
    expect(live.rows).toHaveLength(51);
    expect(live.rows[0]).toMatch(/^80 more signals/);
    expect(await live.poll()).toBe(204);
    await workspace.send("{ nonsense");
    expect((await member.read(path)).rows).toHaveLength(50);
  });

  test("a cursor beyond the log and an invalid one return the latest rows", async () => {
    const { workspace, member, path } = await atLive();
    await workspace.send(signal(1));
    await workspace.settled();
    for (const after of ["900.0.0", "1.2", "x".repeat(5_000)]) {
      const answer = await member.get(`${path}/signals?after=${after}`);
      expect(answer.page.rows).toHaveLength(1);
    }
  });

  test("removed and signed-out members stop getting rows", async () => {
    const { workspace, path, owner, member } = await atLive();
    const live = await open(member, path, "signals");
    const byOwner = await open(owner, path, "signals");
    await owner.post(path.replace("live", "settings/members/remove"), { email: member.email });
    await owner.post("/sign-out");
    await workspace.send(signal(1));
    await workspace.settled();
    expect([await live.poll(), await byOwner.poll()]).toEqual([303, 303]);
    expect(live.rows).toEqual([]);
  });
});

describe("the live page", () => {
  test("shows the latest signals and rejected calls with links, newest first, and filters them without JavaScript", async () => {
    const { workspace, path, home, owner, member } = await atLive();
    const { id } = await (await workspace.send({ ...signal(1), source: "web" })).json<{ id: string }>();
    await workspace.settled();
    await workspace.send("{ nonsense");
    const rows = async (query = "") => (await owner.read(path + query)).all("tr[data-key]").map(({ text }) => text);
    const all = await rows();
    expect(all).toHaveLength(2);
    expect(all[0]).toMatch(/^Not JSON Rejected test key sk_\S+ Not valid JSON .* just now$/);
    expect(all[1]).toMatch(/^Signed Up Processed p1@example.com web just now$/);
    expect(await rows("?status=rejected&text=")).toEqual([all[0]]);
    expect(await rows("?status=&text=P1%40EXAMPLE")).toEqual([all[1]]);
    expect(await rows("?status=held")).toEqual([]);
    expect((await owner.read(`${path}?status=unknown`)).alerts).toEqual([expect.stringContaining("“unknown” is not")]);
    const page = await owner.read(path);
    expect(page.link("Signed Up").target).toBe(`${home}/signals/${id}`);
    expect((await owner.read(page.link("Not JSON").target ?? "")).text).toContain("How to fix");
    // Spec §1: other members see no keys.
    expect(await member.see(path)).not.toContain("test key");
    expect((await member.read(path)).link("Refresh").target).toMatch(/\/live$/);
  });

  test("says what to do if nothing has arrived", async () => {
    const { path, owner } = await atLive();
    const page = await owner.read(path);
    expect(page.text).toContain("Nothing has arrived yet");
    expect(page.only("main").targets).toContain(path.replace(/live$/, "connect"));
  });

  test("hostile events, sources and key names appear as text", async () => {
    const { workspace, path, owner } = await atLive();
    const evil = `"><script>alert(1)</script>`;
    const key = await workspace.newKey({ name: evil });
    await workspace.send({ event: evil, source: evil, properties: { [evil]: evil } });
    await workspace.send({ event: "", source: evil }, { key: key.key });
    await workspace.settled();
    for (const query of ["", `?text=${encodeURIComponent(evil)}`]) {
      expect((await owner.read(path + query)).inlineScripts).toHaveLength(0);
    }
    expect((await owner.read(path)).text).toContain("<script>alert(1)</script>");
  });
});
