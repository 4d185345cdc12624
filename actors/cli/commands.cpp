#include "actors/cli/commands.hpp"

#include "actors/cli/command_support.hpp"
#include "actors/cli/exit_code.hpp"
#include "actors/cli/follow/events.hpp"
#include "actors/cli/jobs/artifact_commands.hpp"
#include "actors/cli/jobs/job_commands.hpp"
#include "actors/cli/jobs/job_list.hpp"
#include "actors/cli/jobs/queue_commands.hpp"
#include "actors/cli/jobs/run_commands.hpp"
#include "actors/cli/jobs/webhook_commands.hpp"
#include "actors/cli/line/completion.hpp"
#include "actors/cli/node/node_commands.hpp"
#include "actors/cli/node/tokens.hpp"

#include <iostream>

namespace kcx::cli {

int carry_out(const invocation& what) {
  switch (what.what) {
  case verb::run: return run_jobs(what);
  case verb::submit: return submit_jobs(what);
  case verb::status: return show_status(what);
  case verb::logs: return print_logs(what);
  case verb::wait: return wait_for_jobs(what);
  case verb::artifacts: return show_artifacts(what);
  case verb::cancel: return cancel_jobs(what);
  case verb::events: return follow_events(what);
  case verb::list: return list_jobs(what, "/v1/jobs", "no jobs\n");
  case verb::webhook_set: return set_webhook(what);
  case verb::webhook_list: return list_webhooks(what);
  case verb::webhook_remove: return remove_webhook(what);
  case verb::deliveries_list: return list_deliveries(what);
  case verb::deliveries_redeliver: return redeliver(what);
  case verb::token_create: return token_create(what);
  case verb::token_list: return token_list(what);
  case verb::token_revoke: return token_revoke(what);
  case verb::node_status: return node_status(what);
  case verb::dashboard: return dashboard_address(what);
  case verb::node_drain: return node_drain(what);
  case verb::retry: return retry_jobs(what);
  case verb::remove: return remove_jobs(what);
  case verb::why: return explain(what);
  case verb::change: return change(what);
  case verb::dead_letters_list: return list_jobs(what, "/v1/dead-letters", "no dead letters\n");
  case verb::dead_letters_requeue:
  case verb::dead_letters_discard: return requeue_or_discard(what);
  case verb::queues: return list_queues(what);
  case verb::pause:
  case verb::resume: return pause_or_resume(what);
  case verb::cordon:
  case verb::uncordon: return cordon_or_uncordon(what);
  case verb::workers: return list_workers(what);
  case verb::node_backup: return node_backup(what);
  case verb::node_doctor: return node_doctor(what);
  case verb::node_slots: return change_slots(what);
  case verb::completion:
    std::cout << completion_script(what.shell, command_summaries());
    return flushed(exit_codes::success);
  }
  return exit_codes::usage;
}

} // namespace kcx::cli
