#include "actors/cli/jobs/job_list.hpp"

#include "actors/cli/command_support.hpp"
#include "actors/cli/exit_code.hpp"
#include "actors/cli/view/describe.hpp"
#include "actors/cli/view/screen.hpp"
#include "actors/http/message/message.hpp"

#include <algorithm>
#include <iostream>
#include <unistd.h>
#include <utility>

namespace kcx::cli {

namespace {

using nlohmann::json;

std::string list_target(const std::string& path, const list_flags& flags, std::int64_t limit,
                        const std::string& cursor) {
  auto target = path + "?limit=" + std::to_string(limit);
  std::string states;
  for (const auto& state : flags.states)
    states += (states.empty() ? "" : ",") + state;
  const std::pair<const char*, const std::string*> parameters[] = {
    {"state", &states},      {"project", &flags.project}, {"queue", &flags.queue}, {"name", &flags.name},
    {"label", &flags.label}, {"group", &flags.group},     {"cursor", &cursor}};
  for (const auto& [name, value] : parameters)
    if (!value->empty())
      target += '&' + std::string{name} + '=' + http::percent_encoded(*value);
  return target;
}

/// `dumped` {"items": […], "next_cursor": …}, item by item.
class document_printer {
public:
  void add(const json& items) {
    for (const auto& each : items) {
      auto text = dumped(each);
      text.pop_back();
      for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 5)
        text.insert(at + 1, "    ");
      std::cout << (std::exchange(begun_, true) ? ",\n    " : "{\n  \"items\": [\n    ") << text;
    }
  }

  void end(const json& cursor) {
    std::cout << (begun_ ? "\n  ]" : "{\n  \"items\": []") << ",\n  \"next_cursor\": " << cursor.dump() << "\n}\n";
  }

private:
  bool begun_ = false;
};

/// What list_jobs() prints, in either form.
class list_printer {
public:
  list_printer(const invocation& what, const char* if_none)
    : what_{what}, if_none_{if_none}, table_{look_of(STDOUT_FILENO)} {}

  void add(const json& items) {
    shown_ += static_cast<std::int64_t>(items.size());
    if (what_.json)
      document_.add(items);
    else
      std::cout << table_.add(items);
  }

  void end(const json& cursor) {
    if (what_.json)
      return document_.end(cursor);
    if (shown_ == 0)
      std::cout << if_none_;
    if (cursor.is_string() && shown_ >= what_.list.limit && !what_.quiet)
      std::cerr << "there are more; --limit shows more than " << what_.list.limit << '\n';
  }

  [[nodiscard]] std::int64_t shown() const noexcept { return shown_; }

private:
  const invocation& what_;
  const char* if_none_;
  jobs_table table_;
  document_printer document_;
  std::int64_t shown_ = 0;
};

} // namespace

int list_jobs(const invocation& what, const std::string& path, const char* if_none) {
  constexpr std::int64_t page_size = 200;
  node_client node{what.where};
  list_printer out{what, if_none};
  int code = exit_codes::success;
  json cursor;
  bool more = true;
  while (more && std::cout) {
    const auto wanted = std::min(page_size, what.list.limit - out.shown());
    const auto from = cursor.is_string() ? cursor.get<std::string>() : "";
    const auto page = get_or_tell(what, node, "GET", list_target(path, what.list, wanted, from), code);
    if (!page && from.empty())
      return code;
    if (!page)
      break;
    out.add(page->value("items", json::array()));
    cursor = page->value("next_cursor", json{});
    more = cursor.is_string() && out.shown() < what.list.limit;
    std::cout.flush(); // whoever reads a part of it need not wait for the rest
  }
  out.end(cursor);
  return flushed(code);
}

} // namespace kcx::cli
