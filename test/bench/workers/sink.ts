/** Replaces the consumer of this service's queue and drops the messages, to measure admission alone. */
export default {
  queue(): void {},
} satisfies ExportedHandler;
