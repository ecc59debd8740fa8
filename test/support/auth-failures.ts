/** Failed authentications per network and minute in the tests on workerd. wrangler.toml allows 300. */
export const TEST_AUTH_FAILURES_PER_MINUTE = 50;
