/** A key that a browser has used is named once, with the page's origin, and costs one row. */
import { abortAllDurableObjects, runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { NotificationType } from "../../../src/domain/notifications/notification.ts";
import { countRows, lose, newCounter, type TestCounter } from "../../support/counter.ts";
import { expectLogged } from "../../support/logged.ts";
import { newMembers } from "../../support/members.ts";
import { ofType, TestDestinations } from "../../support/raised.ts";
import { until } from "../../support/until.ts";
import { wanting } from "../../support/wanting.ts";
import { newWorkspace, type TestWorkspace } from "../../support/workspace.ts";

const SHOP = "https://shop.example";
const fromShop = { headers: { origin: SHOP, "sec-fetch-mode": "cors", "sec-fetch-site": "cross-site" } };

const originOf = async (workspace: TestWorkspace) =>
  (await workspace.list<{ public_origin: string | null }>("/keys")).map((key) => key.public_origin);

describe("over HTTP", () => {
  test("the first call from a browser names the key and the origin, also a rejected one", async () => {
    const [workspace, rejected] = [await newWorkspace(), await newWorkspace()];
    await workspace.send({ event: "Visit" });
    await workspace.send({ event: "Visit" }, { headers: { "sec-fetch-mode": "cors" } });
    await workspace.send({ event: "Visit" }, { headers: { origin: "https://signals.example" } });
    expect(await originOf(workspace)).toEqual([null]);
    await workspace.send({ event: "Visit" }, fromShop);
    await workspace.send({ event: "Visit" }, { headers: { origin: "https://other.example" } });
    expect(await originOf(workspace)).toEqual([SHOP]);
    await rejected.send("no JSON", fromShop);
    expect(await originOf(rejected)).toEqual([SHOP]);
  });

  test("a call with a wrong secret names nothing", async () => {
    const workspace = await newWorkspace({ key: { secret: true } });
    await workspace.send({ event: "Visit" }, fromShop);
    expect(await originOf(workspace)).toEqual([null]);
  });

  test("the key's page and Overview name it to owners and admins, until it has ended", async () => {
    const { workspace, owner, member, home } = await newMembers();
    const path = `${home}/settings/api-keys/${workspace.key.id}`;
    const subjects = async () => (await owner.read(`${home}/`)).all("#attention tbody tr").map((row) => row.cells[0]);
    await workspace.send({ event: "Visit" }, fromShop);
    await workspace.settled();
    const notice = (await owner.read(path))
      .all(".notice")
      .map(({ text }) => text)
      .join();
    expect(notice).toMatch(/This key is public.*https:\/\/shop\.example.*Rotate key/);
    expect(await subjects()).toEqual(["Key used in a browser"]);
    expect((await member.read(`${home}/`)).text).not.toContain(SHOP);
    const { id } = await workspace.operator<{ id: string }>("POST", `/keys/${workspace.key.id}/rotate`, {
      overlap: "none",
    });
    expect(await subjects()).toEqual([]);
    expect((await owner.read(`${home}/settings/api-keys/${id}`)).text).not.toContain("This key is public");
  });
});

describe("in the counter", () => {
  const subscribed = async () => {
    const counter = await newCounter();
    await counter.sendTo(lose);
    const destinations = new TestDestinations(counter.id);
    const types: NotificationType[] = ["key.public"];
    await counter.stub.wantNotifications(wanting({ types }));
    return { counter, destinations };
  };
  const forwarded = async (counter: TestCounter) => {
    const waiting = () =>
      runInDurableObject(counter.stub, (_, { storage: { sql } }) =>
        sql.exec("SELECT 1 FROM raised_notifications").toArray(),
      );
    await until(async () => expect(await waiting()).toEqual([]));
  };

  test("one notification is raised for a key, also across a restart", async () => {
    const { counter, destinations } = await subscribed();
    for (const origin of [SHOP, SHOP, "https://other.example"]) await counter.admit(1, { origin });
    await forwarded(counter);
    await abortAllDurableObjects();
    await counter.sendTo(lose);
    await counter.admit(1, { origin: SHOP });
    await counter.admit(1, { keyId: "key_2", origin: "null" });
    await forwarded(counter);
    expect(ofType(destinations.taken, "key.public")).toEqual([
      { key_id: "key_1", origin: SHOP },
      { key_id: "key_2", origin: "null" },
    ]);
  });

  test("the first call costs one row more, and later ones none", async () => {
    const counter = await newCounter();
    await counter.sendTo(lose);
    const rows = async (origin?: string) => {
      const call = origin === undefined ? {} : { origin };
      return (await countRows(counter, () => counter.admit(1, call))).rows;
    };
    await rows();
    const plain = await rows();
    expect([await rows(SHOP), await rows(SHOP)]).toEqual([plain + 1, plain]);
  });

  test("a failed write rejects no signal, and the next call tries again", async () => {
    expectLogged("public_key_not_noted");
    const counter = await newCounter();
    const repair = await counter.breakStatement("INSERT INTO public_keys");
    expect(await counter.counted(1, { origin: SHOP })).toEqual([1, 0, 0]);
    await repair();
    expect(await counter.stub.publicKeys()).toEqual({});
    await counter.admit(1, { origin: SHOP });
    expect(await counter.stub.publicKeys()).toMatchObject({ key_1: { origin: SHOP } });
  });
});
