/**
 * The numbers of the service that cross folders, with their units and a line of reason. `REQUEST_RATE_PER_SECOND`,
 * `REQUEST_BURST`, `OUTBOX_MAX_BYTES`, `DRAIN_PACE_MS` and `DELIVERY_LEASE_MS` can be overridden by the variables of the
 * same names in wrangler.toml.
 */

// --- What a sender may send (spec §8.9) ---

/** One signal, as sent: a queue message holds 128 KB, and a bigger event is a mistake upstream. */
export const SIGNAL_MAX_BYTES = 65_536;
/** An array or `{"batch":[…]}`, decompressed: CDPs post up to 4,000 events of about 1 KB. */
export const BATCH_MAX_BYTES = 8 * 1024 * 1024;
export const BATCH_MAX_SIGNALS = 5_000;
/** A bulk import, decompressed: held as bytes, it takes an isolate less than 64 of its 128 MB. */
export const BULK_MAX_BYTES = 16 * 1024 * 1024;
export const BULK_MAX_SIGNALS = 10_000;
/** Levels of nesting: deeper than any real event, and flat enough for recursive code further on. */
export const SIGNAL_MAX_DEPTH = 32;
/** Event names, sources, key names and the like, in Unicode code points. */
export const NAME_MAX_CODE_POINTS = 255;
/** RFC 5321's path limit, in characters. */
export const EMAIL_MAX_LENGTH = 254;
/** An `Idempotency-Key`, in characters. */
export const IDEMPOTENCY_KEY_MAX_LENGTH = 255;
/** An anonymous id or user id that links people, in characters; anything longer is noise. */
export const IDENTITY_MAX_LENGTH = 255;

// --- Request rate (spec §8.7), per API key ---

/** Requests per second: half of what one Durable Object serves, so that a key cannot starve its workspace. */
export const REQUEST_RATE_PER_SECOND = 500;
/** Requests that may come at once: two seconds' worth, for campaigns that start with a bang. */
export const REQUEST_BURST = 1_000;
/** An isolate sheds calls of one key beyond this many times the rate before they reach the object. */
export const SHED_FACTOR = 4;
/** One shed call in so long is let through to the object after all, to ask whether the key is still active. */
export const SHED_ASK_MS = 1_000;

// --- Keys ---

/** How long an isolate remembers a key's unchanging facts. Bounds how soon a moved expiration is seen. */
export const KEY_CACHE_MS = 60_000;
/** How long it goes by a key's facts while the database does not answer. Rotation's shortest overlap is longer. */
export const KEY_STALE_MS = 10 * 60_000;
/** Keys remembered per isolate: about 300 bytes each, and each mapping of a payload template counts as one more. */
export const KEY_CACHE_ENTRIES = 20_000;
/** Keys per isolate that are remembered as deactivated, so that what still comes with them costs nothing. */
export const DEACTIVATED_KEYS = 5_000;
/** How long an isolate remembers that an address failed too often. */
export const AUTH_FAILURE_PENALTY_MS = 10_000;
/** Look-ups per second and isolate for addresses that failed too often: their neighbours' valid keys still get in. */
export const PENALISED_LOOKUPS_PER_SECOND = 50;
/** Addresses remembered per isolate as having failed too often. */
export const AUTH_FAILURE_ADDRESSES = 10_000;

/** How long an isolate sums up its requests before it logs them in one line. */
export const REQUESTS_SUM_MS = 1_000;
/** Refused calls a second and isolate that have a log line of their own: what is wrong shows in the first few. */
export const REFUSED_LOG_LINES_PER_SECOND = 5;

// --- Quota (spec §8) ---

/** Closed periods in a row over the allowance that end the extra room. */
export const OVERAGE_STREAK_LIMIT = 3;
/** Entries of refused calls kept for the admin, per workspace, and of one key and reason: twenty hours of it, an hour each. */
export const REJECTIONS_KEPT = 200;
export const REJECTIONS_KEPT_OF_A_REASON = 20;
/** Keys whose refused calls are kept by day, in some 100 bytes each: those that were refused last. */
export const REJECTED_KEYS_KEPT = 500;
/** Entries of refused calls are kept for so long, in days. */
export const REJECTION_KEPT_DAYS = 30;
/** After so long without another, a refusal for the same reason is a new entry. */
export const REJECTION_SILENCE_MS = 3_600_000;
/** Refusals that are each written at once: as often as an object that sleeps in between would forget them. */
export const REJECTION_WRITES = { perSecond: 0.1, burst: 6 } as const;
/**
 * How long refusals that come faster are gathered between two writes. The first pauses are shorter than an idle object stays
 * in memory, so that a burst is counted exactly; a flood keeps it there.
 */
