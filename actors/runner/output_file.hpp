/// The file that KCX_OUTPUT names: lines of `key=value` that become the `outputs` of the job.
#pragma once

#include "config/error.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace kcx {

struct parsed_outputs {
  std::map<std::string, std::string> values;
  /// What is wrong with the file, for the log.
  std::vector<std::string> complaints;
};

/// Reads the text of the file. A key is a variable name of at most 128 bytes, a value UTF-8 without NUL to the end of
/// the line, LF or CR LF; the last line of a key counts. Other lines are left out, the first 10 with a complaint each
/// and the rest with one for all; empty ones without.
[[nodiscard]] parsed_outputs parse_outputs(std::string_view text);

/// Makes the file, empty and closed to others; `uid` and `gid` (both or -1) become its owner. Fails with
/// ec::storage_full or ec::system_failed.
outcome create_output_file(const std::filesystem::path& file, uid_t uid, gid_t gid);

/// Reads and removes the file once the job's processes are gone. What the job put in its place is not followed.
[[nodiscard]] parsed_outputs take_output_file(const std::filesystem::path& file);

} // namespace kcx
