/** Settings › API tokens, for owners and admins: what programs may do in this workspace with the API (design §9). */
import type { Context } from "hono";
import {
  createToken,
  listTokens,
  revokeToken,
  type ApiToken,
  type CreatedToken,
  type NewToken,
} from "../control/api-tokens.ts";
import { TOKEN_SCOPES, tokenStatus, type TokenScope } from "../domain/keys/api-token.ts";
import { canManage } from "../domain/keys/role.ts";
import { PAGE_ROWS } from "../limits.ts";
import type { PageOf } from "../platform/list-page.ts";
import { LIMIT_COPY } from "../workspace/refusal-copy.ts";
import { SCOPE_MEANING } from "../workspace/token-scopes.ts";
import { KeyTitle } from "./key-names.tsx";
import { checkKeyName, expirationOf, formTokenOf, readLifetime, type TypedLifetime } from "./keys/key-form.ts";
import { Expiration, LastUsed, LifetimeFields, LocalTime } from "./keys/key-parts.tsx";
import { Confirm, Menu } from "./kit/actions.tsx";
import { ago, authorName } from "./kit/format.ts";
import { Choice, FormEnd, FormErrors, TextField } from "./kit/forms.tsx";
import { ListAddress } from "./kit/list-address.ts";
import { Badge, CopyText, Empty, Fact, FactList, Notice, PageHead, Panel, Time } from "./kit/parts.tsx";
import { Pager, Table } from "./kit/table.tsx";
import { done, managersOnlyPage, notFoundPage, page } from "./page.tsx";
import { contextOf, formText, pages, type PagesEnv, workspacePath } from "./pages-env.ts";
import { readForm } from "./read-form.tsx";

type Ctx = Context<PagesEnv>;

/** Title and section of the pages. */
const TOKENS_PAGE = { title: "API tokens", section: "tokens" } as const;

function tokensPath(c: Ctx): string {
  return `${workspacePath(c)}/settings/api-tokens`;
}

const requireTokenManager = pages.createMiddleware(async (c, next) => {
  if (!canManage(c.get("role"))) return managersOnlyHere(c);
  await next();
});

function managersOnlyHere(c: Ctx) {
  return managersOnlyPage(c, null, "API tokens", "see or manage API tokens");
}

export const tokenPages = pages
  .createApp()
  .use(requireTokenManager)
  .get("/", async (c) => {
    const list = new ListAddress(tokensPath(c), c.req.query());
    const tokens = await listTokens(c.get("db"), c.get("workspace").id, list.slice(PAGE_ROWS));
    const props = { list, tokens, home: workspacePath(c), isApiOn: Boolean(c.env.OPERATOR_TOKEN), nowMs: Date.now() };
    return page(c, TOKENS_PAGE, <TokensView {...props} />);
  })
  .get("/new", (c) => formPage(c, emptyToken(), {}, 200))
  .post("/new", readForm(), async (c) => {
    const typed = readTokenForm(c.get("form"));
    const { token, errors } = checkTokenForm(typed, Date.now());
    if (formTokenOf(c.get("form")) === null) errors.form = "The form was incomplete. Check it and send it again.";
    if (token === null || errors.form !== undefined) return formPage(c, typed, errors, 422);
    const result = await createToken(contextOf(c), token, typed.formToken);
    if (result.ok) return createdPage(c, result.value);
    const { refusal } = result;
    if (refusal.reason === "made_before") return madeBeforePage(c, refusal.token);
    if (refusal.reason === "not_manager") return managersOnlyHere(c);
    return formPage(c, typed, { form: LIMIT_COPY[refusal.reason] }, 422);
  })
  .post("/:token_id/revoke", async (c) => {
    const token = await revokeToken(contextOf(c), c.req.param("token_id"));
    return token === null ? notFoundPage(c, "token") : done(c, "settings/api-tokens", "token_revoked");
  });

interface ListProps {
  list: ListAddress;
  tokens: PageOf<ApiToken>;
  /** The workspace's path, `/w/{slug}`. */
  home: string;
  /** Whether the deployment answers the API. */
  isApiOn: boolean;
  nowMs: number;
}

function TokensView(props: ListProps) {
  const { list, tokens, isApiOn } = props;
  const isEmpty = tokens.items.length === 0;
  const create = isApiOn && (
    <a class="button primary" href={`${list.path}/new`}>
      Create API token
    </a>
  );
  return (
    <>
      <PageHead title="API tokens" actions={!isEmpty && create}>
        Programs use a token to call the <a href="/docs">API</a> for this workspace.
      </PageHead>
      {!isApiOn && (
        <Notice tone="warn" title="The API is switched off">
          <p>This deployment has no operator token, so it answers no API call. Ask the operator of the service.</p>
        </Notice>
      )}
      <Panel list>
        {isEmpty ? (
          <Empty title="No API tokens yet">
            <p>
              Create a token for each program, such as a nightly export or a script that keeps mapping rules in Git.
              Choose only the scopes that it needs.
            </p>
            {create}
          </Empty>
        ) : (
          <TokenTable {...props} />
        )}
        <Pager list={list} next={tokens.next} />
      </Panel>
    </>
  );
}

