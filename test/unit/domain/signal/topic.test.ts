/** What a signal is about, beside its event. */
import { expect, test } from "vitest";
import { normalise } from "../../../../src/domain/signal/normalise.ts";
import { topicOf } from "../../../../src/domain/signal/topic.ts";

const track = (properties: object) => ({ event: "e", email: "ann@example.com", properties });

test.each([
  [track({ form_name: "Demo request", plan: "Growth" }), "Demo request"],
  [track({ formName: "Demo  request\n" }), "Demo request"],
  [track({ plan: "Growth", program_name: "Spring Webinar" }), "Spring Webinar"],
  [track({ email_name: "October news" }), "October news"],
  [track({ url: "https://example.com/pricing?token=secret#top" }), "/pricing"],
  [track({ url: "https://example.com/" }), "example.com"],
  [track({ path: "/docs?q=1" }), "/docs"],
  [track({ order: 70_000 }), "order 70000"],
  [track({ form_name: "n".repeat(100) }), `${"n".repeat(60)}…`],
  [track({ form_name: "n".repeat(3_000), feature: "export" }), "export"],
  // The name of a person or a key is no topic.
  [track({ form_name: "bob@example.com", feature: "export" }), "export"],
  [track({ form_name: { nested: true } }), undefined],
  // What the forms of senders hold in objects.
  [track({ campaign: { id: "7", name: "October news" } }), "October news"],
  [track({ deal: { title: "Big one" }, data: { subject: "later" } }), "Big one"],
  [track({ campaign: { id: "7" }, link: { url: "https://example.com/a?b=c" } }), "/a"],
  [track({ data: { subject: "Spring", list_id: "a6b5" } }), "Spring"],
  [track({ data: { name: "Ann Lee", list_id: "a6b5" } }), "list a6b5"],
  [track({ list: "3", name: "Offer" }), "Offer"],
  [track({ list: "3" }), "list 3"],
  [track({ list: "0", contact: { name: "Ann Lee" } }), undefined],
  [track({ unknown: "x" }), undefined],
  [{ event: "e" }, undefined],
  [{ type: "page", anonymousId: "v", name: "Home", context: { page: { url: "https://example.com/a/b" } } }, "/a/b"],
  [{ type: "group", userId: "u", groupId: "acme-42", traits: { name: "Acme" } }, "Acme"],
  [{ type: "group", userId: "u", groupId: "acme-42", traits: {} }, "acme-42"],
] as const)("%j is about %s", (payload, topic) => {
  expect(topicOf(normalise(payload, undefined))).toBe(topic);
});
