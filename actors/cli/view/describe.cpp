#include "actors/cli/view/describe.hpp"

#include "actors/cli/view/text.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace kcx::cli {

namespace {

using nlohmann::json;

const json& at(const json& object, std::string_view key) {
  static const json nothing;
  if (!object.is_object())
    return nothing;
  auto found = object.find(key);
  return found == object.end() ? nothing : *found;
}

/// One value as it reads in a sentence; "-" for null.
std::string text(const json& value) {
  if (value.is_string())
    return visible(value.get_ref<const std::string&>());
  if (value.is_null())
    return "-";
  return visible(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string text(const json& object, std::string_view key) {
  return text(at(object, key));
}

/// "2026-01-01 00:00:00Z" for the API's RFC 3339 with milliseconds.
std::string time_text(const json& object, std::string_view key) {
  auto shown = text(object, key);
  if (shown.size() < 20 || shown[10] != 'T')
    return shown;
  return shown.substr(0, 10) + ' ' + shown.substr(11, 8) + 'Z';
}

std::string seconds_text(const json& object, std::string_view key) {
  const auto& value = at(object, key);
  return value.is_number() ? duration_text(value.get<double>()) : "-";
}

/// Who cancelled it, or in words what did; empty where that is not known.
std::string who_cancelled(const json& job) {
  if (at(job, "reason") != "cancelled_by" || !at(job, "message").is_string())
    return {};
  const auto who = text(job, "message");
  // Of a person or a program the message is the name of its token; else a sentence: "superseded by job 7 of its group".
  return who.find(' ') == std::string::npos ? "by " + who : who;
}

std::string quoted(const std::string& word) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@%+";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos)
    return word;
  std::string out = "'";
  for (char c : word)
    out += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return out + '\'';
}

std::string elapsed_text(const json& step) {
  const auto& started = at(step, "started_at");
  const auto& finished = at(step, "finished_at");
  if (!started.is_string() || !finished.is_string())
    return {};
  // Both are of one form and mostly of one day; the difference of their clock times is enough here.
  auto seconds = [](const std::string& time) {
    if (time.size() < 23)
      return -1.0;
    auto digit = [&](std::size_t i) { return static_cast<double>(time[i] - '0'); };
    return ((digit(11) * 10 + digit(12)) * 60 + digit(14) * 10 + digit(15)) * 60 + digit(17) * 10 + digit(18) +
           digit(20) / 10 + digit(21) / 100 + digit(22) / 1000;
  };
  auto from = seconds(started.get<std::string>());
  auto to = seconds(finished.get<std::string>());
  if (from < 0 || to < 0)
    return {};
  return duration_text(to >= from ? to - from : to - from + 86'400);
}

std::string title(const json& job) {
  auto name = text(job, "name");
  return "job " + text(job, "id") + (name.empty() || name == "-" ? "" : ' ' + name);
}

void add(std::string& out, std::string_view label, const std::string& value) {
  if (value.empty() || value == "-" || value == "[]" || value == "{}")
    return;
  out += "  " + std::string{label} + std::string(label.size() < 10 ? 11 - label.size() : 1, ' ') + value + '\n';
}

std::string joined(const json& list) {
  std::string out;
  for (const auto& each : list)
    out += (out.empty() ? "" : ", ") + text(each);
  return out;
}

std::string steps_table(const json& steps, look how) {
  table shown{{"STEP", "NAME", "STATE", "TIME", "COMMAND"}, {}, {1, 4}};
  for (const auto& step : steps) {
    auto number = at(step, "index").is_number() ? std::to_string(at(step, "index").get<std::int64_t>() + 1) : "-";
    shown.rows.push_back({{number},
                          {text(step, "name")},
                          {state_text(step), colour_of(text(step, "state"))},
                          {elapsed_text(step)},
                          {command_text(at(step, "command"))}});
  }
  return render(shown, how.width, how.colours);
}

std::string history_table(const json& history, look how) {
  table shown{{"AT", "STATE", "REASON", "ATTEMPT", "WORKER"}, {}, {}};
  for (const auto& line : history)
    shown.rows.push_back({{time_text(line, "at")},
                          {text(line, "state"), colour_of(text(line, "state"))},
                          {text(line, "reason")},
                          {text(line, "attempt")},
                          {text(line, "worker")}});
  return render(shown, how.width, how.colours);
}

} // namespace

std::string cause_text(const json& job) {
  const auto& state = at(job, "state");
  const auto& reason = at(job, "reason");
  if (state == "succeeded")
    return {};
  if (auto who = who_cancelled(job); !who.empty())
    return who;
  // What KCX ended was ended by a signal, too, and then the reason is what matters.
  const bool own_end = reason.is_string() ? reason == "exit_code" || reason == "signal" : state == "failed";
  if (own_end && at(job, "signal").is_string())
    return text(job, "signal");
  if (const auto& code = at(job, "exit_code"); own_end && code.is_number() && code != 0)
    return "exit code " + text(code);
  return reason.is_string() ? text(reason) : std::string{};
}

std::string state_text(const json& job) {
  auto state = text(job, "state");
  auto cause = cause_text(job);
  if (state == "cancelled" && cause.starts_with("by "))
    return state + ' ' + cause;
  return cause.empty() ? state : state + " (" + cause + ')';
}

std::string command_text(const json& command) {
  if (!command.is_array())
    return text(command);
  std::string line;
  for (const auto& word : command)
    line += (line.empty() ? "" : " ") + (word.is_string() ? quoted(word.get<std::string>()) : text(word));
  return visible(line);
}

std::string job_summary(const json& job) {
  auto line = title(job) + ": " + state_text(job);
  if (at(job, "duration_s").is_number())
    line += " after " + seconds_text(job, "duration_s");
  return at(job, "message").is_string() && who_cancelled(job).empty() ? line + ": " + text(job, "message") : line;
}

namespace {

/// "12, 13 (always, with artifacts)".
std::string needs_text(const json& needs) {
  std::string out;
  for (const auto& need : needs) {
    const auto& when = at(need, "if");
    auto how = when.is_string() && when != "success" ? text(when) : std::string{};
    if (at(need, "artifacts") == true)
      how += (how.empty() ? "" : ", ") + std::string{"with artifacts"};
    out += (out.empty() ? "" : ", ") + text(need, "id") + (how.empty() ? "" : " (" + how + ')');
  }
  return out;
}

/// An array of names, or an object whose keys are names.
std::string names_text(const json& names) {
  if (!names.is_object())
    return names.is_array() ? joined(names) : std::string{};
  std::string out;
  for (const auto& [name, value] : names.items())
    out += (out.empty() ? "" : ", ") + visible(name);
  return out;
}

void add_size(std::string& out, std::string_view label, const json& bytes) {
  if (bytes.is_number())
    add(out, label, size_text(bytes.get<double>()));
}

void add_limits(std::string& out, const json& job) {
  for (const auto& [key, label] : {std::pair{"time_limit_s", "time limit"},
                                   {"no_output_limit_s", "no-output limit"},
                                   {"wait_limit_s", "wait limit"}})
    add(out, label, seconds_text(job, key));
  const auto& limits = at(job, "limits");
  add_size(out, "memory limit", at(limits, "memory_bytes"));
  add(out, "CPU time limit", seconds_text(limits, "cpu_s"));
  add(out, "CPU limit", text(limits, "cpus"));
  add(out, "process limit", text(limits, "processes"));
  add(out, "open files limit", text(limits, "open_files"));
  add_size(out, "file limit", at(limits, "file_bytes"));
  add_size(out, "log limit", at(job, "log_limit_bytes"));
}

/// What holds it back, or orders it among others.
void add_order(std::string& out, const json& job) {
  add(out, "priority", at(job, "priority") == 0 ? "" : text(job, "priority"));
  add(out, "weight", at(job, "weight") == 1 ? "" : text(job, "weight"));
  const bool blocked = at(job, "state") == "blocked";
  const auto needs = needs_text(at(job, "needs"));
  add(out, blocked ? "waits for" : "needs", needs.empty() ? "" : (blocked ? "the end of " : "") + needs);
  const auto& most = at(job, "group_limit");
  add(out, "group",
      text(job, "group") + (most.is_number() && most != 1 ? ", " + text(most) + " at once" : std::string{}));
  add(out, "unique key", text(job, "unique_key"));
}

/// What it left.
void add_results(std::string& out, const json& job) {
  const auto cut = [](const json& of, const char* words) { return at(of, "cut") == true ? words : ""; };
  if (const auto& log = at(job, "log"); at(log, "bytes").is_number())
    add(out, "log", size_text(at(log, "bytes").get<double>()) + cut(log, ", its middle cut"));
  const auto& kept = at(job, "artifacts_kept");
  if (at(kept, "files").is_number_integer() && at(kept, "bytes").is_number() && at(kept, "files") != 0)
    add(out, "artifacts",
        counted(at(kept, "files").get<std::int64_t>(), "file") + " of " + size_text(at(kept, "bytes").get<double>()) +
          cut(kept, ", some left out"));
  if (const auto& outputs = at(job, "outputs"); outputs.is_object())
    for (const auto& [key, value] : outputs.items())
      add(out, "output", visible(key) + '=' + text(value));
}

std::vector<cell> job_row(const json& job, bool with_project, bool with_queue) {
  const auto name = text(job, "name");
  std::vector<cell> row{{text(job, "id")},
                        {name.empty() ? command_text(at(job, "command")) : name},
                        {state_text(job), colour_of(text(job, "state"))},
                        {time_text(job, "created_at").substr(0, 16)},
                        {seconds_text(job, "duration_s")}};
  if (with_project)
    row.push_back({text(job, "project")});
  if (with_queue)
    row.push_back({text(job, "queue")});
  return row;
}

} // namespace

std::string job_text(const json& job, look how) {
  auto state = state_text(job);
  auto out = title(job) + ": " + painted(state, how.colours ? colour_of(text(job, "state")) : colour::none) + '\n';
  add(out, "message", who_cancelled(job).empty() ? text(job, "message") : "");
  add(out, "project", text(job, "project"));
  add(out, "queue", text(job, "queue"));
  add(out, "labels", joined(at(job, "labels")));
  add(out, "command", command_text(at(job, "command")));
  add(out, "user", text(job, "user"));
  add(out, "secrets", names_text(at(job, "secrets")));
  add_order(out, job);
  add_limits(out, job);
  // An attempt that was interrupted and queued again is not counted among those allowed.
  const auto& attempt = at(job, "attempt");
  const auto& most = at(job, "max_attempts");
  auto attempts =
    text(attempt) + (attempt.is_number() && most.is_number() && attempt > most ? "" : " of " + text(most));
  add(out, "attempt", at(job, "worker").is_string() ? attempts + ", on " + text(job, "worker") : attempts);
  add(out, "created", time_text(job, "created_at"));
  add(out, "run at", time_text(job, "run_at"));
  add(out, "started", time_text(job, "started_at"));
  add(out, "finished", time_text(job, "finished_at"));
  add(out, "duration", seconds_text(job, "duration_s"));
  add_results(out, job);
  add(out, "retry of", text(job, "retry_of"));
  add(out, "metadata", text(job, "metadata"));
  if (const auto& steps = at(job, "steps"); steps.is_array() && !steps.empty())
    out += '\n' + steps_table(steps, how);
  if (const auto& history = at(job, "history"); history.is_array() && !history.empty())
    out += '\n' + history_table(history, how);
  return out;
}

std::string jobs_table::add(const json& items) {
  if (!items.is_array() || items.empty())
    return {};
  // A column that says "default" everywhere only takes room from the name.
  auto varies = [&](std::string_view key) {
    return std::any_of(items.begin(), items.end(), [&](const json& job) { return at(job, key) != "default"; });
  };
  const bool projects = projects_ || varies("project");
  const bool queues = queues_ || varies("queue");
  if (projects != std::exchange(projects_, projects) || queues != std::exchange(queues_, queues))
    widths_.clear();
  table shown{{"ID", "NAME", "STATE", "CREATED (UTC)", "TIME"}, {}, {1}, {2}};
  for (auto [wanted, column] : {std::pair{projects, "PROJECT"}, std::pair{queues, "QUEUE"}})
    if (wanted) {
      shown.flexible.push_back(shown.header.size());
      shown.header.emplace_back(column);
    }
  for (const auto& job : items)
    shown.rows.push_back(job_row(job, projects, queues));
  shown.headed = widths_.empty();
  shown.least = widths_;
  widths_ = natural_widths(shown);
  return render(shown, how_.width, how_.colours);
}

std::string workers_text(const json& items, look how) {
  if (!items.is_array() || items.empty())
    return "no workers\n";
  table shown{{"WORKER", "STATE", "JOB", "RUNNER"}, {}, {}};
  for (const auto& worker : items)
    shown.rows.push_back({{text(worker, "name")},
                          {text(worker, "state") + (at(worker, "cordoned") == true ? ", cordoned" : "")},
                          {text(worker, "job")},
                          {text(worker, "runner_pid")}});
  return render(shown, how.width, how.colours);
}

std::string artifacts_text(const json& items, look how) {
  if (!items.is_array() || items.empty())
    return "no artifacts\n";
  table shown{{"PATH", "SIZE", "MODIFIED"}, {}, {0}};
  for (const auto& item : items) {
    const auto& bytes = at(item, "bytes");
    shown.rows.push_back({{text(item, "path")},
                          {bytes.is_number() ? size_text(bytes.get<double>()) : "-"},
                          {time_text(item, "modified_at")}});
  }
  return render(shown, how.width, how.colours);
}

std::string problem_text(unsigned status, const std::string& body) {
  auto problem = json::parse(body, nullptr, false);
  if (!at(problem, "title").is_string()) {
    auto words = shortened(visible(body), 500);
    return "the node answered with HTTP status " + std::to_string(status) + (words.empty() ? "" : ": " + words) + '\n';
  }
  auto out = text(problem, "title");
  if (at(problem, "detail").is_string())
    out += ": " + text(problem, "detail");
  out += " [" + text(problem, "code") + ", HTTP " + std::to_string(status) + "]\n";
  if (const auto& fields = at(problem, "errors"); fields.is_array())
    for (const auto& field : fields) {
      auto pointer = text(field, "pointer");
      out += "  " + (pointer.empty() ? "(the whole document)" : pointer) + ": " + text(field, "detail") + '\n';
    }
  return out;
}

std::string node_text(const json& node, look how) {
  auto out = "kcx-node " + text(node, "version") + ", process " + text(node, "pid") + ": " + text(node, "state") + '\n';
  add(out, "started", time_text(node, "started_at"));
  add(out, "data", text(node, "data_dir"));
  add(out, "http", text(node, "http"));
  add(out, "inspect", text(node, "inspect"));
  add(out, "slots", text(node, "slots"));
  std::string jobs;
  for (const auto& [state, count] : at(at(node, "stats"), "jobs").items())
    if (count.is_number() && count != 0)
      jobs += (jobs.empty() ? "" : ", ") + text(count) + ' ' + visible(state);
  add(out, "jobs", jobs.empty() ? "none" : jobs);
  return out + '\n' + workers_text(at(node, "workers"), how);
}

std::string step_text(const json& step, std::size_t count) {
  auto number = at(step, "index").is_number() ? std::to_string(at(step, "index").get<std::int64_t>() + 1) : "-";
  auto line = "step " + number + '/' + std::to_string(count) + ' ' + text(step, "name") + ": " + state_text(step);
  auto elapsed = elapsed_text(step);
  return elapsed.empty() ? line : line + ", " + elapsed;
}

} // namespace kcx::cli
