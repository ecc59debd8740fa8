/** What an empty workspace needs before somebody has a score: each step with its tick, and the next one with its button. */
import type { Child } from "hono/jsx";
import { Dismiss } from "../usage-bar.tsx";
import { Badge, Panel } from "../views/parts.tsx";

interface StepsDone {
  key: boolean;
  signal: boolean;
  rule: boolean;
  person: boolean;
}

interface FirstStep {
  name: keyof StepsDone;
  title: string;
  text: Child;
  /** Where the step is done, below the workspace's path. */
  path: string;
  button: string;
  /** True: only owners and admins can do this step. */
  managers: boolean;
}

const STEPS: readonly FirstStep[] = [
  {
    name: "key",
    title: "Create an API key",
    text: "Every call to a webhook carries one. It is shown once, with the webhook's address.",
    path: "settings/api-keys/new",
    button: "Create API Key",
    managers: true,
  },
  {
    name: "signal",
    title: "Send the first signal",
    text: "From the page of the key, from a sender that you connect, or with a curl line.",
    path: "connect",
    button: "Connect a sender",
    managers: false,
  },
  {
    name: "rule",
    title: "Make a mapping rule",
    text: "It turns an event into a scoring signal with points. It can be tried on what has come in before it is saved.",
    path: "rules/new",
    button: "New rule",
    managers: true,
  },
  {
    name: "person",
    title: "See the first person",
    text: "A signal with an email, or an identify call, makes a person; the points of their signals are their score.",
    path: "people",
    button: "To People",
    managers: false,
  },
];

export function FirstSteps({ base, manager, done }: { base: string; manager: boolean; done: StepsDone }) {
  const next = STEPS.find(({ name }) => !done[name]);
  return (
    <Panel title="First steps">
      <ol class="first-steps">
        {STEPS.map((step) => (
          <li class={done[step.name] ? "done" : undefined}>
            <div>
              <h3>
                {step.title} {done[step.name] && <Badge tone="good">Done</Badge>}
              </h3>
              {!done[step.name] && <p class="quiet small">{step.text}</p>}
            </div>
            {!done[step.name] &&
              (step.managers && !manager ? (
                <span class="quiet small">An owner or admin does this.</span>
              ) : (
                <a class={step === next ? "button primary" : "button"} href={`${base}/${step.path}`}>
                  {step.button}
                </a>
              ))}
          </li>
        ))}
      </ol>
      <Dismiss home={base} what="first-steps" state="all" back={`${base}/signals`} label="Dismiss the first steps" />
    </Panel>
  );
}
