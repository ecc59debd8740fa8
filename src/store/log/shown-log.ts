/**
 * The log as queries read it: a deletion under way hides what it will remove. Only lines that pass here reach a page, an export or an
 * answer, so no query can show a payload or a source by mistake.
 */
import { type SignalFacts, keepsPayload } from "./line.ts";
import type {
  LinesOfPortion,
  NumberedLine,
  Payloads,
  Portion,
  SignalLog,
  WalkFrom,
  WantedLines,
} from "./signal-log.ts";

/** Knows whose deletion is under way. */
export interface Gate {
  /** The facts of a line as the deletion of its person will leave them. */
  visible(facts: SignalFacts): SignalFacts;
  /** Whether the deletion will remove a payload although the facts name nobody. */
  hides(facts: SignalFacts, payload: string): boolean;
}

export class ShownSignalLog {
  readonly #log: SignalLog;
  readonly #gate: Gate;
  readonly #openGate: () => Gate;

  /** @param openGate opens another gate, which knows the deletions that have begun since `gate` was opened. */
  constructor(log: SignalLog, gate: Gate, openGate: () => Gate) {
    this.#log = log;
    this.#gate = gate;
    this.#openGate = openGate;
  }

  get nextSeq(): number {
    return this.#log.nextSeq;
  }

  get firstSeq(): number {
    return this.#log.firstSeq;
  }

  find(id: string): NumberedLine | null {
    const found = this.#log.find(id);
    return found && { seq: found.seq, facts: this.#gate.visible(found.facts) };
  }

  *read(seqs: Iterable<number>): Generator<Portion> {
    for (const portion of this.#log.read(seqs)) yield new ShownPortion(portion, this.#gate);
  }

  /** The event and the outcomes choose lines as everybody may see them; an email may choose hidden lines too. */
  *walk(from: WalkFrom, wanted: WantedLines = {}): Generator<Portion> {
    for (const portion of this.#log.walk(from, wanted)) yield new ShownPortion(portion, this.#gate);
  }

  /** The payloads of the portion's wanted lines; null: they are in R2. */
  payloadsOf(portion: Portion): Payloads | null {
    const stored = this.#log.payloadsOf(hiddenOf(portion));
    if (stored === null) return null;
    return new Map(
      portion.seqs.map((seq) => {
        const payload = stored[seq - portion.firstSeq] ?? null;
        return [seq, isShown(this.#gate, portion.facts(seq), payload) ? payload : null] as const;
      }),
    );
  }

  /** Reads R2 too. Lines that cannot be read now are missing. Never throws. */
  async readPayloads(wanted: Iterable<LinesOfPortion>): Promise<Payloads> {
    const lines = [...wanted].map(({ portion, seqs }) => ({ portion: hiddenOf(portion), seqs }));
    const payloads = new Map(await this.#log.readPayloads(lines));
    // Meanwhile a deletion may have begun.
    const gate = this.#openGate();
    const kept = new Set<number>();
    for (const portion of this.#log.read(payloads.keys())) {
      for (const seq of portion.seqs) {
        if (isShown(gate, gate.visible(portion.facts(seq)), payloads.get(seq) ?? null)) kept.add(seq);
      }
    }
    for (const seq of payloads.keys()) if (!kept.has(seq)) payloads.set(seq, null);
    return payloads;
  }
}

class ShownPortion implements Portion {
  readonly portion: Portion;
  readonly #gate: Gate;

  constructor(portion: Portion, gate: Gate) {
    this.portion = portion;
    this.#gate = gate;
  }

  get firstSeq(): number {
    return this.portion.firstSeq;
  }

  get lastSeq(): number {
    return this.portion.lastSeq;
  }

  get seqs(): readonly number[] {
    return this.portion.seqs;
  }

  get payloads(): Portion["payloads"] {
    return this.portion.payloads;
  }

  facts(seq: number): SignalFacts {
    return this.#gate.visible(this.portion.facts(seq));
  }
}

/** @param facts as they may be seen. */
function isShown(gate: Gate, facts: SignalFacts, payload: string | null): boolean {
  return keepsPayload(facts) && (payload === null || !gate.hides(facts, payload));
}

function hiddenOf(portion: Portion): Portion {
  if (!(portion instanceof ShownPortion)) throw new TypeError("a portion that a query has not read here");
  return portion.portion;
}
