#include "actors/cli/pipeline/progress.hpp"

#include "actors/cli/exit_code.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace kcx::cli {

namespace {

using nlohmann::json;

std::string state_of(const json& job) {
  const auto found = job.is_object() ? job.find("state") : job.end();
  return job.is_object() && found != job.end() && found->is_string() ? found->get<std::string>()
                                                                     : std::string{"unknown"};
}

bool runs(const std::string& state) {
  return state == "running" || state == "cancelling";
}

/// Which skipped jobs were meant to be: found out from the needs, each job once.
class plan_check {
public:
  plan_check(const pipeline& what, const job_states& jobs) : what_{what}, jobs_{jobs}, known_(jobs.size(), -1) {}

  bool skipped_as_planned(std::size_t job) {
    auto& known = known_[job];
    if (known < 0) {
      known = 0;
      const auto& needs = what_.jobs[job].needs;
      if (state_of(jobs_[job]) == "skipped")
        known = std::any_of(needs.begin(), needs.end(), [&](const auto& need) { return excuses(need); }) ? 1 : 0;
    }
    return known == 1;
  }

private:
  bool excuses(const pipeline_need& need) {
    if (need.when == "failure" && state_of(jobs_[need.job]) == "succeeded")
      return true;
    return need.when != "always" && skipped_as_planned(need.job);
  }

  const pipeline& what_;
  const job_states& jobs_;
  /// -1: not known yet.
  std::vector<int> known_;
};

std::string elapsed(const json& job) {
  const auto seconds = job.is_object() ? job.find("duration_s") : job.end();
  return job.is_object() && seconds != job.end() && seconds->is_number() ? duration_text(seconds->get<double>())
                                                                         : std::string{};
}

std::string counts_text(const job_states& jobs) {
  constexpr std::array<std::string_view, 11> order{"succeeded",   "failed",  "timed_out", "cancelled",
                                                   "interrupted", "skipped", "running",   "cancelling",
                                                   "queued",      "blocked", "scheduled"};
  std::map<std::string, std::size_t> counts;
  for (const auto& job : jobs)
    ++counts[state_of(job)];
  std::string text;
  for (const auto state : order)
    if (const auto found = counts.find(std::string{state}); found != counts.end())
      text += (text.empty() ? "" : ", ") + std::to_string(found->second) + ' ' + found->first;
  return text;
}

/// The steps of a running job: "step 2/5 test".
std::string running_step(const json& job) {
  const auto steps = job.find("steps");
  if (steps == job.end() || !steps->is_array())
    return {};
  for (std::size_t i = 0; i < steps->size(); ++i)
    if (state_of((*steps)[i]) == "running")
      return "step " + std::to_string(i + 1) + '/' + std::to_string(steps->size()) + ' ' +
             visible((*steps)[i].value("name", json{}).is_string() ? (*steps)[i].value("name", "") : "");
  return {};
}

std::string waits_for(const pipeline& what, const job_states& jobs, std::size_t job) {
  std::string names;
  std::size_t others = 0;
  for (const auto& need : what.jobs[job].needs)
    if (!is_final(jobs[need.job])) {
      if (names.empty())
        names = visible(what.jobs[need.job].name);
      else
        ++others;
    }
  if (names.empty())
    return {};
  return "needs " + names + (others > 0 ? " and " + std::to_string(others) + " more" : "");
}

cell job_line(const pipeline& what, const job_states& jobs, std::size_t index, std::size_t name_width) {
  const auto& job = jobs[index];
  auto name = shortened(visible(what.jobs[index].name), name_width);
  auto line = "  " + name + std::string(name_width - columns(name) + 2, ' ');
  const auto state = state_of(job);
  line += job.is_object() ? state_text(job) : "waits";
  if (const auto time = elapsed(job); !time.empty())
    line += "  " + time;
  auto more = runs(state) ? running_step(job) : is_final(job) ? std::string{} : waits_for(what, jobs, index);
  if (!more.empty())
    line += "  " + more;
  return {line, runs(state) || is_final(job) ? colour_of(state) : colour::grey};
}

/// What is shown while there is not room for all; less is sooner.
int rank(const json& job) {
  const auto state = state_of(job);
  if (runs(state))
    return 0;
  if (!is_final(job))
    return state == "queued" ? 2 : 3;
  return state == "succeeded" || state == "skipped" ? 4 : 1;
}

} // namespace

