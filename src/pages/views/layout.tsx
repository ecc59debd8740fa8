/** What stands around every page: sidebar, workspace switcher, who is signed in. */
import type { Child } from "hono/jsx";
import type { Role } from "../../domain/keys/role.ts";
import { SCRIPT_PATH, STYLE_PATH } from "../assets.ts";
import { ROLE_LABEL } from "../copy.ts";
import { canManage, canManageKeys } from "../../domain/keys/role.ts";
import { Icon, type IconName } from "./icons.tsx";

interface Document {
  title: string;
  /** The nonce of the content security policy. */
  nonce: string;
  children: Child;
}

/** Who looks at the page, and from which workspace. */
interface Frame {
  email: string;
  role: Role;
  workspace: { slug: string; name: string };
  /** Workspaces of the same person, this one included. */
  workspaces: readonly { slug: string; name: string }[];
}

export type Section =
  | "signals"
  | "live"
  | "rejections"
  | "rules"
  | "people"
  | "accounts"
  | "usage"
  | "connect"
  | "keys"
  | "members"
  | "notifications"
  | "activity";

interface Entry {
  section: Section;
  path: string;
  text: string;
  icon: IconName;
}

const NAVIGATION: readonly { heading: string; entries: readonly Entry[] }[] = [
  {
    heading: "Signals",
    entries: [
      { section: "signals", path: "signals", text: "Signal Queue", icon: "queue" },
      { section: "live", path: "live", text: "Live", icon: "live" },
      { section: "rejections", path: "rejections", text: "Rejections", icon: "stop" },
      { section: "rules", path: "rules", text: "Mapping Rules", icon: "rule" },
    ],
  },
  {
    heading: "Records",
    entries: [
      { section: "people", path: "people", text: "People", icon: "people" },
      { section: "accounts", path: "accounts", text: "Accounts", icon: "account" },
    ],
  },
  {
    heading: "Settings",
    entries: [
      { section: "keys", path: "settings/api-keys", text: "API Keys", icon: "key" },
      { section: "connect", path: "connect", text: "Connect", icon: "plug" },
      { section: "usage", path: "usage", text: "Usage", icon: "chart" },
      { section: "members", path: "settings/members", text: "Members", icon: "members" },
      { section: "notifications", path: "settings/notifications", text: "Notifications", icon: "bell" },
      { section: "activity", path: "settings/activity", text: "Activity", icon: "clock" },
    ],
  },
];

/** Path of a section's page, below the workspace's own. */
export function pathOf(section: Section): string {
  const entries = NAVIGATION.flatMap((group) => group.entries);
  return entries.find((entry) => entry.section === section)?.path ?? "";
}

/** A page without a workspace around it: sign-in, the chooser, what is not found. */
export function PlainPage({ title, nonce, children }: Document) {
  return (
    <Html title={title} nonce={nonce}>
      <main class="plain" id="main">
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
  return (
    <Html title={`${title} · ${frame.workspace.name}`} nonce={nonce}>
      <a class="skip" href="#main">
        To the content
      </a>
      <div class="frame">
        <header class="sidebar">
          <input type="checkbox" id="menu" class="menu-toggle visually-hidden" aria-label="Show the menu" />
          <label for="menu" class="menu-button">
            {frame.workspace.name}
          </label>
          <div class="menu">
            <Switcher frame={frame} />
            <Navigation frame={frame} section={section} />
            <div class="account">
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
  const others = workspaces.filter(({ slug }) => slug !== workspace.slug);
  if (others.length === 0) return <div class="workspace-name">{workspace.name}</div>;
  return (
    <details class="switcher">
      <summary>{workspace.name}</summary>
      <ul aria-label="Other workspaces">
        {others.map(({ slug, name }) => (
          <li>
            <a href={`/w/${slug}`}>{name}</a>
          </li>
        ))}
      </ul>
    </details>
  );
}

/** The sidebar. Only owners and admins see the entries of the API keys (spec §1) and the notifications. */
function Navigation({ frame: { role, workspace }, section }: { frame: Frame; section: Section | null }) {
  return (
    <nav aria-label="Workspace">
      {NAVIGATION.map(({ heading, entries }) => (
        <>
          <h2>{heading}</h2>
          <ul>
            {entries
              .filter(({ section: of }) => of !== "keys" || canManageKeys(role))
              .filter(({ section: of }) => of !== "notifications" || canManage(role))
              .map((entry) => (
                <li>
                  <a
                    href={`/w/${workspace.slug}/${entry.path}`}
                    aria-current={entry.section === section ? "page" : undefined}
                  >
                    <Icon name={entry.icon} />
                    {entry.text}
                  </a>
                </li>
              ))}
          </ul>
        </>
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
