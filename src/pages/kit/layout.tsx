/** The frame of every page: sidebar with search, workspace switcher, who is signed in. */
import type { Child, PropsWithChildren } from "hono/jsx";
import { canManage, type Role } from "../../domain/keys/role.ts";
import { SCRIPT_PATH, STYLE_PATH } from "../assets.ts";
import { ROLE_LABEL } from "../copy.ts";
import { workspacePath, type Ctx } from "../pages-env.ts";

/** The sidebar's icons: 16 units square, drawn with one stroke. */
const ICONS = {
  home: "M2 7.5 8 2l6 5.5M3.5 6.5V14h9V6.5M6.5 14v-4h3v4",
  queue: "M2 4h12M2 8h12M2 12h8",
  live: "M1 8h3l2-5 4 10 2-5h3",
  stop: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13ZM3.5 3.5l9 9",
  rule: "M2 4h5M2 12h5M10 2.5 14 8l-4 5.5M7 4v8",
  people: "M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM2.5 14c.5-3 2.7-4 5.5-4s5 1 5.5 4",
  account: "M3 14V3h6v11M9 7h4v7M1.5 14h13M5.5 6h1M5.5 9h1",
  key: "M5.5 13.5a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM7.7 8.3 14 2M11.5 4.5l2 2",
  program: "M1.5 3h13v10h-13ZM4.5 6l2 2-2 2M8.5 10h3",
  plug: "M5 1.5v4M11 1.5v4M3.5 5.5h9v2a4.5 4.5 0 0 1-9 0v-2ZM8 12v2.5",
  chart: "M2 2v12h12M5 11V8M8 11V4M11 11V6.5",
  members: "M6 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM1.5 13.5c.4-2.6 2-3.5 4.5-3.5s4.1.9 4.5 3.5M12.5 5v5M10 7.5h5",
  bell: "M8 2a4 4 0 0 0-4 4c0 4-1.5 5-1.5 5h11S12 10 12 6a4 4 0 0 0-4-4ZM6.5 13.5a1.6 1.6 0 0 0 3 0",
  clock: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13ZM8 4v4l3 2",
} as const;

interface Entry {
  path: string;
  text: string;
  icon: keyof typeof ICONS;
  isShown?: (role: Role) => boolean;
}

/**
 * The sections of the pages. `path` is below the workspace's path, and empty for the overview. Only owners and admins see API
 * keys (spec §1), API tokens and notifications.
 */
export const SECTIONS = {
  overview: { path: "", text: "Overview", icon: "home" },
  signals: { path: "signals", text: "Signal queue", icon: "queue" },
  live: { path: "live", text: "Live", icon: "live" },
  rejections: { path: "rejections", text: "Rejections", icon: "stop" },
  rules: { path: "rules", text: "Mapping rules", icon: "rule" },
  people: { path: "people", text: "People", icon: "people" },
  accounts: { path: "accounts", text: "Accounts", icon: "account" },
  usage: { path: "usage", text: "Usage", icon: "chart" },
  keys: { path: "settings/api-keys", text: "API keys", icon: "key", isShown: canManage },
  tokens: { path: "settings/api-tokens", text: "API tokens", icon: "program", isShown: canManage },
  connect: { path: "connect", text: "Connect", icon: "plug" },
  members: { path: "settings/members", text: "Members", icon: "members" },
  notifications: { path: "settings/notifications", text: "Notifications", icon: "bell", isShown: canManage },
  activity: { path: "settings/activity", text: "Activity", icon: "clock" },
} as const satisfies Record<string, Entry>;

export type Section = keyof typeof SECTIONS;

const NAVIGATION: readonly { heading: string | null; sections: readonly Section[] }[] = [
  { heading: null, sections: ["overview", "live"] },
  { heading: "Signals", sections: ["signals", "rejections", "rules"] },
  { heading: "Records", sections: ["people", "accounts"] },
  { heading: "Settings", sections: ["keys", "connect", "tokens", "usage", "members", "notifications", "activity"] },
];

export function sectionPath(c: Ctx, section: Section): string {
  return `${workspacePath(c)}/${SECTIONS[section].path}`;
}

interface DocumentProps {
  c: Ctx;
  title: string;
  children: Child;
}

export function PlainPage({ c, title, children }: DocumentProps) {
  return (
    <Html c={c} title={title}>
      <main class="alone" id="main">
        <Brand />
        {children}
      </main>
    </Html>
  );
}

/** The product's name, on pages without a workspace. */
export function Brand() {
  return (
    <p class="brand">
      <Icon name="live" />
      Signal ingestion
    </p>
  );
}

interface WorkspacePageProps extends DocumentProps {
  section: Section | null;
  search: string;
}

export function WorkspacePage({ c, title, section, search, children }: WorkspacePageProps) {
  const { name } = c.get("workspace");
  return (
    <Html c={c} title={`${title} · ${name}`}>
      <Frame name={name} menu={<Menu c={c} section={section} search={search} />}>
        {children}
      </Frame>
    </Html>
  );
}

