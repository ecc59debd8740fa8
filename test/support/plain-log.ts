/**
 * The log in its plainest form: lines in memory, and a table with a row for each of them, because tests restart stores. It says what
 * the store expects of a log: the conformance suite, the store's tests and the model run with it too (`STORE_LOG=plain`).
 */
import {
  afterRetention,
  isDropped,
  isOriginal,
  keepsPayload,
  type SignalFacts,
  type Line,
} from "../../src/store/log/line.ts";
import {
  PORTION_MAX_LINES,
  type DuplicateCandidate,
  type Earliest,
  type LinesOfPortion,
  type SignalLogName,
  type NumberedLine,
  type Original,
  type Payloads,
  type Portion,
  type SignalLog,
  type WalkFrom,
  type WantedLines,
} from "../../src/store/log/signal-log.ts";

interface PlainLine extends NumberedLine, Line {
  hash: string | null;
}

class PlainPortion implements Portion {
  readonly lines: readonly PlainLine[];
  readonly seqs: readonly number[];
  readonly payloads = "here";

  constructor(lines: readonly PlainLine[], isWanted: (line: PlainLine) => boolean) {
    this.lines = lines;
    this.seqs = lines.filter((line) => !isDropped(line.facts) && isWanted(line)).map(({ seq }) => seq);
  }

  get firstSeq(): number {
    return this.lines[0]?.seq ?? 0;
  }

  get lastSeq(): number {
    return this.lines.at(-1)?.seq ?? 0;
  }

  facts(seq: number): SignalFacts {
    const line = this.lines.find((other) => other.seq === seq);
    if (line === undefined) throw new Error(`line ${seq} is not here`);
    return line.facts;
  }
}

export class PlainSignalLog implements SignalLog {
  readonly name: SignalLogName;
  readonly isClearing = false;
  readonly remembersSinceMs = 0;
  readonly #sql: SqlStorage;
  readonly #emptyMeta: object;
  meta: object = {};
  nextSeq = 1;
  /** Ascending. */
  #lines: PlainLine[] = [];
  /** The first line of each portion, ascending. */
  #starts: number[] = [1];
  readonly #changed = new Set<number>();

  constructor(sql: SqlStorage, name: SignalLogName, emptyMeta: object) {
    this.#sql = sql;
    this.name = name;
    this.#emptyMeta = emptyMeta;
    sql.exec(`CREATE TABLE IF NOT EXISTS plain_${name} (seq INTEGER PRIMARY KEY, line TEXT NOT NULL)`);
    sql.exec(
      "CREATE TABLE IF NOT EXISTS plain_heads (log TEXT PRIMARY KEY, next_seq INTEGER NOT NULL, meta TEXT NOT NULL, starts TEXT NOT NULL)",
    );
    this.reload();
  }

  reload(): void {
    const [head] = this.#sql.exec<{ next_seq: number; meta: string; starts: string }>(
      "SELECT next_seq, meta, starts FROM plain_heads WHERE log = ?",
      this.name,
    );
    this.nextSeq = head?.next_seq ?? 1;
    this.#starts = head === undefined ? [1] : (JSON.parse(head.starts) as number[]);
    this.meta = head === undefined ? structuredClone(this.#emptyMeta) : (JSON.parse(head.meta) as object);
    const rows = this.#sql.exec<{ line: string }>(`SELECT line FROM plain_${this.name} ORDER BY seq`);
    this.#lines = rows.toArray().map(({ line }) => JSON.parse(line) as PlainLine);
    this.#changed.clear();
  }

