/** The frame of every page: sidebar with search, workspace switcher, who is signed in. */
import type { Child } from "hono/jsx";
import { canManage, canManageKeys, type Role } from "../../domain/keys/role.ts";
import { SCRIPT_PATH, STYLE_PATH } from "../assets.ts";
import { ROLE_LABEL } from "../copy.ts";
import { Icon, type IconName } from "./icons.tsx";

interface Document {
  title: string;
  /** Nonce of the content security policy. */
  nonce: string;
  children: Child;
}

interface Frame {
  email: string;
  role: Role;
  workspace: { slug: string; name: string };
  /** All workspaces of the person, this one included. */
  workspaces: readonly { slug: string; name: string }[];
  /** Text of the search field. */
  search?: string;
}

interface Entry {
  path: string;
  text: string;
  icon: IconName;
  isShown?: (role: Role) => boolean;
}

/** The sections of the pages, by name. Only owners and admins see API keys (spec §1), API tokens and notifications. */
const SECTIONS = {
  overview: { path: "", text: "Overview", icon: "home" },
  signals: { path: "signals", text: "Signal queue", icon: "queue" },
  live: { path: "live", text: "Live", icon: "live" },
  rejections: { path: "rejections", text: "Rejections", icon: "stop" },
  rules: { path: "rules", text: "Mapping rules", icon: "rule" },
  people: { path: "people", text: "People", icon: "people" },
  accounts: { path: "accounts", text: "Accounts", icon: "account" },
  usage: { path: "usage", text: "Usage", icon: "chart" },
  keys: { path: "settings/api-keys", text: "API keys", icon: "key", isShown: canManageKeys },
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

/** Path of a section's page below the workspace's path; empty for the overview. */
export function pathOf(section: Section): string {
  return SECTIONS[section].path;
}

/** A page without a workspace around it: sign-in, the choice of a workspace, errors. */
export function PlainPage({ title, nonce, children }: Document) {
  return (
    <Html title={title} nonce={nonce}>
      <main class="alone" id="main">
        {children}
      </main>
    </Html>
  );
}

export function WorkspacePage({
  title,
  nonce,
  frame,
  section,
  children,
}: Document & { frame: Frame; section: Section | null }) {
  const home = `/w/${frame.workspace.slug}`;
  return (
    <Html title={`${title} · ${frame.workspace.name}`} nonce={nonce}>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <div class="frame">
        <header class="sidebar">
          <input type="checkbox" id="menu" class="menu-toggle visually-hidden" aria-label="Show the menu" />
          <label for="menu" class="menu-button">
            {frame.workspace.name}
          </label>
          <div class="menu">
            <Switcher frame={frame} />
            <form class="search" action={`${home}/search`} role="search" autocomplete="off">
              <input
                type="search"
                name="q"
                value={frame.search ?? ""}
                placeholder="Search"
                aria-label="Search people, events, signals and accounts"
                aria-keyshortcuts="/"
                data-search
              />
              <kbd class="needs-script" aria-hidden="true">
                /
              </kbd>
            </form>
            <Navigation frame={frame} section={section} />
            <div class="who">
              <span title={frame.email}>{frame.email}</span>
              <span class="quiet">{ROLE_LABEL[frame.role]}</span>
              <a href="/docs">API documentation</a>
              <form method="post" action="/sign-out">
                <button class="link">Sign out</button>
              </form>
            </div>
          </div>
        </header>
        <main id="main">{children}</main>
      </div>
    </Html>
  );
}

function Switcher({ frame: { workspace, workspaces } }: { frame: Frame }) {
  const otherWorkspaces = workspaces.filter(({ slug }) => slug !== workspace.slug);
  if (otherWorkspaces.length === 0) return <div class="workspace-name">{workspace.name}</div>;
  return (
    <details class="switcher">
      <summary>{workspace.name}</summary>
      <ul aria-label="Other workspaces">
        {otherWorkspaces.map(({ slug, name }) => (
          <li>
            <a href={`/w/${slug}/`}>{name}</a>
          </li>
        ))}
      </ul>
    </details>
  );
}

function Navigation({ frame: { role, workspace }, section: current }: { frame: Frame; section: Section | null }) {
  return (
    <nav aria-label="Workspace">
      {NAVIGATION.map(({ heading, sections }) => (
        <div>
          {heading !== null && <h2>{heading}</h2>}
          <ul>
            {sections.map((section) => {
              const entry: Entry = SECTIONS[section];
              if (entry.isShown?.(role) === false) return <></>;
              return (
                <li>
                  <a
                    href={`/w/${workspace.slug}/${entry.path}`}
                    aria-current={section === current ? "page" : undefined}
                  >
                    <Icon name={entry.icon} />
                    {entry.text}
                  </a>
                </li>
              );
            })}
          </ul>
        </div>
      ))}
    </nav>
  );
}

function Html({ title, nonce, children }: Document) {
  return (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>{title}</title>
        <link rel="icon" href="data:," />
        <link rel="stylesheet" href={STYLE_PATH} nonce={nonce} />
        <script type="module" src={SCRIPT_PATH} nonce={nonce} />
      </head>
      <body>{children}</body>
    </html>
  );
}
