// The SQL of the schema, version by version. A released version is never changed: what comes later is appended.
#include "storage/sqlite/schema.hpp"

#include <array>

namespace kcx::sqlite {

namespace {

// What each write touches, as b-trees: insert: jobs, sqlite_sequence, job_specs, history, jobs_ready; claim: jobs,
// history, jobs_ready, jobs_held; finish: jobs, history, jobs_held, jobs_final, attempts. All indexes are partial, so
// that a job is in the indexes of its present state only.
constexpr const char* first_schema = R"sql(
CREATE TABLE node (
  only       INTEGER PRIMARY KEY CHECK (only = 1),
  node_id    TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

-- The hot row: small, changes with the job's state. Times are milliseconds since the epoch, UTC.
CREATE TABLE jobs (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused; sqlite_sequence tells removed from unknown
  state       TEXT NOT NULL CHECK (state IN ('scheduled', 'blocked', 'queued', 'running', 'cancelling', 'succeeded',
                                             'failed', 'timed_out', 'cancelled', 'interrupted', 'skipped')),
  reason      TEXT NOT NULL DEFAULT 'none',
  cause       TEXT NOT NULL DEFAULT 'none',
  message     TEXT NOT NULL DEFAULT '',
  name        TEXT NOT NULL,
  project     TEXT NOT NULL,
  queue       TEXT NOT NULL,
  labels      TEXT NOT NULL,                      -- JSON array, sorted, each once
  order_key   INTEGER NOT NULL,
  weight      INTEGER NOT NULL CHECK (weight >= 1),
  plain       INTEGER NOT NULL,                   -- 1: its end needs nothing of its spec (no retries, steps, secrets)
  attempt     INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0),
  uncounted   INTEGER NOT NULL DEFAULT 0 CHECK (uncounted BETWEEN 0 AND attempt),
  interrupts  INTEGER NOT NULL DEFAULT 0 CHECK (interrupts BETWEEN 0 AND uncounted),
  worker      TEXT,
  nonce       INTEGER,
  lease_ms    INTEGER,                            -- of the latest claim; NULL: by a worker of the node itself
  created_at  INTEGER NOT NULL,
  changed_at  INTEGER NOT NULL,
  queued_at   INTEGER,
  run_at      INTEGER,
  claimed_at  INTEGER,
  started_at  INTEGER,
  finished_at INTEGER,
  exit_code   INTEGER,
  signal      INTEGER,
  duration_ms INTEGER CHECK (duration_ms >= 0),
  log_bytes   INTEGER NOT NULL DEFAULT 0 CHECK (log_bytes >= 0),
  log_cut     INTEGER NOT NULL DEFAULT 0,
  retry_of    INTEGER,
  grp         TEXT,                               -- the group; NULL: none
  group_limit INTEGER NOT NULL DEFAULT 1 CHECK (group_limit >= 1),
  unique_key  TEXT,                               -- NULL: none
  key_given   INTEGER NOT NULL DEFAULT 0,         -- 1: to the job that replaces it, while its processes still end
  wait_until  INTEGER,                            -- until it has started once: it must not wait longer
  dead_letter INTEGER NOT NULL DEFAULT 0 CHECK (dead_letter IN (0, 1)),
  version     INTEGER NOT NULL DEFAULT 0,         -- number of changes of state; the next history line's seq
  CHECK ((state IN ('succeeded', 'failed', 'timed_out', 'cancelled', 'interrupted', 'skipped'))
         = (finished_at IS NOT NULL)),
  CHECK ((state IN ('running', 'cancelling')) = (nonce IS NOT NULL)),
  CHECK (nonce IS NULL OR (worker IS NOT NULL AND claimed_at IS NOT NULL AND attempt >= 1)),
  CHECK (state <> 'scheduled' OR run_at IS NOT NULL),
  CHECK (finished_at IS NULL OR wait_until IS NULL),
  CHECK (finished_at IS NOT NULL OR dead_letter = 0)
) STRICT;

-- Each holds the state that it is limited to, too: so SQLite can count by the index alone.
CREATE INDEX jobs_ready ON jobs (state, project, queue, labels, order_key) WHERE state = 'queued';
CREATE INDEX jobs_scheduled ON jobs (state, run_at) WHERE state = 'scheduled';
CREATE INDEX jobs_blocked ON jobs (state) WHERE state = 'blocked';
CREATE INDEX jobs_held ON jobs (worker) WHERE state IN ('running', 'cancelling');
CREATE INDEX jobs_final ON jobs (state, dead_letter)
  WHERE state IN ('succeeded', 'failed', 'timed_out', 'cancelled', 'interrupted', 'skipped');
CREATE INDEX jobs_retries ON jobs (retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX jobs_dead ON jobs (dead_letter) WHERE dead_letter = 1;
CREATE INDEX jobs_impatient ON jobs (wait_until) WHERE wait_until IS NOT NULL;
CREATE INDEX jobs_group ON jobs (grp, state, id) WHERE grp IS NOT NULL AND finished_at IS NULL;
CREATE UNIQUE INDEX jobs_unique ON jobs (unique_key) 
  WHERE unique_key IS NOT NULL AND finished_at IS NULL AND key_given = 0;

-- What was submitted, without secrets. Written again only where a waiting job is changed.
CREATE TABLE job_specs (
  job  INTEGER PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
  spec TEXT NOT NULL,
  secret_names TEXT                               -- JSON array, NULL if none: what a retry must bring again
) STRICT;

-- Jobs that have not ended and that a blocked job needs. A row goes with the end of either.
CREATE TABLE open_needs (
  need      INTEGER NOT NULL,
  job       INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
  condition TEXT NOT NULL CHECK (condition IN ('success', 'failure', 'always')),
  PRIMARY KEY (need, job, condition)
) STRICT, WITHOUT ROWID;
CREATE INDEX open_needs_of ON open_needs (job);

-- Jobs that ended while others needed them, until the last of those has been moved on. Outlives the job itself.
CREATE TABLE ended_needs (
  job   INTEGER PRIMARY KEY,
  state TEXT NOT NULL
) STRICT;

-- What was answered to submissions with an idempotency key, to be answered again.
CREATE TABLE answers (
  owner      TEXT NOT NULL,
  key        TEXT NOT NULL,
  digest     TEXT NOT NULL,                       -- of what was sent
  created_at INTEGER NOT NULL,
  status     INTEGER NOT NULL,
  location   TEXT NOT NULL,
  body       TEXT NOT NULL,
  PRIMARY KEY (owner, key)
) STRICT;
CREATE INDEX answers_by_age ON answers (created_at);

CREATE TABLE paused_queues (
  queue     TEXT PRIMARY KEY,
  paused_at INTEGER NOT NULL,
  paused_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Erased when the job is final.
CREATE TABLE job_secrets (
  job     INTEGER PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
  secrets TEXT NOT NULL
) STRICT;

-- One row per ended attempt; the one that runs is in its job's row.
CREATE TABLE attempts (
  job         INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
  attempt     INTEGER NOT NULL CHECK (attempt >= 1),
  worker      TEXT NOT NULL,
  nonce       INTEGER NOT NULL,
  claimed_at  INTEGER NOT NULL,
  started_at  INTEGER,
  finished_at INTEGER NOT NULL,
  outcome     TEXT NOT NULL,
  led_to      TEXT NOT NULL,                      -- the job's state that followed
  reason      TEXT NOT NULL,                      -- and its reason
  cause       TEXT NOT NULL,
  exit_code   INTEGER,
  signal      INTEGER,
  message     TEXT NOT NULL,
  duration_ms INTEGER NOT NULL CHECK (duration_ms >= 0),
  log_bytes   INTEGER NOT NULL CHECK (log_bytes >= 0),
  log_cut     INTEGER NOT NULL,
  PRIMARY KEY (job, attempt)
) STRICT, WITHOUT ROWID;

-- What an ended attempt left besides its log; no row where that is nothing.
CREATE TABLE results (
  job            INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
  attempt        INTEGER NOT NULL,
  outputs        TEXT NOT NULL,                   -- JSON object of strings
  artifact_files INTEGER NOT NULL CHECK (artifact_files >= 0),
  artifact_bytes INTEGER NOT NULL CHECK (artifact_bytes >= 0),
  artifact_cut   INTEGER NOT NULL,
  PRIMARY KEY (job, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE steps (
  job         INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
  attempt     INTEGER NOT NULL,
  step        INTEGER NOT NULL CHECK (step >= 0),
  state       TEXT NOT NULL CHECK (state IN ('pending', 'running', 'succeeded', 'failed', 'timed_out', 'cancelled',
                                             'interrupted', 'skipped')),
  exit_code   INTEGER,
  signal      INTEGER,
  started_at  INTEGER,
  finished_at INTEGER,
  PRIMARY KEY (job, attempt, step)
) STRICT, WITHOUT ROWID;

-- Every state a job was in, written by the triggers below and by nothing else. The number orders all changes of all
-- jobs as they were committed and is never used again: followers of the events resume by it.
CREATE TABLE history (
  number  INTEGER PRIMARY KEY AUTOINCREMENT,
  job     INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
  seq     INTEGER NOT NULL,
  at      INTEGER NOT NULL,
  state   TEXT NOT NULL,
  reason  TEXT NOT NULL,
  cause   TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  worker  TEXT,
  UNIQUE (job, seq)
) STRICT;

-- Who may call the API besides the holder of the admin token. The token itself is not stored.
CREATE TABLE tokens (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  name         TEXT NOT NULL UNIQUE,
  digest       TEXT NOT NULL UNIQUE,
  scopes       TEXT NOT NULL,                     -- JSON array
  created_at   INTEGER NOT NULL,
  created_by   TEXT NOT NULL,
  expires_at   INTEGER,
  rate_limit   INTEGER CHECK (rate_limit >= 1),   -- requests per minute
  last_used_at INTEGER
) STRICT;

-- Who is told of states: of one job, or of all jobs of a project. Secrets stand here, since those of job_secrets are
-- erased at the job's end, when the last of it is told.
CREATE TABLE webhooks (
  job        INTEGER UNIQUE REFERENCES jobs ON DELETE CASCADE,
  project    TEXT UNIQUE,
  url        TEXT NOT NULL,
  secret     TEXT,                                -- NULL: unsigned
  events     TEXT NOT NULL,                       -- states between commas, one at each end
  created_at INTEGER NOT NULL,
  CHECK ((job IS NULL) <> (project IS NULL))
) STRICT;

-- The outbox: what is to be told or was told, written by a trigger in the transaction that moved the job. The number is
-- never used again: receivers tell repeats by it.
CREATE TABLE deliveries (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  job        INTEGER NOT NULL,
  event      TEXT NOT NULL,                       -- the job's state, and its row as it was then
  version    INTEGER NOT NULL,
  name       TEXT NOT NULL,
  project    TEXT NOT NULL,
  queue      TEXT NOT NULL,
  reason     TEXT NOT NULL,
  message    TEXT NOT NULL,
  attempt    INTEGER NOT NULL,
  exit_code  INTEGER,
  worker     TEXT,
  retry_of   INTEGER,
  url        TEXT NOT NULL,
  secret     TEXT,
  created_at INTEGER NOT NULL,
  state      TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
  tries      INTEGER NOT NULL DEFAULT 0,
  next_at    INTEGER,
  last_at    INTEGER,
  status     INTEGER,
  failure    TEXT NOT NULL DEFAULT '',
  CHECK ((state = 'pending') = (next_at IS NOT NULL))
) STRICT;
CREATE INDEX deliveries_due ON deliveries (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX deliveries_of ON deliveries (job);

CREATE TRIGGER jobs_inserted AFTER INSERT ON jobs BEGIN
  INSERT INTO history (job, seq, at, state, reason, cause, attempt, worker)
  VALUES (NEW.id, NEW.version, NEW.changed_at, NEW.state, NEW.reason, NEW.cause, NEW.attempt, NULL);
END;

-- The same moves as transitions() in storage/job.cpp; a test compares them.
CREATE TRIGGER jobs_moved_illegally BEFORE UPDATE OF state ON jobs WHEN NOT CASE OLD.state
  WHEN 'scheduled'  THEN NEW.state IN ('queued', 'cancelled')
  WHEN 'blocked'    THEN NEW.state IN ('queued', 'scheduled', 'cancelled', 'timed_out', 'skipped')
  WHEN 'queued'     THEN NEW.state IN ('running', 'cancelled', 'timed_out', 'scheduled')
  WHEN 'running'    THEN NEW.state IN ('cancelling', 'succeeded', 'failed', 'timed_out', 'cancelled', 'interrupted',
                                       'queued', 'scheduled')
  WHEN 'cancelling' THEN NEW.state = 'cancelled'
  ELSE 0 END
BEGIN
  SELECT RAISE(ABORT, 'a job must not move this way');
END;

CREATE TRIGGER jobs_ended AFTER UPDATE OF state ON jobs WHEN NEW.finished_at IS NOT NULL BEGIN
  DELETE FROM open_needs WHERE job = NEW.id AND OLD.state = 'blocked';
  INSERT OR IGNORE INTO ended_needs (job, state)
  SELECT NEW.id, NEW.state WHERE EXISTS (SELECT 1 FROM open_needs WHERE need = NEW.id);
END;

CREATE TRIGGER jobs_moved AFTER UPDATE OF state ON jobs BEGIN
  INSERT INTO history (job, seq, at, state, reason, cause, attempt, worker)
  VALUES (NEW.id, NEW.version, NEW.changed_at, NEW.state, NEW.reason, NEW.cause, NEW.attempt,
          iif(NEW.attempt > 0, NEW.worker, NULL));
END;

-- Without JSON's functions, which SQLite allows in no trigger of a file that it need not trust.
CREATE TRIGGER jobs_told AFTER UPDATE OF state ON jobs
WHEN NEW.state = 'running' OR NEW.finished_at IS NOT NULL BEGIN
  INSERT INTO deliveries (job, event, version, name, project, queue, reason, message, attempt, exit_code, worker,
                          retry_of, url, secret, created_at, next_at)
  SELECT NEW.id, NEW.state, NEW.version, NEW.name, NEW.project, NEW.queue, NEW.reason, NEW.message, NEW.attempt,
         NEW.exit_code, NEW.worker, NEW.retry_of, url, secret, NEW.changed_at, NEW.changed_at
  FROM webhooks WHERE (job = NEW.id OR project = NEW.project) AND instr(events, ',' || NEW.state || ',') > 0;
END;

-- What is still to be told outlives its job.
CREATE TRIGGER jobs_removed AFTER DELETE ON jobs BEGIN
  DELETE FROM deliveries WHERE job = OLD.id AND next_at IS NULL;
END;
)sql";

// For files with much in them: what asks for one key or for what went wrong must not look through all the rest.
constexpr const char* second_schema = R"sql(
CREATE INDEX jobs_held_keys ON jobs (unique_key)
  WHERE unique_key IS NOT NULL AND state IN ('running', 'cancelling');
CREATE INDEX deliveries_undelivered ON deliveries (state) WHERE state <> 'delivered';
)sql";

constexpr std::array all_migrations{first_schema, second_schema};

} // namespace

std::span<const char* const> migrations() noexcept {
  return all_migrations;
}

} // namespace kcx::sqlite
