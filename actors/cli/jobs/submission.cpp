#include "actors/cli/jobs/submission.hpp"

#include "actors/cli/pipeline/checks.hpp"

#include <cstdlib>
#include <string>
#include <utility>

namespace kcx::cli {

namespace {

using nlohmann::json;

void hide_secrets(json& job) {
  if (const auto secrets = job.find("secrets"); secrets != job.end() && secrets->is_object())
    for (auto& value : *secrets)
      value = "(hidden)";
}

outcome check_flags(const job_flags& flags) {
  const bool has_command = !flags.argv.empty() || flags.shell.has_value();
  if (flags.file.empty() && !has_command)
    return refused("no job is given: name a file, write the command after \"--\", or use --shell");
  if (!flags.argv.empty() && flags.shell)
    return refused("both a command after \"--\" and --shell are given; give one");
  return done{};
}

expected<pipeline> read_plan(const source_file& file, const secret_values& given) {
  if (file.value().is_array())
    return read_job_array(file);
  return read_pipeline(file, [&](const std::string& name) -> std::optional<std::string> {
    if (const auto found = given.find(name); found != given.end())
      return found->second;
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>{value};
  });
}

outcome apply_to_all(const job_flags& flags, const secret_values& secrets, const source_file& file, pipeline& plan) {
  if (flags_for_one_job(flags))
    return refused(file.name() + " holds several jobs: a command, --name, --need and --unique-key can be of one only");
  for (auto& job : plan.jobs) {
    if (!job.document.is_object())
      return refused(file.place(job.pointer) + ": must be an object that describes a job");
    if (auto applied = apply_flags(flags, secrets, job.document); !applied)
      return applied;
  }
  return done{};
}

} // namespace

json submission::shown() const {
  auto copy = document;
  if (copy.is_array())
    for (auto& job : copy)
      hide_secrets(job);
  else
    hide_secrets(copy);
  return copy;
}

json submission::located(const json& problem) const {
  if (!source)
    return problem;
  if (plan)
    return cli::located(problem, *plan, *source);
  auto copy = problem;
  if (copy.is_object() && copy.contains("errors") && copy["errors"].is_array())
    for (auto& each : copy["errors"])
      // What a flag said is in no file.
      if (each.is_object() && each.contains("pointer") && each["pointer"].is_string() &&
          source->has(each["pointer"].get<std::string>()))
        each["pointer"] = source->place(each["pointer"].get<std::string>());
  return copy;
}

expected<submission> read_submission(const job_flags& flags, std::istream& standard_input) {
  if (auto checked = check_flags(flags); !checked)
    return checked.error();
  const auto secrets = read_secrets(flags, standard_input);
  if (!secrets)
    return secrets.error();
  submission made;
  made.document = json::object();
  if (!flags.file.empty()) {
    auto file = source_file::read(flags.file, standard_input);
    if (!file)
      return std::move(file).error();
    made.source = *std::move(file);
    const auto& value = made.source->value();
    if (value.is_array() || is_pipeline(value)) {
      auto plan = read_plan(*made.source, *secrets);
      if (!plan)
        return std::move(plan).error();
      if (auto applied = apply_to_all(flags, *secrets, *made.source, *plan); !applied)
        return applied.error();
      made.document = plan->array();
      made.plan = *std::move(plan);
      return made;
    }
    if (!value.is_object())
      return refused(made.source->name() + " holds neither a job, nor an array of jobs, nor a pipeline");
    made.document = json(value);
  }
  if (auto applied = apply_flags(flags, *secrets, made.document); !applied)
    return applied.error();
  return made;
}

} // namespace kcx::cli
