/// The statements that only readers run; see statements.hpp, which has those of the store and of both.
#pragma once

#include "storage/sqlite/statements.hpp"

namespace kcx::sqlite::sql {

// -- jobs -------------------------------------------------------------------------------------------------------------

/// By the unique index on (job, seq).
inline constexpr const char* select_history =
  "SELECT at, state, reason, cause, attempt, worker FROM history WHERE job = ? ORDER BY seq";
/// Needs of a job that have not ended. One that it also replaces stands there twice, and its own condition (the highest
/// by name) tells more. open_needs_of, then by rowid.
inline constexpr const char* select_open_needs =
  "SELECT need, max(condition), state FROM open_needs JOIN jobs ON id = need WHERE job = ? GROUP BY need "
  "ORDER BY need LIMIT ?";
inline constexpr const char* count_open_needs = "SELECT count(DISTINCT need) FROM open_needs WHERE job = ?";
/// By rowid and primary key.
inline constexpr const char* select_held_back =
  "SELECT grp, group_limit, paused_at, paused_by FROM jobs LEFT JOIN paused_queues p ON p.queue = jobs.queue "
  "WHERE id = ?";

// -- counting ---------------------------------------------------------------------------------------------------------

/// jobs_final, alone.
inline constexpr const char* count_final =
  "SELECT state, count(*) FROM jobs WHERE state IN " KCX_FINAL_STATES " GROUP BY state";
/// jobs_ready, alone.
inline constexpr const char* count_queued = "SELECT count(*) FROM jobs WHERE state = 'queued'";
/// jobs_scheduled.
inline constexpr const char* count_scheduled = "SELECT count(*) FROM jobs WHERE state = 'scheduled'";
/// jobs_blocked, alone.
inline constexpr const char* count_blocked = "SELECT count(*) FROM jobs WHERE state = 'blocked'";
/// jobs_held.
inline constexpr const char* count_held =
  "SELECT state, count(*) FROM jobs WHERE state IN ('running', 'cancelling') GROUP BY state";
/// When the job at the head of a lane was queued: the oldest one is among the heads, unless priorities moved it, and
/// that is enough for a gauge. jobs_ready.
inline constexpr const char* select_lane_head =
  "SELECT queued_at FROM jobs INDEXED BY jobs_ready WHERE state = 'queued' AND project = ? AND queue = ? "
  "AND labels = ? ORDER BY order_key LIMIT 1";
/// jobs_ready, alone and in its order: a queue comes once for each project that has jobs in it.
inline constexpr const char* count_queued_by_queue =
  "SELECT queue, count(*) FROM jobs WHERE state = 'queued' GROUP BY project, queue";
/// jobs_ready, alone.
inline constexpr const char* count_lane =
  "SELECT count(*) FROM jobs WHERE state = 'queued' AND project = ? AND queue = ? AND labels = ?";
/// jobs_held.
inline constexpr const char* count_held_by_queue =
  "SELECT queue, count(*) FROM jobs WHERE state IN ('running', 'cancelling') GROUP BY queue";
/// jobs_held.
inline constexpr const char* count_held_of_queue =
  "SELECT count(*) FROM jobs INDEXED BY jobs_held WHERE state IN ('running', 'cancelling') AND queue = ?";
/// By primary key.
inline constexpr const char* select_pause = "SELECT paused_at, paused_by FROM paused_queues WHERE queue = ?";

// -- events -----------------------------------------------------------------------------------------------------------

/// Changes of all jobs behind a number and up to another. By rowid of history, then that of jobs; a missing filter is
/// NULL and does not filter.
inline constexpr const char* select_events =
  "SELECT h.number, h.job, j.name, j.project, j.queue, h.at, h.state, h.reason, h.cause, h.attempt, h.worker "
  "FROM history h CROSS JOIN jobs j ON j.id = h.job WHERE h.number > ?1 AND h.number <= ?2 "
  "AND (?3 IS NULL OR j.project = ?3) AND (?4 IS NULL OR j.queue = ?4) ORDER BY h.number LIMIT ?5";
/// The same of one job. By the unique index on (job, seq).
inline constexpr const char* select_events_of_job =
  "SELECT h.number, h.job, j.name, j.project, j.queue, h.at, h.state, h.reason, h.cause, h.attempt, h.worker "
  "FROM history h CROSS JOIN jobs j ON j.id = h.job WHERE h.job = ?6 AND h.number > ?1 AND h.number <= ?2 "
  "AND (?3 IS NULL OR j.project = ?3) AND (?4 IS NULL OR j.queue = ?4) ORDER BY h.number LIMIT ?5";
/// The highest number ever given to a change.
inline constexpr const char* select_last_event = "SELECT seq FROM sqlite_sequence WHERE name = 'history'";

// -- tokens and webhooks ----------------------------------------------------------------------------------------------

inline constexpr const char* select_tokens =
  "SELECT id, name, digest, scopes, created_at, created_by, expires_at, rate_limit, last_used_at FROM tokens "
  "ORDER BY id";
inline constexpr const char* select_webhooks =
  "SELECT project, url, secret IS NOT NULL, events, created_at FROM webhooks WHERE project IS NOT NULL "
  "ORDER BY project";
/// The index on next_at.
inline constexpr const char* select_due_deliveries =
  "SELECT id, job, event, url, state, tries, created_at, next_at, last_at, status, failure, secret, "
  "version, name, project, queue, reason, message, attempt, exit_code, worker, retry_of "
  "FROM deliveries WHERE next_at <= ? ORDER BY next_at";
/// The same.
inline constexpr const char* select_next_delivery = "SELECT min(next_at) FROM deliveries WHERE next_at > ?";
/// By rowid; a missing filter is NULL.
inline constexpr const char* select_deliveries =
  "SELECT id, job, event, url, state, tries, created_at, next_at, last_at, status, failure FROM deliveries "
  "WHERE id < ?1 AND (?2 IS NULL OR state = ?2) ORDER BY id DESC LIMIT ?3";
/// The same of what was not delivered. deliveries_undelivered, in its order.
inline constexpr const char* select_undelivered =
  "SELECT id, job, event, url, state, tries, created_at, next_at, last_at, status, failure "
  "FROM deliveries INDEXED BY deliveries_undelivered "
  "WHERE state <> 'delivered' AND id < ?1 AND state = ?2 ORDER BY id DESC LIMIT ?3";
/// The same of one job. The index on job.
inline constexpr const char* select_deliveries_of_job =
  "SELECT id, job, event, url, state, tries, created_at, next_at, last_at, status, failure FROM deliveries "
  "WHERE job = ?4 AND id < ?1 AND (?2 IS NULL OR state = ?2) ORDER BY id DESC LIMIT ?3";

} // namespace kcx::sqlite::sql
