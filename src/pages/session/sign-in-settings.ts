/**
 * The ways to sign in that SIGN_IN can name, and the settings of each. The check before a deployment reads this file in
 * Node, without the pages. sign-in.tsx implements each way.
 */

interface SignInSettings {
  /** Why a deployment must not use this way to sign in; null: it may. */
  notDeployable: string | null;
  /** Whether Cloudflare Access has to answer first on the paths of the pages. */
  behindAccess: boolean;
  /** Variables that must not be empty; `from` says where the value comes from, where the name does not. */
  needs: readonly { variable: string; from?: string }[];
}

const SIGN_IN_SETTINGS = {
  access: {
    notDeployable: null,
    behindAccess: true,
    needs: [
      {
        variable: "ACCESS_AUD",
        from: "the audience (AUD) tag of the Access application in front of /w and /sign-in",
      },
    ],
  },
  oidc: {
    notDeployable: null,
    behindAccess: false,
    needs: [{ variable: "OIDC_ISSUER" }, { variable: "OIDC_CLIENT_ID" }],
  },
  off: { notDeployable: null, behindAccess: false, needs: [] },
  local: { notDeployable: "lets anybody sign in without a proof", behindAccess: false, needs: [] },
} as const satisfies Record<string, SignInSettings>;

export type SignInName = keyof typeof SIGN_IN_SETTINGS;

/** The ways that may be deployed. */
export const DEPLOYABLE_SIGN_INS = Object.entries(SIGN_IN_SETTINGS).flatMap(([name, { notDeployable }]) =>
  notDeployable === null ? name : [],
);

/** Null: SIGN_IN names no way to sign in. */
export function signInSettings(name: string): SignInSettings | null {
  return isSignInName(name) ? SIGN_IN_SETTINGS[name] : null;
}

function isSignInName(name: string): name is SignInName {
  return Object.hasOwn(SIGN_IN_SETTINGS, name);
}
