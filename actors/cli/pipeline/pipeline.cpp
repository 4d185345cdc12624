#include "actors/cli/pipeline/pipeline.hpp"

#include "actors/cli/member.hpp"
#include "actors/cli/pipeline/checks.hpp"
#include "actors/cli/pipeline/matrix.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace kcx::cli {

namespace {

using nlohmann::json;

constexpr std::size_t most_jobs = 10'000;
/// Of a ref, as the node takes it.
constexpr std::size_t longest_ref = 64;

constexpr std::array<std::string_view, 5> top_fields{"name", "env", "secrets", "defaults", "jobs"};
/// What a job has for itself.
constexpr std::array<std::string_view, 9> own_fields{"command", "steps", "needs", "matrix",    "env",
                                                     "secrets", "name",  "ref",   "unique_key"};

bool is_among(std::string_view name, const auto& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// A name the node takes as a ref: "test-gcc-debug" for "test (gcc, debug)".
std::string ref_of(std::string_view name, std::set<std::string>& taken) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._";
  std::string ref;
  for (const char c : name)
    if (letters.find(c) != std::string_view::npos)
      ref += c;
    else if (!ref.empty() && ref.back() != '-')
      ref += '-';
  ref.erase(0, ref.find_first_not_of("._-"));
  ref.resize(std::min(ref.size(), longest_ref - 8));
  ref.erase(ref.find_last_not_of('-') + 1);
  if (ref.empty())
    ref = "job";
  auto unique = ref;
  for (int number = 2; !taken.insert(unique).second; ++number)
    unique = ref + '-' + std::to_string(number);
  return unique;
}

/// A need as written: the job's name or id, and the condition.
struct written_need {
  std::string name;
  json id;
  std::string when = "success";
  bool artifacts = false;
  std::string pointer;
};

class pipeline_reader {
public:
  pipeline_reader(const source_file& file, const secret_source& secrets) : file_{file}, secrets_{secrets} {}

  expected<pipeline> read();

private:
  void read_top(const source_value& top);
  void read_job(const std::string& key, const source_value& job);
  /// No combination: its matrix is wrong, and what it would put in is not known.
  void add_job(const std::string& key, const source_value& job, const std::optional<combination>& with);
  source_value environment(const source_value& job, const std::optional<combination>& with, const std::string& pointer);
  json secret_values(const source_value& job, const std::string& pointer);
  void add_secrets(const source_value& from, const std::string& pointer, json& to);
  void add_variables(const source_value& from, const std::string& pointer, source_value& to);
  std::vector<written_need> read_needs(const source_value& job, const std::string& pointer);
  void read_need(const source_value& need, written_need& into);
  void connect();
  void give_refs();
  error refusal();