export const REJECTION_PAUSES_MS = [5_000, 5_000, 20_000, 60_000] as const;
/** After so long without another refusal, refusals are gathered no more. */
export const REJECTIONS_GATHERED_MS = 10_000;
/** Usage in percent of the signal limit at which an admin is told; in order. */
export const USAGE_NOTICE_PERCENT = [80, 100, 200] as const;
/** Full days whose mean the forecast goes by: a week, as traffic has one. */
export const FORECAST_DAYS = 7;
/** Usage by day is kept of periods that began no longer ago, in days: thirteen months, to compare with last year. */
export const USAGE_DAYS_KEPT = 400;
/** How long an isolate sums up calls that did not authenticate before it tells the counter. */
export const UNAUTHENTICATED_SUM_MS = 1_000;
/** How long it sums up calls with a key that it knows to be deactivated, after the first. */
export const DEACTIVATED_SUM_MS = 60_000;
/** How long work may go on behind an answer: the platform ends it after 30 seconds. */
export const WAIT_AFTER_ANSWER_MS = 25_000;
/** So long before its end a key is shown in amber: time to rotate it without haste. */
export const KEY_EXPIRES_SOON_MS = 30 * 24 * 3_600_000;
/** How often a key's last use is written at most: with a commit, or with refused calls. */
export const KEY_USE_WRITE_MS = 60_000;

// --- Outbox and queue ---

/** An outbox row, and a queue message: one billing unit is 64 KB. A larger signal travels alone. */
export const MESSAGE_MAX_BYTES = 60_000;
/** Above so many commits in GATHER_COMMITS_WITHIN_MS, 50 a second, the commits of several senders gather calls. */
export const GATHER_COMMITS = 25;
export const GATHER_COMMITS_WITHIN_MS = 500;
/** How long a commit gathers calls at most, which is little beside the way from the sender. */
export const GATHER_MS = 5;
/** A commit with so many calls gathers no more: more of them would not make it cheaper. */
export const GATHER_ENOUGH_CALLS = 16;
/** Commits that gather in vain before it is believed that there is one sender only, whom it would hold up. */
export const GATHER_PATIENCE = 4;
/**
 * What one `admit` call carries at most: a Durable Object stays responsive between slices, and what is made of one of them is
 * let go of before the next.
 */
export const ADMIT_SLICE_MAX_BYTES = 500_000;
/** `sendBatch` takes 100 messages and 256 KB. */
export const SEND_BATCH_MAX_MESSAGES = 100;
export const SEND_BATCH_MAX_BYTES = 250_000;
/**
 * The pause between two messages of one workspace that are not full, unless wrangler.toml says otherwise: a message
 * costs as much as the rows of a signal, and under a trickle a score may take that much longer.
 */
export const DRAIN_PACE_MS = 2_000;
/** Rows that wait in memory to be sent; beyond that they are read from the table. */
export const UNSENT_MAX_BYTES = 4_000_000;
/** A call of the queue that takes longer has failed: it is made again. */
export const SEND_TIMEOUT_MS = 10_000;
/** The alarm that drains when the object was killed before it could: not set with every commit, for it costs a row. */
export const SAFETY_ALARM_MS = 60_000;
/** The longest from a signal's id, given at the edge, to its commit: clocks that differ, slices of a large body, retries. */
export const ADMISSION_MAX_SKEW_MS = 60_000;
/** An outbox row that is not settled after this long is sent again: longer than a healthy backlog. */
export const RESEND_AFTER_MS = 15 * 60_000;
/** While the Signal Store is full: how often one message is sent, to find out whether it has room again. */
export const STORE_PROBE_MS = 60_000;
/** Bytes of the counter's database from which on new calls get 503: half of what a Durable Object holds. */
export const OUTBOX_MAX_BYTES = 5_000_000_000;
/** Back-off of a failed queue send and of a retried message, doubling from the first to the second. */
export const RETRY_MIN_SECONDS = 5;
export const RETRY_MAX_SECONDS = 300;

