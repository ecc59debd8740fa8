/**
 * Limits that several folders use, with units and reasons; a limit of one folder is in the file that enforces it.
 * Variables of wrangler.toml override REQUEST_RATE_PER_SECOND, REQUEST_BURST, OUTBOX_MAX_BYTES, DRAIN_PACE_MS and
 * DELIVERY_LEASE_MS.
 */

// --- What a sender may send (spec §8.9) ---

/** One signal, as sent: a queue message holds 128 KB, and a bigger event is a mistake upstream. */
export const SIGNAL_MAX_BYTES = 65_536;
/**
 * A body, decompressed. CDPs post up to 4,000 events of about 1.5 KB. The Quota Counter takes it in one commit, which other
 * calls of the workspace wait for: at most 100 ms, and 48 MB of its memory (test/bench/README.md).
 */
export const BODY_MAX_BYTES = 8 * 1024 * 1024;
export const BODY_MAX_SIGNALS = 10_000;
/** Levels of nesting: deeper than any real event, and flat enough for recursive code further on. */
export const SIGNAL_MAX_DEPTH = 32;
/** Event names, sources, key names and the like, in Unicode code points. */
export const NAME_MAX_CODE_POINTS = 255;
/** RFC 5321's path limit, in characters. */
export const EMAIL_MAX_LENGTH = 254;
export const IDEMPOTENCY_KEY_MAX_LENGTH = 255;
/** An id of the service, or the name of a plan: all are shorter. */
export const ID_MAX_LENGTH = 100;
/** An anonymous id or user id that links people, in characters, at most 765 bytes; anything longer is noise. */
export const IDENTITY_MAX_LENGTH = 255;
/** A trait as stored and as searched (traits.ts), where a character can take 33 bytes. The rest is cut off. */
export const TRAIT_MAX_BYTES = 1_024;

// --- Request rate (spec §8.7), per API key ---

/** Requests per second: half of what one Durable Object serves, so that a key cannot starve its workspace. */
export const REQUEST_RATE_PER_SECOND = 500;
/** Requests in a burst: two seconds' worth, for campaigns that start with many events at once. */
export const REQUEST_BURST = 1_000;

// --- Quota (spec §8) ---

/** Closed periods in a row over the allowance that end the extra room. */
export const OVERAGE_STREAK_LIMIT = 3;
/** Rejection entries per workspace, and per key and reason: twenty hours of one an hour. */
export const REJECTIONS_KEPT = 200;
export const REJECTIONS_KEPT_OF_A_REASON = 20;
export const REJECTION_KEPT_DAYS = 30;

// --- Outbox and queue ---

/** An outbox row, and a queue message: one billing unit is 64 KB. A larger signal travels alone. */
export const MESSAGE_MAX_BYTES = 60_000;
/**
 * Pause between two partly filled messages: a message costs as much as the rows of three signals. A score takes this much
 * longer.
 */
export const DRAIN_PACE_MS = 2_000;
/** Delay of the alarm that drains after a crash. It is not set with every commit, because it costs a row. */
export const SAFETY_ALARM_MS = 60_000;
/** Size of the counter's database at which new calls get 503: half of what a Durable Object holds. */
export const OUTBOX_MAX_BYTES = 5_000_000_000;
/**
 * Timeout of calls of D1 and of objects: a call that never settles would never be retried. A sender waits about as
 * long.
 */
export const CALL_TIMEOUT_MS = 10_000;
/** Timeout of recording a batch, and of linking. Recording takes a tenth of a second. */
export const RECORD_TIMEOUT_MS = 30_000;
/** Delay of retries of failed sends and messages, doubling from the first to the second value. */
export const RETRY_MIN_SECONDS = 5;
export const RETRY_MAX_SECONDS = 300;

// --- Processing ---

