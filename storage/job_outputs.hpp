/// What a job leaves in `outputs`: how much that may be, and how the jobs that need it find it.
#pragma once

#include "storage/job_store.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace kcx {

inline constexpr std::size_t output_keys = 100;
/// A key is a variable name of no more bytes than this.
inline constexpr std::size_t output_key_bytes = 128;
/// Of all of them, as lines of `key=value`.
inline constexpr std::size_t output_bytes = 64 << 10;

/// KCX_NEED_<ref of the needed job, or its id>_<key>, with its value, for all outputs of all needs.
[[nodiscard]] std::map<std::string, std::string> need_variables(const std::vector<need_grant>& needs);

} // namespace kcx
