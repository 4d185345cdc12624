/// An HTTP bridge among fake actors, under a scheduler and a clock that stand still until told.
#pragma once

#include "actors/http/api/token_table.hpp"
#include "actors/http/message/message.hpp"
#include "storage/job.hpp"
#include "tests/actors/http/fake_node.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kcx::test {

/// The answer to one request, once it came.
struct bridge_answer {
  std::optional<http::response> answer;
  /// Nobody can answer it any more: a server would say 503.
  bool dropped = false;

  [[nodiscard]] bool came() const { return answer.has_value(); }
  /// 0 while none came.
  [[nodiscard]] unsigned status() const { return answer ? answer->status : 0; }
  /// The body, parsed once: references into it stay valid as long as the harness.
  [[nodiscard]] nlohmann::json& json();
  /// The problem's code; empty if it is no problem document.
  [[nodiscard]] std::string code();
  [[nodiscard]] std::string header(std::string_view name) const;

private:
  std::optional<nlohmann::json> parsed_;
};

/// Reads a streamed (or plain) body as a session would. Reads on where an earlier call had to wait.
class body_reader {
public:
  explicit body_reader(const http::response& answer);
  /// What came since the last call.
  std::string take();
  [[nodiscard]] bool ended() const;
  [[nodiscard]] bool failed() const;
  void hang_up();

private:
  struct state;
  void ask();
  std::shared_ptr<state> state_;
};

struct ask_options {
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  bool token = true;
  /// Instead of the harness's own.
  std::string other_token{};
  std::shared_ptr<http::incoming_body> incoming{};
  /// The request's number.
  std::uint64_t id = 0;
};

class bridge_harness {
public:
  static constexpr std::string_view token = "0123456789abcdef";

  explicit bridge_harness(const std::filesystem::path& data_dir = "/nonexistent", bool fault_injection = false);
  ~bridge_harness();
  bridge_harness(const bridge_harness&) = delete;
  bridge_harness& operator=(const bridge_harness&) = delete;

  fake_node node;
  /// Who may call; its clock is `now`. The harness's own token is the admin's.
  timestamp now{std::chrono::seconds{2'000'000}};
  std::shared_ptr<http::token_table> tokens;
  /// What is to be done on the file threads is done at once, or held for the test to do.
  bool hold_files = false;
  std::deque<std::function<void()>> held_files;
  /// Does what was held, and what follows.
  void run_held_files();

  /// Sends a request and lets every actor handle what it can. The query is part of `target`.
  std::shared_ptr<bridge_answer> ask(const std::string& method, const std::string& target, ask_options options = {});
  /// POST of a JSON document.
  std::shared_ptr<bridge_answer> post(const std::string& target, const std::string& body);

  /// A new token with this scope that expires after so long; they are numbered from 1.
  std::string make_token(const std::string& scope, std::chrono::milliseconds lasts = std::chrono::hours{1});
  /// Job 7 is ready: the dispatcher grants it to all that wait.
  void job_is_ready();

  /// Moves the clock on; timeouts and delayed messages that are due happen.
  void advance(std::chrono::milliseconds by);
  /// The job's state in the fake database changes, and the bridge hears of it.
  void change(job_id job, job_state state, std::int32_t attempt);
  /// As the hub says it.
  void grew(std::uint64_t follower);
  /// As the server says it: the client of this request may be gone.
  void abandon(std::uint64_t request);
  /// As the root supervisor says it.
  void start_draining();
  /// A handler of the bridge throws. Its handle stays in use, as in a server.
  void crash();
  void kill_database();
  void kill_reader(std::size_t number);
  /// A new database actor takes the place of the old one.
  void replace_database();
  /// A new log hub likewise.
  void replace_log_hub();
  /// How many hold the root supervisor, the test included.
  [[nodiscard]] std::size_t holders_of_root() const;
  /// How many timers run.
  [[nodiscard]] std::size_t timers() const;
  /// A number of the bridge's own status.
  [[nodiscard]] std::int64_t status(const std::string& key);

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace kcx::test
