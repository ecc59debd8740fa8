/** The wording of why sign-in fails. */

/** Why somebody is not signed in, after they have tried. */
export const SIGN_IN_PROBLEMS = {
  no_member: {
    status: 403,
    title: "You are a member of no workspace",
    text: "Ask an owner or admin of your workspace to add you as a member, with the email that you sign in with.",
  },
  too_many: { status: 429, title: "Too many attempts", text: "Wait a minute, then try again." },
  attempt_unknown: {
    status: 400,
    title: "Sign-in was not finished",
    text: "It took too long, or it was begun in another tab or browser. Try again.",
  },
  email_unverified: {
    status: 403,
    title: "Your email is not verified",
    text: "Your provider does not vouch for your email. Confirm it there, then sign in again.",
  },
  email_missing: {
    status: 403,
    title: "Your provider does not tell your email",
    text: "The email decides which workspaces are yours. Allow it to be shared, then sign in again.",
  },
  email_unusable: {
    status: 403,
    title: "Your email cannot be used here",
    text: "It is no address, or has characters that are easily taken for others. Sign in with another one.",
  },
  refused: { status: 403, title: "Your provider has refused", text: "Nobody was signed in. Try again." },
  provider_failed: {
    status: 503,
    title: "Your provider does not answer as it should",
    text: "Nobody was signed in. Try again in a moment; if it stays so, tell whoever runs this service.",
  },
} as const satisfies Record<string, { status: 400 | 403 | 429 | 503; title: string; text: string }>;

export type SignInProblem = keyof typeof SIGN_IN_PROBLEMS;
