#include "actors/cli/node/node_commands.hpp"

#include "actors/cli/command_support.hpp"
#include "actors/cli/exit_code.hpp"
#include "actors/cli/node/backup.hpp"
#include "actors/cli/node/doctor.hpp"
#include "actors/cli/view/describe.hpp"
#include "actors/cli/view/screen.hpp"
#include "actors/cli/view/text.hpp"
#include "actors/http/message/host_policy.hpp"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <unistd.h>
#include <utility>

namespace kcx::cli {

using nlohmann::json;

namespace {

/// The data directory, where a command works on the node's files themselves.
expected<std::string> data_directory_of(const invocation& what) {
  if (what.where.url.empty() && !what.where.data.empty())
    return what.where.data;
  return error{
    ec::invalid_setting, "this looks at the files of the node: name its data directory by --data, no URL", {}};
}

/// The text of several lines as one.
std::string without_end(std::string text) {
  text.erase(text.find_last_not_of('\n') + 1);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

node_answer ask(const invocation& what) {
  node_answer answer;
  node_client node{what.where};
  const auto about = node.call("GET", "/v1/node", nullptr, std::chrono::seconds{10});
  if (!about || !about->ok()) {
    answer.failure = about ? without_end(problem_text(about->status, about->body)) : about.error().message;
    answer.not_asked = !about && about.error().code == ec::invalid_setting;
    return answer;
  }
  answer.node = about->document;
  const auto ready = node.call("GET", "/readyz", nullptr, std::chrono::seconds{10});
  answer.ready = ready && ready->ok();
  if (!answer.ready)
    answer.not_ready = ready ? without_end(problem_text(ready->status, ready->body)) : ready.error().message;
  if (const auto workers = node.call("GET", "/v1/workers", nullptr, std::chrono::seconds{10}); workers && workers->ok())
    for (const auto& worker : workers->document.value("items", json::array()))
      if (worker.is_object() && worker.contains("job") && worker["job"].is_number_integer())
        answer.running.push_back(worker["job"].get<std::int64_t>());
  return answer;
}

std::string files_text(const copied_files& copied, std::string_view kind) {
  return ", " + counted(static_cast<std::int64_t>(copied.files), kind) + " of " +
         size_text(static_cast<double>(copied.bytes));
}

std::string name_of(verdict how) {
  return how == verdict::ok ? "ok" : how == verdict::warn ? "warn" : "fail";
}

std::string findings_text(const std::vector<finding>& all, look how) {
  std::string text;
  for (const auto& each : all) {
    const auto paint = each.how == verdict::ok     ? colour::green
                       : each.how == verdict::warn ? colour::yellow
                                                   : colour::red;
    text += painted(name_of(each.how), how.colours ? paint : colour::none) +
            std::string(each.how == verdict::ok ? 4 : 2, ' ') + each.what + ": " + each.detail + '\n';
    if (!each.remedy.empty())
      text += "      " + each.remedy + '\n';
  }
  return text;
}

/// "name:port" of a URL.
std::string_view authority_of(std::string_view url) {
  const auto at = url.find("://");
  url.remove_prefix(at == std::string_view::npos ? 0 : at + 3);
  return url.substr(0, url.find('/'));
}

/// The node's own address of a port, under the host by which this command reaches the node.
std::string reached_as(const invocation& what, const std::string& own) {
  const auto here = http::split_authority(authority_of(what.where.url));
  const auto there = http::split_authority(authority_of(own));
  if (what.where.url.empty() || !here || !there || http::same_text(here->name, there->name))
    return own;
  if (http::is_loopback_name(there->name) && !http::is_loopback_name(here->name) && !what.quiet)
    std::cerr << "the node's inspection port listens on its own machine alone (" << visible(own)
              << "): reach it through a tunnel, or set inspect\n";
  const auto name = std::string{here->name};
  return own.substr(0, own.find("://") + 3) + (name.find(':') == std::string::npos ? name : "[" + name + "]") +
         (there->port ? ":" + std::to_string(*there->port) : "");
}

} // namespace

int node_status(const invocation& what) {
  node_client node{what.where};
  int code = exit_codes::success;
  auto about = get_or_tell(what, node, "GET", "/v1/node", code);
  if (!about)
    return code;
  if (auto stats = get_or_tell(what, node, "GET", "/v1/stats", code))
    (*about)["stats"] = *std::move(stats);
  if (auto workers = get_or_tell(what, node, "GET", "/v1/workers", code))
    (*about)["workers"] = workers->value("items", json::array());
  std::cout << (what.json ? dumped(*about) : node_text(*about, look_of(STDOUT_FILENO)));
  return flushed(code);
}

int node_drain(const invocation& what) {
  node_client node{what.where};
  int code = exit_codes::success;
  auto answer = get_or_tell(what, node, "POST", "/v1/node/drain", code);
  if (!answer)
    return code;
  std::cout << (what.json ? dumped(*answer)
                          : "the node drains: it takes no new jobs and stops when the running ones ended\n");
  return flushed(code);
}

int dashboard_address(const invocation& what) {
  node_client node{what.where};
  int code = exit_codes::success;
  const auto about = get_or_tell(what, node, "GET", "/v1/node", code);
  if (!about)
    return code;
  const auto made = get_or_tell(what, node, "POST", "/v1/session/code", code);
  if (!made)
    return code;
  // Behind a #, which no browser sends on and no log holds.
  const auto address = reached_as(what, about->value("inspect", "")) + "/#code=" + made->value("code", "");
  if (what.json)
    std::cout << dumped({{"url", address}, {"expires_at", made->value("expires_at", "")}});
  else
    std::cout << address << '\n';
  return flushed(code);
}

int node_backup(const invocation& what) {
  const auto data = data_directory_of(what);
  if (!data)
    return tell(what, data.error());
  const backup_parts with{!what.backup.no_logs, !what.backup.no_artifacts};
  const auto made = make_backup(*data, what.backup.target, with);
  if (!made) {
    const auto code = tell(what, made.error());
    return code == exit_codes::usage ? code : exit_codes::failed;
  }
  if (what.json)
    std::cout << dumped({{"target", what.backup.target},
                         {"database_bytes", made->database_bytes},
                         {"log_files", made->logs.files},
                         {"log_bytes", made->logs.bytes},
                         {"artifact_files", made->artifacts.files},
                         {"artifact_bytes", made->artifacts.bytes}});
  else
    std::cout << "made " << what.backup.target << ": database of "
              << size_text(static_cast<double>(made->database_bytes))
              << (with.logs ? files_text(made->logs, "log") : "")
              << (with.artifacts ? files_text(made->artifacts, "artifact") : "") << '\n';
  return flushed(exit_codes::success);
}

int node_doctor(const invocation& what) {
  const auto data = data_directory_of(what);
  if (!data)
    return tell(what, data.error());
  const auto all = examine_node(*data, ask(what));
  const bool failed = std::any_of(all.begin(), all.end(), [](const auto& each) { return each.how == verdict::fail; });
  if (what.json) {
    auto checks = json::array();
    for (const auto& each : all)
      checks.push_back(
        {{"check", each.what}, {"verdict", name_of(each.how)}, {"detail", each.detail}, {"remedy", each.remedy}});
    std::cout << dumped({{"checks", checks}});
  } else {
    std::cout << findings_text(all, look_of(STDOUT_FILENO));
  }
  return flushed(failed ? exit_codes::failed : exit_codes::success);
}

} // namespace kcx::cli
