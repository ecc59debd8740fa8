/**
 * The numbers of the service that cross folders, with their units and a line of reason; what one folder alone uses stands
 * in the file that enforces it. `REQUEST_RATE_PER_SECOND`, `REQUEST_BURST`, `OUTBOX_MAX_BYTES`, `DRAIN_PACE_MS` and
 * `DELIVERY_LEASE_MS` can be overridden by the variables of the same names in wrangler.toml.
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
/** An anonymous id or user id that links people, in characters, at most 765 bytes; anything longer is noise. */
export const IDENTITY_MAX_LENGTH = 255;
/**
 * A trait of a person, in bytes of UTF-8, as it is stored and as it is searched (folded.ts), where one character can become
 * eighteen. The rest is cut off: an index holds the names of everybody.
 */
export const TRAIT_MAX_BYTES = 1_024;

// --- Request rate (spec §8.7), per API key ---

/** Requests per second: half of what one Durable Object serves, so that a key cannot starve its workspace. */
export const REQUEST_RATE_PER_SECOND = 500;
/** Requests that may come at once: two seconds' worth, for campaigns that start with a bang. */
export const REQUEST_BURST = 1_000;

// --- Quota (spec §8) ---

/** Closed periods in a row over the allowance that end the extra room. */
export const OVERAGE_STREAK_LIMIT = 3;
/** Entries of refused calls kept for the admin, per workspace, and of one key and reason: twenty hours of it, an hour each. */
export const REJECTIONS_KEPT = 200;
export const REJECTIONS_KEPT_OF_A_REASON = 20;
/** Entries of refused calls are kept for so long, in days. */
export const REJECTION_KEPT_DAYS = 30;

// --- Outbox and queue ---

/** An outbox row, and a queue message: one billing unit is 64 KB. A larger signal travels alone. */
export const MESSAGE_MAX_BYTES = 60_000;
/**
 * The pause between two messages of one workspace that are not full, unless wrangler.toml says otherwise: a message
 * costs as much as the rows of a signal, and under a trickle a score may take that much longer.
 */
export const DRAIN_PACE_MS = 2_000;
/** The alarm that drains when the object was killed before it could: not set with every commit, for it costs a row. */
export const SAFETY_ALARM_MS = 60_000;
/** Bytes of the counter's database from which on new calls get 503: half of what a Durable Object holds. */
export const OUTBOX_MAX_BYTES = 5_000_000_000;
/**
 * A call of D1 or of an object, for a sender, for what was sent or for what is to be told, that takes longer has failed,
 * whatever becomes of it: a sender gives up at about that time, and what waits for ever is never tried again.
 */
export const CALL_TIMEOUT_MS = 10_000;
/**
 * Recording a batch, or linking, that takes longer has failed, and comes again: a batch that waited for ever would end with
 * its Worker, as one does that holds a signal which nothing survives. Recording takes a tenth of a second.
 */
export const RECORD_TIMEOUT_MS = 30_000;
/** Back-off of a failed queue send and of a retried message, doubling from the first to the second. */
export const RETRY_MIN_SECONDS = 5;
export const RETRY_MAX_SECONDS = 300;

// --- Processing ---

/** Duplicates window of a payload with an id of its own: CDPs retry for hours. */
export const DUPLICATE_WINDOW_WITH_ID_MS = 7 * 24 * 3_600_000;
/** Duplicates window of a payload without an id: the same person may honestly do the same thing tomorrow. */
export const DUPLICATE_WINDOW_WITHOUT_ID_MS = 10 * 60_000;
/**
 * Comparisons, and reads of an element, that the mapping rules may take for one signal, some 2 ms, and never 10: a batch of
 * thousands such signals stays below the CPU time of a consumer. One that takes more is a dead letter.
 */
export const RULES_MAX_STEPS = 50_000;
/** Elements that a `[]` of a condition's path looks at, the first ones: no order has more lines. */
export const RULE_PATH_MAX_ELEMENTS = 1_000;
/** Stored signals that one step of a rule's job reads, so that the store answers others in between. */
export const RULE_STEP_SIGNALS = 1_000;
/** Segments that one step of a rule's job looks at, where few lines are of its event: some 10 ms, 8 MB of payloads at most. */
export const RULE_STEP_SEGMENTS = 80;
/** Days of which an event group and a mapping rule keep a count each: what their pages show, in some 100 bytes. */
export const DAYS_COUNTED = 30;

