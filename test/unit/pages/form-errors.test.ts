/** The box above a form that was rejected. */
import { expect, test } from "vitest";
import { errorList, summaryOf } from "../../../src/pages/kit/forms.tsx";

const MARKED = "Fix the fields marked below.";

test.each([
  [{}, []],
  [{ name: "Enter a name." }, []],
  [{ name: "Enter a name.", target: "Enter the URL." }, [MARKED]],
  [{ name: "Enter a name.", "rows.0.path": "Enter a path." }, [MARKED]],
  // No field has the focus.
  [{ template: "The template has no mapping." }, ["The template has no mapping."]],
  [{ conditions: "Add a condition." }, ["Add a condition."]],
  [{ name: "Enter a name.", template: "The template has no mapping." }, [MARKED]],
  [{ form: "This is the last owner." }, ["This is the last owner."]],
  [{ form: "This is the last owner.", name: "Enter a name." }, ["This is the last owner."]],
  [
    { form: "This is the last owner.", name: "Enter a name.", role: "Choose a role." },
    ["This is the last owner.", MARKED],
  ],
  [{ name: "Enter a name.", role: undefined }, []],
])("the errors %j are summed up as %j, in the same words on each form", (errors, summary) => {
  expect(summaryOf(errors)).toEqual(summary);
});

test("a list of errors says which mapping has one", () => {
  const errors = {
    name: "Enter a name.",
    "rows.0.path": "Enter a path.",
    "map.9.text": "Enter a text.",
    role: undefined,
  };
  expect(errorList(errors)).toEqual(["Enter a name.", "Mapping 1: Enter a path.", "Mapping 10: Enter a text."]);
});
