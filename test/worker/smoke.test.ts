import { expect, test } from "vitest";
import { newWorkspace } from "./workspace.ts";

test("a signal becomes points on a person", async () => {
  const workspace = await newWorkspace();
  await workspace.operator("POST", "/rules", {
    name: "forms",
    event: "Filled Out Form",
    match: "all",
    conditions: [{ path: "properties.form_name", operator: "equals", value: "contact" }],
    scoring_signal: "form",
    points: 15,
  });
  const response = await workspace.send({
    email: "Jane@Example.com",
    event: "Filled Out Form",
    properties: { form_name: "Contact", first_name: "Jane" },
  });
  expect(response.status).toBe(202);
  const { id } = await response.json<{ id: string }>();
  console.log([...response.headers]);
  const books = await workspace.settled();
  console.log(
    books,
    await workspace.operator("GET", "/people?email=jane@example.com"),
    await workspace.operator("GET", `/signals/${id}`),
    await workspace.operator("GET", `/usage`),
    await workspace.operator("GET", `/events`),
  );
  expect(books).toMatchObject({ accepted: 1, processed: 1, balanced: true });
});
