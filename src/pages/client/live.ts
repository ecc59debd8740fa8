/** The live page. */
export function startLive(): void {}
