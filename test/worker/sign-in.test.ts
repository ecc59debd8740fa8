/** Spec §1, §5.6, design §10: who gets to the workspace pages, how, and until when. */
import { expect, test } from "vitest";
import { Browser } from "./pages.ts";
import { call, newWorkspace, operator } from "./workspace.ts";

test("a member sees the workspace; without a session the page leads to sign-in", async () => {
  const { id } = await newWorkspace();
  const { slug } = await operator<{ slug: string }>("GET", `/workspaces/${id}`);
  await operator("POST", `/workspaces/${id}/members`, { email: `m-${slug}@example.com`, role: "member" });
  const browser = new Browser(`m-${slug}@example.com`);
  expect((await browser.get(`/w/${slug}/usage`)).status).toBe(200);
  expect((await browser.get(`/w/other/usage`)).status).toBe(404);
  const r = await call(`/w/${slug}/usage?a=1`, { redirect: "manual" });
  expect([r.status, r.headers.get("location")]).toEqual([303, `/sign-in?to=%2Fw%2F${slug}%2Fusage%3Fa%3D1`]);
  expect((await browser.post("/sign-out")).status).toBe(303);
  expect((await browser.get(`/w/${slug}/usage`)).status).toBe(303);
});