/**
 * Attempts at a message before it is let go: what fails in a way that the consumer lives to see is a fault, not a bad
 * signal, and the outbox sends it again. Fewer than max_retries in wrangler.toml, after which the queue gives up itself.
 */
export const MESSAGE_MAX_ATTEMPTS = 6;

// --- Processing ---

/** Messages of one workspace that are recorded in one call: of up to 60 KB, some 1,500 signals. */
export const RECORD_MAX_MESSAGES = 10;

/** Duplicates window of a payload with an id of its own: CDPs retry for hours. */
export const DUPLICATE_WINDOW_WITH_ID_MS = 7 * 24 * 3_600_000;
/** Duplicates window of a payload without an id: the same person may honestly do the same thing tomorrow. */
export const DUPLICATE_WINDOW_WITHOUT_ID_MS = 10 * 60_000;
/** Anonymous signals that are linked to their person in one step. */
export const LINK_PAGE_SIGNALS = 500;
/** Steps of linking before the consumer, or the alarm, lets others have their turn: 5,000 signals. */
export const LINK_TURN_STEPS = 10;
/** The alarm takes a link job when the consumer that caused it has not within this time. */
export const LINK_ALARM_MS = 10_000;
/** Held signals or dead letters that are sent again in one step: at 64 KB each some 13 MB, half an RPC's limit. */
export const AGAIN_PAGE_SIGNALS = 200;
/** What the compiled mapping rules that an isolate remembers may amount to, in rule sizes: some 20 MB, of most workspaces. */
export const RULES_CACHE_SIZE = 100_000;
/**
 * Comparisons, and reads of an element, that the mapping rules may take for one signal, some 2 ms: a batch of thousands such
 * signals stays below the CPU time of a consumer. One that takes more is a dead letter.
 */
export const RULES_MAX_STEPS = 50_000;
/** Elements that a `[]` of a condition's path looks at, the first ones: no order has more lines. */
export const RULE_PATH_MAX_ELEMENTS = 1_000;
/** Product Org Updates keys whose compiled payload template an isolate's consumer remembers: up to 100 mappings each. */
export const TEMPLATE_CACHE_KEYS = 1_000;
/** Stored signals that one step of a rule's job reads, so that the store answers others in between. */
export const RULE_STEP_SIGNALS = 1_000;
/** Segments that one step of a rule's job looks at, where few lines are of its event: some 10 ms, 8 MB of payloads at most. */
export const RULE_STEP_SEGMENTS = 80;
/** Event groups that are added up to estimate how much a rule's job has to read. */
export const RULE_ESTIMATE_GROUPS = 10_000;
/** Days of which an event group and a mapping rule keep a count each: what their pages show, in some 100 bytes. */
export const DAYS_COUNTED = 30;
/** Rows that one purge turn deletes, so that an alarm never blocks the store for long. */
export const PURGE_ROWS = 2_000;

// --- Cold storage (spec §6.1) ---

/**
 * Payloads stay in the store for so long: who is linked, corrected or looked at is mostly so on the same day, and a busy
 * workspace writes an object an hour.
 */
export const COLD_AFTER_MS = 24 * 3_600_000;
/** Objects that one alarm removes: R2 deletes up to 1,000 keys in a call. */
export const COLD_REMOVE_OBJECTS = 500;
/** Objects that are read at a time: the platform opens six connections. */
export const COLD_READS_AT_ONCE = 6;
/** A call of R2 that takes longer has failed: whatever waits for it goes on, and it is tried again. */
export const COLD_TIMEOUT_MS = 10_000;
/** After a failure R2 is let alone for this long, and so is a link job that needed it. */
export const COLD_RETRY_MS = 60_000;
/** An object whose writing broke off is deleted after this long: until then what was sent of it may still arrive. */
export const COLD_ABANDONED_MS = 15 * 60_000;

// --- Data care ---

/**
 * The shortest retention, in days: the longest billing period, so that a held signal has reached its end before. That is
 * also far beyond the duplicates window of 7 days, the 14 that a queue may keep a message, and the outbox's re-send every
 * 15 minutes: a signal that has been deleted is never delivered again.
 */