function TokenTable({ list, tokens, home, nowMs }: ListProps) {
  return (
    <Table
      caption="API tokens, newest first"
      rows={tokens.items}
      attributes={({ id }) => ({ id })}
      columns={[
        { head: "Name", cell: ({ name, maskedToken }) => <KeyTitle name={name} maskedKey={maskedToken} /> },
        { head: "Scopes", cell: ({ scopes }) => <Scopes scopes={scopes} /> },
        { head: "Status", cell: (token) => <Status token={token} nowMs={nowMs} /> },
        {
          head: "Created by",
          kind: "text",
          drop: "narrow",
          cell: ({ createdAt, createdBy }) => (
            <>
              <span class="anywhere">{authorName(createdBy)}</span>{" "}
              <small>
                <LocalTime iso={createdAt} precision="date" />
              </small>
            </>
          ),
        },
        {
          head: "Expires",
          cell: ({ expiresAt, revokedAt }) => (
            <Expiration apiKey={{ endsAt: expiresAt, deactivatedAt: revokedAt }} nowMs={nowMs} />
          ),
        },
        { head: "Last used", cell: (token) => <LastUsed usedMs={usedMs(token)} nowMs={nowMs} /> },
        {
          head: "Actions",
          kind: "actions",
          cell: (token) => <TokenMenu path={list.path} home={home} token={token} nowMs={nowMs} />,
        },
      ]}
    />
  );
}

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

function Status({ token, nowMs }: { token: ApiToken; nowMs: number }) {
  const status = tokenStatus(token, nowMs);
  if (status === "Active") return <Badge tone="good">Active</Badge>;
  const { revokedAt, expiresAt, revokedReason } = token;
  const at = revokedAt ?? expiresAt;
  return (
    <>
      <Badge>{status}</Badge>{" "}
      <small>
        {at !== null && <Time ms={Date.parse(at)} nowMs={nowMs} />}
        {revokedReason === "role_lost" && ": its creator lost the role"}
      </small>
    </>
  );
}

function TokenMenu({ path, home, token, nowMs }: { path: string; home: string; token: ApiToken; nowMs: number }) {
  const { id, name, maskedToken } = token;
  const title = `${name} (${maskedToken})`;
  const lastMs = usedMs(token);
  return (
    <Menu label={`Actions for API token ${title}`}>
      <a href={`${home}/settings/activity?actor=${id}`}>Show changes</a>
      {tokenStatus(token, nowMs) === "Active" && (
        <Confirm
          label="Revoke"
          title={`Revoke ${title}?`}
          action={`${path}/${id}/revoke`}
          submit="Revoke token"
          look="danger"
        >
          <p>
            Calls with this token get 401 from now on. This cannot be undone.{" "}
            {lastMs === null ? "No call has used it yet." : `The last call came ${ago(lastMs, nowMs)}.`}
          </p>
          <p class="quiet">Its changes stay. The token stays in the list as Revoked.</p>
        </Confirm>
      )}
    </Menu>
  );
}

interface TypedToken extends TypedLifetime {
  /** Idempotency token of the form. */
  formToken: string;
  name: string;
  scopes: TokenScope[];
}

type TokenErrors = Partial<Record<"form" | "name" | "scopes" | "expires", string>>;

function emptyToken(): TypedToken {
  return { formToken: crypto.randomUUID(), name: "", scopes: ["read"], lifetime: "90d", expires: "" };
}

function readTokenForm(form: FormData): TypedToken {
  const checked = form.getAll("scope");
  return {
    formToken: formTokenOf(form) ?? crypto.randomUUID(),
    name: formText(form, "name"),
    scopes: TOKEN_SCOPES.filter((scope) => checked.includes(scope)),
    ...readLifetime(form),
  };
}

/** The token to create. Null: there are errors. */
function checkTokenForm(typed: TypedToken, nowMs: number): { token: NewToken | null; errors: TokenErrors } {
  const errors: TokenErrors = {};
  const [name, expiration] = [checkKeyName(typed.name), expirationOf(typed, nowMs)];
  if (!name.ok) errors.name = name.refusal;
  if (typed.scopes.length === 0) errors.scopes = "Choose at least one scope.";
  if (!expiration.ok) errors.expires = expiration.refusal;
  if (!name.ok || !expiration.ok || typed.scopes.length === 0) return { token: null, errors };
  return { token: { name: name.value, scopes: typed.scopes, expiresAt: expiration.value }, errors };
}

function formPage(c: Ctx, typed: TypedToken, errors: TokenErrors, status: 200 | 422) {
  const view = <NewTokenView path={tokensPath(c)} typed={typed} errors={errors} />;
  return page(c, { ...TOKENS_PAGE, title: "Create API token", status }, view);
}

const FIELD_LABEL = { form: "", name: "Name: ", scopes: "Scopes: ", expires: "Expiration: " } as const;

