/** Takes this service's queue in the place of its consumer and drops what it is given: admission alone. */
export default {
  queue(): void {},
} satisfies ExportedHandler;