/** Duplicates window of a payload with an id: CDPs retry for hours. */
export const DUPLICATE_WINDOW_WITH_ID_MS = 7 * 24 * 3_600_000;
/** Duplicates window of a payload without an id: the same person may do the same thing again tomorrow. */
export const DUPLICATE_WINDOW_WITHOUT_ID_MS = 10 * 60_000;
/** Steps of the rules for one signal: some 2 ms, so a batch stays below the consumer's CPU limit. */
export const RULES_MAX_STEPS = 50_000;
/** Elements that a `[]` of a condition's path looks at, the first ones: no order has more lines. */
export const RULE_PATH_MAX_ELEMENTS = 1_000;
/** Stored signals per call of a rule's preview, so that the store answers other calls between them. */
export const PREVIEW_STEP_SIGNALS = 1_000;
export const DAYS_COUNTED = 30;

// --- Cold storage (spec §6.1) ---

/** Pause after a failure of R2, also for link jobs that need it. */
export const COLD_RETRY_MS = 60_000;

// --- Data care ---

/** Retention of a deletion's receipt and hashes, which stop signals that were still in flight. */
export const DELETION_REMEMBERED_DAYS = 30;

// --- Destinations ---

/** Every notification goes to each subscribed destination. */
export const DESTINATIONS_MAX = 10;
/** Thresholds with notifications. More of them are a funnel, which should be built from events. */
export const THRESHOLDS_MAX = 5;
/** If people pass thresholds more often while points lapse in one night, one summary replaces the notifications about each person. */
export const LAPSE_CROSSINGS_MAX = 1_000;
export const DESTINATION_URL_MAX_LENGTH = 2_000;
/** Custom headers of a webhook, and the characters of a name and a value: enough for a token. */
export const DESTINATION_HEADERS_MAX = 5;
export const HEADER_NAME_MAX_LENGTH = 64;
export const HEADER_VALUE_MAX_LENGTH = 1_000;
/** Scoring signals in one notification, and in one delivery: some 250 KB, what receivers take. */
export const PERSON_SCORED_MAX_SIGNALS = 1_000;
/** Minimum time between two deliveries of scoring signals to a destination. */
export const GATHER_EVERY_MS = 1_000;
export const DELIVERY_TIMEOUT_MS = 10_000;
/** The stored part of an answer. */
export const ANSWER_MAX_BYTES = 1_024;
/** Timeout of a delivery's report, after which it is sent again. */
export const DELIVERY_LEASE_MS = 60_000;
export const DELIVERIES_KEPT = 200;
export const DELIVERY_KEPT_DAYS = 30;
/** When admins are notified before the end of a key. */
export const KEY_EXPIRING_DAYS = [30, 7, 1] as const;
export const KEY_SILENT_MAX_DAYS = 365;

// --- Operator API ---

/** Minimum time between two stored uses of an API token: the time is shown to the minute, and each write costs rows. */
export const TOKEN_USE_STORED_MS = 60_000;

export const PAGE_DEFAULT_ITEMS = 50;
export const PAGE_MAX_ITEMS = 200;
/**
 * Values of a JSON body or rules file, counted as commas and opening brackets. 1,000 rules with all conditions have
 * 45,000; 4 MB of `1,` would be millions.
 */
export const JSON_MAX_VALUES = 50_000;
/** Levels of nesting there: no field is nested half as deep. */
export const JSON_MAX_DEPTH = 64;
/** Traits of a group call that set values of an account, and bytes of a value as JSON. */
export const GROUP_TRAITS_MAX = 50;
export const GROUP_TRAIT_MAX_BYTES = 1_000;
export const TEMPLATE_MAX_MAPPINGS = 100;
/** Characters of a mapping's target and of its path: more than any real payload needs. */
export const TEMPLATE_PATH_MAX_LENGTH = 255;
export const RULE_MAX_CONDITIONS = 50;
/** Values of one condition's list. */
export const CONDITION_MAX_VALUES = 200;
export const WORKSPACE_MAX_RULES = 1_000;
/**
 * Paths and values (rule-content.ts) of a rule, and of all rules of a workspace: two long lists, and fifty. Compiled,
 * the latter take 2 MB, and without `[]` and long texts they stay within RULES_MAX_STEPS.
 */