// --- Cold storage (spec §6.1) ---

/** After a failure R2 is let alone for this long, and so is a link job that needed it. */
export const COLD_RETRY_MS = 60_000;

// --- Data care ---

/** How long a deletion is remembered, in days: its receipt, and the hashes that stop what was still on its way then. */
export const DELETION_REMEMBERED_DAYS = 30;

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
/** How long a receiver has to answer. */
export const DELIVERY_TIMEOUT_MS = 10_000;
/** What is read and kept of an answer. */
export const ANSWER_MAX_BYTES = 1_024;
/** What the consumer has not reported after this long is sent again, unless DELIVERY_LEASE_MS in wrangler.toml says otherwise. */
export const DELIVERY_LEASE_MS = 60_000;
/** Deliveries that are over and still shown, the latest of each destination, and for how many days. */
export const DELIVERIES_KEPT = 200;
export const DELIVERY_KEPT_DAYS = 30;
/** So many days ahead an admin is told that a key ends; in order. */
export const KEY_EXPIRING_DAYS = [30, 7, 1] as const;
/** The longest that a key may be silent before somebody is told, in days. */
export const KEY_SILENT_MAX_DAYS = 365;

// --- Operator API ---

export const PAGE_DEFAULT_ITEMS = 50;
export const PAGE_MAX_ITEMS = 200;
/**
 * Values of a JSON body of the operator API, or of a file of mapping rules, counted as commas and opening brackets: 1,000 rules
 * with as many conditions as they may have take some 45,000. 4 MB of `1,` would be millions of values to parse and validate.
 */
export const JSON_MAX_VALUES = 50_000;
/** Levels of nesting there: no field is nested half as deep. */
export const JSON_MAX_DEPTH = 64;
/** Mappings of one payload template: more is a mistake, not a template. */
export const TEMPLATE_MAX_MAPPINGS = 100;
/** Conditions of one mapping rule: more is a mistake, not a rule. */
export const RULE_MAX_CONDITIONS = 50;
/** Mapping rules of one workspace. */
export const WORKSPACE_MAX_RULES = 1_000;
/**
 * How much a rule's conditions may amount to, and those of all of a workspace's rules, in paths and values (rule-size.ts):
 * two long lists, and fifty of them. Compiled the latter are some 2 MB, and without a `[]`, long texts and deep nesting a signal
 * is run through them in less than RULES_MAX_STEPS.
 */
export const RULE_MAX_SIZE = 500;
export const WORKSPACE_RULES_MAX_SIZE = 10_000;
/** A file of mapping rules: as many as a workspace may have, with long lists. */
export const RULES_FILE_MAX_BYTES = 4 * 1024 * 1024;
/** Earlier versions of a mapping rule that are kept, the latest. */
export const RULE_VERSIONS_KEPT = 20;
/** Changes of an account's fields that are shown with it, the latest. */
export const ACCOUNT_HISTORY_SHOWN = 100;
/** Characters of one page of accounts: well inside the 32 MB that a Durable Object may answer with. A page is then shorter. */
export const ACCOUNT_PAGE_MAX_CHARACTERS = 4_000_000;
/** Stored signals that a rule's preview reads at most: some two seconds, as long as an admin waits. */
export const PREVIEW_MAX_SIGNALS = 20_000;
/** Matching signals that a preview shows. */
export const PREVIEW_SAMPLES = 10;
/** How far back a preview looks, in days. */
export const PREVIEW_DEFAULT_DAYS = 30;
export const PREVIEW_MAX_DAYS = 3_650;

// --- Pages ---