/** The body of a page beside a sidebar. @param name on the button that opens the menu of a narrow screen. */
export function Frame({ name, menu, children }: { name: string; menu: Child; children: Child }) {
  return (
    <>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <div class="frame">
        <header class="sidebar">
          <input type="checkbox" id="menu" class="menu-toggle visually-hidden" aria-label="Show the menu" />
          <label for="menu" class="menu-button">
            {name}
          </label>
          <div class="menu">{menu}</div>
        </header>
        <main id="main">{children}</main>
      </div>
    </>
  );
}

interface HeadProps {
  heading: Child;
  intro?: Child;
  /** The pages above. */
  crumbs: readonly (readonly [text: string, href: string])[];
  actions?: Child;
}

export function Head({ heading, intro, crumbs, actions }: HeadProps) {
  return (
    <header class="head">
      <div>
        {crumbs.length > 0 && (
          <nav class="crumbs" aria-label="Breadcrumbs">
            {crumbs.map(([text, href], index) => [index > 0 && " / ", <a href={href}>{text}</a>])}
          </nav>
        )}
        <h1>{heading}</h1>
        {intro && <p class="quiet">{intro}</p>}
      </div>
      {actions && <div class="row">{actions}</div>}
    </header>
  );
}

function Menu({ c, section, search }: Omit<WorkspacePageProps, "title" | "children">) {
  const { email } = c.get("user");
  return (
    <>
      <Switcher c={c} />
      <form
        class="search"
        action={`${workspacePath(c)}/search`}
        role="search"
        aria-label="Search the workspace"
        autocomplete="off"
      >
        <input
          type="search"
          name="q"
          value={search}
          placeholder="Search"
          aria-label={`Search people, events, signals, accounts${canManage(c.get("role")) ? ", rules and API keys" : " and rules"}`}
          aria-keyshortcuts="/"
          data-search
        />
        <kbd class="needs-script" aria-hidden="true">
          /
        </kbd>
        <Suggestions />
      </form>
      <Navigation c={c} current={section} />
      <div class="who">
        <span title={email}>{email}</span>
        <span class="quiet">{ROLE_LABEL[c.get("role")]}</span>
        <a href="/docs">API documentation</a>
        <form method="post" action="/sign-out">
          <button class="link">Sign out</button>
        </form>
      </div>
    </>
  );
}

/** The list below the search field. A script fills it (client/suggestions.ts); empty, it is not shown. */
export function Suggestions({ children }: PropsWithChildren) {
  return (
    <div id="suggestions" role="listbox" aria-label="Suggestions">
      {children}
    </div>
  );
}

function Switcher({ c }: { c: Ctx }) {
  const { slug: here, name } = c.get("workspace");
  const otherWorkspaces = c.get("workspaces").filter(({ slug }) => slug !== here);
  if (otherWorkspaces.length === 0) return <div class="workspace-name">{name}</div>;
  return (
    <details class="switcher">
      <summary title={name}>
        <span>{name}</span>
      </summary>
      <ul aria-label="Other workspaces">
        {otherWorkspaces.map((workspace) => (
          <li>
            <a href={`/w/${workspace.slug}/`}>{workspace.name}</a>
          </li>
        ))}
      </ul>
    </details>
  );
}

function Navigation({ c, current }: { c: Ctx; current: Section | null }) {
  const entryOf = (section: Section) => {
    const { text, icon, isShown }: Entry = SECTIONS[section];
    if (isShown?.(c.get("role")) === false) return <></>;
    return (
      <li>
        <a href={sectionPath(c, section)} aria-current={section === current ? "page" : undefined}>
          <Icon name={icon} />
          {text}
        </a>
      </li>
    );
  };
  return (
    <nav aria-label="Workspace">
      {NAVIGATION.map(({ heading, sections }) => (
        <div>
          {heading !== null && <h2>{heading}</h2>}
          <ul>{sections.map(entryOf)}</ul>
        </div>
      ))}
    </nav>
  );
}

export function Icon({ name }: { name: keyof typeof ICONS }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path
        d={ICONS[name]}
        fill="none"
        stroke="currentColor"
        stroke-width="1.4"
        stroke-linecap="round"
        stroke-linejoin="round"
      />
    </svg>
  );
}

const FAVICON = `data:image/svg+xml,${encodeURIComponent(
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="-2 -2 20 20"><rect x="-2" y="-2" width="20" height="20" rx="5" fill="#4f46e5"/><path d="${ICONS.live}" fill="none" stroke="#fff" stroke-width="2"/></svg>`,
)}`;

function Html({ c, title, children }: DocumentProps) {
  // The content security policy allows only this style sheet and script.
  const nonce = c.get("secureHeadersNonce") ?? "";
  return (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>{title}</title>
        <link rel="icon" href={FAVICON} />
        <link rel="stylesheet" href={STYLE_PATH} nonce={nonce} />
        <script type="module" src={SCRIPT_PATH} nonce={nonce} />
      </head>
      <body>{children}</body>
    </html>
  );
}