  flush(): void {
    for (const seq of this.#changed) {
      const line = this.#lineOf(seq);
      if (line === null) this.#sql.exec(`DELETE FROM plain_${this.name} WHERE seq = ?`, seq);
      else this.#sql.exec(`INSERT OR REPLACE INTO plain_${this.name} VALUES (?, ?)`, seq, JSON.stringify(line));
    }
    this.#changed.clear();
    const [meta, starts] = [JSON.stringify(this.meta), JSON.stringify(this.#starts)];
    this.#sql.exec("INSERT OR REPLACE INTO plain_heads VALUES (?, ?, ?, ?)", this.name, this.nextSeq, meta, starts);
  }

  get firstSeq(): number {
    return this.#lines[0]?.seq ?? this.nextSeq;
  }

  append({ facts, payload }: Line, hash: Uint8Array | null): number {
    if (this.nextSeq - (this.#starts.at(-1) ?? 0) >= PORTION_MAX_LINES) this.seal();
    const seq = this.nextSeq++;
    this.#lines.push({ seq, facts, payload, hash: hash?.toHex() ?? null });
    this.#changed.add(seq);
    return seq;
  }

  /** Begins a portion with the next line. */
  seal(): void {
    if (this.#starts.at(-1) !== this.nextSeq) this.#starts.push(this.nextSeq);
  }

  find(id: string): NumberedLine | null {
    const line = this.#lines.findLast(({ facts }) => facts.admission.id === id && !isDropped(facts));
    return line === undefined ? null : { seq: line.seq, facts: line.facts };
  }

  *read(seqs: Iterable<number>): Generator<Portion> {
    const wanted = new Set(seqs);
    for (const lines of this.#portions()) {
      const portion = new PlainPortion(lines, ({ seq }) => wanted.has(seq));
      if (portion.seqs.length > 0) yield portion;
    }
  }

  *walk(from: WalkFrom, wanted: WantedLines = {}): Generator<Portion> {
    if ("afterOrdinal" in from) {
      const ordinalOf = (lines: readonly PlainLine[]): number =>
        Math.min(...lines.map(({ facts }) => facts.admission.ordinal));
      const sorted = this.#portions().sort((a, b) => ordinalOf(a) - ordinalOf(b));
      for (const lines of sorted) yield new PlainPortion(lines, () => true);
      return;
    }
    const isInRange = (seq: number): boolean => ("after" in from ? seq > from.after : seq < from.before);
    const portions = this.#portions().filter((lines) => lines.some(({ seq }) => isInRange(seq)));
    for (const lines of "after" in from ? portions : portions.toReversed()) {
      yield new PlainPortion(lines, ({ seq, facts }) => isInRange(seq) && isChosen(facts, wanted));
    }
  }

  findOriginals(
    candidates: readonly DuplicateCandidate[],
    _nowMs: number,
    isKept: (facts: SignalFacts) => boolean = () => true,
  ): (Original | null)[] {
    return candidates.map(({ hash, receivedAtMs, windowMs }) => {
      const isNear = ({ admission }: SignalFacts): boolean =>
        Math.abs(admission.receivedAtMs - receivedAtMs) <= windowMs;
      const original = this.#lines.find(
        (line) => line.hash === hash.toHex() && isNear(line.facts) && isKept(line.facts),
      );
      return original === undefined ? null : { seq: original.seq, id: original.facts.admission.id };
    });
  }

  earliest(): Earliest {
    const kept = this.#lines.filter(({ facts }) => !isDropped(facts)).map(({ facts }) => facts);
    const wholes = this.#portions().map((lines) =>
      Math.max(...lines.filter(({ facts }) => !isDropped(facts)).map(({ facts }) => facts.admission.receivedAtMs)),
    );
    const ends = kept.filter(({ status }) => status === "held").map(({ admission }) => admission.periodEndMs);
    return {
      receivedMs: least(kept.map(({ admission }) => admission.receivedAtMs)),
      wholeMs: least(wholes),
      periodEndMs: least(ends),
    };
  }

  payloadsOf(portion: Portion): readonly (string | null)[] {
    const payloads: (string | null)[] = [];
    for (let seq = portion.firstSeq; seq <= portion.lastSeq; seq++) payloads.push(this.#lineOf(seq)?.payload ?? null);
    return payloads;
  }

  async readPayloads(wanted: Iterable<LinesOfPortion>): Promise<Payloads> {
    const seqs = [...wanted].flatMap((lines) => lines.seqs);
    return new Map(seqs.map((seq) => [seq, this.#lineOf(seq)?.payload ?? null] as const));
  }

  isCurrent(portion: Portion): boolean {
    return (portion as PlainPortion).lines.every((line) => this.#lineOf(line.seq) === line);
  }

  rewrite(portion: Portion, changes: ReadonlyMap<number, SignalFacts>): number {
    if (!this.isCurrent(portion)) throw new Error("the lines have been rewritten meanwhile");
    this.#lines = this.#lines.map((line) => {
      const facts = changes.get(line.seq);
      if (facts === undefined) return line;
      this.#changed.add(line.seq);
      return {
        seq: line.seq,
        facts: isDropped(facts) ? afterRetention(facts) : facts,
        payload: keepsPayload(facts) ? line.payload : null,
        hash: isOriginal(facts) ? line.hash : null,
      };
    });
    const isLeft = (lines: readonly PlainLine[]): boolean => lines.some(({ facts }) => !isDropped(facts));
    const [left, gone] = [this.#portions().filter(isLeft), this.#portions().filter((lines) => !isLeft(lines))];
    this.#lines = left.flat();
    // Also the lines of a portion that were dropped earlier.
    for (const { seq } of gone.flat()) this.#changed.add(seq);
    return 0;
  }

  clearDropped(): void {}

  workMs(): null {
    return null;
  }

  async work(): Promise<void> {}

  async markLostPayloads(): Promise<number> {
    return 0;
  }

  #lineOf(seq: number): PlainLine | null {
    return this.#lines.find((line) => line.seq === seq) ?? null;
  }

  #portions(): PlainLine[][] {
    const portions = Map.groupBy(this.#lines, ({ seq }) => this.#starts.findLast((start) => start <= seq));
    return [...portions.values()];
  }
}

/** Only the fields that choose lines. */
function isChosen(facts: SignalFacts, { event, outcomes, email }: WantedLines): boolean {
  if (email !== undefined) return facts.email === email;
  if (event === undefined) return true;
  if (facts.outcomes.some((id) => outcomes?.has(id) === true)) return true;
  return facts.event !== null && (typeof event === "string" ? facts.event === event : event(facts.event));
}

function least(values: readonly number[]): number | null {
  return values.length === 0 ? null : Math.min(...values);
}
