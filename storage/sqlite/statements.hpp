/// Every statement that the store runs, one constant each, with what it does and the index that serves it; those that
/// only readers run are in reader_statements.hpp. Parameters are bound in order. Statements that change a state say so
/// in their WHERE: a lost race changes no row.
#pragma once

namespace kcx::sqlite::sql {

/// The columns that read_outputs() and read_artifacts() in rows.hpp expect; NULL where there is no row.
#define KCX_RESULT_COLUMNS "r.outputs, r.artifact_files, r.artifact_bytes, r.artifact_cut"

/// The columns that read_job() in rows.hpp expects, of KCX_JOB_TABLES.
#define KCX_JOB_COLUMNS                                                                                                \
  "j.id, j.state, j.reason, j.cause, j.message, j.attempt, j.uncounted, j.interrupts, j.worker, j.exit_code, "         \
  "j.signal, j.created_at, j.queued_at, j.run_at, j.started_at, j.finished_at, j.duration_ms, j.log_bytes, "           \
  "j.log_cut, j.retry_of, j.version, j.order_key, s.spec, j.dead_letter, " KCX_RESULT_COLUMNS                          \
  ", j.name, j.project, j.queue"

/// Jobs by any index, the rest by rowid and primary key.
#define KCX_JOB_TABLES                                                                                                 \
  "LEFT JOIN job_specs s ON s.job = j.id LEFT JOIN results r ON r.job = j.id AND r.attempt = j.attempt"

/// The columns that read_ready() in rows.hpp expects.
#define KCX_READY_COLUMNS "id, order_key, weight, project, queue, labels"

/// As in the WHERE of jobs_final: SQLite uses a partial index only where it finds the same words again.
#define KCX_FINAL_STATES "('succeeded', 'failed', 'timed_out', 'cancelled', 'interrupted', 'skipped')"

// -- transactions -----------------------------------------------------------------------------------------------------

inline constexpr const char* begin = "BEGIN IMMEDIATE";
inline constexpr const char* begin_read = "BEGIN";
inline constexpr const char* commit = "COMMIT";
inline constexpr const char* save = "SAVEPOINT op";
inline constexpr const char* release = "RELEASE op";
inline constexpr const char* undo = "ROLLBACK TO op";

// -- inserting --------------------------------------------------------------------------------------------------------

inline constexpr const char* insert_job =
  "INSERT INTO jobs (state, name, project, queue, labels, order_key, weight, plain, created_at, changed_at, queued_at, "
  "run_at, retry_of, wait_until, unique_key, grp, group_limit) "
  "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
/// The unfinished job that has a unique key. jobs_unique.
inline constexpr const char* select_by_key =
  "SELECT id FROM jobs WHERE unique_key = ? AND finished_at IS NULL AND key_given = 0";
/// What is still held of these jobs (a JSON array of ids) lets go of its key. By rowid.
inline constexpr const char* give_keys_away =
  "UPDATE jobs SET key_given = 1 WHERE id IN (SELECT value FROM json_each(?)) AND state = 'cancelling'";
/// Jobs whose processes may still live, of one unique key. jobs_held_keys.
inline constexpr const char* select_held_by_key =
  "SELECT id FROM jobs INDEXED BY jobs_held_keys WHERE state IN ('running', 'cancelling') AND unique_key = ?";
inline constexpr const char* insert_spec = "INSERT INTO job_specs (job, spec, secret_names) VALUES (?, ?, ?)";
inline constexpr const char* insert_secrets = "INSERT INTO job_secrets (job, secrets) VALUES (?, ?)";

/// By primary key.
inline constexpr const char* select_answer =
  "SELECT digest, created_at, status, location, body FROM answers WHERE owner = ? AND key = ?";
/// One that was kept long enough may still be in the way.
inline constexpr const char* put_answer = "INSERT OR REPLACE INTO answers (owner, key, digest, created_at, status, "
                                          "location, body) VALUES (?, ?, ?, ?, ?, ?, ?)";
/// answers_by_age.
inline constexpr const char* forget_answers = "DELETE FROM answers WHERE rowid IN "
                                              "(SELECT rowid FROM answers WHERE created_at <= ? ORDER BY created_at "
                                              "LIMIT ?)";
/// answers_by_age.
inline constexpr const char* select_oldest_answer = "SELECT min(created_at) FROM answers";

// -- needs ------------------------------------------------------------------------------------------------------------

/// By rowid.
inline constexpr const char* select_state = "SELECT state FROM jobs WHERE id = ?";
inline constexpr const char* insert_open_need =
  "INSERT OR IGNORE INTO open_needs (need, job, condition) VALUES (?, ?, ?)";
/// By primary key.
inline constexpr const char* delete_open_need = "DELETE FROM open_needs WHERE need = ? AND job = ? AND condition = ?";
/// open_needs_of.
inline constexpr const char* has_open_needs = "SELECT 1 FROM open_needs WHERE job = ? LIMIT 1";
/// The dependents of a job. By primary key.
inline constexpr const char* select_dependents = "SELECT job, condition FROM open_needs WHERE need = ? LIMIT ?";
/// By rowid.
inline constexpr const char* select_ended_need = "SELECT job, state FROM ended_needs ORDER BY job LIMIT 1";
inline constexpr const char* forget_ended_need = "DELETE FROM ended_needs WHERE job = ?";
/// What unblocking needs to know of a job. By rowid, twice.
inline constexpr const char* select_blocked =
  "SELECT " KCX_READY_COLUMNS ", run_at, "
  "ifnull(iif(json_valid(spec), json_extract(spec, '$.priority'), 0), 0), grp IS NOT NULL "
  "FROM jobs LEFT JOIN job_specs ON job = id WHERE id = ? AND state = 'blocked'";
/// By rowid.
inline constexpr const char* unblock_if_blocked =
  "UPDATE jobs SET state = ?2, changed_at = ?3, queued_at = ?4, order_key = ?5, version = version + 1 "
  "WHERE id = ?1 AND state = 'blocked'";
/// By rowid.
inline constexpr const char* skip_if_blocked =
  "UPDATE jobs SET state = 'skipped', reason = 'need_failed', message = ?2, changed_at = ?3, finished_at = ?3, "
  "wait_until = NULL, version = version + 1 WHERE id = ?1 AND state = 'blocked'";

// -- groups -----------------------------------------------------------------------------------------------------------

/// As in the WHERE of jobs_group.
#define KCX_GROUP_HELD                                                                                                 \
  "(SELECT count(*) FROM jobs WHERE grp = ?1 AND state IN ('running', 'cancelling') AND finished_at IS NULL)"
#define KCX_GROUP_FIRST "(SELECT min(id) FROM jobs WHERE grp = ?1 AND state = 'queued' AND finished_at IS NULL)"

/// How many jobs of a group are held, and which one is next. jobs_group, twice.
inline constexpr const char* select_group = "SELECT " KCX_GROUP_HELD ", " KCX_GROUP_FIRST;
/// The next job of a group, if there is room for it. By rowid and jobs_group.
inline constexpr const char* select_head =
  "SELECT " KCX_READY_COLUMNS " FROM jobs WHERE id = " KCX_GROUP_FIRST " AND group_limit > " KCX_GROUP_HELD;
/// The queued jobs of a group behind its next one, with their limits. jobs_group, in its order.
inline constexpr const char* select_followers =
  "SELECT " KCX_READY_COLUMNS ", group_limit FROM jobs WHERE grp = ? AND state = 'queued' AND finished_at IS NULL "
  "AND id > ? ORDER BY id LIMIT ?";
/// Unfinished jobs of a group before one of them. jobs_group.
inline constexpr const char* select_older_waiting =
  "SELECT id FROM jobs WHERE grp = ? AND state IN ('scheduled', 'blocked', 'queued') AND finished_at IS NULL "
  "AND id < ?";
/// jobs_group.
inline constexpr const char* select_older_running =
  "SELECT id FROM jobs WHERE grp = ? AND state = 'running' AND finished_at IS NULL AND id < ?";
inline constexpr const char* select_touched_groups = "SELECT grp FROM temp.touched_groups";
inline constexpr const char* forget_touched_groups = "DELETE FROM temp.touched_groups";

// -- claiming ---------------------------------------------------------------------------------------------------------

/// What a claim needs to know of a job. By rowid, three times.
inline constexpr const char* select_for_claim =
  "SELECT j.state, j.attempt, j.nonce, j.worker, s.spec, x.secrets, "
  "EXISTS (SELECT 1 FROM paused_queues p WHERE p.queue = j.queue), "
  "j.grp, j.group_limit, j.labels, j.wait_until FROM jobs j LEFT JOIN job_specs s ON s.job = j.id "
  "LEFT JOIN job_secrets x ON x.job = j.id WHERE j.id = ?";
/// What a job that has ended leaves to those that need it; its ref is NULL where its spec cannot be read. By rowid,
/// twice, and primary key.
inline constexpr const char* select_left =
  "SELECT j.attempt, iif(json_valid(s.spec), ifnull(json_extract(s.spec, '$.ref'), ''), NULL), " KCX_RESULT_COLUMNS
  " FROM jobs j " KCX_JOB_TABLES " WHERE j.id = ?";
/// The job that a worker holds by this nonce. jobs_held.
inline constexpr const char* select_by_nonce =
  "SELECT id FROM jobs WHERE state IN ('running', 'cancelling') AND worker = ? AND nonce = ?";
/// Takes a queued job. By rowid.
inline constexpr const char* claim_if_queued =
  "UPDATE jobs SET state = 'running', reason = 'none', cause = 'none', message = '', attempt = attempt + 1, "
  "worker = ?2, nonce = ?3, claimed_at = ?4, lease_ms = ?5, changed_at = ?4, started_at = NULL, exit_code = NULL, "
  "signal = NULL, duration_ms = NULL, log_bytes = 0, log_cut = 0, version = version + 1 WHERE id = ?1 AND state = "
  "'queued'";

/// By rowid.
inline constexpr const char* confirm_if_held =
  "UPDATE jobs SET started_at = coalesce(started_at, ?3), wait_until = NULL "
  "WHERE id = ?1 AND attempt = ?2 AND state IN ('running', 'cancelling')";

/// By rowid, then the primary key of steps.
inline constexpr const char* put_step_if_held =
  "INSERT INTO steps (job, attempt, step, state, exit_code, signal, started_at, finished_at) "
  "SELECT id, attempt, ?3, ?4, ?5, ?6, ?7, ?8 FROM jobs "
  "WHERE id = ?1 AND attempt = ?2 AND state IN ('running', 'cancelling') "
  "ON CONFLICT DO UPDATE SET state = excluded.state, exit_code = excluded.exit_code, signal = excluded.signal, "
  "started_at = excluded.started_at, finished_at = excluded.finished_at";

// -- moving on --------------------------------------------------------------------------------------------------------

/// What a change of state needs to know of a job. By rowid.
inline constexpr const char* select_for_move =
  "SELECT state, reason, message, attempt, uncounted, interrupts, worker, nonce, claimed_at, started_at, order_key, "
  "weight, project, queue, labels, plain, grp IS NOT NULL, wait_until FROM jobs WHERE id = ?";
/// By rowid.
inline constexpr const char* select_spec = "SELECT spec FROM job_specs WHERE job = ?";

/// Ends the held attempt and moves the job on, fenced by attempt. By rowid.
inline constexpr const char* finish_if_held =
  "UPDATE jobs SET state = ?3, reason = ?4, cause = ?5, message = ?6, changed_at = ?7, nonce = NULL, "
  "uncounted = uncounted + ?8, interrupts = interrupts + ?9, started_at = ?10, queued_at = ifnull(?11, queued_at), "
  "run_at = ifnull(?12, run_at), finished_at = ?13, order_key = ?14, exit_code = ?15, signal = ?16, duration_ms = ?17, "
  "log_bytes = ?18, log_cut = ?19, wait_until = iif(?13 IS NULL AND ?21, wait_until, NULL), dead_letter = ?20, "
  "version = version + 1 "
  "WHERE id = ?1 AND attempt = ?2 AND state IN ('running', 'cancelling')";
inline constexpr const char* insert_attempt =
  "INSERT INTO attempts (job, attempt, worker, nonce, claimed_at, started_at, finished_at, outcome, led_to, reason, "
  "cause, exit_code, signal, message, duration_ms, log_bytes, log_cut) "
  "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
/// By primary key.
inline constexpr const char* insert_result =
  "INSERT INTO results (job, attempt, outputs, artifact_files, artifact_bytes, artifact_cut) VALUES (?, ?, ?, ?, ?, ?)";
/// How an attempt ended. By primary key.
inline constexpr const char* select_attempt =
  "SELECT outcome, exit_code, signal, led_to, reason, worker, finished_at, log_bytes, log_cut, nonce FROM attempts "
  "WHERE job = ? AND attempt = ?";
/// Steps that their attempt left running end with it. By primary key.
inline constexpr const char* end_running_steps =
  "UPDATE steps SET state = ?3, finished_at = ?4 WHERE job = ?1 AND attempt = ?2 AND state = 'running'";
/// By rowid.
inline constexpr const char* erase_secrets = "DELETE FROM job_secrets WHERE job = ?";

/// Told to end, but still held. By rowid.
inline constexpr const char* cancel_if_running =
  "UPDATE jobs SET state = 'cancelling', reason = 'cancelled_by', message = ?2, changed_at = ?3, "
  "version = version + 1 WHERE id = ?1 AND state = 'running'";
/// By rowid.
inline constexpr const char* cancel_if_waiting =
  "UPDATE jobs SET state = 'cancelled', reason = 'cancelled_by', message = ?2, changed_at = ?3, finished_at = ?3, "
  "wait_until = NULL, version = version + 1 WHERE id = ?1 AND state IN ('scheduled', 'blocked', 'queued')";

/// Those of several jobs (a JSON array of ids) that have not ended. By rowid.
inline constexpr const char* select_unfinished =
  "SELECT id, state, attempt, worker FROM jobs WHERE id IN (SELECT value FROM json_each(?)) AND finished_at IS NULL "
  "ORDER BY id";
/// What the two above do, to several jobs at once. By rowid.
inline constexpr const char* cancel_several =
  "UPDATE jobs SET state = iif(state = 'running', 'cancelling', 'cancelled'), reason = 'cancelled_by', message = ?2, "
  "changed_at = ?3, finished_at = iif(state = 'running', NULL, ?3), "
  "wait_until = iif(state = 'running', wait_until, NULL), version = version + 1 "
  "WHERE id IN (SELECT value FROM json_each(?1)) AND state IN ('scheduled', 'blocked', 'queued', 'running')";
/// Of those of several jobs that have ended. By rowid, twice.
inline constexpr const char* erase_secrets_of_several =
  "DELETE FROM job_secrets WHERE job IN (SELECT id FROM jobs WHERE id IN (SELECT value FROM json_each(?)) "
  "AND finished_at IS NOT NULL)";

/// Only a start time that lies ahead (?7) puts the end of the wait off. By rowid.
inline constexpr const char* update_if_waiting =
  "UPDATE jobs SET order_key = ?2, labels = ?3, run_at = iif(?6, ?4, run_at), "
  "wait_until = CASE WHEN wait_until IS NULL OR ?5 IS NULL THEN wait_until WHEN ?7 THEN ?5 "
  "ELSE min(wait_until, ?5) END, "
  "version = version + 1 WHERE id = ?1 AND state IN ('scheduled', 'blocked', 'queued')";
inline constexpr const char* update_spec = "UPDATE job_specs SET spec = ?2 WHERE job = ?1";
/// By rowid.
inline constexpr const char* postpone_if_queued =
  "UPDATE jobs SET state = 'scheduled', changed_at = ?2, version = version + 1 WHERE id = ?1 AND state = 'queued'";

/// jobs_scheduled.
inline constexpr const char* select_due = "SELECT " KCX_READY_COLUMNS ", attempt, worker, grp IS NOT NULL FROM jobs "
                                          "WHERE state = 'scheduled' AND run_at <= ? ORDER BY run_at, id LIMIT ?";
/// By rowid. The reason (a retry) stays: it tells why the job is in the queue again.
inline constexpr const char* queue_if_scheduled =
  "UPDATE jobs SET state = 'queued', changed_at = ?2, queued_at = ?2, version = version + 1 "
  "WHERE id = ?1 AND state = 'scheduled'";
/// jobs_scheduled.
inline constexpr const char* select_next_due = "SELECT min(run_at) FROM jobs WHERE state = 'scheduled'";
/// jobs_impatient.
inline constexpr const char* select_impatient =
  "SELECT id, attempt FROM jobs WHERE wait_until <= ? AND state IN ('queued', 'blocked') ORDER BY wait_until LIMIT ?";
/// By rowid.
inline constexpr const char* expire_if_waiting =
  "UPDATE jobs SET state = 'timed_out', reason = 'wait_limit', changed_at = ?2, finished_at = ?2, wait_until = NULL, "
  "version = version + 1 WHERE id = ?1 AND state IN ('queued', 'blocked')";
/// jobs_impatient.
inline constexpr const char* select_next_impatient =
  "SELECT min(wait_until) FROM jobs WHERE wait_until IS NOT NULL AND state IN ('queued', 'blocked')";

/// jobs_held, in its order: by id, the planner would rather scan the whole table. What is held by leases is passed
/// over.
inline constexpr const char* select_held =
  "SELECT id, attempt, started_at FROM jobs WHERE state IN ('running', 'cancelling') AND lease_ms IS NULL "
  "ORDER BY worker, id LIMIT ?";
/// jobs_held.
inline constexpr const char* select_held_by =
  "SELECT id, attempt, started_at FROM jobs WHERE state IN ('running', 'cancelling') AND worker = ?2 "
  "AND lease_ms IS NULL ORDER BY id LIMIT ?1";
/// jobs_held.
inline constexpr const char* select_leased =
  "SELECT id, attempt, nonce, worker, project, weight, lease_ms, claimed_at, started_at IS NOT NULL, "
  "state = 'cancelling' FROM jobs WHERE state IN ('running', 'cancelling') AND lease_ms IS NOT NULL "
  "ORDER BY worker, id";

/// The next lane that has queued jobs, behind one in the order of names. jobs_ready, alone: one step from lane to lane
/// however many jobs lie between.
inline constexpr const char* select_next_lane =
  "SELECT project, queue, labels FROM jobs INDEXED BY jobs_ready WHERE state = 'queued' "
  "AND (project, queue, labels) > (?, ?, ?) ORDER BY project, queue, labels LIMIT 1";
/// The ready jobs of one lane behind a place in it, with their groups. jobs_ready, in its order.
inline constexpr const char* select_ready =
  "SELECT " KCX_READY_COLUMNS ", grp FROM jobs j INDEXED BY jobs_ready WHERE state = 'queued' AND project = ? "
  "AND queue = ? AND labels = ? AND (order_key, id) > (?, ?) "
  "AND (grp IS NULL OR (id = (SELECT min(e.id) FROM jobs e WHERE e.grp = j.grp AND e.state = 'queued' "
  "AND e.finished_at IS NULL) AND group_limit > (SELECT count(*) FROM jobs h WHERE h.grp = j.grp "
  "AND h.state IN ('running', 'cancelling') AND h.finished_at IS NULL))) ORDER BY order_key, id LIMIT ?";
/// By primary key.
inline constexpr const char* is_paused = "SELECT 1 FROM paused_queues WHERE queue = ?";

// -- keeping and removing ---------------------------------------------------------------------------------------------

/// What a retry needs to know. By rowid, twice.
inline constexpr const char* select_for_retry =
  "SELECT j.state, s.secret_names, j.dead_letter FROM jobs j LEFT JOIN job_specs s ON s.job = j.id WHERE "
  "j.id = ?";
/// The latest retry of a job. jobs_retries, alone.
inline constexpr const char* select_latest_retry =
  "SELECT max(id) FROM jobs WHERE retry_of = ? AND retry_of IS NOT NULL";
/// By rowid.
inline constexpr const char* discard_if_dead = "UPDATE jobs SET dead_letter = 0 WHERE id = ? AND dead_letter = 1";
/// By rowid; everything that belongs to the job goes with it, by the foreign keys.
inline constexpr const char* remove_job = "DELETE FROM jobs WHERE id = ? AND finished_at IS NOT NULL";
/// Final jobs of one state, oldest first. jobs_final, in its order.
inline constexpr const char* select_final =
  "SELECT id, attempt, created_at, finished_at FROM jobs "
  "WHERE state IN " KCX_FINAL_STATES " AND state = ? AND dead_letter = 0 ORDER BY id";
/// The newest job of a state beyond a count: it and all older ones are too many. jobs_final, alone.
inline constexpr const char* select_beyond =
  "SELECT id FROM jobs WHERE state IN " KCX_FINAL_STATES " AND state = ? AND dead_letter = 0 "
  "ORDER BY id DESC LIMIT 1 OFFSET ?";
inline constexpr const char* pause_queue =
  "INSERT INTO paused_queues (queue, paused_at, paused_by) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
inline constexpr const char* resume_queue = "DELETE FROM paused_queues WHERE queue = ?";
inline constexpr const char* select_paused = "SELECT queue, paused_at, paused_by FROM paused_queues ORDER BY queue";

// -- tokens -----------------------------------------------------------------------------------------------------------

inline constexpr const char* insert_token =
  "INSERT INTO tokens (name, digest, scopes, created_at, created_by, expires_at, rate_limit) "
  "VALUES (?, ?, ?, ?, ?, ?, ?)";
/// The unique index on name.
inline constexpr const char* count_token_name = "SELECT count(*) FROM tokens WHERE name = ?";
/// By rowid.
inline constexpr const char* remove_token = "DELETE FROM tokens WHERE id = ?";
/// By rowid.
inline constexpr const char* touch_token =
  "UPDATE tokens SET last_used_at = ?2 WHERE id = ?1 AND (last_used_at IS NULL OR last_used_at < ?2)";

// -- webhooks ---------------------------------------------------------------------------------------------------------

/// The unique index on project; a job has one only once.
inline constexpr const char* put_webhook =
  "INSERT INTO webhooks (project, job, url, secret, events, created_at) VALUES (?, ?, ?, ?, ?, ?) "
  "ON CONFLICT (project) DO UPDATE SET url = excluded.url, secret = excluded.secret, events = excluded.events, "
  "created_at = excluded.created_at";
/// A retried job (?1) has the secret of the first (?2). The unique index on job, twice.
inline constexpr const char* copy_webhook_secret =
  "UPDATE webhooks SET secret = (SELECT secret FROM webhooks WHERE job = ?2) WHERE job = ?1";
inline constexpr const char* remove_webhook = "DELETE FROM webhooks WHERE project = ?";
/// By rowid. With other tries than were read, a redelivery was asked for meanwhile.
inline constexpr const char* note_delivery =
  "UPDATE deliveries SET state = ?2, tries = tries + 1, last_at = ?3, status = ?4, failure = ?5, next_at = ?6 "
  "WHERE id = ?1 AND state = 'pending' AND tries = ?7";
/// By rowid, twice: nobody asks for what was told of a job that is gone.
inline constexpr const char* forget_delivery =
  "DELETE FROM deliveries WHERE id = ?1 AND next_at IS NULL AND NOT EXISTS "
  "(SELECT 1 FROM jobs WHERE jobs.id = deliveries.job)";
/// By rowid.
inline constexpr const char* redeliver =
  "UPDATE deliveries SET state = 'pending', tries = 0, next_at = ?2 WHERE id = ?1";

// -- reading ----------------------------------------------------------------------------------------------------------

/// By rowid, twice.
inline constexpr const char* select_job = "SELECT " KCX_JOB_COLUMNS " FROM jobs j " KCX_JOB_TABLES " WHERE j.id = ?";
/// By primary key.
inline constexpr const char* select_steps =
  "SELECT step, state, exit_code, signal, started_at, finished_at FROM steps WHERE job = ? AND attempt = ? "
  "ORDER BY step";
/// By rowid.
inline constexpr const char* select_log = "SELECT state, attempt, log_bytes, log_cut FROM jobs WHERE id = ?";
/// The highest id ever given: what is not above it and not there was removed.
inline constexpr const char* raise_highest_id = "UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'jobs'";
inline constexpr const char* insert_highest_id = "INSERT INTO sqlite_sequence (name, seq) VALUES ('jobs', ?1)";
inline constexpr const char* page_count = "PRAGMA page_count";
inline constexpr const char* select_highest_id = "SELECT seq FROM sqlite_sequence WHERE name = 'jobs'";
inline constexpr const char* select_node_id = "SELECT node_id FROM node";

} // namespace kcx::sqlite::sql