export const RETENTION_MIN_DAYS = 31;
/** The longest retention short of for ever, in days. */
export const RETENTION_MAX_DAYS = 3_650;
/** Signals that one step of retention deletes, or a segment more: some 50 ms where each is on a visitor's list of its own. */
export const RETENTION_ROWS = 2_000;
/** Rows that one step of a person's deletion takes: a person of fewer signals is gone when the call returns. */
export const ERASURE_ROWS = 2_000;
/** How long a deletion is remembered, in days: its receipt, and the hashes that stop what was still on its way then. */
export const ERASURE_REMEMBERED_DAYS = 30;
/** Signals of an event, the latest, among which a sample is looked for in place of one that was deleted. */
export const SAMPLE_MAX_SIGNALS = 1_000;
/** Segments, expanded one by one, in which a sample is looked for: some 20 ms. */
export const SAMPLE_MAX_SEGMENTS = 64;
/** Groups for which one step looks for another sample; those beyond keep one that has no payload any more. */
export const SAMPLE_MAX_GROUPS = 40;
/** How often signals are looked for that have been kept long enough: not for each of them by itself. */
export const RETENTION_SWEEP_MS = 3_600_000;

// --- Events ---

/** Scoring signals of one event: its row stays far below what a row may have, however long their names are. */
export const SCORED_EVENT_MAX_SIGNALS = 200;
/** Dead letters that come within this time of an event of some are told together: of a broken sender one event a minute. */
export const DEAD_LETTERS_TOLD_MS = 60_000;
/** Reasons that such an event tells apart, and characters of each. */
export const DEAD_LETTER_REASONS = 20;
export const DEAD_LETTER_REASON_CHARACTERS = 200;
/** Refused calls of a key within REFUSAL_BURST_MINUTES that are told: so many, and one in REFUSAL_BURST_SHARE of all. */
export const REFUSAL_BURST_MINUTES = 5;
export const REFUSAL_BURST_CALLS = 20;
export const REFUSAL_BURST_SHARE = 10;
/** A burst of refusals of the same key is not told again within this time. */
export const REFUSAL_BURST_QUIET_MS = 6 * 3_600_000;
/** Keys whose calls are counted in memory to find bursts of refusals, until those that are silent are forgotten. */
export const REFUSAL_BURST_KEYS = 1_000;
/** From this age on the oldest signal that is not recorded is told of: a healthy backlog is a hundred times younger. */
export const PROCESSING_LATE_MS = 10 * 60_000;
/** A row of events that wait to be handed on, and what one call hands on. */
export const RAISED_ROW_CHARACTERS = 500_000;
/**
 * Events that may wait to be handed on, in characters: some 100,000 scoring signals, where Destinations do not answer.
 * Beyond it nothing more is raised, which the log says, until something has been handed on: signals are recorded all the
 * same.
 */
export const RAISED_MAX_CHARACTERS = 32_000_000;
/** A call of Destinations that takes longer has failed: it is made again. */
export const RAISE_TIMEOUT_MS = 10_000;

// --- Destinations ---

