/// The commands about queues, what waits, what has ended, and who takes work. Each does all of its work and returns the
/// exit code, as carry_out() does.
#pragma once

#include "actors/cli/line/command_line.hpp"

namespace kcx::cli {

int retry_jobs(const invocation& what);
int remove_jobs(const invocation& what);
int explain(const invocation& what);
int change(const invocation& what);
/// Cancels what --state, --project … name.
int cancel_matching(const invocation& what);
int requeue_or_discard(const invocation& what);
int list_queues(const invocation& what);
int pause_or_resume(const invocation& what);
int cordon_or_uncordon(const invocation& what);
int list_workers(const invocation& what);
int change_slots(const invocation& what);

} // namespace kcx::cli
