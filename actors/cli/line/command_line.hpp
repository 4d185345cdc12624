/// The command line of kcx, read into values. The one place that names subcommands and options; help and shell
/// completions come from it.
#pragma once

#include "actors/cli/jobs/job_document.hpp"
#include "actors/cli/node_client.hpp"
#include "config/error.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kcx::cli {

enum class verb : std::uint8_t {
  run,
  submit,
  status,
  logs,
  wait,
  artifacts,
  cancel,
  events,
  list,
  retry,
  remove,
  why,
  change,
  dead_letters_list,
  dead_letters_requeue,
  dead_letters_discard,
  queues,
  pause,
  resume,
  cordon,
  uncordon,
  workers,
  webhook_set,
  webhook_list,
  webhook_remove,
  deliveries_list,
  deliveries_redeliver,
  token_create,
  token_list,
  token_revoke,
  node_status,
  node_drain,
  dashboard,
  node_slots,
  node_backup,
  node_doctor,
  completion,
};

struct log_flags {
  bool follow = false;
  bool timestamps = false;
  std::optional<std::int32_t> attempt;
  std::optional<std::uint64_t> tail;
};

struct list_flags {
  std::vector<std::string> states;
  std::string project;
  std::string queue;
  std::string name;
  std::string label;
  std::string group;
  std::int64_t limit = 50;

  /// One of the filters is given.
  [[nodiscard]] bool given() const {
    return !(states.empty() && project.empty() && queue.empty() && name.empty() && label.empty() && group.empty());
  }
};

/// Whose log `kcx run` prints of several jobs, once a job ended; each line stands behind the job's name.
enum class shown_logs : std::uint8_t {
  none,
  /// The last 50 lines of what failed, timed out or was interrupted.
  failed,
  /// All of every job, attempt after attempt.
  all,
};

struct run_flags {
  /// Print what would be sent instead.
  bool dry_run = false;
  shown_logs logs = shown_logs::failed;
  bool fail_fast = false;
};

struct artifact_flags {
  /// Where to put them; empty: only list them.
  std::string directory;
  /// Files, or directories with all below them; empty: all.
  std::vector<std::string> paths;
};

struct backup_flags {
  /// The directory to make.
  std::string target;
  bool no_logs = false;
  bool no_artifacts = false;
};

struct token_flags {
  std::string name;
  std::vector<std::string> scopes;
  std::optional<std::chrono::milliseconds> expires_in;
  std::optional<std::int32_t> rate_limit;
};

/// Of webhook and deliveries.
struct webhook_flags {
  std::string project;
  std::string url;
  std::string secret_file;
  /// States of jobs; empty: the node's default.
  std::vector<std::string> events;
  /// Of deliveries.
  std::optional<std::string> state;
};

/// Everything the command line said.
struct invocation {
  /// Not empty if --help, --man or --version was asked for: print it and exit with 0.
  std::string answer;

  verb what = verb::status;
  node_location where;
  bool json = false;
  bool quiet = false;
  /// How long to try to reach a node that went away.
  std::chrono::milliseconds patience{60'000};

  job_flags job;
  run_flags run;
  /// Of all that name jobs.
  std::vector<std::int64_t> ids;
  log_flags log;
  artifact_flags artifacts;
  /// Of list, and of those that mean many jobs at once.
  list_flags list;
  /// Of pause, resume, cordon and uncordon (one).
  std::vector<std::string> names;
  /// Of dead-letters: whatever they are.
  bool all = false;
  std::optional<std::int32_t> slots;
  backup_flags backup;
  webhook_flags webhook;
  /// Of token create.
  token_flags token;
  /// Of wait: give up after this long.
  std::optional<std::chrono::milliseconds> timeout;
  /// Of completion: "bash", "zsh" or "fish".
  std::string shell;
};

/// Reads the arguments without the program's name. Words after "--" are the job's command, untouched, or paths of
/// artifacts. The environment is not looked at. Fails with ec::invalid_setting: the message says what is wrong and
/// which --help tells more.
[[nodiscard]] expected<invocation> parse_command_line(const std::vector<std::string>& arguments);

/// A subcommand or option as a completion script needs it.
struct option_summary {
  /// Every spelling with its dashes, e.g. {"-f", "--follow"}.
  std::vector<std::string> names;
  std::string description;
  bool takes_value = false;
  /// The path of its subcommand: a name may mean something else after another one.
  std::string of = {};
};
struct command_summary {
  /// "run", or "node status"; empty for kcx itself.
  std::string path;
  std::string description;
  std::vector<option_summary> options;
  /// Its argument is a file.
  bool takes_file = false;
};

/// kcx itself first, then every subcommand in the order of --help. Options of kcx itself may stand after any.
[[nodiscard]] std::vector<command_summary> command_summaries();

} // namespace kcx::cli