export const RULE_MAX_SIZE = 500;
export const WORKSPACE_RULES_MAX_SIZE = 10_000;
export const WORKSPACE_MAX_EXCLUSIONS = 100;
/** Paths and values of all exclusions of a workspace. Each signal is tried on all of them, so they are fewer than those of rules. */
export const EXCLUSIONS_MAX_SIZE = 1_000;
/** As many rules as a workspace may have, with long lists. */
export const RULES_FILE_MAX_BYTES = 4 * 1024 * 1024;
export const RULE_VERSIONS_KEPT = 20;
/** Changes and bytes of values that the history of a field keeps: the oldest go. A value may be as large as a signal. */
export const FIELD_HISTORY_MAX_CHANGES = 1_000;
export const FIELD_HISTORY_MAX_BYTES = 512 * 1024;
export const ACCOUNT_HISTORY_SHOWN = 100;
/** Characters of one slice of a list of accounts or people, well below the 32 MB limit of a Durable Object's answer. */
export const SLICE_MAX_CHARACTERS = 4_000_000;
/** Stored signals that a rule's preview reads: a quarter of a second of the processor, which other calls wait for. */
export const PREVIEW_MAX_SIGNALS = 5_000;
export const PREVIEW_SAMPLES = 10;
export const PREVIEW_DEFAULT_DAYS = 30;
export const PREVIEW_MAX_DAYS = 3_650;

// --- Pages ---

/** Event groups that one slice of the signal queue scans for a filter: some 10 ms. */
export const QUEUE_SCAN_GROUPS = 2_000;
/** Newest event groups that the signal queue sorts by counts or names: some 20 ms. */
export const QUEUE_SORTED_GROUPS = 5_000;
/** Signals that one slice of a list scans for a filter: some 10 ms. */
export const LIST_SCAN_SIGNALS = 2_000;
export const GROUP_SAMPLES = 3;
/** A form of the pages, in bytes: a sample payload of 64 KB, as forms encode it, is the largest. */
export const PAGE_FORM_MAX_BYTES = 512 * 1024;
/** Fields of a form: a payload template of 100 mappings has 500, and no other form has more. */
export const PAGE_FORM_MAX_FIELDS = 1_000;
/** Characters of a form's names and values: twice a sample payload. Drawn again as HTML, each takes six bytes at most. */
export const PAGE_FORM_MAX_CHARACTERS = 128 * 1024;
/** A form of a visitor who is not signed in, in bytes: the sign-in page repeats its content and submits it after sign-in. */
export const STRANGER_FORM_MAX_BYTES = 32 * 1024;
export const STRANGER_FORM_MAX_FIELDS = 200;
export const PAGE_ROWS = 25;
/** People that one slice of a list scans for a filter: some 10 ms. */
export const PEOPLE_SCAN = 5_000;
/** People whose names one slice of a search scans: some 40 ms. */
export const PEOPLE_SEARCHED = 250_000;
/** Ids and newest scoring signals that the operator API lists with a person. */
export const PERSON_IDENTITIES_LISTED = 100;
export const PERSON_SCORES_LISTED = 100;
/** Characters of a value in the list and history of accounts; the signal has the whole value. */
export const ACCOUNT_LIST_CHARACTERS = 60;
export const ACCOUNT_CHANGE_CHARACTERS = 300;

// --- Sign-in ---

/** Maximum duration of a session: a working day. */
export const SESSION_MS = 12 * 3_600_000;
/** Time for the sign-in at the OpenID provider: a password, a second factor, a lost telephone. */
export const SIGN_IN_ATTEMPT_MS = 10 * 60_000;

