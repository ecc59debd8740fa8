/** API keys (spec §2.1, §3.1, §5.6; design §5): the list, for owners and admins. It shows masked keys only. */
import { listActiveKeys, listKeys, rotatedWith, type ApiKey } from "../../control/api-keys.ts";
import { keyStatus } from "../../domain/keys/api-key.ts";
import { canManageKeys } from "../../domain/keys/role.ts";
import { PAGE_ROWS } from "../../limits.ts";
import type { PageOf } from "../../platform/list-page.ts";
import { deactivateApiKey } from "../../workspace/manage-keys.ts";
import { quotaCounter } from "../../workspace/objects.ts";
import { ENDPOINT_LABEL } from "../copy.ts";
import { KeyTitle } from "../key-names.tsx";
import { ListAddress } from "../kit/list-address.ts";
import { Empty, PageHead, Panel, Tabs } from "../kit/parts.tsx";
import { Pager, Table } from "../kit/table.tsx";
import { done, managersOnlyPage, notFoundPage, page } from "../page.tsx";
import { contextOf, pages } from "../pages-env.ts";
import { oneKeyPages } from "./key.tsx";
import { Expiration, KeyMenu, KEYS_PAGE, keysPath, KeyStatus, LastUsed, LocalTime } from "./key-parts.tsx";
import { newKeyPages } from "./new-key.tsx";
import { rotateKeyPages } from "./rotate-key.tsx";

/** Other members see an explanation instead of the keys (spec §1). */
const requireKeyManager = pages.createMiddleware(async (c, next) => {
  if (!canManageKeys(c.get("role"))) return managersOnlyPage(c, null, "API keys", "see or manage API keys");
  await next();
});

const SHOWN = { all: "All", active: "Active" } as const;

type Shown = keyof typeof SHOWN;

export const keyPages = pages
  .createApp()
  .use(requireKeyManager)
  .get("/", async (c) => {
    const [db, { id }, nowMs] = [c.get("db"), c.get("workspace"), Date.now()];
    const list = new ListAddress(keysPath(c), c.req.query());
    const shown = list.choice<Shown>("show", null, SHOWN, "all");
    const slice = list.slice(PAGE_ROWS);
    const [keys, lastUsed] = await Promise.all([
      shown === "all" ? listKeys(db, id, slice) : listActiveKeys(db, id, nowMs, slice),
      quotaCounter(c.env, id).lastUsed(),
    ]);
    const related = await rotatedWith(db, id, keys.items);
    return page(c, KEYS_PAGE, <KeysView {...related} {...{ list, shown, keys, lastUsed, nowMs }} />);
  })
  .post("/:key_id/deactivate", async (c) => {
    const key = await deactivateApiKey(contextOf(c), c.req.param("key_id"));
    return key === null ? notFoundPage(c, "key") : done(c, "settings/api-keys", "key_deactivated");
  })
  .route("/", newKeyPages)
  .route("/", rotateKeyPages)
  .route("/", oneKeyPages);

interface Props {
  list: ListAddress;
  shown: Shown;
  keys: PageOf<ApiKey>;
  /** Last use by key id, in milliseconds since 1970. */
  lastUsed: Record<string, number>;
  successors: ReadonlyMap<string, ApiKey>;
  predecessors: ReadonlyMap<string, ApiKey>;
  nowMs: number;
}

function KeysView(props: Props) {
  const { list, shown, keys } = props;
  const { path } = list;
  const isEmpty = keys.items.length === 0;
  const create = (
    <a class="button primary" href={`${path}/new`}>
      Create API key
    </a>
  );
  return (
    <>
      <PageHead title="API keys" actions={!isEmpty && create}>
        Senders use a key in the URL of the webhook.
      </PageHead>
      <Panel list>
        <Tabs
          label="Status"
          tabs={[
            { href: path, text: SHOWN.all, current: shown === "all" },
            { href: `${path}?show=active`, text: SHOWN.active, current: shown === "active" },
          ]}
        />
        {isEmpty ? (
          <Empty title={shown === "active" ? "No active API keys" : "No API keys yet"}>
            <p>Every call to a webhook needs a key.</p>
            {create}
          </Empty>
        ) : (
          <KeyTable {...props} />
        )}
        <Pager list={list} next={keys.next} />
      </Panel>
    </>
  );
}

function KeyTable(props: Props) {
  const { list, keys, lastUsed, nowMs } = props;
  const { path } = list;
  return (
    <Table
      caption="API keys, newest first"
      rows={keys.items}
      href={({ id }) => `${path}/${id}`}
      attributes={({ id }) => ({ id })}
      columns={[
        { head: "Name", cell: (apiKey) => <KeyTitle {...apiKey} /> },
        {
          head: "Endpoint type",
          drop: "narrow",
          cell: ({ endpointType }) => <span class="nowrap">{ENDPOINT_LABEL[endpointType]}</span>,
        },
        {
          head: "Status",
          cell: (apiKey) => (
            <>
              <KeyStatus apiKey={apiKey} nowMs={nowMs} />
              <RotationNote {...props} apiKey={apiKey} />
            </>
          ),
        },
        {
          head: "Created",
          drop: "narrow",
          cell: ({ createdAt }) => <LocalTime iso={createdAt} precision="date" />,
        },
        { head: "Expires", cell: (apiKey) => <Expiration apiKey={apiKey} nowMs={nowMs} /> },
        { head: "Last used", cell: ({ id }) => <LastUsed usedMs={lastUsed[id]} nowMs={nowMs} /> },
        {
          head: "Actions",
          kind: "actions",
          cell: (apiKey) =>
            keyStatus(apiKey, nowMs) === "Active" && (
              <KeyMenu path={path} apiKey={apiKey} usedMs={lastUsed[apiKey.id]} nowMs={nowMs} />
            ),
        },
      ]}
    />
  );
}

/** Which of the two keys of a rotation is still in use (design §5). */
function RotationNote({ apiKey, lastUsed, successors, predecessors, nowMs }: Props & { apiKey: ApiKey }) {
  const [successor, predecessor] = [successors.get(apiKey.id), predecessors.get(apiKey.successorOf ?? "")];
  const isActive = keyStatus(apiKey, nowMs) === "Active";
  const usedMs = lastUsed[apiKey.id] ?? 0;
  const isStillUsed = successor !== undefined && isActive && usedMs > Date.parse(successor.createdAt);
  const isUnused = predecessor !== undefined && usedMs === 0 && keyStatus(predecessor, nowMs) === "Active";
  return (
    <>
      {successor !== undefined && (
        <small class={isStillUsed ? "warn toned" : undefined}>
          {` Replaced by ${successor.maskedKey}${isStillUsed ? ", still in use" : isActive ? ", not used since" : ""}`}
        </small>
      )}
      {predecessor !== undefined && (
        <small>{` Replaces ${predecessor.maskedKey}${isActive && isUnused ? ", not in use yet" : ""}`}</small>
      )}
    </>
  );
}
