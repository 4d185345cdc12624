#include "actors/http/artifacts/artifact_answer.hpp"

#include "actors/http/api/json_body.hpp"
#include "actors/http/api/ranges.hpp"
#include "actors/http/artifacts/file_slice.hpp"
#include "actors/http/message/problem.hpp"
#include "config/open_beneath.hpp"
#include "storage/time.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <sys/stat.h>
#include <utility>
#include <vector>

namespace kcx::http {

namespace {

using nlohmann::json;

struct content_type {
  std::string_view extension;
  std::string_view type;
};

constexpr std::array content_types{
  content_type{"css", "text/css; charset=utf-8"},
  content_type{"csv", "text/csv; charset=utf-8"},
  content_type{"gif", "image/gif"},
  content_type{"gz", "application/gzip"},
  content_type{"htm", "text/html; charset=utf-8"},
  content_type{"html", "text/html; charset=utf-8"},
  content_type{"jpeg", "image/jpeg"},
  content_type{"jpg", "image/jpeg"},
  content_type{"js", "text/javascript; charset=utf-8"},
  content_type{"json", "application/json"},
  content_type{"log", "text/plain; charset=utf-8"},
  content_type{"md", "text/markdown; charset=utf-8"},
  content_type{"pdf", "application/pdf"},
  content_type{"png", "image/png"},
  content_type{"svg", "image/svg+xml"},
  content_type{"tar", "application/x-tar"},
  content_type{"tgz", "application/gzip"},
  content_type{"txt", "text/plain; charset=utf-8"},
  content_type{"wasm", "application/wasm"},
  content_type{"webp", "image/webp"},
  content_type{"xml", "application/xml"},
  content_type{"zip", "application/zip"},
  content_type{"zst", "application/zstd"},
};

response no_such(const artifact_source& source, const std::string& path) {
  return problem(ec::not_found, "attempt " + std::to_string(source.key.attempt) + " of job " +
                                  std::to_string(source.key.job.value) + " kept no \"" + path.substr(0, 200) + '"');
}

timestamp modified_at(const struct stat& about) {
  return timestamp{
    std::chrono::milliseconds{std::int64_t{about.st_mtim.tv_sec} * 1'000 + about.st_mtim.tv_nsec / 1'000'000}};
}

/// Where the API has the file. Unlike its path, which JSON can only show as text, this fits names of any bytes.
std::string address_of(const attempt_key& key, const std::string& path) {
  auto target = "/v1/jobs/" + std::to_string(key.job.value) + "/artifacts";
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find('/', begin), path.size());
    target += '/' + percent_encoded(std::string_view{path}.substr(begin, end - begin));
    begin = end + 1;
  }
  return target + "?attempt=" + std::to_string(key.attempt);
}

/// All files below the directory, by their paths from the root of the artifacts.
json list_files(const attempt_key& key, unique_fd top, const std::string& path) {
  auto items = json::array();
  std::vector<std::pair<unique_fd, std::string>> left;
  left.emplace_back(std::move(top), path.empty() ? path : path + '/');
  while (!left.empty()) {
    const auto [directory, prefix] = std::move(left.back());
    left.pop_back();
    for (const auto& name : names_in(directory.value())) {
      struct stat about {};
      if (::fstatat(directory.value(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0)
        continue;
      if (S_ISDIR(about.st_mode))
        left.emplace_back(open_beneath(directory.value(), name.c_str(), O_RDONLY | O_DIRECTORY), prefix + name + '/');
      else if (S_ISREG(about.st_mode))
        items.push_back({{"path", prefix + name},
                         {"href", address_of(key, prefix + name)},
                         {"bytes", about.st_size},
                         {"modified_at", to_rfc3339(modified_at(about))}});
    }
  }
  std::sort(items.begin(), items.end(), [](const json& a, const json& b) {
    return a["path"].get_ref<const std::string&>() < b["path"].get_ref<const std::string&>();
  });
  return items;
}

response listing(const artifact_source& source, const std::string& path, json items) {
  return json_response(
    200,
    json_text(
      {{"job", source.key.job.value}, {"attempt", source.key.attempt}, {"path", path}, {"items", std::move(items)}}));
}

response file_answer(const file_executor& files, const artifact_source& source, const artifact_query& query,
                     unique_fd file, std::uint64_t size) {
  const auto etag = '"' + std::to_string(source.key.job.value) + '-' + std::to_string(source.key.attempt) + '-' +
                    std::to_string(size) + '"';
  response answer;
  answer.headers.add("ETag", etag);
  answer.headers.add("Cache-Control", "private, no-cache");
  if (query.if_none_match == etag || query.if_none_match == "*") {
    answer.status = 304;
    return answer;
  }
  answer.headers.add("Content-Type", content_type_of(query.path));
  // What a job made is never a page of this server: no guessing, no scripts, no use of this server's cookies.
  answer.headers.add("X-Content-Type-Options", "nosniff");
  answer.headers.add("Content-Security-Policy",
                     "sandbox; default-src 'none'; img-src 'self' data:; style-src 'self' 'unsafe-inline'");
  answer.headers.add("Accept-Ranges", "bytes");
  std::pair<std::uint64_t, std::uint64_t> part{0, size};
  if (query.range && (query.if_range.empty() || query.if_range == etag)) {
    const auto asked = make_partial(answer, *query.range, size, "file");
    if (!asked)
      return answer;
    part = *asked;
  }
  answer.stream = std::make_shared<file_slice>(files, std::move(file), part.first, part.second);
  return answer;
}

} // namespace

std::string_view content_type_of(std::string_view name) noexcept {
  const auto dot = name.rfind('.');
  const auto extension = dot == std::string_view::npos ? std::string_view{} : name.substr(dot + 1);
  const auto* found = std::find_if(content_types.begin(), content_types.end(),
                                   [&](const auto& each) { return same_text(each.extension, extension); });
  return found == content_types.end() ? "application/octet-stream" : found->type;
}

response artifact_answer(const file_executor& files, const artifact_source& source, const artifact_query& query) {
  unique_fd root{::open(source.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)};
  auto path = query.path;
  while (path.ends_with('/'))
    path.pop_back();
  if (!root)
    return path.empty() ? listing(source, path, json::array()) : no_such(source, path);
  if (path.empty())
    return listing(source, path, list_files(source.key, std::move(root), path));
  auto found = open_beneath(root.value(), path.c_str(), O_RDONLY | O_NONBLOCK);
  struct stat about {};
  if (!found || ::fstat(found.value(), &about) != 0)
    return no_such(source, path);
  if (S_ISDIR(about.st_mode))
    return listing(source, path, list_files(source.key, std::move(found), path));
  return file_answer(files, source, query, std::move(found), static_cast<std::uint64_t>(about.st_size));
}

} // namespace kcx::http