// --- The Signal Store ---

/** A row of the store: the platform rejects 2 MB. */
export const ROW_MAX_BYTES = 1_500_000;
/** Newest anonymous ids, and user ids, of a person: some senders create a new id for each visit. */
export const PERSON_MAX_IDS = 2_500;
/** Size at which the store is full: the platform's 10 GB, less what deletion and retention need to free space. */
export const STORE_MAX_BYTES = 9_000_000_000;

/**
 * Waiting misfits of a workspace, and the bytes of their payloads: 5 KB each, after compression. Beyond either, its keys reject misfits.
 * So a flood takes a twentieth of the store.
 */
export const MISFITS_MAX = 100_000;
export const MISFITS_MAX_BYTES = 500_000_000;
/** Days after which a misfit is purged, and days before that when a notice is raised. */
export const MISFIT_KEPT_DAYS = 90;
export const MISFIT_NOTICE_DAYS = 7;

// --- What one workspace may keep in D1, which all workspaces share ---

/** Active API keys: far more than a workspace has senders. All are read when a key is created. */
export const WORKSPACE_MAX_ACTIVE_KEYS = 100;
/** As the largest signal limit of a plan. */
export const KEY_MAX_SIGNAL_LIMIT = 1_000_000_000_000;
/** API keys in 24 hours, with rotations. A key's row is never deleted (spec §3.1): 2 to 4 KB, at most 130 MB a year. */
export const WORKSPACE_MAX_KEYS_A_DAY = 100;
/** Active API tokens: far more than a workspace has programs that need one. All are read when a token is created. */
export const WORKSPACE_MAX_ACTIVE_TOKENS = 20;
/** API tokens created in any 24 hours. The row of a token is never deleted, and each token may make its own changes. */
export const WORKSPACE_MAX_TOKENS_A_DAY = 100;
/** One payload template, in bytes of JSON: TEMPLATE_MAX_MAPPINGS mappings of 500 bytes each fit. */
export const TEMPLATE_MAX_BYTES = 64 * 1024;
/** All versions of a workspace's payload templates, in bytes of JSON: 400 of 100 short mappings (10 KB). */
export const WORKSPACE_TEMPLATES_MAX_BYTES = 4 * 1024 * 1024;
/** The newest versions of a key's template. Signals that were admitted with an earlier one become dead letters. */
export const KEY_TEMPLATE_VERSIONS = 20;
/** Days after which no signal needs a version that was replaced: a held signal waits for 31, an outbox without a store for some more. */
export const TEMPLATE_VERSION_NEEDED_DAYS = 45;
/** Days that a template outlives its key: held signals need it for 31, dead letters until their replay. */
export const TEMPLATE_KEPT_DAYS = 90;
/** Members: an invitation to everybody at a mid-sized company. They are all counted when a member is added. */
export const WORKSPACE_MAX_MEMBERS = 500;
/** The detail of one audit entry, in bytes of JSON: entries are never deleted. */
export const AUDIT_DETAIL_MAX_BYTES = 4_096;
/**
 * Audit entries in 24 hours of one person in a workspace, or of one API token: some 5 MB. Without the limit, 120 forms
 * a minute would be 800 MB.
 */
export const ACTOR_MAX_CHANGES_A_DAY = 1_000;
/**
 * Pages, exports and polls of one person in a minute and isolate. A visible tab with Live asks 36 times a minute. A page takes
 * some milliseconds of CPU time, and calls of D1, which all workspaces share.
 */
export const PAGE_VIEWS_A_MINUTE = 600;

/**
 * The shortest retention of a plan: the longest billing period, so a held signal is purged first. It is also far beyond
 * the duplicate window (7 days), the queue (14 days) and the outbox's resend (15 minutes). So no deleted signal is
 * delivered again.
 */
export const RETENTION_MIN_DAYS = 31;
export const RETENTION_MAX_DAYS = 3_650;
