#define CAF_SUITE runner_protocol
#include "actors/runner/protocol.hpp"

#include "caf/test/unit_test.hpp"

using namespace kcx;

namespace {

start_command full_start() {
  start_command start;
  start.key = {{12}, 3};
  start.steps = {{"build", {"make", "all", "\xc3\xa4"}, true, false, milliseconds{1500}},
                 {"clean", {"rm"}, false, true, {}}};
  start.env = {{"A", "1"}, {"B", "two\nlines"}};
  start.workspace = "/data/workspaces/12-3";
  start.keep_workspace = keep_policy::on_failure;
  start.fetch = {{{5}, "/data/artifacts/5-1", {}}, {{6}, {}, "gone"}};
  start.artifacts = {"dist/**", "*.xml"};
  start.artifacts_dir = "/data/artifacts/12-3";
  start.artifacts_limit_bytes = 777;
  start.working_dir = "src";
  start.log_file = "/data/logs/0/12-3.log";
  start.log_limit_bytes = 1234;
  start.time_limit = milliseconds{60'000};
  start.no_output_limit = milliseconds{5'000};
  start.cancel_grace = milliseconds{7};
  start.secrets = {"hush"};
  start.user = "nobody";
  start.limits = {1, 2, 3, 4, 5, 6};
  start.cgroup = "/sys/fs/cgroup/kcx-jobs/12-3";
  start.cgroup_limits.cpu_millis = 1'500;
  start.umask = 077;
  return start;
}

finished_event full_finished() {
  finished_event event;
  event.key = {{12}, 3};
  event.outcome = run_outcome::cancelled;
  event.cause = cancel_cause::node_stop;
  event.exit_code = 1;
  event.signal = 9;
  event.message = "words";
  event.log = {10, 8, 3, 1, true};
  event.artifacts = {2, 99, true};
  event.outputs = {{"version", "1.2"}};
  event.steps = {{step_state::failed, 1, {}, timestamp{milliseconds{5}}, timestamp{milliseconds{6}}},
                 {step_state::skipped, {}, {}, {}, {}}};
  event.started_at = timestamp{milliseconds{5}};
  event.finished_at = timestamp{milliseconds{9}};
  event.duration = milliseconds{4};
  event.workspace_kept = true;
  event.workspace_error = "none";
  return event;
}

template <class Message>
std::string body_of(const Message& message) {
  auto frame = encode(message);
  CAF_REQUIRE(frame.has_value());
  return frame->substr(4);
}

} // namespace

CAF_TEST(every command survives its way over the socket) {
  const std::vector<runner_command> commands{full_start(),
                                             cancel_command{{{1}, 2}, cancel_cause::node_stop, milliseconds{4}},
                                             cancel_command{{{1}, 2}, cancel_cause::cancelled, {}},
                                             kill_command{},
                                             quit_command{},
                                             ping_command{}};
  for (const auto& command : commands) {
    const auto back = decode_command(body_of(command));
    CAF_REQUIRE(back.has_value());
    CAF_CHECK(*back == command);
  }
}

CAF_TEST(every event survives its way over the socket) {
  const std::vector<runner_event> events{ready_event{7},
                                         started_event{{{1}, 2}, timestamp{milliseconds{3}}, 4},
                                         step_event{{{1}, 2}, 3, step_state::failed, 4, {}, timestamp{milliseconds{5}}},
                                         log_event{{{1}, 2}, 99},
                                         full_finished(),
                                         pong_event{}};
  for (const auto& event : events) {
    const auto back = decode_event(body_of(event));
    CAF_REQUIRE(back.has_value());
    CAF_CHECK(*back == event);
  }
}

CAF_TEST(frames are found wherever the stream is cut) {
  std::string stream;
  for (int i = 0; i < 3; ++i)
    stream += *encode(runner_event{ready_event{i}});
  for (std::size_t size = 1; size <= stream.size(); ++size) {
    frame_splitter splitter;
    std::vector<std::int32_t> pids;
    for (std::size_t at = 0; at < stream.size(); at += size) {
      splitter.feed(std::string_view{stream}.substr(at, size));
      for (auto frame = splitter.next(); frame && *frame; frame = splitter.next())
        pids.push_back(std::get<ready_event>(*decode_event(**frame)).pid);
    }
    CAF_CHECK((pids == std::vector<std::int32_t>{0, 1, 2}));
  }
}

CAF_TEST(malformed frames are refused) {
  CAF_CHECK(!decode_command("{"));
  CAF_CHECK(!decode_command("[]"));
  CAF_CHECK(!decode_command(R"({"kind":"dance"})"));
  CAF_CHECK(!decode_command(R"({"kind":7})"));
  CAF_CHECK(!decode_event(R"({"kind":"finished","job_id":1,"attempt":1,"outcome":"fun"})"));
  auto no_command = full_start();
  no_command.steps[0].argv.clear();
  CAF_CHECK(!decode_command(body_of(runner_command{no_command})));
  frame_splitter splitter;
  splitter.feed("\xff\xff\xff\xff");
  CAF_CHECK(!splitter.next());
}

CAF_TEST(a start that is too large is refused with its size) {
  auto start = full_start();
  start.env["BIG"] = std::string(max_frame_bytes, 'x');
  const auto frame = encode(runner_command{start});
  CAF_REQUIRE(!frame);
  CAF_CHECK(frame.error().code == ec::invalid_input);
}

CAF_TEST(a message with bytes that are no text still arrives) {
  auto event = full_finished();
  event.message = "bad \xff byte";
  const auto back = decode_event(body_of(runner_event{event}));
  CAF_REQUIRE(back.has_value());
  CAF_CHECK_EQUAL(std::get<finished_event>(*back).message, "bad \xef\xbf\xbd byte");
}
