/** The drivers of sign-in, and which of them is on: the one place where that is asked. */
import type { Context } from "hono";
import { notFoundPage } from "../page.tsx";
import { pages, type PagesEnv } from "../pages-env.ts";
import { accessDriver } from "./access-driver.tsx";
import { localDriver } from "./local-driver.tsx";
import { oidcDriver } from "./oidc-driver.tsx";
import type { SignInDriver } from "./sign-in-driver.ts";
import { isSignInName, type SignInName } from "./sign-in-settings.ts";

const DRIVERS: Record<SignInName, SignInDriver> = { access: accessDriver, oidc: oidcDriver, local: localDriver };

/** Null: sign-in is off, and so are the pages. */
export function signInDriver(c: Context<PagesEnv>): SignInDriver | null {
  const on: string = c.env.SIGN_IN;
  return isSignInName(on) ? DRIVERS[on] : null;
}

/** The steps of all drivers, below `/sign-in`; those of a driver that is not on are not there. */
export const driverRoutes = pages.createApp();

for (const [name, driver] of Object.entries(DRIVERS)) {
  if (driver.routes === undefined) continue;
  const onlyWhileOn = pages.createMiddleware(async (c, next) => {
    if (signInDriver(c) !== driver) return notFoundPage(c);
    await next();
  });
  driverRoutes.use(`/${name}/*`, onlyWhileOn).route(`/${name}`, driver.routes);
}
