#include "storage/job_outputs.hpp"

#include <algorithm>

namespace kcx {

std::map<std::string, std::string> need_variables(const std::vector<need_grant>& needs) {
  std::map<std::string, std::string> variables;
  for (const auto& need : needs) {
    auto prefix = "KCX_NEED_" + (need.ref.empty() ? std::to_string(need.key.job.value) : need.ref) + '_';
    // A ref may hold '.' and '-', a variable's name may not.
    std::ranges::replace_if(
      prefix, [](char c) { return c == '.' || c == '-'; }, '_');
    for (const auto& [key, value] : need.outputs)
      variables.insert_or_assign(prefix + key, value);
  }
  return variables;
}

} // namespace kcx