/** Destinations of one workspace: every event goes to each that wants it. */
export const DESTINATIONS_MAX = 10;
/** Scores of a workspace whose crossing is told: more is a funnel, and that is made of events. */
export const THRESHOLDS_MAX = 5;
/** The URL of a destination, in characters. */
export const DESTINATION_URL_MAX_LENGTH = 2_000;
/** Scoring signals in one event, and in one delivery: some 250 KB, what receivers take. */
export const PERSON_SCORED_MAX_SIGNALS = 1_000;
/** Between two deliveries of gathered scoring signals to a destination. */
export const GATHER_EVERY_MS = 1_000;
/** To a destination that fails, gathered scoring signals go after a pause of this share of the time that it has failed. */
export const GATHER_SHARE_OF_FAILING = 0.05;
/** The longest pause between two deliveries of gathered scoring signals: three days of failures are some 240 deliveries. */
export const GATHER_MAX_MS = 3_600_000;
/** Scoring signals that wait to be gathered, of a workspace: beyond that the oldest are given up. Some 50 MB. */
export const GATHERED_MAX_SIGNALS = 200_000;
/** How long a receiver has to answer. */
export const DELIVERY_TIMEOUT_MS = 10_000;
/** What is read and kept of an answer. */
export const ANSWER_MAX_BYTES = 1_024;
/** A retry comes up to so much later than the schedule says. */
export const RETRY_JITTER = 0.2;
/** The longest that a receiver's Retry-After is heeded. */
export const RETRY_AFTER_MAX_MS = 24 * 3_600_000;
/** A destination that nothing has reached for so long is switched off. */
export const DESTINATION_FAILING_MS = 5 * 24 * 3_600_000;
/** A failure so long after the last one begins a new run: longer than the longest pause of the schedule, with its jitter. */
export const DESTINATION_FORGIVEN_MS = 36 * 3_600_000;
/** Once something has reached a destination again that has failed for so long, what waits for it is tried at once. */
export const DESTINATION_RECOVERED_MS = 3_600_000;
/** Deliveries of a workspace that begin in a second, and at once: beside a receiver that is slow, others still get theirs. */
export const DELIVERY_RATE = { perSecond: 20, burst: 40 } as const;
/** Deliveries that are under way to one destination: one that hangs takes no more of the rate than this. */
export const DELIVERIES_UNDER_WAY = 5;
/** What the consumer has not reported after this long is sent again, unless DELIVERY_LEASE_MS in wrangler.toml says otherwise. */
export const DELIVERY_LEASE_MS = 60_000;
/** Deliveries that wait for one destination: beyond that the oldest are given up. */
export const DELIVERIES_WAITING_MAX = 10_000;
/** Deliveries that are over and still shown, the latest of each destination, and for how many days. */
export const DELIVERIES_KEPT = 200;
export const DELIVERY_KEPT_DAYS = 30;
/** Attempts that are shown of one delivery, the latest: a whole schedule, and again by hand. */
export const ATTEMPTS_KEPT = 20;
/** How long an event's id is remembered, so that it is taken once: a source hands it on within minutes. */
export const EVENT_SEEN_DAYS = 14;
/** A source that does not take within this what it is to raise is told again. */
export const WANTED_TIMEOUT_MS = 10_000;
/** How often keys are looked at that end soon or are silent, and what is over is cleared away. */
export const DESTINATIONS_CHORE_MS = 3_600_000;
/** So many days ahead an admin is told that a key ends; in order. */
export const KEY_EXPIRING_DAYS = [30, 7, 1] as const;
/** The longest that a key may be silent before somebody is told, in days. */
export const KEY_SILENT_MAX_DAYS = 365;

// --- Operator API ---

export const PAGE_DEFAULT_ITEMS = 50;
export const PAGE_MAX_ITEMS = 200;
/** Workspaces that a plan is offered to by name: a plan for more is one for all. */
export const PLAN_MAX_WORKSPACES = 200;
/** Mappings of one payload template: more is a mistake, not a template. */
export const TEMPLATE_MAX_MAPPINGS = 100;
/** Conditions of one mapping rule: more is a mistake, not a rule. */
export const RULE_MAX_CONDITIONS = 50;
/** Mapping rules of one workspace. */
export const WORKSPACE_MAX_RULES = 1_000;
/**
 * How much a rule's conditions may amount to, and those of all of a workspace's rules, in paths and values (rule-size.ts):
 * two long lists, and fifty of them. Compiled the latter are some 2 MB, and without a `[]` a signal is run through them in
 * less than RULES_MAX_STEPS.
 */
