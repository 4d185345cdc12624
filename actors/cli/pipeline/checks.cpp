#include "actors/cli/pipeline/checks.hpp"

#include "actors/cli/member.hpp"
#include "config/units.hpp"
#include "storage/job_json.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kcx::cli {

namespace {

using nlohmann::json;

/// Each of them needs the next, and the last one the first.
void tell_cycle(const pipeline& what, const std::vector<std::size_t>& ring, complaints& wrong) {
  constexpr std::size_t most_names = 20;
  const auto& first = what.jobs[ring.front()];
  std::string names;
  for (std::size_t i = 0; i < std::min(ring.size(), most_names); ++i)
    names += what.jobs[ring[i]].name + " needs ";
  names += ring.size() > most_names ? "… needs " + first.name : first.name;
  wrong.add(pointer_to(first.pointer, std::string_view{"needs"}), "these jobs would wait for each other: " + names);
}

/// Where a field of a job stands in the file: in the job, in what it has from all, or, if it is in neither, there where
/// it would be in the job. `field` begins with "/" or is empty.
std::string pointer_of(const pipeline_job& job, const std::string& field, const source_file& file) {
  for (const auto& place : {job.pointer + field, "/defaults" + field})
    if (file.has(place))
      return place;
  return field.starts_with("/env/") && file.has(field) ? field : job.pointer + field;
}

} // namespace

void find_cycles(const pipeline& what, complaints& wrong) {
  enum class mark : std::uint8_t { unseen, open, closed };
  std::vector<mark> marks(what.jobs.size());
  std::vector<std::size_t> next(what.jobs.size());
  std::vector<std::size_t> path;
  for (std::size_t start = 0; start < what.jobs.size(); ++start) {
    if (marks[start] == mark::unseen)
      path.push_back(start);
    while (!path.empty()) {
      const auto at = path.back();
      marks[at] = mark::open;
      const auto& needs = what.jobs[at].needs;
      if (next[at] == needs.size()) {
        marks[at] = mark::closed;
        path.pop_back();
        continue;
      }
      const auto to = needs[next[at]++].job;
      if (marks[to] == mark::open)
        tell_cycle(what, {std::find(path.begin(), path.end(), to), path.end()}, wrong);
      if (marks[to] == mark::unseen)
        path.push_back(to);
    }
  }
}

void check_fields(const pipeline_job& job, const source_file& file, complaints& wrong) {
  const auto spec = parse_job_spec(job.document);
  if (spec)
    return;
  for (const auto& [pointer, detail] : spec.error().fields) {
    // That there is not exactly one of these was told of the job.
    const bool told = (pointer == "/command" || pointer == "/steps") &&
                      job.document.contains("command") == job.document.contains("steps");
    const auto place = pointer_of(job, pointer, file);
    if (!told && !wrong.about(place))
      wrong.add(place, detail);
  }
}

json located(json problem, const pipeline& what, const source_file& file) {
  if (!problem.is_object() || !problem.contains("errors") || !problem["errors"].is_array())
    return problem;
  for (auto& each : problem["errors"]) {
    const auto pointer = text_at(each, "pointer");
    const auto slash = pointer.find('/', 1);
    const auto number = parse_number(pointer.empty() ? "" : std::string_view{pointer}.substr(1, slash - 1), 0,
                                     static_cast<std::int64_t>(what.jobs.size()) - 1);
    if (!number)
      continue;
    const auto& job = what.jobs[static_cast<std::size_t>(*number)];
    each["pointer"] = file.place(pointer_of(job, slash == std::string::npos ? "" : pointer.substr(slash), file)) +
                      " (" + job.name + ")";
  }
  return problem;
}

} // namespace kcx::cli
