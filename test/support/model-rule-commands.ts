/** Mapping rules in a model run: previewed, changed, and applied to stored signals. */
import * as fc from "fast-check";
import { expect } from "vitest";
import { command, seldom } from "./model-command.ts";
import type { Command } from "./model-command.ts";
import type { Model } from "./model.ts";
import type { Rule } from "./model-people.ts";
import { previewOf } from "./model-preview.ts";
import type { Draft, ModelPreview } from "./model-preview.ts";
import { readFile } from "./model-reads.ts";
import { ruleBody } from "./model-real.ts";
import type { Real } from "./model-real.ts";
import { event, person } from "./model-calls.ts";

const scoring = {
  points: fc.integer({ min: -5, max: 20 }),
  frequency: fc.constantFrom<Rule["frequency"][]>("every_time", "once_per_day", "once_ever"),
  of: seldom(person),
};

/**
 * The rule changes for new signals, or for past ones too. A disabled rule is applied to the past at once, before it
 * is enabled again.
 */
export const changeRule: fc.Arbitrary<Command> = fc
  .record({
    event,
    rule: fc.record<Rule>({
      ...scoring,
      enabled: fc.oneof({ weight: 3, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.constant(false) }),
    }),
    apply: fc.boolean(),
  })
  .map(({ event: about, rule, apply }) =>
    command(`${about} ${JSON.stringify(rule)}${apply ? ", in the past too" : ""}`, async (model, real) => {
      model.rules.set(about, rule);
      await real.changeRule(about, rule);
      if (!apply) return;
      await real.applyRule(about);
      if (!rule.enabled) await real.quiet();
      model.applyRule(about);
    }),
  );

/** Applies the changed rules to all stored signals. */
export async function applyRules(model: Model, real: Real): Promise<void> {
  await real.quiet();
  for (const rule of real.changed) {
    await real.applyRule(rule);
    model.applyRule(rule);
  }
  real.changed.clear();
  await real.quiet();
}

const draft: fc.Arbitrary<Draft> = fc.record({
  ...scoring,
  event: fc.constantFrom("opened", "clicked", "*", "*", "*ed", "alias"),
  days: fc.constantFrom(20, 3_650),
});

/** The preview equals the rule's effect if it covers all signals. */
export const preview: fc.Arbitrary<Command> = draft.map((tried) =>
  command(`try ${JSON.stringify(tried)}`, async (model, real) => {
    await real.quiet();
    const { days, ...rest } = tried;
    const body = { ...ruleBody(rest), name: "tried", scoring_signal: "tried" };
    type Answer = ModelPreview & { samples: { id: string }[]; scanned: number };
    const { samples, scanned, ...answer } = await real.workspace.operator<Answer>(
      "POST",
      `/rules/preview?days=${days}`,
      body,
    );
    const predicted = previewOf(model, tried, Date.now());
    expect(answer).toEqual(predicted.answer);
    expect(scanned).toBeGreaterThanOrEqual(answer.matches);
    const shown = samples.map(({ id }) => model.signals.find((signal) => signal.id === id)?.n);
    expect(shown.length).toBe(Math.min(predicted.contents.length, 10));
    expect(predicted.contents).toEqual(expect.arrayContaining(shown));
    if (days > 20 && real.rules.has(tried.event)) await expectToDoSo(model, real, tried, predicted.answer);
  }),
);

/** Saves the previewed rule for the event and applies it. */
async function expectToDoSo(
  model: Model,
  real: Real,
  { event: about, points, frequency, of }: Draft,
  tried: ModelPreview,
) {
  const rule = { points, frequency, of, enabled: true };
  model.rules.set(about, rule);
  await real.changeRule(about, rule);
  await real.applyRule(about);
  model.applyRule(about);
  await real.quiet();
  const job = await real.workspace.operator("GET", `/rules/${real.rules.get(about)}/apply`);
  expect(job).toMatchObject({ status: "done", matched: tried.matches });
  // Scores of signals deleted by retention stay, and the preview does not include them.
  if (model.hasDropped) return;
  const scored = (await readFile(real, "scoring-signals", "ndjson")).filter((row) => row["scoring_signal"] === about);
  expect(scored.length).toBe(tried.scoring_signals);
  expect(scored.reduce((sum, row) => sum + Number(row["points"]), 0)).toBe(tried.points);
}