/** Event groups that one page of the signal queue looks through for what was asked for: some 10 ms. */
export const QUEUE_SCAN_GROUPS = 2_000;
/** Event groups, the latest, that the signal queue sorts by their counts or names: some 20 ms. */
export const QUEUE_SORTED_GROUPS = 5_000;
/** Signals that one page of a list looks through for those that were asked for: some 10 ms. */
export const LIST_SCAN_SIGNALS = 2_000;
/** Samples that an event group's page shows. */
export const GROUP_SAMPLES = 3;
/** A form of the pages, in bytes: a sample payload of 64 KB, as forms encode it, is the largest. */
export const PAGE_FORM_MAX_BYTES = 512 * 1024;
/** Fields of a form: a payload template of 100 mappings has 500, and no other form has more. */
export const PAGE_FORM_MAX_FIELDS = 1_000;
/** Characters of a form's names and values: twice a sample payload. Drawn again as HTML, each takes six bytes at most. */
export const PAGE_FORM_MAX_CHARACTERS = 128 * 1024;
/** A form of somebody who is not signed in, in bytes: what they typed is drawn again, to be sent after sign-in. */
export const STRANGER_FORM_MAX_BYTES = 32 * 1024;
export const STRANGER_FORM_MAX_FIELDS = 200;
/** Rows of a table on a page. */
export const PAGE_ROWS = 25;
/** People that one page of a list looks through for those that were asked for: some 10 ms. */
export const PEOPLE_SCAN = 5_000;
/** People whose names one page of a search goes through: some 40 ms. */
export const PEOPLE_SEARCHED = 250_000;
/** Ids, and as many scoring signals, the latest, that the operator API lists with a person. */
export const PERSON_IDENTITIES_LISTED = 100;
export const PERSON_SCORES_LISTED = 100;
/** Characters of a value in the list of accounts, and in an account's history: the rest is in the signal. */
export const ACCOUNT_LIST_CHARACTERS = 60;
export const ACCOUNT_CHANGE_CHARACTERS = 300;

// --- Sign-in ---

/** How long a session lasts at most, whatever happens in it: a working day. */
export const SESSION_MS = 12 * 3_600_000;
/** How long somebody may take at the OpenID provider: a password, a second factor, a lost telephone. */
export const SIGN_IN_ATTEMPT_MS = 10 * 60_000;

// --- The log (docs/signal-store.md) ---

/** A row of the store: the platform refuses 2 MB. */
export const ROW_MAX_BYTES = 1_500_000;
/**
 * Anonymous ids, and as many user ids, that a person keeps, the latest: far more than anybody's browsers in years. A sender
 * that makes a new one for each visit would have them grow without end.
 */
export const PERSON_MAX_IDS = 2_500;
/** The store records nothing beyond this: the platform's 10 GB, less what deletion and retention need to make room. */
export const STORE_MAX_BYTES = 9_000_000_000;

// --- What one workspace may keep in D1, which all workspaces share ---

/** Active API keys: far more than a workspace has senders. They are all read when a key is created. */
export const WORKSPACE_MAX_ACTIVE_KEYS = 100;
/**
 * API keys created in any 24 hours, rotations included. The row of a key is never deleted (spec §3.1). With its indexes and its
 * audit entry it takes 2 to 4 KB: 100 a day are at most 130 MB a year.
 */
export const WORKSPACE_MAX_KEYS_A_DAY = 100;
/** One payload template, in bytes of JSON: TEMPLATE_MAX_MAPPINGS mappings of 500 bytes each fit. */
export const TEMPLATE_MAX_BYTES = 64 * 1024;
/** All stored payload templates of a workspace, in bytes of JSON: 100 templates of 100 short mappings (10 KB). */
export const WORKSPACE_TEMPLATES_MAX_BYTES = 1024 * 1024;
/**
 * Days for which the payload template of a key is kept after the key has ended. Signals that were accepted before the end
 * still need the template: held signals for up to 31 days, until their billing period ends; signals of a Quota Counter that
 * is restored from a backup for up to 30 days more; dead letters until somebody has replayed them.
 */
export const TEMPLATE_KEPT_DAYS = 90;
/** Members: an invitation to everybody at a mid-sized company. They are all counted when a member is added. */
export const WORKSPACE_MAX_MEMBERS = 500;
/** The detail of one audit entry, in bytes of JSON: entries are never deleted. */
export const AUDIT_DETAIL_MAX_BYTES = 4_096;
/**
 * Audit entries of one person on the pages of one workspace in any 24 hours: more changes than anybody makes by hand. Some
 * 5 MB a day at most; without the limit, 120 forms a minute would be 800 MB.
 */
export const PERSON_MAX_CHANGES_A_DAY = 1_000;
