#include "actors/runner/output_file.hpp"

#include "config/open_beneath.hpp"
#include "config/variable_name.hpp"
#include "storage/job_outputs.hpp"

#include <nlohmann/json.hpp>

#include <sys/stat.h>

namespace kcx {

namespace {

constexpr std::size_t most_complaints = 10;

/// As the API can show it.
bool is_utf8(std::string_view text) {
  try {
    static_cast<void>(nlohmann::json(text).dump());
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

/// What is wrong with a line; empty if nothing is.
std::string take_line(std::string_view line, parsed_outputs& outputs) {
  const auto equals = line.find('=');
  const auto key = line.substr(0, equals);
  if (equals == std::string_view::npos)
    return "is not key=value";
  if (key.size() > output_key_bytes || !is_variable_name(key))
    return "has no valid key: letters, digits and '_', not beginning with a digit";
  if (!is_utf8(line.substr(equals + 1)))
    return "has a value that is not UTF-8";
  if (line.find('\0') != std::string_view::npos)
    return "has a value with a NUL character, which no variable can hold";
  if (outputs.values.size() >= output_keys && !outputs.values.contains(std::string{key}))
    return "is beyond the " + std::to_string(output_keys) + " keys a job may have";
  outputs.values.insert_or_assign(std::string{key}, line.substr(equals + 1));
  return {};
}

} // namespace

parsed_outputs parse_outputs(std::string_view text) {
  parsed_outputs outputs;
  std::size_t wrong = 0;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    auto line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    if (line.empty())
      continue;
    const auto complaint = take_line(line, outputs);
    if (!complaint.empty() && ++wrong <= most_complaints)
      outputs.complaints.push_back("KCX_OUTPUT line " + std::to_string(number) + " " + complaint);
  }
  if (wrong > most_complaints)
    outputs.complaints.push_back("KCX_OUTPUT has " + std::to_string(wrong - most_complaints) + " more such lines");
  return outputs;
}

outcome create_output_file(const std::filesystem::path& file, uid_t uid, gid_t gid) {
  const unique_fd fd{::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (!fd)
    return system_failure("cannot make the output file " + file.string());
  if (uid != static_cast<uid_t>(-1) && ::fchown(fd.value(), uid, gid) != 0)
    return system_failure("cannot give the output file " + file.string() + " to the user of the job");
  return done{};
}

parsed_outputs take_output_file(const std::filesystem::path& file) {
  parsed_outputs outputs;
  const unique_fd parent{::open(file.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  const auto name = file.filename().string();
  const auto fd = open_beneath(parent.value(), name.c_str(), O_RDONLY | O_NONBLOCK);
  const auto number = errno;
  ::unlinkat(parent.value(), name.c_str(), 0);
  struct stat about {};
  if (!fd || ::fstat(fd.value(), &about) != 0 || !S_ISREG(about.st_mode)) {
    // A job that removed it has no outputs, and said so.
    if (fd || number != ENOENT)
      outputs.complaints.emplace_back("KCX_OUTPUT is no regular file any more; the job has no outputs");
    return outputs;
  }
  if (about.st_size == 0)
    return outputs;
  std::string text(output_bytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const auto n = ::read(fd.value(), text.data() + size, text.size() - size);
    if (n <= 0)
      break;
    size += static_cast<std::size_t>(n);
  }
  if (size > output_bytes) {
    outputs.complaints.push_back("KCX_OUTPUT is larger than " + std::to_string(output_bytes) +
                                 " bytes; the job has no outputs");
    return outputs;
  }
  return parse_outputs(std::string_view{text}.substr(0, size));
}

} // namespace kcx
