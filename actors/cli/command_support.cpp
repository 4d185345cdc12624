#include "actors/cli/command_support.hpp"

#include "actors/cli/exit_code.hpp"
#include "actors/cli/view/describe.hpp"

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
  std::cout.flush();
  return std::cout || code != exit_codes::success ? code : exit_codes::failed;
}

int tell(const error& failure) {
  std::cerr << "kcx: " << failure.message << '\n';
  for (const auto& field : failure.fields)
    std::cerr << "  " << field.pointer << ": " << field.detail << '\n';
  const bool here = failure.code == ec::invalid_setting || failure.code == ec::invalid_input;
  return here ? exit_codes::usage : exit_codes::unreachable;
}

int tell(const invocation& what, const reply& refusal) {
  if (what.json && refusal.document.is_object())
    std::cerr << dumped(refusal.document);
  else
    std::cerr << "kcx: " << problem_text(refusal.status, refusal.body);
  return exit_codes::refused;
}

int tell_lost(std::int64_t id, const error& lost) {
  std::cerr << "kcx: " << lost.message << "\nkcx: what became of job " << id
            << " is unknown; it goes on if the node does. Ask again with \"kcx wait " << id << "\" or \"kcx status "
            << id << "\"\n";
  return exit_codes::unreachable;
}

int tell_follow_end(const invocation& what, std::int64_t id, const follow_result& end) {
  if (end.lost)
    return tell_lost(id, *end.lost);
  if (end.refusal)
    return tell(what, *end.refusal);
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
  code = answer ? tell(what, *answer) : tell(answer.error());
  return std::nullopt;
}

} // namespace kcx::cli