bool needs_ended(const pipeline& what, const job_states& jobs, std::size_t job) {
  const auto& needs = what.jobs[job].needs;
  return std::all_of(needs.begin(), needs.end(), [&](const auto& need) { return is_final(jobs[need.job]); });
}

int exit_code_of(const pipeline& what, const job_states& jobs) {
  plan_check check{what, jobs};
  int skipped = exit_codes::success;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto code = exit_code_of(jobs[i]);
    if (code == exit_codes::success || check.skipped_as_planned(i))
      continue;
    if (state_of(jobs[i]) != "skipped")
      return code;
    skipped = code;
  }
  return skipped;
}

std::string progress_line(const pipeline_job& job, const json& state) {
  auto line = visible(job.name) + ": " + state_text(state);
  const auto id = state.find("id");
  if (!is_final(state) && id != state.end())
    return line + " (job " + id->dump() + ")";
  if (const auto time = elapsed(state); !time.empty())
    line += " after " + time;
  const auto message = state.find("message");
  // Who cancelled it stands there already.
  const bool told = state.value("reason", json{}) == "cancelled_by";
  return message != state.end() && message->is_string() && !told ? line + ": " + visible(message->get<std::string>())
                                                                 : line;
}

std::vector<cell> progress_block(const pipeline& what, const job_states& jobs, std::chrono::milliseconds since,
                                 look how) {
  const auto ended = std::count_if(jobs.begin(), jobs.end(), is_final);
  std::vector<cell> lines{{(what.name.empty() ? "" : visible(what.name) + ": ") + std::to_string(ended) + " of " +
                             std::to_string(jobs.size()) + " ended after " +
                             duration_text(std::chrono::duration<double>(since).count()) + ": " + counts_text(jobs),
                           colour::none}};
  std::vector<std::size_t> shown(jobs.size());
  for (std::size_t i = 0; i < shown.size(); ++i)
    shown[i] = i;
  const auto room = std::max<std::size_t>(how.height, 2) - 1;
  const bool all = shown.size() <= room;
  if (!all) {
    std::stable_sort(shown.begin(), shown.end(), [&](auto a, auto b) { return rank(jobs[a]) < rank(jobs[b]); });
    shown.resize(room - 1);
    std::sort(shown.begin(), shown.end());
  }
  std::size_t width = 0;
  for (const auto each : shown)
    width = std::max(width, std::min(columns(visible(what.jobs[each].name)), std::max<std::size_t>(how.width / 2, 12)));
  for (const auto each : shown)
    lines.push_back(job_line(what, jobs, each, width));
  if (!all)
    lines.push_back({"  … and " + std::to_string(jobs.size() - shown.size()) + " more", colour::grey});
  return lines;
}

std::string summary_table(const pipeline& what, const job_states& jobs, look how) {
  table shown{{"JOB", "ID", "STATE", "REASON", "TIME"}, {}, {0}};
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto& job = jobs[i];
    const auto state = state_of(job);
    const auto cause = cause_text(job);
    shown.rows.push_back({{visible(what.jobs[i].name)},
                          {job.is_object() && job.contains("id") ? job["id"].dump() : "-"},
                          {state, colour_of(state)},
                          {cause.empty() ? "-" : cause},
                          {elapsed(job).empty() ? "-" : elapsed(job)}});
  }
  return render(shown, how.width, how.colours);
}

std::string summary_line(const pipeline& what, const job_states& jobs, std::chrono::milliseconds took) {
  return (what.name.empty() ? "" : visible(what.name) + ": ") + counts_text(jobs) + " in " +
         duration_text(std::chrono::duration<double>(took).count());
}

} // namespace kcx::cli
