#define CAF_SUITE metrics
#include "actors/inspector/metrics.hpp"

#include "caf/test/unit_test.hpp"

#include <set>
#include <sstream>

using namespace kcx;
using namespace std::chrono_literals;

namespace {

actor_sample worker(std::uint64_t id, std::uint64_t mailbox, std::uint64_t handled) {
  actor_sample sample;
  sample.id = id;
  sample.name = "worker";
  sample.mailbox = mailbox;
  sample.handled = handled;
  sample.busy = 500ms;
  sample.restarts = 3;
  return sample;
}

} // namespace

CAF_TEST(actors of one name are one series) {
  metrics_input input;
  input.actors = {worker(1, 2, 10), worker(2, 3, 20)};
  const auto text = metrics_text(input);
  CAF_CHECK(text.find("kcx_actors{actor=\"worker\"} 2\n") != std::string::npos);
  CAF_CHECK(text.find("kcx_actor_mailbox_depth{actor=\"worker\"} 5\n") != std::string::npos);
  CAF_CHECK(text.find("kcx_actor_messages_total{actor=\"worker\"} 30\n") != std::string::npos);
  CAF_CHECK(text.find("kcx_actor_busy_seconds_total{actor=\"worker\"} 1\n") != std::string::npos);
  CAF_CHECK(text.find("kcx_actor_restarts_total{actor=\"worker\"} 3\n") != std::string::npos);
  CAF_CHECK(text.find("kcx_actor_in_handler_seconds{actor=\"worker\"} 0\n") != std::string::npos);
}

CAF_TEST(every sample is a line of its own with help and type) {
  metrics_input input;
  input.actors = {worker(1, 2, 10)};
  input.queue = queue_stats{};
  input.database = {{"commits", 1}};
  std::istringstream lines{metrics_text(input)};
  std::set<std::string> seen;
  std::set<std::string> typed;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      CAF_CHECK(typed.insert(line.substr(7, line.find(' ', 7) - 7)).second);
    } else if (!line.starts_with("#")) {
      CAF_CHECK(seen.insert(line.substr(0, line.rfind(' '))).second);
      CAF_CHECK(typed.contains(line.substr(0, line.find_first_of("{ "))));
    }
  }
  CAF_CHECK(seen.size() > 20);
}

CAF_TEST(every state has a count and an empty queue no age) {
  metrics_input input;
  input.queue = queue_stats{};
  const auto text = metrics_text(input);
  for (const auto* state : {"scheduled", "queued", "running", "succeeded", "timed_out", "skipped"})
    CAF_CHECK(text.find(std::string{"kcx_jobs{state=\""} + state + "\"} 0\n") != std::string::npos);
  CAF_CHECK(text.find("kcx_oldest_queued_age_seconds 0\n") != std::string::npos);
}
