#include "actors/cli/jobs/artifact_commands.hpp"

#include "actors/cli/command_support.hpp"
#include "actors/cli/exit_code.hpp"
#include "actors/cli/member.hpp"
#include "actors/cli/view/describe.hpp"
#include "actors/cli/view/screen.hpp"
#include "actors/cli/view/text.hpp"
#include "actors/http/message/message.hpp"
#include "config/posix.hpp"

#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace kcx::cli {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using nlohmann::json;

std::string with_attempt(std::string target, const log_flags& flags) {
  return flags.attempt ? std::move(target) + "?attempt=" + std::to_string(*flags.attempt) : target;
}

/// It is one of the wanted files, or lies below one of the wanted directories.
bool is_wanted(const std::string& path, const std::vector<std::string>& wanted) {
  return wanted.empty() || std::ranges::any_of(wanted, [&](std::string each) {
           while (each.ends_with('/'))
             each.pop_back();
           return path == each || path.starts_with(each + '/');
         });
}

/// The path behind `base` in the URL, byte for byte: JSON cannot hold a name that is no UTF-8. A node that is not what
/// it seems must not make kcx write elsewhere: nothing where the path could lead out of its directory.
std::optional<std::string> own_path(std::string_view target, std::string_view base) {
  if (!target.starts_with(base))
    return std::nullopt;
  target = target.substr(base.size(), target.find('?') - base.size());
  std::string path;
  for (;;) {
    const auto end = std::min(target.find('/'), target.size());
    const auto part = http::percent_decoded(target.substr(0, end), false);
    if (!part || part->empty() || *part == "." || *part == ".." || part->find('/') != std::string::npos)
      return std::nullopt;
    path += (path.empty() ? "" : "/") + *part;
    if (end == target.size())
      return path;
    target.remove_prefix(end + 1);
  }
}

error cannot_write(const fs::path& file) {
  return system_failure("cannot write " + file.string());
}

class download {
public:
  download(const invocation& what, node_client& node) : what_{what}, node_{node} {}

  /// The exit code. `target` is where the node has the file.
  int fetch(const std::string& path, const std::string& target) {
    const auto own = own_path(target, job_target(what_.ids.front()) + "/artifacts/");
    if (!own)
      return tell(what_, error{ec::system_failed, "the node names a file outside of what a job can keep: " + path, {}});
    const auto place = fs::path{what_.artifacts.directory} / *own;
    std::error_code failed;
    fs::create_directories(place.parent_path(), failed);
    if (failed)
      return failure(
        error{ec::system_failed, "cannot make " + place.parent_path().string() + ": " + failed.message(), {}});
    // A name of its own: the file's own may be as long as a name can be.
    const fs::path part = place.parent_path() / (".kcx-part-" + std::to_string(::getpid()));
    unique_fd file{::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
    if (!file)
      return failure(cannot_write(part));
    const auto code = receive(target, part, file.value());
    file.reset();
    if (code == exit_codes::success && std::rename(part.c_str(), place.c_str()) != 0)
      return failure(cannot_write(place));
    if (code != exit_codes::success)
      ::unlink(part.c_str());
    return code;
  }

private:
  int receive(const std::string& target, const fs::path& part, int file) {
    bool written = true;
    auto answer = node_.stream(
      target,
      [&](std::string_view piece) {
        written = write_all(file, piece);
        return written;
      },
      60s);
    if (!written)
      return failure(cannot_write(part));
    if (!answer)
      return tell(what_, answer.error());
    return answer->ok() ? exit_codes::success : tell(what_, *answer);
  }

  /// Of this machine, not of the node.
  [[nodiscard]] int failure(const error& why) const {
    tell(what_, why);
    return exit_codes::failed;
  }

  const invocation& what_;
  node_client& node_;
};

} // namespace

int show_artifacts(const invocation& what) {
  node_client node{what.where};
  int code = exit_codes::success;
  auto listing =
    get_or_tell(what, node, "GET", with_attempt(job_target(what.ids.front()) + "/artifacts", what.log), code);
  if (!listing)
    return code;
  auto items = json::array();
  for (const auto& item : listing->value("items", json::array()))
    if (is_wanted(text_at(item, "path"), what.artifacts.paths))
      items.push_back(item);
  int missing = exit_codes::success;
  for (const auto& each : what.artifacts.paths)
    if (std::ranges::none_of(items, [&](const json& item) { return is_wanted(text_at(item, "path"), {each}); })) {
      std::cerr << "kcx: job " << what.ids.front() << " kept nothing of the name " << visible(each) << '\n';
      missing = exit_codes::failed;
    }
  if (items.empty() && missing != exit_codes::success)
    return missing;
  (*listing)["items"] = items;
  download files{what, node};
  for (const auto& item : items) {
    if (what.artifacts.directory.empty() || code == exit_codes::unreachable)
      break;
    // What cannot be had or kept leaves out nothing but itself.
    const auto own = files.fetch(text_at(item, "path"), text_at(item, "href"));
    code = code == exit_codes::success || own == exit_codes::unreachable ? own : code;
  }
  if (code != exit_codes::success)
    return code;
  std::cout << (what.json ? dumped(*listing) : artifacts_text(items, look_of(STDOUT_FILENO)));
  return flushed(missing);
}

} // namespace kcx::cli
