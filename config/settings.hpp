/// The settings of `kcx-node`: from the command line, then from the file named by --config, then the defaults.
///
/// Every setting is one row of a table in setting_table.cpp: its name is both the long option and the key in the file.
/// config/node.ini describes the same settings; a test compares the two.
#pragma once

#include "config/error.hpp"
#include "config/units.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kcx {

/// From here on upwards entries are written.
enum class log_level : std::uint8_t { debug, info, warning, error };
[[nodiscard]] std::string_view to_string(log_level level) noexcept;
[[nodiscard]] std::optional<log_level> parse_log_level(std::string_view text) noexcept;

/// 30 days; 90 for jobs that somebody may want to look into.
[[nodiscard]] std::map<std::string, std::chrono::milliseconds> default_keep();

/// A complete and checked set. The members' initial values are the defaults.
struct settings {
  std::filesystem::path data = "./kcx-data";
  endpoint http{"127.0.0.1", 7070};
  endpoint inspect{"127.0.0.1", 7071};
  /// Allows addresses other hosts can reach without TLS.
  bool insecure = false;
  /// Names that both ports answer to besides their own: "name" (any port) or "name:port".
  std::vector<std::string> allowed_hosts;
  /// Origins whose pages may use both ports besides their own, as "https://ci.example.org".
  std::vector<std::string> allowed_origins;
  /// With less than this free on the disk of `data`, no job is accepted or started. 0 switches the guard off.
  std::int64_t min_free = 16LL << 20;
  /// PEM files for TLS on both ports; both or none. Read at the start and at each SIGHUP.
  std::filesystem::path tls_certificate;
  std::filesystem::path tls_key;
  /// Requests per minute of a token that has no limit of its own; 0: no limit. The admin token has none.
  std::int32_t rate_limit = 0;
  /// After the first failure of a webhook; doubled with each further one.
  std::chrono::milliseconds webhook_backoff{10'000};
  /// Largest request body, in bytes.
  std::int64_t body_limit = 32LL << 20;

  /// Jobs that run at the same time, 1 … 1024; the number of cores unless given.
  std::int32_t slots = 1;
  /// Labels of this node's workers: they take jobs that ask for none but these. Sorted, each once.
  std::vector<std::string> labels;
  /// The program that leads each slot's processes; absolute.
  std::filesystem::path runner;
  /// Log bytes kept of an attempt whose job does not say.
  std::int64_t log_limit = 64LL << 20;
  /// How long a log is left as it is after its attempt has ended; then it is compressed.
  std::chrono::milliseconds compress_logs_after{60'000};
  /// Bytes kept of the workspace of an attempt whose job has artifacts.
  std::int64_t artifacts_limit = 1LL << 30;
  /// Whether limits of whole jobs are set by cgroup v2 where that is possible.
  bool cgroups = true;
  /// The account of jobs that name none; empty: the node's own. Only a node of root can have one.
  std::string job_user;

  /// How long SIGTERM lets running jobs go on before they are ended.
  std::chrono::milliseconds drain_timeout{60'000};
  /// When the node ends jobs: from SIGTERM to SIGKILL, unless the job's own cancel_grace_s is shorter.
  std::chrono::milliseconds stop_grace{2'000};

  /// How long a job stays listed after its end, by the name of its final state; a state that is missing, for ever.
  std::map<std::string, std::chrono::milliseconds> keep = default_keep();
  /// How many final jobs of a state stay listed, the newest ones; a state that is missing, all.
  std::map<std::string, std::int64_t> keep_count;

  /// Read-only database connections, each an actor with a thread, 1 … 64.
  std::int32_t readers = 2;
  /// Threads that all other actors share, 1 … 64.
  std::int32_t scheduler_threads = 2;
  /// By how much earlier one step of priority puts a job into the order; bounds how long a low priority waits.
  std::chrono::milliseconds ageing_step{60'000};

  log_level log = log_level::info;
  /// Enables POST /v1/node/faults: for tests of supervision only.
  bool fault_injection = false;

  /// Not empty if the command line asked for --help, --man or --version: print it to standard output and exit with 0.
  /// Nothing else was checked then.
  std::string answer;
};

/// What a user needs to know of one setting.
struct setting_info {
  /// Without dashes, e.g. "drain-timeout".
  std::string_view name;
  /// What stands for the value in help, e.g. "DURATION"; empty for a switch.
  std::string_view placeholder;
  /// As it would be written, or in words in brackets where it depends on the machine: "(number of cores)". Empty where
  /// there is none.
  std::string default_text;
  /// The values it takes, e.g. "a whole number from 1 to 64".
  std::string_view allowed;
  /// May be given several times.
  bool repeats = false;
};

/// Every setting, in the order of --help and node.ini.
[[nodiscard]] std::vector<setting_info> known_settings();

/// Reads command line and file. Fails with ec::invalid_setting: the message names the option (with file and line where
/// it came from a file), the value and what is allowed. Starts nothing, creates nothing.
[[nodiscard]] expected<settings> parse_settings(int argc, const char* const* argv);

} // namespace kcx
