/**
 * A real OpenID provider on loopback (the `oidc-provider` package). The test sets the person at the keyboard and
 * their answers.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Provider, type ClientMetadata, type Configuration } from "oidc-provider";

export interface Account {
  email?: string;
  email_verified?: boolean | string;
}

export interface TestProvider {
  issuer: string;
  /** The next person to sign in; null: the person declines. */
  account: Account | null;
  /** Additional claims of the ID token; undefined: the account's. */
  inIdToken?: Account | undefined;
  /** Paths of the received requests. */
  asked: string[];
  /** Starts answering; the service must be registered first. */
  serve(client: ClientMetadata, more?: Configuration): void;
  close(): void;
}

export async function startProvider(): Promise<TestProvider> {
  const server: Server = createServer();
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const provider: TestProvider = {
    issuer,
    account: null,
    asked: [],
    serve(client, more = {}) {
      const oidc = new Provider(issuer, {
        clients: [client],
        claims: { openid: ["sub"], email: ["email", "email_verified"] },
        // The strictest setting: without PKCE there is no code.
        pkce: { required: () => true },
        features: { devInteractions: { enabled: false } },
        interactions: { url: (_, interaction) => `/keyboard/${interaction.uid}` },
        cookies: { keys: ["loopback"] },
        findAccount: (_, sub) => ({
          accountId: sub,
          claims: (use) => ({
            sub,
            ...(use === "id_token" ? (provider.inIdToken ?? provider.account) : provider.account),
          }),
        }),
        async loadExistingGrant(ctx) {
          const grant = new ctx.oidc.provider.Grant({
            clientId: ctx.oidc.client?.clientId ?? "",
            accountId: ctx.oidc.session?.accountId ?? "",
          });
          grant.addOIDCScope("openid email");
          await grant.save();
          return grant;
        },
        ...more,
      });
      const serve = oidc.callback();
      server.on("request", (request, response) => {
        const { pathname } = new URL(request.url ?? "", issuer);
        provider.asked.push(pathname);
        if (!pathname.startsWith("/keyboard/")) {
          void serve(request, response);
          return;
        }
        const result =
          provider.account === null
            ? { error: "access_denied", error_description: "No." }
            : { login: { accountId: provider.account.email ?? "somebody" } };
        void oidc.interactionFinished(request, response, result);
      });
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
  return provider;
}
