/** The built service with a relay in front of it, and a workspace for each test. */
import { expect } from "vitest";
import type { OperatorApi, ProvisionedWorkspace } from "../../bench/operator-api.ts";
import type { BenchRule } from "../../bench/rules.ts";
import { Service } from "../../support/service.ts";
import { relay, type Call, type Relay } from "./relay.ts";
import type { Sender, Vendor } from "./senders.ts";

export class RelayedService {
  readonly #service: Service;
  readonly #relay: Relay;
  #workspaces = 0;

  private constructor(service: Service, between: Relay) {
    this.#service = service;
    this.#relay = between;
  }

  static async start(vars: Record<string, string> = {}): Promise<RelayedService> {
    const service = await Service.make({ vars });
    return new RelayedService(service, await relay(service.origin));
  }

  async newWorkspace(rules: BenchRule[] = []): Promise<Workspace> {
    const { api } = this.#service;
    return new Workspace(await api.provision({ slug: `sdk-${this.#workspaces++}`, rules }), api, this.#relay);
  }

  async stop(): Promise<void> {
    this.#relay.close();
    await this.#service.remove();
  }
}

export class Workspace {
  readonly #provisioned: ProvisionedWorkspace;
  readonly #api: OperatorApi;
  readonly #relay: Relay;
  /** The path of the endpoint for batches of its key. */
  readonly #path: string;

  constructor(provisioned: ProvisionedWorkspace, api: OperatorApi, between: Relay) {
    this.#provisioned = provisioned;
    this.#api = api;
    this.#relay = between;
    this.#path = `/api/signal-staging/webhook/${provisioned.key}/batch`;
  }

  get url(): string {
    return this.#relay.origin + this.#path;
  }

  newSender(vendor: Vendor): Sender {
    return vendor.newSender(this.#relay.origin, this.#path);
  }

  /** Calls with its key and their answers so far. */
  calls(): Call[] {
    return this.#relay.calls.filter(({ path }) => path === this.#path);
  }

  get<T>(route: string): Promise<T> {
    return this.#api.get(this.#provisioned.home + route);
  }

  deactivateKey(): Promise<void> {
    return this.#api.deactivate(this.#provisioned.id, this.#provisioned.keyId);
  }

  /** Waits until `accepted` signals are accepted, all are processed, and the books balance. */
  async settled(accepted: number): Promise<void> {
    await expect
      .poll(() => this.#api.books(this.#provisioned.id))
      .toMatchObject({ accepted, processed: accepted, in_flight: 0, balanced: true });
  }
}
