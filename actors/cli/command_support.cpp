#include "actors/cli/command_support.hpp"

#include "actors/cli/exit_code.hpp"
#include "actors/cli/view/describe.hpp"
#include "actors/cli/view/screen.hpp"
#include "actors/cli/view/text.hpp"

#include <cerrno>
#include <iostream>
#include <utility>

namespace kcx::cli {

using nlohmann::json;

std::string job_target(std::int64_t id) {
  return "/v1/jobs/" + std::to_string(id);
}

std::string dumped(const json& document) {
  return document.dump(2, ' ', false, json::error_handler_t::replace) + '\n';
}

int flushed(int code) {
  // The cause is that of the write that failed, be it this one or one before.
  if (std::cout) {
    errno = 0;
    std::cout.flush();
  }
  if (std::cout)
    return code;
  std::cerr << cannot_write_output(errno) << '\n';
  return code == exit_codes::success ? exit_codes::failed : code;
}

int flushed_or_told(int code, const json& made) {
  code = flushed(code);
  if (std::cout || made.empty())
    return code;
  std::cerr << "kcx: made all the same:";
  for (const auto& job : made)
    std::cerr << " job " << job.value("id", std::int64_t{0});
  std::cerr << '\n';
  return code;
}

int tell(bool as_json, const error& failure) {
  const bool here = failure.code == ec::invalid_setting || failure.code == ec::invalid_input;
  const auto code = here ? exit_codes::usage : exit_codes::unreachable;
  if (as_json) {
    json problem{
      {"title", here ? "Wrong usage" : "Failure"}, {"code", to_string(failure.code)}, {"detail", failure.message}};
    for (const auto& field : failure.fields)
      problem["errors"].push_back({{"pointer", field.pointer}, {"detail", field.detail}});
    std::cerr << dumped(problem);
    return code;
  }
  std::cerr << "kcx: " << failure.message << '\n';
  for (const auto& field : failure.fields)
    std::cerr << "  " << field.pointer << ": " << field.detail << '\n';
  return code;
}

int tell(const invocation& what, const error& failure) {
  return tell(what.json, failure);
}

int tell(const invocation& what, const reply& refusal) {
  if (what.json && refusal.document.is_object())
    std::cerr << dumped(refusal.document);
  else
    std::cerr << "kcx: " << problem_text(refusal.status, refusal.body);
  if (!what.json && refusal.status == 429 && refusal.retry_after)
    std::cerr << "  it can be tried again in " << counted(refusal.retry_after->count(), "second") << '\n';
  return exit_codes::refused;
}

namespace {

std::string advice_about(std::int64_t id) {
  const auto number = std::to_string(id);
  return "what became of job " + number + " is unknown; it goes on if the node does. Ask again with \"kcx wait " +
         number + "\" or \"kcx status " + number + '"';
}

} // namespace

int tell_lost(const invocation& what, std::int64_t id, const error& lost) {
  const auto between = what.json ? "; " : "\nkcx: ";
  tell(what, error{lost.code, lost.message + between + advice_about(id), {}});
  return exit_codes::unreachable;
}

int tell_lost(const invocation& what, std::int64_t id, reply refusal) {
  // The job is no more: there is nothing to ask for.
  const auto advice = refusal.status == 404 || refusal.status == 410
                        ? "what became of job " + std::to_string(id) + " is unknown"
                        : advice_about(id);
  // With JSON, standard error is one document.
  if (what.json && refusal.document.is_object())
    refusal.document["detail"] = text_at(refusal.document, "detail") + "; " + advice;
  tell(what, refusal);
  if (!what.json)
    std::cerr << "kcx: " << advice << '\n';
  return exit_codes::unreachable;
}

int tell_follow_end(const invocation& what, std::int64_t id, const follow_result& end, bool accepted) {
  if (end.lost)
    return tell_lost(what, id, *end.lost);
  if (end.refusal)
    return accepted || !end.job.is_null() ? tell_lost(what, id, *end.refusal) : tell(what, *end.refusal);
  if (end.left) {
    std::cerr << "kcx: left job " << id << " while it was being cancelled; \"kcx status " << id
              << "\" tells its state\n";
    return 130;
  }
  return exit_code_of(end.job);
}

std::optional<json> get_or_tell(const invocation& what, node_client& node, std::string_view method,
                                const std::string& target, int& code, const json& body) {
  auto answer = node.call(method, target, body);
  if (answer && answer->ok())
    return std::move(answer->document);
  code = answer ? tell(what, *answer) : tell(what, answer.error());
  return std::nullopt;
}

int for_each_id(const invocation& what, const each_call& each) {
  node_client node{what.where};
  auto documents = json::array();
  int code = 0;
  for (const auto id : what.ids) {
    auto answer = get_or_tell(what, node, each.method, each.target(id), code, each.body);
    if (!answer)
      continue;
    documents.push_back(answer->is_null() ? json{{"id", id}, {each.done, true}} : *std::move(answer));
    if (!what.json)
      std::cout << each.line(id, documents.back()) << '\n';
  }
  if (what.json && !documents.empty())
    std::cout << dumped(what.ids.size() == 1 ? documents.front() : json{{"items", documents}});
  return each.makes_jobs ? flushed_or_told(code, documents) : flushed(code);
}

int once(const invocation& what, std::string_view method, const std::string& target, const json& body,
         const std::function<std::string(const json&)>& line) {
  node_client node{what.where};
  int code = 0;
  const auto answer = get_or_tell(what, node, method, target, code, body);
  if (!answer)
    return code;
  std::cout << (what.json ? dumped(*answer) : line(*answer) + '\n');
  return flushed(code);
}

} // namespace kcx::cli
