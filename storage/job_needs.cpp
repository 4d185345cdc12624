#include "storage/job_needs.hpp"

#include "storage/job_values.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kcx {

namespace {

using nlohmann::json;

/// A request is one write, and others wait meanwhile: so many take the better part of a second.
constexpr std::size_t most_needs_together = 50'000;
constexpr std::size_t most_need_errors = 100;

/// A need within the submission: which one of its job's needs, and the index of the job it means.
struct edge {
  std::size_t need = 0;
  std::size_t to = 0;
};
using graph = std::vector<std::vector<edge>>;

using ref_index = std::unordered_map<std::string_view, std::size_t>;

ref_index index_refs(std::span<const job_spec> specs, bool several, std::vector<field_error>& wrong) {
  ref_index jobs;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].ref.empty())
      continue;
    const auto [found, added] = jobs.emplace(specs[i].ref, i);
    if (!added)
      wrong.push_back({(several ? "/" + std::to_string(i) : "") + "/ref",
                       "is the ref of job " + std::to_string(found->second) + " of the array already"});
  }
  return jobs;
}

graph edges_of(std::span<const job_spec> specs, const ref_index& jobs, bool several, std::vector<field_error>& wrong) {
  graph edges(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    for (std::size_t n = 0; n < specs[i].needs.size(); ++n) {
      const auto& ref = specs[i].needs[n].ref;
      if (ref.empty())
        continue;
      const auto found = jobs.find(ref);
      if (found == jobs.end())
        wrong.push_back({need_pointer(i, n, several), "no job of this request has the ref \"" + ref + "\""});
      else if (found->second == i)
        wrong.push_back({need_pointer(i, n, several), "is the job itself"});
      else
        edges[i].push_back({n, found->second});
    }
  }
  return edges;
}

/// Two conditions on one job would leave open which of them counts.
void find_twice(std::span<const job_spec> specs, bool several, std::vector<field_error>& wrong) {
  for (std::size_t i = 0; i < specs.size() && wrong.size() < most_need_errors; ++i) {
    std::unordered_map<std::string_view, std::size_t> by_ref;
    std::unordered_map<std::int64_t, std::size_t> by_id;
    for (std::size_t n = 0; n < specs[i].needs.size(); ++n) {
      const auto& need = specs[i].needs[n];
      const auto first =
        need.ref.empty() ? by_id.emplace(need.job.value, n).first->second : by_ref.emplace(need.ref, n).first->second;
      if (first != n)
        wrong.push_back({need_pointer(i, n, several), "names the same job as needs/" + std::to_string(first)});
    }
  }
}

/// How many of the needs of each job remain when all that can run in some order has run; all 0 without a cycle.
std::vector<std::size_t> unfinished_needs(const graph& edges) {
  std::vector<std::size_t> left(edges.size());
  std::vector<std::vector<std::size_t>> dependents(edges.size());
  std::vector<std::size_t> runnable;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    left[i] = edges[i].size();
    for (const auto& each : edges[i])
      dependents[each.to].push_back(i);
    if (left[i] == 0)
      runnable.push_back(i);
  }
  while (!runnable.empty()) {
    const auto done = runnable.back();
    runnable.pop_back();
    for (const auto each : dependents[done])
      if (--left[each] == 0)
        runnable.push_back(each);
  }
  return left;
}

/// The needs along one cycle, if there is one.
void find_cycle(std::span<const job_spec> specs, const graph& edges, bool several, std::vector<field_error>& wrong) {
  const auto left = unfinished_needs(edges);
  const auto stuck = std::find_if(left.begin(), left.end(), [](auto number) { return number > 0; });
  if (stuck == left.end())
    return;
  // Every stuck job needs a stuck job: whoever goes on from one to the next comes back.
  std::vector<std::pair<std::size_t, std::size_t>> path; // job and its need
  std::vector<std::size_t> step_of(edges.size(), edges.size());
  auto at = static_cast<std::size_t>(stuck - left.begin());
  while (step_of[at] == edges.size()) {
    step_of[at] = path.size();
    const auto& next =
      *std::find_if(edges[at].begin(), edges[at].end(), [&](const edge& each) { return left[each.to] > 0; });
    path.emplace_back(at, next.need);
    at = next.to;
  }
  for (auto i = step_of[at]; i < path.size() && wrong.size() < most_need_errors; ++i) {
    const auto& [job, need] = path[i];
    wrong.push_back({need_pointer(job, need, several), "is part of a cycle: " + specs[job].needs[need].ref +
                                                         " needs this job, directly or by way of others"});
  }
}