export const RULE_MAX_SIZE = 500;
export const WORKSPACE_RULES_MAX_SIZE = 10_000;
/** A file of mapping rules: as many as a workspace may have, with long lists. */
export const RULES_FILE_MAX_BYTES = 4 * 1024 * 1024;
/** Characters of the rules that one statement writes: a parameter of D1 has 2 MB at most, a character up to 4 bytes. */
export const RULES_STATEMENT_MAX_CHARACTERS = 400_000;
/** Earlier versions of a mapping rule that are kept, the latest. */
export const RULE_VERSIONS_KEPT = 20;
/** Characters of the earlier versions of all of a workspace's rules: about as much as the rules themselves may be. */
export const WORKSPACE_RULE_VERSIONS_MAX_CHARACTERS = 2_000_000;
/** Characters of one value in the detail of an entry of the audit log, which is kept for ever: the rest is cut. */
export const AUDIT_VALUE_MAX_CHARACTERS = 1_000;
/** Dead letters named in one replay. */
export const REPLAY_MAX_IDS = 1_000;
/** Changes of an account's fields that are shown with it, the latest. */
export const ACCOUNT_HISTORY_SHOWN = 100;
/** Characters of one page of accounts: well inside the 32 MB that a Durable Object may answer with. A page is then shorter. */
export const ACCOUNT_PAGE_MAX_CHARACTERS = 4_000_000;
/** Stored signals that a rule's preview reads at most: some two seconds, as long as an admin waits. */
export const PREVIEW_MAX_SIGNALS = 20_000;
/** Pages that a rule's preview reads at most, where an event is rare: a million lines in each 25 of them. */
export const PREVIEW_MAX_PAGES = 250;
/** Matching signals that a preview shows. */
export const PREVIEW_SAMPLES = 10;
/** How far back a preview looks, in days. */
export const PREVIEW_DEFAULT_DAYS = 30;
export const PREVIEW_MAX_DAYS = 3_650;
/** Records that one page of an export reads, so that the store answers others in between. */
export const EXPORT_PAGE_ROWS = 1_000;
/** Characters that one page of an export has at most: two pages at a time are in memory. A page is then shorter. */
export const EXPORT_PAGE_MAX_CHARACTERS = 2_000_000;
/** Segments that one page of an export reads: the largest together hold about EXPORT_PAGE_MAX_CHARACTERS. */
export const EXPORT_PAGE_SEGMENTS = 20;
/** People and parts of their lists that one page looks at where only what has scored is exported: some 20 ms where nobody has. */
export const EXPORT_PAGE_LOOKS = 1_000;
/** People that one page of an export reads, each with look-ups of their ids: some 20 ms. */
export const EXPORT_PAGE_PEOPLE = 250;
/** A request body of the operator API. */
export const OPERATOR_BODY_MAX_BYTES = 1024 * 1024;

// --- Pages ---

/** Event groups that one page of the signal queue looks through for what was asked for: some 10 ms. */
export const QUEUE_SCAN_GROUPS = 2_000;
/** Event groups, the latest, that the signal queue sorts by their counts or names: some 20 ms. */
export const QUEUE_SORTED_GROUPS = 5_000;
/** Event groups, the latest, whose sources and event names the signal queue proposes. */
export const QUEUE_SUGGEST_GROUPS = 500;
/** Signals that one page of a list looks through for those that were asked for: some 10 ms. */
export const LIST_SCAN_SIGNALS = 2_000;
/** Days of a sparkline. */
export const SPARKLINE_DAYS = 14;
/** Samples that an event group's page shows. */
export const GROUP_SAMPLES = 3;
/** Events that the editor of a rule proposes, the most frequent of the latest groups; and paths, of so many samples. */
export const RULE_SUGGEST_EVENTS = 100;
export const RULE_SUGGEST_PATHS = 100;
export const RULE_SUGGEST_SAMPLES = 5;
/** Rules of an import that its preview names, of each kind. */
export const IMPORT_SHOWN_RULES = 100;
/** Conditions, and values of each, that are shown of what one version of a rule has changed. */
export const DIFFERENCE_CONDITIONS = 10;
export const DIFFERENCE_VALUES = 10;
/** Stored signals that a preview reads while a rule is being typed: a quarter of a second. The button reads them all. */
export const PREVIEW_TYPING_SIGNALS = 3_000;

