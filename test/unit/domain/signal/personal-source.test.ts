/** Sources that name a signal's person are no names of groups, which outlive the signal. */
import { expect, test } from "vitest";
import { tellsWhose } from "../../../../src/domain/signal/personal-source.ts";

const zoe = { email: "zoe.hart@x.co", userId: "U-4711", anonymousId: "v-1", traits: { name: "Zoe Hart" } };

test.each([
  "newsletter for zoe@x.co",
  "somebody@else.example",
  "form of u-4711",
  "browser V-1",
  "newsletter for ZOE",
  "hart's list",
  "list of zoe.hart",
])("a source tells whose the signal is by an address, an id or a name: %s", (source) => {
  expect(tellsWhose(source, zoe)).toBe(true);
});

test.each(["website", "marketing-automation", "unknown", "shart-zoetrope", ""])(
  "another source says nothing of whose the signal is: %j",
  (source) => {
    expect(tellsWhose(source, zoe)).toBe(false);
  },
);

test("what is very short says nothing of whose the signal is, and neither does what is absent", () => {
  expect(tellsWhose("form 42 of jo", { userId: "42", traits: { name: "Jo" } })).toBe(false);
});
