/** API keys (spec §2.1, §3.1, §5.6): the list, for owners and admins. It shows masked keys only. */
import { listKeys, rotatedWith, type ApiKey } from "../../d1/api-keys.ts";
import { PAGE_ROWS } from "../../limits.ts";
import { deactivateApiKey } from "../../use-cases/manage-keys.ts";
import { ENDPOINT_LABEL } from "../copy.ts";
import { LinkButton } from "../kit/forms.tsx";
import { sectionPath } from "../kit/layout.tsx";
import { ListAddress, ListPanel } from "../kit/list.tsx";
import { Empty, Table, Tabs } from "../kit/parts.tsx";
import { notFoundPage, page } from "../page.tsx";
import { contextOf, counterOf, pages, done } from "../pages-env.ts";
import { managersOnly } from "../session/sign-in.tsx";
import { Expiration, isActive, KeyMenu, KeyStatus, KeyTitle, LastUsed, LocalTime } from "./key-parts.tsx";
import { keyDetailPages } from "./key.tsx";
import { newKeyPages } from "./new-key.tsx";
import { keyTemplatePages } from "./template.tsx";

const SHOWN = { all: "All", active: "Active" } as const;

export const keyPages = pages
  .createApp()
  // Other members see an explanation instead of the keys (spec §1).
  .use(managersOnly("API keys", "see or manage API keys"))
  .get("/", async (c) => {
    const [db, { id }] = [c.get("db"), c.get("workspace")];
    const path = sectionPath(c, "keys");
    const list = new ListAddress(path, c.req.query());
    const shown = list.option("show", SHOWN, "all");
    const slice = list.slice(PAGE_ROWS);
    const [keys, lastUsed] = await Promise.all([
      listKeys(db, id, slice, shown === "active" ? Date.now() : undefined),
      counterOf(c).lastUsed(),
    ]);
    const related = await rotatedWith(db, id, keys.items);
    const create = <LinkButton href={`${path}/new`} text="Create API key" look="primary" />;
    const tabs = [
      { href: path, text: SHOWN.all, current: shown === "all" },
      { href: `${path}?show=active`, text: SHOWN.active, current: shown === "active" },
    ];
    return page(
      c,
      {
        section: "keys",
        title: "API keys",
        intro: "Senders use a key in the URL of the webhook.",
        actions: keys.items.length > 0 && create,
      },
      <ListPanel
        list={list}
        found={keys}
        head={<Tabs label="Status" tabs={tabs} />}
        empty={
          <Empty
            title={shown === "active" ? "No active API keys" : "No API keys yet"}
            text="Every call to a webhook needs a key."
          >
            {create}
          </Empty>
        }
      >
        <KeyTable path={path} keys={keys.items} lastUsed={lastUsed} {...related} />
      </ListPanel>,
    );
  })
  .post("/:key_id/deactivate", async (c) => {
    const key = await deactivateApiKey(contextOf(c), c.req.param("key_id"));
    return key === null ? notFoundPage(c, "key") : done(c, "settings/api-keys", "key_deactivated");
  })
  .route("/", newKeyPages)
  .route("/", keyTemplatePages)
  .route("/", keyDetailPages);

interface Props {
  path: string;
  keys: readonly ApiKey[];
  /** By key id, in milliseconds since 1970. */
  lastUsed: Record<string, number>;
  successors: ReadonlyMap<string, ApiKey>;
  predecessors: ReadonlyMap<string, ApiKey>;
}

function KeyTable(props: Props) {
  const { path, keys, lastUsed } = props;
  return (
    <Table
      caption="API keys, newest first"
      rows={keys}
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
              <KeyStatus apiKey={apiKey} />
              <RotationNote {...props} apiKey={apiKey} />
            </>
          ),
        },
        {
          head: "Created",
          drop: "narrow",
          cell: ({ createdAt }) => <LocalTime iso={createdAt} precision="date" />,
        },
        { head: "Expires", cell: (apiKey) => <Expiration apiKey={apiKey} /> },
        { head: "Last used", cell: ({ id }) => <LastUsed usedMs={lastUsed[id]} /> },
        {
          head: "Actions",
          kind: "actions",
          cell: (apiKey) => isActive(apiKey) && <KeyMenu path={path} apiKey={apiKey} usedMs={lastUsed[apiKey.id]} />,
        },
      ]}
    />
  );
}

function RotationNote({ apiKey, lastUsed, successors, predecessors }: Props & { apiKey: ApiKey }) {
  const [successor, predecessor] = [successors.get(apiKey.id), predecessors.get(apiKey.successorOf ?? "")];
  const isUsable = isActive(apiKey);
  const usedMs = lastUsed[apiKey.id] ?? 0;
  const isStillUsed = successor !== undefined && isUsable && usedMs > Date.parse(successor.createdAt);
  const isUnused = predecessor !== undefined && isUsable && usedMs === 0 && isActive(predecessor);
  return (
    <>
      {successor !== undefined && (
        <small class={isStillUsed ? "warn toned" : undefined}>
          {" "}
          Replaced by <span class="nowrap">{successor.maskedKey}</span>
          {isStillUsed ? ", still in use" : isUsable ? ", not used since" : ""}
        </small>
      )}
      {predecessor !== undefined && (
        <small>
          {" "}
          Replaces <span class="nowrap">{predecessor.maskedKey}</span>
          {isUnused && ", not in use yet"}
        </small>
      )}
    </>
  );
}
