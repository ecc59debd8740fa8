/** Settings › API tokens, for owners and admins: what programs may do in this workspace with the API. */
import {
  createToken,
  listTokens,
  revokeToken,
  type ApiToken,
  type CreatedToken,
  type NewToken,
} from "../d1/api-tokens.ts";
import { TOKEN_SCOPES, tokenStatus, type TokenScope, SCOPE_MEANING } from "../domain/keys/api-token.ts";
import { ok, reject, type Result } from "../domain/result.ts";
import { PAGE_ROWS } from "../limits.ts";
import { LIMIT_COPY } from "../use-cases/rejection-copy.ts";
import { expirationOf, formTokenOf, LifetimeFields, readLifetime, type TypedLifetime } from "./keys/key-form-parts.tsx";
import { Expiration, keyText, KeyTitle, lastCallText, LastUsed, LocalTime } from "./keys/key-parts.tsx";
import { Check, Confirm, Form, LinkButton, Menu, TextField } from "./kit/forms.tsx";
import { authorName } from "./kit/format.ts";
import { sectionPath } from "./kit/layout.tsx";
import { ListAddress, ListPanel } from "./kit/list.tsx";
import { Badge, type Column, CopyText, Empty, ValueList, Notice, EmailText, Panel, Table, Time } from "./kit/parts.tsx";
import { alreadyCreatedPage, managersOnlyPage, notFoundPage, page } from "./page.tsx";
import { contextOf, pages, typedText, type Ctx, done } from "./pages-env.ts";
import { allFields, checkName, readForm } from "./read-form.tsx";
import { managersOnly } from "./session/sign-in.tsx";

/** Title and text of the page that other members see. */
const FOR_MANAGERS = ["API tokens", "see or manage API tokens", null] as const;

export const tokenPages = pages
  .createApp()
  .use(managersOnly(...FOR_MANAGERS))
  .get("/", (c) => listPage(c))
  .get("/new", (c) => {
    const lifetime = { lifetime: "90d", expires: "" } as const;
    return formPage(c, { formToken: crypto.randomUUID(), name: "", scopes: ["read"], ...lifetime });
  })
  .post("/new", readForm(), async (c) => {
    const typed = readTokenForm(c.get("form"));
    const checked = checkTokenForm(typed);
    if (!checked.ok) return formPage(c, typed, checked.rejection);
    const result = await createToken(contextOf(c), checked.value, typed.formToken);
    if (result.ok) return createdPage(c, result.value);
    const { rejection } = result;
    if (rejection.reason === "made_before") return tokenAlreadyCreatedPage(c, rejection.token);
    if (rejection.reason === "not_manager") return managersOnlyPage(c, ...FOR_MANAGERS);
    return formPage(c, typed, { form: LIMIT_COPY[rejection.reason] });
  })
  .post("/:token_id/revoke", async (c) => {
    const token = await revokeToken(contextOf(c), c.req.param("token_id"));
    return token === null ? notFoundPage(c, "token") : done(c, "settings/api-tokens", "token_revoked");
  });

async function listPage(c: Ctx) {
  const path = sectionPath(c, "tokens");
  const list = new ListAddress(path, c.req.query());
  const tokens = await listTokens(c.get("db"), c.get("workspace").id, list.slice(PAGE_ROWS));
  const isApiOn = Boolean(c.env.OPERATOR_TOKEN);
  const create = isApiOn && <LinkButton href={`${path}/new`} text="Create API token" look="primary" />;
  const intro = (
    <>
      Programs use a token to call the <a href="/docs/api">API</a> for this workspace.
    </>
  );
  return page(
    c,
    { section: "tokens", title: "API tokens", intro, actions: tokens.items.length > 0 && create },
    !isApiOn && (
      <Notice
        tone="warn"
        title="The API is switched off"
        text="This deployment has no operator token, so it answers no API call. Ask the operator of the service."
      />
    ),
    <ListPanel
      list={list}
      found={tokens}
      empty={
        <Empty
          title="No API tokens yet"
          text="Create a token for each program, such as a nightly export or a script that keeps mapping rules in Git. Choose only the scopes that it needs."
        >
          {create}
        </Empty>
      }
    >
      <Table
        caption="API tokens, newest first"
        rows={tokens.items}
        attributes={({ id }) => ({ id })}
        columns={[...COLUMNS, { head: "", kind: "actions", cell: (token) => <TokenMenu c={c} token={token} /> }]}
      />
    </ListPanel>,
  );
}