/// An id, a ref, or nothing.
bool read_target(reading& in, const json_place& at, const json& value, job_need& need) {
  if (value.is_string()) {
    read_ref(in, at, value, need.ref);
    return true;
  }
  const auto id = whole_number(value).value_or(0);
  need.job = job_id{id};
  return id >= 1;
}

constexpr auto need_rule = "must be the id of a job, the ref of another one in this request, or an object with id or "
                           "ref, if and artifacts";

void read_need(reading& in, const json_place& at, const json& value, job_need& need) {
  if (!value.is_object()) {
    if (!read_target(in, at, value, need))
      in.errors.add(at, need_rule);
    return;
  }
  auto targets = 0;
  for (const auto& [key, field] : value.items()) {
    const json_place here{&at, key};
    if (key == "if") {
      if (auto choice = read_choice(in.errors, here, field, {"success", "failure", "always"}))
        need.condition = static_cast<need_condition>(*choice);
    } else if (key == "artifacts") {
      need.artifacts = read_bool(in.errors, here, field).value_or(false);
    } else if (key != "id" && key != "ref") {
      in.errors.add(here, "is not a field of a need: id, ref, if, artifacts");
    } else {
      ++targets;
      if ((key == "ref") != field.is_string() || !read_target(in, here, field, need))
        in.errors.add(here, key == "ref" ? "must be a string" : "must be the id of a job");
    }
  }
  if (targets != 1)
    in.errors.add(at, "must have exactly one of id and ref");
}

} // namespace

std::string need_pointer(std::size_t job, std::size_t need, bool several) {
  return (several ? "/" + std::to_string(job) : "") + "/needs/" + std::to_string(need);
}

outcome check_refs(std::span<const job_spec> specs, bool several) {
  std::size_t needs = 0;
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (needs += specs[i].needs.size(); needs > most_needs_together)
      return error{ec::invalid_input,
                   "these jobs have too many needs for one request",
                   {{several ? "/" + std::to_string(i) + "/needs" : "/needs",
                     "goes beyond 50000 needs in all: send several requests"}}};
  std::vector<field_error> wrong;
  const auto jobs = index_refs(specs, several, wrong);
  find_twice(specs, several, wrong);
  const auto edges = edges_of(specs, jobs, several, wrong);
  find_cycle(specs, edges, several, wrong);
  if (wrong.empty())
    return done{};
  if (wrong.size() > most_need_errors)
    wrong.resize(most_need_errors);
  return error{ec::invalid_input, "the needs of these jobs do not fit together", std::move(wrong)};
}

std::vector<field_error> find_endless(std::span<const linked_job> jobs, bool several) {
  std::unordered_map<std::int64_t, std::size_t> place;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    place.emplace(jobs[i].id.value, i);
  // What is not among them has ended, or waits for none of them.
  graph edges(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i)
    for (std::size_t n = 0; n < jobs[i].needs.size(); ++n)
      if (const auto found = place.find(jobs[i].needs[n].job.value); found != place.end())
        edges[i].push_back({n, found->second});
  const auto left = unfinished_needs(edges);
  std::vector<field_error> found;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    for (const auto& each : edges[i])
      if (left[each.to] > 0 && found.size() < most_need_errors)
        found.push_back(
          {need_pointer(jobs[i].index, each.need, several), "leads back to this job: it would wait for ever"});
  return found;
}

void read_ref(reading& in, const json_place& at, const json& value, std::string& member) {
  read_queue(in, at, value, member);
}

void read_needs(reading& in, const json_place& at, const json& value, std::vector<job_need>& member) {
  if (!value.is_array() || value.size() > in.limits.needs) {
    in.errors.add(at, "must be an array of at most " + std::to_string(in.limits.needs) + " needs");
    return;
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto index = std::to_string(i);
    read_need(in, {&at, index}, value[i], member.emplace_back());
  }
}

json show_needs(const std::vector<job_need>& member) {
  auto needs = json::array();
  for (const auto& need : member) {
    json shown{{"if", to_string(need.condition)}, {"artifacts", need.artifacts}};
    if (need.ref.empty())
      shown["id"] = need.job.value;
    else
      shown["ref"] = need.ref;
    needs.push_back(std::move(shown));
  }
  return needs;
}

} // namespace kcx
