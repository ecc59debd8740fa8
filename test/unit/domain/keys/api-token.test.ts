/** The status of an API token, and its name in the audit log. */
import { expect, test } from "vitest";
import { readTokenActor, tokenActor, tokenStatus } from "../../../../src/domain/keys/api-token.ts";

test("a token is active until the exact millisecond of its expiration, unless it is revoked", () => {
  const expiresAt = "2026-11-20T10:00:00.000Z";
  const endMs = Date.parse(expiresAt);
  const revokedAt = "2026-11-19T10:00:00.000Z";
  expect(tokenStatus({ expiresAt: null, revokedAt: null }, endMs)).toBe("Active");
  expect(tokenStatus({ expiresAt, revokedAt: null }, endMs - 1)).toBe("Active");
  expect(tokenStatus({ expiresAt, revokedAt: null }, endMs)).toBe("Expired");
  expect(tokenStatus({ expiresAt, revokedAt }, endMs)).toBe("Revoked");
});

test("the actor of a token gives its id and name, and no member or operator is taken for a token", () => {
  const token = { id: "tok_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d6f", name: "Rules (from Git) )(" };
  expect(readTokenActor(tokenActor(token))).toEqual(token);
  for (const actor of ["operator", "service", "jane@example.com"]) expect(readTokenActor(actor)).toBeNull();
});