  const source_file& file_;
  const secret_source& secrets_;
  complaints wrong_;
  pipeline made_;
  /// Key of the file to its jobs, and full name to its job.
  std::multimap<std::string, std::size_t, std::less<>> by_name_;
  std::set<std::string> names_;
  std::vector<std::vector<written_need>> needs_;
  /// The jobs whose places for values of the matrix are filled.
  std::vector<std::size_t> whole_;
};

expected<pipeline> pipeline_reader::read() {
  const auto& top = file_.value();
  read_top(top);
  if (const auto& jobs = top["jobs"]; !jobs.is_object() || jobs.empty())
    wrong_.add("/jobs", "must be an object that has a job under each name");
  else
    for (const auto& [key, job] : jobs.items())
      read_job(key, job);
  if (made_.jobs.size() > most_jobs)
    wrong_.add("/jobs", "are " + std::to_string(made_.jobs.size()) + " jobs; at most " + std::to_string(most_jobs) +
                          " can be submitted at once");
  connect();
  find_cycles(made_, wrong_);
  if (!wrong_.none())
    return refusal();
  give_refs();
  return std::move(made_);
}

/// Together with what the node would find, as it will not be asked.
error pipeline_reader::refusal() {
  for (const auto index : whole_)
    check_fields(made_.jobs[index], file_, wrong_);
  return wrong_.as_error(file_);
}

void pipeline_reader::read_top(const source_value& top) {
  for (const auto& [key, value] : top.items())
    if (!is_among(key, top_fields) && !key.starts_with("x-"))
      wrong_.add(pointer_to("", key), "is no field of a pipeline: name, env, secrets, defaults, jobs; what begins with "
                                      "\"x-\" is yours");
  if (const auto name = top.find("name"); name != top.end() && !scalar_text(*name, made_.name))
    wrong_.add("/name", "must be a text");
  const auto defaults = top.find("defaults");
  if (defaults == top.end())
    return;
  if (!defaults->is_object())
    return wrong_.add("/defaults", "must be an object with fields of jobs");
  for (const auto& [key, value] : defaults->items())
    if (is_among(key, own_fields))
      wrong_.add(pointer_to("/defaults", key), key == "env" || key == "secrets"
                                                 ? "belongs to the top of the file, beside \"jobs\""
                                                 : "is what each job must have for itself");
}

void pipeline_reader::read_job(const std::string& key, const source_value& job) {
  const auto pointer = pointer_to("/jobs", key);
  if (!job.is_object())
    return wrong_.add(pointer, "must be an object that describes a job");
  for (const auto* field : {"name", "ref"})
    if (job.contains(field))
      wrong_.add(pointer_to(pointer, std::string_view{field}), "is not for jobs of a pipeline: their key names them");
  if (job.contains("command") == job.contains("steps"))
    wrong_.add(pointer, "needs either command or steps");
  if (key.empty())
    wrong_.add(pointer, "needs a name");
  const auto matrix = job.find("matrix");
  if (matrix == job.end())
    return add_job(key, job, combination{});
  const auto all = expand_matrix(*matrix, pointer_to(pointer, "matrix"), wrong_);
  for (const auto& each : all)
    add_job(key, job, each);
  // So that what else is wrong with it, and with what needs it, is told as well.
  if (all.empty())
    add_job(key, job, std::nullopt);
}

void pipeline_reader::add_job(const std::string& key, const source_value& job, const std::optional<combination>& with) {
  const auto pointer = pointer_to("/jobs", key);
  const auto index = made_.jobs.size();
  auto& made = made_.jobs.emplace_back();
  made.name = key + (with ? with->suffix() : "");
  made.pointer = pointer;
  if (!names_.insert(made.name).second)
    wrong_.add(pointer, "gives a second job the name \"" + made.name + "\"");
  by_name_.emplace(made.name, index);
  if (made.name != key)
    by_name_.emplace(key, index);

  auto document = source_value::object();
  if (const auto defaults = file_.value().find("defaults"); defaults != file_.value().end() && defaults->is_object())
    document = *defaults;
  for (const auto& [field, value] : job.items())
    if (field != "matrix" && field != "needs" && field != "env" && field != "secrets")
      document[field] = value;
  auto env = environment(job, with, pointer);
  if (with) {
    substitute(document, *with, pointer, wrong_);
    whole_.push_back(index);
  }
  if (!env.empty())
    document["env"] = std::move(env);
  made.document = json(document);
  made.document["name"] = made.name;
  if (auto secrets = secret_values(job, pointer); !secrets.empty())
    made.document["secrets"] = std::move(secrets);
  needs_.push_back(read_needs(job, pointer));
}

void pipeline_reader::add_variables(const source_value& from, const std::string& pointer, source_value& to) {
  const auto found = from.find("env");
  if (found == from.end() || found->is_null())
    return;
  const auto at = pointer_to(pointer, "env");
  if (!found->is_object())
    return wrong_.add(at, "must be an object of variables");
  for (const auto& [name, value] : found->items())
    if (std::string text; scalar_text(value, text))
      to[name] = std::move(text);
    else
      wrong_.add(pointer_to(at, name), "must be a text, a number or a boolean");
}

/// What comes later wins: of all jobs, of the matrix, of the job.
source_value pipeline_reader::environment(const source_value& job, const std::optional<combination>& with,
                                          const std::string& pointer) {
  auto env = source_value::object();
  add_variables(file_.value(), "", env);
  auto own = source_value::object();
  add_variables(job, pointer, own);
  if (with) {
    for (const auto& [name, value] : with->values)
      env[matrix_variable(name)] = value;
    substitute(own, *with, pointer_to(pointer, "env"), wrong_);
  }
  env.update(own);
  return env;
}

void pipeline_reader::add_secrets(const source_value& from, const std::string& pointer, json& to) {
  const auto found = from.find("secrets");
  if (found == from.end())
    return;
  const auto at = pointer_to(pointer, "secrets");
  if (!found->is_array())
    return wrong_.add(at, "must be an array of names; values come from the environment of kcx or from --secret-file");
  for (std::size_t i = 0; i < found->size(); ++i) {
    const auto& name = (*found)[i];
    if (!name.is_string())
      wrong_.add(pointer_to(at, i), "must be a name");
    else if (auto value = secrets_(name.get<std::string>()))
      to[name.get<std::string>()] = *std::move(value);
    else
      wrong_.add(pointer_to(at, i), "the environment of kcx has no variable " + name.get<std::string>() +
                                      ", and no --secret-file brings it");
  }
}

json pipeline_reader::secret_values(const source_value& job, const std::string& pointer) {
  auto secrets = json::object();
  add_secrets(file_.value(), "", secrets);
  add_secrets(job, pointer, secrets);
  return secrets;
}

void pipeline_reader::read_need(const source_value& need, written_need& into) {
  if (need.is_string())
    into.name = need.get<std::string>();
  else if (need.is_number_integer())
    into.id = need.get<std::int64_t>();
  else if (need.is_object()) {
    for (const auto& [key, value] : need.items())
      if (key == "job" && value.is_string())
        into.name = value.get<std::string>();
      else if (key == "id" && value.is_number_integer())
        into.id = value.get<std::int64_t>();
      else if (key == "if" && (value == "success" || value == "failure" || value == "always"))
        into.when = value.get<std::string>();
      else if (key == "artifacts" && value.is_boolean())
        into.artifacts = value.get<bool>();
      else
        wrong_.add(pointer_to(into.pointer, key), key == "if"          ? "must be success, failure or always"
                                                  : key == "artifacts" ? "must be true or false"
                                                                       : "is no field of a need: job (a name), id, "
                                                                         "if, artifacts");
  }
  if (into.name.empty() == into.id.is_null())
    wrong_.add(into.pointer, "must be the name of a job of this file, the id of another job, or an object with job or "
                             "id, and if or artifacts");
}

std::vector<written_need> pipeline_reader::read_needs(const source_value& job, const std::string& pointer) {
  std::vector<written_need> all;
  const auto found = job.find("needs");
  if (found == job.end())
    return all;
  const auto at = pointer_to(pointer, "needs");
  if (!found->is_array()) {
    all.emplace_back().pointer = at;
    read_need(*found, all.back());
    return all;
  }
  for (std::size_t i = 0; i < found->size(); ++i) {
    all.emplace_back().pointer = pointer_to(at, i);
    read_need((*found)[i], all.back());
  }
  return all;
}

void pipeline_reader::connect() {
  for (std::size_t i = 0; i < needs_.size(); ++i) {
    std::map<std::size_t, std::size_t> named; // each job, and the first need that names it
    for (std::size_t n = 0; n < needs_[i].size(); ++n) {
      const auto& need = needs_[i][n];
      if (need.name.empty())
        continue;
      const auto [begin, end] = by_name_.equal_range(need.name);
      if (begin == end)
        wrong_.add(need.pointer, "the file has no job \"" + need.name + '"');
      for (auto found = begin; found != end; ++found) {
        if (const auto first = named.emplace(found->second, n).first->second; first != n)
          wrong_.add(need.pointer, "names the same job as needs/" + std::to_string(first));
        made_.jobs[i].needs.push_back({found->second, need.when, need.artifacts});
      }
    }
  }
}

void pipeline_reader::give_refs() {
  std::set<std::string> taken;
  for (auto& job : made_.jobs)
    job.document["ref"] = ref_of(job.name, taken);
  for (std::size_t i = 0; i < made_.jobs.size(); ++i) {
    auto& job = made_.jobs[i];
    auto needs = json::array();
    const auto add = [&needs](json which, const auto& need) {
      which["if"] = need.when;
      if (need.artifacts)
        which["artifacts"] = true;
      needs.push_back(std::move(which));
    };
    for (const auto& need : job.needs)
      add({{"ref", made_.jobs[need.job].document["ref"]}}, need);
    for (const auto& need : needs_[i])
      if (!need.id.is_null())
        add({{"id", need.id}}, need);
    if (!needs.empty())
      job.document["needs"] = std::move(needs);
  }
}

/// The needs by ref; what is wrong with them the node says.
std::vector<pipeline_need> needs_by_ref(const json& document, const std::map<std::string, std::size_t>& by_ref) {
  std::vector<pipeline_need> needs;
  const auto listed = document.is_object() ? document.value("needs", json::array()) : json::array();
  for (const auto& need : listed) {
    const auto found = by_ref.find(need.is_string() ? need.get<std::string>() : text_at(need, "ref"));
    const auto when = text_at(need, "if");
    if (found != by_ref.end())
      needs.push_back(
        {found->second, when.empty() ? "success" : when, need.is_object() && need.value("artifacts", json{}) == true});
  }
  return needs;
}

} // namespace

json pipeline::array() const {
  auto all = json::array();
  for (const auto& job : jobs)
    all.push_back(job.document);
  return all;
}

bool is_pipeline(const source_value& value) {
  return value.is_object() && value.contains("jobs");
}

expected<pipeline> read_pipeline(const source_file& file, const secret_source& secrets) {
  return pipeline_reader{file, secrets}.read();
}

expected<pipeline> read_job_array(const source_file& file) {
  pipeline made;
  std::map<std::string, std::size_t> by_ref;
  for (const auto& each : file.value()) {
    auto& job = made.jobs.emplace_back();
    job.pointer = pointer_to("", made.jobs.size() - 1);
    job.document = json(each);
    const auto ref = text_at(job.document, "ref");
    job.name = text_at(job.document, "name");
    if (job.name.empty())
      job.name = ref.empty() ? "job " + std::to_string(made.jobs.size()) : ref;
    if (!ref.empty())
      by_ref.emplace(ref, made.jobs.size() - 1);
  }
  if (made.jobs.empty())
    return error{ec::invalid_input, file.name() + " holds no job", {}};
  for (auto& job : made.jobs)
    job.needs = needs_by_ref(job.document, by_ref);
  return made;
}

} // namespace kcx::cli
