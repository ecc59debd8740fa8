/** What `npm run dev` says when the service runs: calls that work as they are. */
import path from "node:path";
import { DEMO_MEMBERS, DEMO_RULES, DEMO_SLUG, type DemoWorkspace } from "./demo-workspace.ts";
import { PROJECT_DIR } from "./local-service.ts";

export interface Running {
  origin: string;
  token: string;
  demo: DemoWorkspace;
  stateDir: string;
  keyFile: string;
}

export function welcome({ origin, token, demo, stateDir, keyFile }: Running): string {
  const members = DEMO_MEMBERS.map(({ email, role }) => `${email} (${role})`).join(", ");
  const rules = DEMO_RULES.map(({ name, points }) => `${name} (${points > 0 ? "+" : ""}${points})`).join(", ");
  return `
The service is running at ${origin}

  The pages       ${origin}/w/${DEMO_SLUG}
  Demo workspace  ${demo.workspace_id}
  Members         ${members}
  Mapping rules   ${rules}

Send a signal:

curl -X POST '${origin}/api/signal-staging/webhook/${demo.key}' \\
  -H 'Content-Type: application/json' \\
  -d '{"email":"jane@example.com","event":"Filled Out Form","source":"website","properties":{"form_name":"Demo request"}}'

For a second terminal, and for the README's tour:

ORIGIN=${origin} WORKSPACE=${demo.workspace_id}
KEY=${demo.key} KEY_ID=${demo.key_id}
TOKEN=${token}
operator() { curl -s -H "Authorization: Bearer $TOKEN" "$ORIGIN/operator/workspaces/$WORKSPACE/$1"; echo; }

Then see the person's score, and where every accepted signal is:

operator 'people?email=jane@example.com'
operator books

  The API         ${origin}/docs
  The key         ${shown(keyFile)}
  State           ${shown(stateDir)} (delete it to start afresh)
  Stop            Ctrl-C

The service's log, one line per request and batch:
`;
}

function shown(file: string): string {
  const relative = path.relative(PROJECT_DIR, file);
  return relative.startsWith("..") ? file : relative;
}
