import { DurableObject } from "cloudflare:workers";
import { inJurisdiction } from "../env.ts";
import { makeTables, type Migrations } from "./make-tables.ts";

/** Value of the only row that an object of an ended workspace keeps. */
interface Ended {
  requestedAtMs: number;
  /** Who ended the workspace, as in the audit log. */
  actor: string;
  /** False: the object still has the workspace's data. */
  isEmpty: boolean;
}

const ENDED_KEY = "ended";

/** The base class of a workspace's objects. They use `this.env`, which is in the object's own jurisdiction. */
export class WorkspaceObject extends DurableObject<Env> {
  readonly #migrations: Migrations;
  #ended: Ended | null;

  /** Makes the tables before any field of the object reads them. */
  constructor(ctx: DurableObjectState, bindings: Env, migrations: Migrations) {
    super(ctx, inJurisdiction(bindings, ctx.id.jurisdiction ?? ""));
    this.#migrations = migrations;
    makeTables(ctx.storage, migrations);
    this.#ended = ctx.storage.kv.get<Ended>(ENDED_KEY) ?? null;
  }

  /** Null: the workspace has not ended. Otherwise the object does no other work than its end. */
  protected get ended(): Ended | null {
    return this.#ended;
  }

  /** Durable when the caller's answer leaves. Idempotent: the first request stays. */
  protected noteEnd({ requestedAtMs, actor }: Pick<Ended, "requestedAtMs" | "actor">): void {
    if (this.#ended === null) this.#setEnded({ requestedAtMs, actor, isEmpty: false });
  }

  /** Deletes everything but the note. A repeated call repairs an object whose note was lost. */
  protected async deleteEverything(): Promise<void> {
    const { storage } = this.ctx;
    if (this.#ended === null || this.#ended.isEmpty) return;
    const deleted = storage.deleteAll();
    makeTables(storage, this.#migrations);
    this.#setEnded({ ...this.#ended, isEmpty: true });
    await deleted;
  }

  #setEnded(ended: Ended): void {
    this.ctx.storage.kv.put(ENDED_KEY, ended);
    this.#ended = ended;
  }
}
