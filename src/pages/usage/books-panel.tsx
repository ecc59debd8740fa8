/** The books (design §1.2) as an equation: every signal answered with 202 is in exactly one place. */
import type { Balance } from "../../domain/quota/balance.ts";
import { day, grouped } from "../kit/format.ts";
import { Badge, Panel } from "../views/parts.tsx";

interface Term {
  name: string;
  meaning: string;
  /** Address of these signals, below the workspace's path. */
  list?: string;
}

const TERMS = {
  processed: {
    name: "processed",
    meaning: "took their effect, or wait in cold storage for their visitor",
    list: "signals/all?status=processed",
  },
  duplicates: { name: "duplicates", meaning: "the same content had come before", list: "signals/all?status=duplicate" },
  held: { name: "held", meaning: "over the limit; they update no scores", list: "signals/all?status=held" },
  purged: { name: "purged", meaning: "were held when their period ended", list: "signals/all?status=purged" },
  deadLettered: { name: "dead letters", meaning: "could not be processed", list: "signals/dead-letters" },
  inFlight: { name: "in flight", meaning: "on their way to the store" },
  lost: { name: "lost", meaning: "accepted, and gone since a restore from a backup" },
} as const satisfies Record<Exclude<keyof Balance, "accepted" | "balanced">, Term>;

export function BooksPanel({
  path,
  books,
  periodStartMs,
}: {
  path: string;
  books: { all: Balance; period: Balance };
  periodStartMs: number;
}) {
  const terms = Object.entries<Term>(TERMS).filter(([key]) => key !== "lost" || books.all.lost > 0);
  return (
    <Panel title="The books">
      <p class="quiet">Every signal that was answered with 202 is in exactly one of these places.</p>
      <Equation path={path} title="Since the beginning" books={books.all} />
      <Equation path={path} title={`Since ${day(periodStartMs)}, this period`} books={books.period} />
      <ul class="quiet-list">
        {terms.map(([, { name, meaning }]) => (
          <li>
            <strong>{name}</strong>: {meaning}
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function Equation({ path, title, books }: { path: string; title: string; books: Balance }) {
  const all = Object.entries(TERMS) as [keyof typeof TERMS, Term][];
  // Hardly any workspace has ever been restored.
  const terms = all.filter(([key]) => key !== "lost" || books.lost > 0);
  return (
    <section class="stack">
      <h3>
        {title} {books.balanced ? <Badge tone="good">Balanced</Badge> : <Badge tone="bad">Does not balance</Badge>}
      </h3>
      <p class="equation">
        <span class="term">
          <strong>{grouped(books.accepted)}</strong> <span class="small">answered with 202</span>
        </span>
        {terms.map(([key, { name, list }], index) => (
          <span class="term">
            <strong>
              <span class="sign">{index === 0 ? "= " : "+ "}</span>
              {grouped(books[key])}
            </strong>{" "}
            <span class="small">{list === undefined ? name : <a href={`${path}/${list}`}>{name}</a>}</span>
          </span>
        ))}
      </p>
      {!books.balanced && (
        <p role="alert">
          What is recorded does not fit what was answered with 202. Look again in a moment; if it stays so, it is a bug.
        </p>
      )}
    </section>
  );
}