const COLUMNS: readonly Column<ApiToken>[] = [
  { head: "Name", cell: ({ name, maskedToken }) => <KeyTitle name={name} maskedKey={maskedToken} /> },
  { head: "Scopes", cell: ({ scopes }) => <Scopes scopes={scopes} /> },
  { head: "Status", cell: (token) => <Status token={token} /> },
  {
    head: "Created by",
    kind: "text",
    drop: "narrow",
    cell: ({ createdAt, createdBy }) => (
      <>
        <EmailText text={authorName(createdBy)} />{" "}
        <small>
          <LocalTime iso={createdAt} precision="date" />
        </small>
      </>
    ),
  },
  {
    head: "Expires",
    cell: ({ expiresAt, revokedAt }) => <Expiration apiKey={{ endsAt: expiresAt, deactivatedAt: revokedAt }} />,
  },
  { head: "Last used", cell: (token) => <LastUsed usedMs={usedMs(token)} /> },
];

function usedMs({ lastUsedAt }: ApiToken): number | null {
  return lastUsedAt === null ? null : Date.parse(lastUsedAt);
}

function Scopes({ scopes }: { scopes: readonly TokenScope[] }) {
  return (
    <>
      {scopes.map((scope) => (
        <>
          <span class="tag">{scope}</span>{" "}
        </>
      ))}
    </>
  );
}

function Status({ token }: { token: ApiToken }) {
  const status = tokenStatus(token, Date.now());
  if (status === "Active") return <Badge tone="good">Active</Badge>;
  const at = token.revokedAt ?? token.expiresAt;
  return (
    <>
      <Badge>{status}</Badge>{" "}
      <small>
        {at !== null && <Time ms={Date.parse(at)} />}
        {token.revokedReason === "role_lost" && ": its creator lost the role"}
      </small>
    </>
  );
}

function TokenMenu({ c, token }: { c: Ctx; token: ApiToken }) {
  const { id } = token;
  const title = titleOf(token);
  return (
    <Menu label={`Actions for API token ${title}`}>
      <a href={`${sectionPath(c, "activity")}?actor=${id}`} aria-label={`Show changes of ${title}`}>
        Show changes
      </a>
      {tokenStatus(token, Date.now()) === "Active" && (
        <Confirm
          label="Revoke"
          title={`Revoke ${title}?`}
          action={`${sectionPath(c, "tokens")}/${id}/revoke`}
          submit="Revoke token"
          look="danger"
        >
          <p>Calls with this token get 401 from now on. This cannot be undone. {lastCallText(usedMs(token))}</p>
          <p class="quiet">Its changes stay. The token stays in the list as Revoked.</p>
        </Confirm>
      )}
    </Menu>
  );
}

function titleOf({ id, name, maskedToken }: ApiToken): string {
  return keyText({ name, maskedKey: maskedToken }, id);
}

interface TypedToken extends TypedLifetime {
  formToken: string;
  name: string;
  scopes: TokenScope[];
}

/** Sentences by field; `form` is about the form as a whole. */
type Errors = Partial<Record<"form" | keyof NewToken, string>>;

function readTokenForm(form: FormData): TypedToken {
  const checked = form.getAll("scope");
  return {
    formToken: formTokenOf(form),
    name: typedText(form, "name"),
    scopes: TOKEN_SCOPES.filter((scope) => checked.includes(scope)),
    ...readLifetime(form),
  };
}

function checkTokenForm(typed: TypedToken): Result<NewToken, Errors> {
  return allFields({
    name: checkName(typed.name),
    scopes: typed.scopes.length > 0 ? ok(typed.scopes) : reject("Choose at least one scope."),
    expiresAt: expirationOf(typed, Date.now()),
  });
}

