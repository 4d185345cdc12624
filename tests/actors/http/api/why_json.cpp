#define CAF_SUITE why_json
#include "actors/http/api/why_json.hpp"

#include "caf/test/unit_test.hpp"

using namespace kcx;
using namespace kcx::http;

namespace {

job_record job(job_state state) {
  job_record result;
  result.id = {12};
  result.state = state;
  result.worker = "node/1";
  return result;
}

/// Ready, with everything in its favour.
dispatch_view free_view() {
  dispatch_view view;
  view.known = true;
  view.position = 1;
  view.ready = 1;
  view.free = view.capacity = view.workers = view.idle_workers = 2;
  return view;
}

std::vector<std::string> kinds(const nlohmann::json& document) {
  std::vector<std::string> result;
  for (const auto& each : document["reasons"])
    result.push_back(each["kind"]);
  return result;
}

using texts = std::vector<std::string>;

std::string text_of(const nlohmann::json& document) {
  return document["text"];
}

nlohmann::json why_ended(const job_record& about) {
  return why_document(about, {});
}

nlohmann::json why_queued(const job_record& about, const dispatch_view& seen, const job_blockers& others = {}) {
  return why_queued_document(about, seen, others);
}

} // namespace

CAF_TEST(a database that refuses claims holds back what would be next) {
  auto seen = free_view();
  seen.trouble = "the disk of /data has 1 MB free";
  const auto told = why_queued(job(job_state::queued), seen);
  CAF_CHECK_EQUAL(kinds(told), texts{"storage"});
  CAF_CHECK_EQUAL(text_of(told), "No job can start now: the disk of /data has 1 MB free.");
}

CAF_TEST(every state has its reason) {
  CAF_CHECK_EQUAL(kinds(why_ended(job(job_state::running))), texts{"running"});
  CAF_CHECK_EQUAL(kinds(why_ended(job(job_state::cancelling))), texts{"cancelling"});
  CAF_CHECK_EQUAL(kinds(why_ended(job(job_state::blocked))), texts{"needs"});
  CAF_CHECK_EQUAL(kinds(why_ended(job(job_state::scheduled))), texts{"start_time"});
  CAF_CHECK_EQUAL(kinds(why_ended(job(job_state::skipped))), texts{"ended"});
  auto retry = job(job_state::scheduled);
  retry.reason = job_reason::retry;
  CAF_CHECK_EQUAL(kinds(why_ended(retry)), texts{"retry"});
  CAF_CHECK(!why_ended(job(job_state::failed))["waits"].get<bool>());
}

CAF_TEST(a ready job is held back by turn or slots or weight or labels or a pause) {
  const auto queued = job(job_state::queued);
  auto view = free_view();
  CAF_CHECK_EQUAL(kinds(why_queued(queued, view)), texts{"starting"});
  view.position = 4;
  view.free = view.idle_workers = 0;
  const auto behind = why_queued(queued, view);
  CAF_CHECK_EQUAL(kinds(behind), (texts{"turn", "slots"}));
  CAF_CHECK_EQUAL(behind["position"], 4);
  CAF_CHECK_EQUAL(behind["reasons"][0]["ahead"], 3);
  view = free_view();
  view.weight = 9;
  view.free = 1;
  view.reserved_for = job_id{12};
  const auto heavy = why_queued(queued, view);
  CAF_CHECK_EQUAL(kinds(heavy), texts{"weight"});
  CAF_CHECK_EQUAL(heavy["text"], "It takes 2 slots and 1 of 2 are free; they are kept for it.");
  view.reserved_for.reset();
  view.weight = 3;
  view.capacity = 5;
  view.idle_workers = 0;
  CAF_CHECK_EQUAL(text_of(why_queued(queued, view)), "It takes 3 slots and 1 of 5 are free.");
  view.weight = 1;
  auto labelled = queued;
  labelled.spec.labels = {"arm"};
  CAF_CHECK_EQUAL(text_of(why_queued(labelled, view)),
                  "All workers for queue default with the label arm are busy or take no jobs.");
  view.missing_labels = {"gpu"};
  CAF_CHECK_EQUAL(text_of(why_queued(queued, view)), "No worker has the label gpu.");
  job_blockers pause;
  pause.paused = queue_pause{timestamp{std::chrono::milliseconds{0}}, "ann"};
  CAF_CHECK_EQUAL(kinds(why_queued(queued, view, pause)), (texts{"paused", "labels"}));
  view = free_view();
  view.workers = view.idle_workers = 0;
  CAF_CHECK_EQUAL(kinds(why_queued(queued, view)), texts{"workers"});
  view.known = false;
  view.claiming = true;
  CAF_CHECK_EQUAL(kinds(why_queued(queued, view)), texts{"starting"});
  view.draining = true;
  CAF_CHECK_EQUAL(kinds(why_queued(queued, view)), texts{"draining"});
}

CAF_TEST(a blocked job names what it needs) {
  auto blocked = job(job_state::blocked);
  blocked.spec.needs = {{job_id{7}, "", need_condition::success}};
  job_blockers others;
  others.needs = {{job_id{7}, need_condition::success, job_state::running}};
  others.open_needs = 1;
  const auto one = why_document(blocked, others);
  CAF_CHECK_EQUAL(one["text"], "It waits for the end of job 7 (running).");
  CAF_CHECK_EQUAL(one["reasons"][0]["needs"], nlohmann::json::parse(R"([{"id":7,"if":"success","state":"running"}])"));
  others.needs.push_back({job_id{9}, need_condition::always, job_state::cancelling});
  others.open_needs = 30;
  const auto many = why_document(blocked, others);
  CAF_CHECK_EQUAL(many["text"],
                  "It waits for the end of jobs 7 (running), 9 (cancelling) and 28 others. One of them had "
                  "its unique key before, and its processes are still being ended.");
  CAF_CHECK(many["reasons"][0]["needs"][1]["if"].is_null());
  CAF_CHECK_EQUAL(many["reasons"][0]["open"], 30);
}

CAF_TEST(a job of a full group or behind another names its group) {
  auto grouped = job(job_state::queued);
  grouped.spec.group = "deploy";
  job_blockers others;
  others.group_limit = 1;
  others.group_held = 1;
  others.group_next = job_id{12};
  const auto full = why_queued_document(grouped, free_view(), others);
  CAF_CHECK_EQUAL(full["text"], "1 job of its group deploy runs; it starts when fewer than 1 do.");
  CAF_CHECK_EQUAL(full["reasons"][0]["next"], 12);
  others.group_next = job_id{5};
  CAF_CHECK_EQUAL(text_of(why_queued_document(grouped, free_view(), others)),
                  "1 job of its group deploy runs; when fewer than 1 do, job 5 starts before it.");
  others.group_held = 0;
  others.group_next = job_id{5};
  CAF_CHECK_EQUAL(text_of(why_queued_document(grouped, free_view(), others)),
                  "Job 5 of its group deploy was submitted before it and starts first.");
  others.group_next = job_id{12};
  CAF_CHECK_EQUAL(kinds(why_queued_document(grouped, free_view(), others)), texts{"starting"});
}