/** A form of the pages, in bytes: a sample payload of 64 KB, as forms encode it, is the largest. */
export const PAGE_FORM_MAX_BYTES = 512 * 1024;
/** How long a page waits for the answer to a test, or to what is delivered again, before it is shown without. */
export const SHOWN_AT_ONCE_MS = 3_000;
/** Rows of a table on a page. */
export const PAGE_ROWS = 25;
/** Steps of the curve of a person's score: one for every few pixels. */
export const SCORE_CURVE_STEPS = 120;
/** Scoring signals, the latest, that the curve of a score is made of: reading them takes some 20 ms. */
export const SCORE_CURVE_SIGNALS = 20_000;
/** Ids shown with a person. */
export const PERSON_IDENTITIES_SHOWN = 50;
/** Other people, the latest, who have been named by an id of a person and are shown with it. */
export const SHARED_IDS_SHOWN = 20;
/** People of a day that are sorted by the time they were last seen; of more, so many at a time are. Some 5 ms. */
export const PEOPLE_DAY_SORTED = 1_000;
/** People that one page of a list looks through for those that were asked for: some 10 ms. */
export const PEOPLE_SCAN = 5_000;
/** People whose names one page of a search goes through: some 40 ms. */
export const PEOPLE_SEARCHED = 250_000;
/** People that a search sorts; of more than that it gives all, by their email. Some 10 ms. */
export const PEOPLE_SORTED = 5_000;
/** Ids, and as many scoring signals, the latest, that the operator API lists with a person. */
export const PERSON_IDENTITIES_LISTED = 100;
export const PERSON_SCORES_LISTED = 100;
/** Signals of a person, the latest, among which the operator API looks for scoring signals. */
export const PERSON_SCORES_LOOK = 1_000;
/** Characters of a value in the list of accounts, and in an account's history: the rest is in the signal. */
export const ACCOUNT_LIST_CHARACTERS = 60;
export const ACCOUNT_CHANGE_CHARACTERS = 300;
/** Characters of a feature flag that is shown as a badge, name and value together; longer ones are shown as JSON. */
export const ACCOUNT_FLAG_CHARACTERS = 60;
/** Characters of a value on the page of an account. */
export const ACCOUNT_VALUE_CHARACTERS = 10_000;
/** Entries of the audit log that one page of it looks at, where no index holds all that is asked for. */
export const AUDIT_WINDOW_ENTRIES = 1_000;
/** Members offered as names to filter the audit log by. */
export const AUDIT_ACTORS_OFFERED = 100;

// --- The live page ---

/** People who may watch one workspace's signals at a time, and as many its refusals: each costs every message. */
export const LIVE_MAX_WATCHERS = 50;
/** Rows a second that a watcher is sent, more than anyone reads; the rest is summed up. */
export const LIVE_ROWS_PER_SECOND = 20;
/** Connections of one watcher: tabs, each with two while it is renewed. */
export const LIVE_MAX_OF_ONE_WATCHER = 10;
/** How long a connection lives before sign-in and membership are asked anew. */
export const LIVE_SOCKET_MS = 5 * 60_000;
/** Rows that the page begins with, and that it keeps at most. */
export const LIVE_FIRST_ROWS = 50;
export const LIVE_MAX_ROWS = 200;

// --- Sign-in ---

/** How long a session lasts at most, whatever happens in it: a working day. */
export const SESSION_MS = 12 * 3_600_000;
/** How long somebody may take at the OpenID provider: a password, a second factor, a lost telephone. */
export const SIGN_IN_ATTEMPT_MS = 10 * 60_000;
/** Expired sessions and attempts that one sign-in clears away. */
export const EXPIRED_SESSIONS_CLEARED = 100;
/** Workspaces that the switcher and the chooser offer; the others are reached by their address. */
export const SWITCHER_WORKSPACES = 200;
/** Members that local sign-in lists. */
export const LOCAL_MEMBERS_SHOWN = 500;
/** How long an isolate goes by what an OpenID provider has said about itself. */
export const OIDC_DISCOVERY_MS = 3_600_000;
/** How long the provider may take to answer one call. */
export const OIDC_CALL_MS = 10_000;

// --- The log (docs/signal-store.md) ---

/** Lines of a segment: what is read and rewritten at a time. */
export const SEGMENT_MAX_LINES = 512;
/**
 * Bytes of a segment's payloads, and of its facts, before they are compressed: 0.2 ms to read back. Of ordinary traffic 300
 * lines, whose facts then fill whole pages of SQLite.
 */