function formPage(c: Ctx, typed: TypedToken, errors: Errors = {}) {
  const path = sectionPath(c, "tokens");
  return page(
    c,
    {
      section: "tokens",
      title: "Create API token",
      crumbs: [],
      intro: "The next page shows the full token once.",
      fieldErrors: errors,
      errorTitle: "Nothing was created",
    },
    <Form
      action={`${path}/new`}
      submit="Create API token"
      cancel={path}
      hidden={{ form_token: typed.formToken }}
      class="stack"
    >
      <Panel>
        <div class="form">
          <TextField
            name="name"
            label="Name"
            hint="The program that uses it. Activity shows its changes under this name."
            value={typed.name}
            error={errors.name}
            autofocus={typed.name === "" && Object.keys(errors).length === 0}
            required
          />
          <fieldset class="field" aria-describedby={errors.scopes === undefined ? undefined : "scopes-error"}>
            <legend>Scopes</legend>
            {TOKEN_SCOPES.map((scope, index) => (
              <Check
                id={`scope-${scope}`}
                name="scope"
                value={scope}
                label={scope}
                hint={SCOPE_MEANING[scope]}
                checked={typed.scopes.includes(scope)}
                autofocus={errors.scopes !== undefined && index === 0}
              />
            ))}
            {errors.scopes !== undefined && (
              <span class="error" id="scopes-error">
                {errors.scopes}
              </span>
            )}
          </fieldset>
          <LifetimeFields label="Expiration" typed={typed} error={errors.expiresAt} />
          <p class="hint">The token also ends when you are no longer an owner or admin of this workspace.</p>
        </div>
      </Panel>
    </Form>,
  );
}

/** The one page that shows the full token. Answers the post itself, because a redirect would have to store the token. */
function createdPage(c: Ctx, { record: { name, scopes, expiresAt }, value }: CreatedToken) {
  const scope = (Object.keys(FIRST_CALLS) as TokenScope[]).find((known) => scopes.includes(known)) ?? "read";
  const { meaning, path, body } = FIRST_CALLS[scope];
  const address = new URL(`/operator/workspaces/${c.get("workspace").id}/${path}`, c.req.url).href;
  return page(
    c,
    {
      section: "tokens",
      title: "API token created",
      crumbs: [],
      intro: name,
      actions: <LinkButton href={sectionPath(c, "tokens")} text="View all tokens" />,
      showsKey: true,
    },
    <Notice
      tone="warn"
      title="Copy the token now"
      text="This page shows it once, and only a hash is stored. If you lose it, revoke it and create another one."
    />,
    <Panel title="API token" unsaved={1}>
      <CopyText id="new-token" label="API token" text={value} />
      <ValueList
        of={[
          ["Scopes", <Scopes scopes={scopes} />],
          ["Expires", expiresAt === null ? "Never" : <LocalTime iso={expiresAt} />],
        ]}
      />
    </Panel>,
    <Panel title="Try it">
      <p class="quiet">{meaning}</p>
      <CopyText block id="token-curl" label="curl call" text={curlLine(address, body, value)} />
      <p class="quiet small">
        <a href="/docs/api">The API documentation</a> names the scope of each operation.
      </p>
    </Panel>,
  );
}

/**
 * First calls with a new token, by the scope that they need. The first that fits is shown. All are harmless. `path` is below
 * the workspace in the API, `body` the JSON of a POST.
 */
const FIRST_CALLS: Record<TokenScope, { meaning: string; path: string; body?: string }> = {
  read: { meaning: "Get the usage of the billing periods:", path: "usage" },
  keys: { meaning: "List the API keys:", path: "keys" },
  export: { meaning: "Export all people with their scores as CSV:", path: "export/people?format=csv" },
  rules: {
    meaning: "Test a mapping rule on stored signals, without a change:",
    path: "rules/preview",
    body: '{"name":"Test","event":"*","scoring_signal":"test","points":1}',
  },
  delete: {
    meaning: "Get the receipt of a deletion, or 404 if this person was not deleted:",
    path: "people/jane@example.com/deletion",
  },
};

function curlLine(address: string, body: string | undefined, token: string): string {
  const lines = [`curl '${address}'`, `-H 'Authorization: Bearer ${token}'`];
  if (body !== undefined) lines.push(`-d '${body}'`);
  return lines.join(" \\\n  ");
}

function tokenAlreadyCreatedPage(c: Ctx, token: ApiToken) {
  return alreadyCreatedPage(c, {
    section: "tokens",
    noun: "token",
    intro: titleOf(token),
    secret: { name: "full token", remedy: "revoke it and create another one" },
    actions: <LinkButton href={sectionPath(c, "tokens")} text="View all tokens" />,
  });
}
