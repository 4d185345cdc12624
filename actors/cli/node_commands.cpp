#include "actors/cli/node_commands.hpp"

#include "actors/cli/command_support.hpp"
#include "actors/cli/describe.hpp"
#include "actors/cli/exit_code.hpp"
#include "actors/cli/screen.hpp"

#include <iostream>
#include <unistd.h>
#include <utility>

namespace kcx::cli {

using nlohmann::json;

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

} // namespace kcx::cli
