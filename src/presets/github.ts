import type { Preset } from "./preset.ts";

export const GITHUB: Preset = {
  id: "github",
  name: "GitHub",
  template: [
    { target: "event", path: "@header.x-github-event" },
    // Addresses of commits belong to their authors, who need not be the sender.
    { target: "email", paths: ["pusher.email", "sender.email", "payload.pusher.email", "payload.sender.email"] },
    { target: "user_id", text: "github:{sender[type=User].id}" },
    // The content type of forms has the JSON in a field.
    { target: "user_id", text: "github:{payload.sender[type=User].id}" },
    { target: "id", path: "@header.x-github-delivery" },
    {
      target: "occurred_at",
      paths: [
        "[pusher.name=*].repository.pushed_at",
        "starred_at",
        "comment.updated_at",
        "review.submitted_at",
        "pull_request.updated_at",
        "issue.updated_at",
        "release.published_at",
        "discussion.updated_at",
        "workflow_job.completed_at",
        "workflow_run.updated_at",
        "check_run.completed_at",
        "check_suite.updated_at",
        "deployment_status.updated_at",
        "deployment.updated_at",
        "package.updated_at",
        "alert.updated_at",
        "updated_at",
      ],
    },
  ],
  misfits: "keep",
  answer: 202,
  address: "/webhook/github/{key}",
  setUp: [
    "Open the settings of the repository or organization, and add a webhook with the address of the key.",
    "Choose the content type `application/json`, and the events.",
    "The event's name comes with a header, so a relay must keep `X-GitHub-Event`.",
  ],
  documentation: "https://docs.github.com/en/webhooks/webhook-events-and-payloads",
  fieldsFrom: "examples",
  events: "the event, such as `issues`; its action is in `payload.action`",
  person: "the sender's GitHub id; the pusher's address",
  note: "Bots and organizations name nobody. Most events hold no address.",
  rule: {
    name: "Starred a repository",
    event: "star",
    conditions: [{ path: "payload.action", operator: "equals", value: "created" }],
    scoringSignal: "repository_starred",
    points: 5,
  },
  sample: {
    headers: { "x-github-event": "star", "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958" },
    body: {
      action: "created",
      starred_at: "2019-05-15T15:20:40Z",
      repository: { id: 186853002, full_name: "Codertocat/Hello-World" },
      sender: { login: "Codertocat", id: 21031067, type: "User" },
    },
  },
};
