#include "actors/cli/line/job_options.hpp"

#include "actors/cli/line/option_kinds.hpp"

#include <charconv>

namespace kcx::cli {

namespace {

void add_size(CLI::App& to, const char* name, std::optional<std::int64_t>& target, const char* description) {
  add_value(
    to, name, "SIZE", description, target, [](const std::string& text) { return parse_size(text); },
    "a size such as 64K or 32M");
}

void add_place_options(CLI::App& to, job_flags& job) {
  add_text(to, "--shell", "LINE", job.shell, "Run LINE by /bin/sh -c");
  add_text(to, "-n,--name", "NAME", job.name, "Name of the job");
  add_text(to, "-p,--project", "NAME", job.project, "Project it belongs to; projects share the workers fairly");
  add_text(to, "-q,--queue", "NAME", job.queue, "Queue it waits in");
  add_texts(to, "-l,--label", "LABEL", job.labels, "Run only on workers that have LABEL");
  add_texts(to, "-e,--env", "KEY[=VALUE]", job.env, "Set a variable; without a value, to the one it has here");
  add_texts(to, "--env-file", "FILE", job.env_files, "Set the variables of a file with lines KEY=VALUE");
  add_secret_options(to, job);
  add_text(to, "--metadata", "JSON", job.metadata, "A JSON object kept with the job");
  add_text(to, "-C,--working-dir", "DIR", job.working_dir, "Directory to run in; a fresh workspace unless given");
  add_choice(to, "--keep-workspace", "WHEN", job.keep_workspace, {"never", "on_failure", "always"},
             "Keep the workspace: never, on_failure or always");
  add_texts(to, "--artifact", "GLOB", job.artifacts,
            "Keep what of the workspace matches, as \"dist\" or \"reports/**/*.xml\"");
  add_text(to, "--webhook", "URL", job.webhook, "Tell this address how the job ends");
  add_text(to, "--user", "ACCOUNT", job.user, "Run as this account; only a node of root can");
}

void add_order_options(CLI::App& to, job_flags& job) {
  add_number(to, "--priority", job.priority, "From -100 to 100; higher runs earlier [0]");
  add_number(to, "--weight", job.weight, "Slots it takes [1]");
  add_text(to, "--run-at", "TIME", job.run_at, "Not before this time, as 2026-01-31T12:00:00Z");
  add_number(to, "--max-attempts", job.max_attempts, "Try up to N times [1]");
  add_texts(to, "--retry-on", "REASON", job.retry_on, "Try again only after this reason");
  add_duration(to, "--backoff", job.backoff, "Time before the second attempt [5s]");
  add_texts(to, "--need", "ID[:WHEN]", job.needs,
            "Run after job ID ended; WHEN it must have: success, failure or always [success]");
  add_text(to, "-g,--group", "NAME", job.group, "Jobs of one group run in order, one at a time");
  add_number(to, "--group-limit", job.group_limit, "Jobs of the group at once [1]");
  add_choice(to, "--supersede", "WHICH", job.supersede, {"none", "queued", "running"},
             "Cancel older jobs of the group: queued, or running ones too [none]");
  add_text(to, "--idempotency-key", "KEY", job.idempotency_key,
           "Sent again with the same KEY, it is not submitted twice");
  add_text(to, "--unique-key", "KEY", job.unique_key, "At most one unfinished job has KEY");
  add_choice(to, "--on-conflict", "WHAT", job.on_conflict, {"reject", "return", "replace"},
             "When an unfinished job has the key: reject, return (that job) or replace (it) [reject]");
  add_choice(to, "--on-interrupt", "WHAT", job.on_interrupt, {"fail", "requeue"},
             "When its worker or node dies: fail or requeue [fail]");
  add_number(to, "--max-interrupts", job.max_interrupts, "Queue it again at most N times after interrupts [3]");
}

/// The system counts no parts of a second.
std::optional<std::int64_t> parse_whole_seconds(const std::string& text) {
  const auto time = parse_duration(text);
  if (!time || time->count() % 1'000 != 0)
    return std::nullopt;
  return time->count() / 1'000;
}

std::optional<double> parse_cpus(const std::string& text) {
  double number = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = wrong == std::errc{} && end == text.data() + text.size();
  return whole && number >= 0.01 && number <= 1'024 ? std::optional{number} : std::nullopt;
}

void add_limit_options(CLI::App& to, job_flags& job) {
  add_duration(to, "-t,--time-limit", job.time_limit, "End it after this long");
  add_duration(to, "--no-output-limit", job.no_output_limit, "End it when it printed nothing for this long");
  add_duration(to, "--wait-limit", job.wait_limit, "Give it up when it did not start within this time");
  add_duration(to, "--cancel-grace", job.cancel_grace, "Time between SIGTERM and SIGKILL when it is ended [10s]");
  add_size(to, "--log-limit", job.log_limit_bytes, "Log kept of each attempt");
  add_size(to, "--limit-memory", job.memory_bytes,
           "Memory of all its processes, or of each where no cgroup counts them");
  add_value(to, "--limit-cpu", "DURATION", "Processor time of each of its processes, in whole seconds", job.cpu_s,
            parse_whole_seconds, "a duration of whole seconds such as 10s or 2m");
  add_value(to, "--limit-cpus", "N", "CPUs that all its processes use at any time, as 1.5; needs a cgroup", job.cpus,
            parse_cpus, "a number of CPUs from 0.01 to 1024");
  add_number(to, "--limit-open-files", job.open_files, "Open files of each of its processes [1024]");
  add_number(to, "--limit-processes", job.processes,
             "Its processes, or those of its account where no cgroup counts them");
  add_size(to, "--limit-file", job.file_bytes, "Size of a file it writes");
}

std::optional<shown_logs> parse_shown_logs(const std::string& text) {
  if (text == "none")
    return shown_logs::none;
  if (text == "all")
    return shown_logs::all;
  return text == "failed" ? std::optional{shown_logs::failed} : std::nullopt;
}

} // namespace

void add_secret_options(CLI::App& to, job_flags& job) {
  add_texts(to, "--secret", "NAME", job.secrets,
            "Give it the variable NAME of this environment as a secret: masked in its log, never shown");
  add_texts(to, "--secret-file", "NAME=FILE", job.secret_files,
            "The same from a file, \"-\" for standard input; a newline at its end is left out");
}

void add_job_options(CLI::App& to, job_flags& job) {
  add_place_options(to, job);
  add_order_options(to, job);
  add_limit_options(to, job);
}

void add_submission_options(CLI::App& to, invocation& what) {
  to.add_option_function<std::string>(
      "FILE", [&what](const std::string& file) { what.job.file = file; },
      "A job, an array of jobs or a pipeline as JSON or YAML, \"-\" for standard input; options win over it")
    ->type_name("");
  to.add_flag("--dry-run", what.run.dry_run, "Print what would be submitted, secrets hidden, and submit nothing");
}

void add_run_options(CLI::App& to, run_flags& run) {
  add_value(to, "--logs", "WHOSE", "Of several jobs, print the log of: failed (its end), all or none [failed]",
            run.logs, parse_shown_logs, "failed, all or none");
  to.add_flag("--fail-fast", run.fail_fast, "Cancel all jobs as soon as one of them did not succeed");
}

} // namespace kcx::cli