export const SEGMENT_MAX_BYTES = 112 * 1024;
/** A row of the store: the platform refuses 2 MB. */
export const ROW_MAX_BYTES = 1_500_000;
/** Sealed segments among which a line belongs by the time that its id tells; before them it is noted as late. */
export const SPAN_SEGMENTS = 16;
/** Segments whose expanded facts, and payloads, an object keeps in memory: at most some 3 and 2 MB. */
export const CACHED_FACTS = 32;
export const CACHED_PAYLOADS = 16;
/** The head's parts are padded to a multiple of this. */
export const HEAD_STEP_BYTES = 16_384;
/** What is received longer ago than this when it is recorded has its duplicates looked for on disk, not in memory. */
export const LATE_AFTER_MS = 3_600_000;
/** Memory of duplicates, of all workspaces of an isolate: a third of its 128 MB, some 3.6 million signals. */
export const ORIGINALS_MAX_BYTES = 40 * 1024 * 1024;
/** Slots, of 8 bytes each, that one table of the memory of duplicates may have. */
export const ORIGINALS_MAX_SLOTS = 2 ** 21;
/** Entries of a person's list of signals that are kept in their row, in characters: recording writes that in any case. */
export const RECENT_ENTRIES_CHARACTERS = 512;
/** Characters of a row of older entries of a person's list: hundreds of entries. */
export const TIMELINE_ROW_CHARACTERS = 2_000;
/** Claims that an identity keeps, the latest: an id of that many owners is nobody's. */
export const IDENTITY_MAX_CLAIMS = 20;
/**
 * A counter that is restored from a backup is silent for so long at least. Where row numbers stood at such pauses is
 * remembered of the latest ones: those of as long as a row may take to come, which is sent again after RESEND_AFTER_MS.
 */
export const ROW_PAUSE_MS = 30_000;
export const ROW_PAUSES_KEPT = 32;
/** Rows that are remembered as recorded although their time does not fit their number: hardly any, ever. */
export const LATE_ROWS_KEPT = 100;
/** By how much rows' times may differ from their order, where the counter's object has moved. */
export const ROW_CLOCK_SKEW_MS = 1_000;
/** Ids that another id is paired with, before it is known. */
export const PAIRS_MAX = 20;
/**
 * Anonymous ids, and as many user ids, that a person keeps, the latest: far more than anybody's browsers in years. A sender
 * that makes a new one for each visit would have them grow without end.
 */
export const PERSON_MAX_IDS = 2_500;
/** Ids that become somebody's with one that they are paired with, directly or through others: far more than anybody has. */
export const CLAIM_SPREADS_TO = 1_000;
/** Verdicts of mapping rules that an object keeps in memory: all of most workspaces. */
export const VERDICTS_REMEMBERED = 2_000;
/** An object of cold storage: what one call of R2 reads at most, some 30,000 signals. */
export const COLD_OBJECT_MAX_BYTES = 2_000_000;
export const COLD_OBJECT_MAX_SEGMENTS = 128;
/** What is due for cold storage within this time goes along, so that a busy workspace writes an object an hour or a full one. */
export const COLD_TOGETHER_MS = 3_600_000;
/** A chore of the store's alarm that has failed is tried again after this long. */
export const CHORE_REST_MS = 60_000;
/** Characters that are kept of why a chore fails. */
export const FAILURE_MAX_CHARACTERS = 300;
/** The store records nothing beyond this: the platform's 10 GB, less what deletion and retention need to make room. */
export const STORE_MAX_BYTES = 9_000_000_000;
/** Percent of STORE_MAX_BYTES from which on admins are told: ten weeks before a store is full that fills in a year. */
export const STORE_NOTICE_PERCENT = 80;
/** A store that is full notes it this often: each time is a row. */
export const FULL_NOTED_MS = 3_600_000;
/** So long after a store was last noted as full, what waited for room has been recorded: 5 GB a day are 60 signals a second. */
export const FULL_DRAINED_MS = 86_400_000;
/** Groups of the signal queue whose changes wait in the head, at most: some 30 KB. */
export const PENDING_GROUPS = 256;
/** Mapping rules whose counts wait in the head, at most: some 10 KB. */
export const PENDING_RULES = 128;

// --- Health ---

/** Workspaces that are asked how they are at a time: the platform lets a call have six connections open. */
export const HEALTH_AT_ONCE = 6;
/** An object that takes longer to say how it is counts as one that does not answer. */
export const HEALTH_ANSWER_MS = 5_000;
/** Workspaces in one answer: two calls each, and a data point, of which the platform takes 250 from one invocation. */
export const HEALTH_PAGE_WORKSPACES = 200;