function NewTokenView({ path, typed, errors }: { path: string; typed: TypedToken; errors: TokenErrors }) {
  const fields = Object.keys(FIELD_LABEL) as (keyof TokenErrors)[];
  const messages = fields.flatMap((field) => (errors[field] === undefined ? [] : FIELD_LABEL[field] + errors[field]));
  return (
    <>
      <PageHead title="Create API token" crumbs={[<a href={path}>API tokens</a>]}>
        The next page shows the full token once.
      </PageHead>
      <form method="post" action={`${path}/new`} class="stack" data-once novalidate>
        <input type="hidden" name="form_token" value={typed.formToken} />
        <FormErrors title="The token was not created" errors={messages} />
        <Panel>
          <div class="form">
            <TextField
              name="name"
              label="Name"
              hint="The program that uses it. Activity shows its changes under this name."
              value={typed.name}
              error={errors.name}
              autocomplete="off"
              autofocus={typed.name === "" && messages.length === 0}
              required
            />
            <fieldset class="field">
              <legend>Scopes</legend>
              {TOKEN_SCOPES.map((scope, index) => (
                <Choice
                  type="checkbox"
                  group="scope"
                  name="scope"
                  value={scope}
                  label={scope}
                  hint={SCOPE_MEANING[scope]}
                  checked={typed.scopes.includes(scope)}
                  autofocus={errors.scopes !== undefined && index === 0}
                />
              ))}
              {errors.scopes !== undefined && <span class="error">{errors.scopes}</span>}
            </fieldset>
            <LifetimeFields label="Expiration" typed={typed} error={errors.expires} />
            <p class="hint">The token also ends when you are no longer an owner or admin of this workspace.</p>
          </div>
        </Panel>
        <FormEnd submit="Create API token" cancel={path} />
      </form>
    </>
  );
}

/** The one page that shows the full token. Answers the post itself, because a redirect would have to store the token. */
function createdPage(c: Ctx, { record, value }: CreatedToken) {
  const path = tokensPath(c);
  const { name, scopes, expiresAt } = record;
  const title = "API token created";
  const call = firstCall(scopes);
  const address = new URL(`/operator/workspaces/${c.get("workspace").id}`, c.req.url).href;
  return page(
    c,
    { ...TOKENS_PAGE, title, showsKey: true },
    <>
      <PageHead
        title={title}
        crumbs={[<a href={path}>API tokens</a>]}
        actions={
          <a class="button" href={path}>
            View all tokens
          </a>
        }
      >
        {name}
      </PageHead>
      <Notice tone="warn" title="Copy the token now">
        <p>This page shows it once, and only a hash is stored. If you lose it, revoke it and create another one.</p>
      </Notice>
      <Panel title="API token">
        <CopyText id="new-token" label="API token" text={value} />
        <FactList>
          <Fact name="Scopes">
            <Scopes scopes={scopes} />
          </Fact>
          <Fact name="Expires">{expiresAt === null ? "Never" : <LocalTime iso={expiresAt} />}</Fact>
        </FactList>
      </Panel>
      <Panel title="Try it">
        <p class="quiet">{call.meaning}</p>
        <CopyText block id="token-curl" label="curl call" text={curlLine(call, address, value)} />
        <p class="quiet small">
          <a href="/docs">The API documentation</a> names the scope of each operation.
        </p>
      </Panel>
    </>,
  );
}

/** A first call with a new token: harmless, and within one of its scopes. */
interface FirstCall {
  /** One sentence. */
  meaning: string;
  /** Below the workspace in the API. */
  path: string;
  /** The JSON of a POST. */
  body?: string;
}

const FIRST_CALLS = {
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
} as const satisfies Record<TokenScope, FirstCall>;

/** Scopes in the order in which their call is preferred. */
const FIRST_SCOPES = Object.keys(FIRST_CALLS) as TokenScope[];

function firstCall(scopes: readonly TokenScope[]): FirstCall {
  const [scope = "read"] = FIRST_SCOPES.filter((name) => scopes.includes(name));
  return FIRST_CALLS[scope];
}

/** @param address the workspace's in the API. */
function curlLine({ path, body }: FirstCall, address: string, token: string): string {
  const lines = [`curl '${address}/${path}'`, `-H 'Authorization: Bearer ${token}'`];
  // With a body, curl sends a POST.
  if (body !== undefined) lines.push(`-d '${body}'`);
  return lines.join(" \\\n  ");
}

/** The answer to a form that was sent before: after a reload, a way back or a double click. */
function madeBeforePage(c: Ctx, { name, maskedToken }: ApiToken) {
  const path = tokensPath(c);
  return page(
    c,
    { ...TOKENS_PAGE, title: "Token already created", status: 409 },
    <>
      <PageHead title="This token was already created" crumbs={[<a href={path}>API tokens</a>]}>
        {name} ({maskedToken})
      </PageHead>
      <Notice tone="warn" title="The full token was in the first answer">
        <p>No second token was created. If you did not copy the token, revoke it and create another one.</p>
      </Notice>
      <div class="row">
        <a class="button" href={path}>
          View all tokens
        </a>
      </div>
    </>,
  );
}
