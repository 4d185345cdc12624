/// An inspector among fake actors, under a scheduler and a clock that stand still until told.
#pragma once

#include "actors/http/api/token_table.hpp"
#include "actors/http/message/message.hpp"
#include "storage/job_reader.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kcx::test {

class inspector_harness {
public:
  inspector_harness();
  ~inspector_harness();
  inspector_harness(const inspector_harness&) = delete;
  inspector_harness& operator=(const inspector_harness&) = delete;

  static constexpr std::string_view admin_token = "the-admin-token";
  queue_stats stats;
  std::vector<job_record> jobs;
  /// How often the jobs were counted.
  int counts = 0;
  timestamp now{std::chrono::seconds{100}};
  bool reader_silent = false;
  bool database_silent = false;
  std::uint32_t slots = 1;

  /// The slot holds the answer once it came.
  std::shared_ptr<std::optional<http::response>> ask(const std::string& method, const std::string& path,
                                                     http::header_fields headers = {});
  /// Those of this node.
  [[nodiscard]] http::token_table& tokens();
  void advance(std::chrono::milliseconds by);
  /// Id of the inspector and of the fake database.
  [[nodiscard]] std::uint64_t inspector_id() const;
  [[nodiscard]] std::uint64_t database_id() const;
  /// How many hold the fake database, the test included.
  [[nodiscard]] std::size_t holders_of_database() const;
  /// As the root supervisor says it.
  void start_draining();
  /// The database is silent no more, and answers what it was asked meanwhile.
  void end_silence();
  /// The inspector dies of a handler that throws, and another takes its place.
  void crash_and_replace();
  /// It is told to end instead.
  void stop_and_replace();

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace kcx::test
