#define CAF_SUITE ready_index
#include "actors/dispatcher/ready_index.hpp"

#include "caf/test/unit_test.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace kcx;

namespace {

ready_job job(std::int64_t id, std::int64_t key, std::string project = "p", std::vector<std::string> labels = {}) {
  return {{id}, key, 1, std::move(project), "default", std::move(labels)};
}

std::int64_t take_id(ready_index& index, const std::vector<std::string>& labels = {}) {
  const auto taken = index.take(labels);
  return taken ? taken->id.value : 0;
}

/// The rule of the header in its plainest form: one list, searched from end to end.
class naive_index {
public:
  void add(const ready_job& added) {
    if (std::ranges::any_of(jobs_, [&](const auto& each) { return each.id == added.id; }))
      return;
    auto& owner = projects_[added.project];
    if (std::ranges::none_of(jobs_, [&](const auto& each) { return each.project == added.project; }))
      owner.tag = std::max(owner.tag, now_);
    jobs_.push_back(added);
  }

  bool remove(job_id id) {
    return std::erase_if(jobs_, [id](const auto& each) { return each.id == id; }) != 0;
  }

  std::int64_t take(const std::vector<std::string>& labels) {
    auto best = jobs_.end();
    for (auto each = jobs_.begin(); each != jobs_.end(); ++each) {
      const bool fits = std::ranges::all_of(
        each->labels, [&](const auto& label) { return std::ranges::find(labels, label) != labels.end(); });
      if (fits && (best == jobs_.end() || rank(*each) < rank(*best)))
        best = each;
    }
    if (best == jobs_.end())
      return 0;
    const auto id = best->id.value;
    auto& owner = projects_[best->project];
    owner.held += best->weight;
    now_ = std::max(now_, owner.tag);
    owner.tag = now_ + best->weight;
    jobs_.erase(best);
    return id;
  }

  void release(const std::string& name, std::int32_t weight) {
    auto& owner = projects_[name];
    owner.held -= weight;
    owner.tag = std::max(owner.tag, now_);
  }

private:
  struct share {
    std::int64_t held = 0;
    std::int64_t tag = 0;
  };

  std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t> rank(const ready_job& each) {
    const auto& owner = projects_[each.project];
    return {owner.held, owner.tag, each.order_key, each.id.value};
  }

  std::vector<ready_job> jobs_;
  std::map<std::string, share> projects_;
  std::int64_t now_ = 0;
};

/// A different one each time; KCX_TEST_SEED repeats a run.
std::mt19937 random_source() {
  const char* given = std::getenv("KCX_TEST_SEED");
  const auto seed = given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
  CAF_MESSAGE("KCX_TEST_SEED=" << seed);
  return std::mt19937{seed};
}

} // namespace

CAF_TEST(a job of a group is handed out once the one before it has been) {
  ready_index index;
  const auto behind = [](std::int64_t id, std::int64_t after, std::int64_t key = -100) {
    auto made = job(id, key);
    made.after = job_id{after};
    return made;
  };
  index.add(job(1, 0));
  index.add(behind(2, 1));
  index.add(behind(3, 2));
  index.add(behind(2, 1)); // told again
  CAF_CHECK_EQUAL(index.size(), 1u);
  CAF_CHECK_EQUAL(take_id(index), 1);
  CAF_CHECK_EQUAL(take_id(index), 2);
  index.add(behind(4, 3));
  index.add(behind(5, 4));
  CAF_CHECK(index.remove(job_id{4}));
  CAF_CHECK_EQUAL(take_id(index), 3);
  CAF_CHECK_EQUAL(take_id(index), 5);
  index.add(behind(6, 5)); // the one before it is on its way
  CAF_CHECK_EQUAL(take_id(index), 6);
  CAF_CHECK_EQUAL(take_id(index), 0);
}

CAF_TEST(a job of a group that comes in between goes before those that were known) {
  ready_index index;
  const auto behind = [](std::int64_t id, std::int64_t after) {
    auto made = job(id, id);
    made.after = job_id{after};
    return made;
  };
  index.add(job(5, 5));
  index.add(behind(6, 5));
  index.add(job(3, 3));
  index.add(behind(5, 3));
  index.add(behind(6, 5));
  CAF_CHECK_EQUAL(index.size(), 1u);
  index.add(behind(4, 3));
  index.add(behind(5, 4));
  std::vector<std::int64_t> order;
  while (const auto id = take_id(index))
    order.push_back(id);
  CAF_CHECK_EQUAL(order, (std::vector<std::int64_t>{3, 4, 5}));
}

CAF_TEST(what a paused queue holds up of a group is forgotten with it) {
  ready_index index;
  auto second = job(2, 2);
  second.after = job_id{1};
  second.queue = "other";
  auto third = job(3, 3);
  third.after = job_id{2};
  index.add(job(1, 1));
  index.add(second);
  index.add(third);
  index.remove_queue("other");
  CAF_CHECK_EQUAL(take_id(index), 1);
  CAF_CHECK_EQUAL(take_id(index), 0);
  index.add(job(1, 1));
  index.add(second);
  index.remove_queue("default");
  CAF_CHECK_EQUAL(take_id(index), 0);
}

CAF_TEST(jobs of one project come by order key and then by id) {
  ready_index index;
  for (const auto& each : {job(3, 20), job(1, 30), job(4, 10), job(2, 20)})
    index.add(each);
  CAF_CHECK_EQUAL(take_id(index), 4);
  CAF_CHECK_EQUAL(take_id(index), 2);
  CAF_CHECK_EQUAL(take_id(index), 3);
  CAF_CHECK_EQUAL(take_id(index), 1);
  CAF_CHECK_EQUAL(take_id(index), 0);
}

CAF_TEST(a job added twice is handed out once) {
  ready_index index;
  index.add(job(1, 1));
  index.add(job(1, 1));
  CAF_CHECK_EQUAL(take_id(index), 1);
  CAF_CHECK_EQUAL(take_id(index), 0);
}

CAF_TEST(a removed job is not handed out) {
  ready_index index;
  index.add(job(1, 1));
  CAF_CHECK(index.remove({1}));
  CAF_CHECK(!index.remove({1}));
  CAF_CHECK_EQUAL(take_id(index), 0);
}

CAF_TEST(a worker gets only jobs whose labels it has all of) {
  ready_index index;
  index.add(job(1, 1, "p", {"gpu", "linux"}));
  index.add(job(2, 2, "p", {"linux"}));
  index.add(job(3, 3, "p"));
  CAF_CHECK_EQUAL(take_id(index), 3);
  CAF_CHECK_EQUAL(take_id(index, {"gpu"}), 0);
  CAF_CHECK_EQUAL(take_id(index, {"linux"}), 2);
  CAF_CHECK_EQUAL(take_id(index, {"gpu", "linux", "x86"}), 1);
}

CAF_TEST(a job comes back with all that it was added with) {
  ready_index index;
  ready_job added{{7}, 70, 3, "project", "nightly", {"b", "a", "b"}};
  index.add(added);
  const auto taken = index.take({"a", "b"});
  CAF_REQUIRE(taken.has_value());
  CAF_CHECK_EQUAL(taken->order_key, 70);
  CAF_CHECK_EQUAL(taken->weight, 3);
  CAF_CHECK_EQUAL(taken->project, "project");
  CAF_CHECK_EQUAL(taken->queue, "nightly");
  CAF_CHECK(taken->labels == std::vector<std::string>({"a", "b"}));
}

CAF_TEST(a project with a thousand jobs delays the first job of another by no more than one free slot) {
  for (const std::int32_t slots : {1, 2, 4}) {
    ready_index index;
    for (std::int64_t id = 1; id <= 1'000; ++id)
      index.add(job(id, id, "many"));
    // All slots are busy with the first project, then one after the other comes free.
    for (std::int32_t i = 0; i < slots; ++i)
      CAF_REQUIRE(take_id(index) != 0);
    index.add(job(2'000, 2'000, "one"));
    std::int32_t free_slots = 0;
    for (;;) {
      index.release("many", 1);
      ++free_slots;
      if (take_id(index) == 2'000)
        break;
    }
    CAF_CHECK_EQUAL(free_slots, 1);
  }
}

CAF_TEST(with one slot two projects take turns) {
  ready_index index;
  for (std::int64_t id = 1; id <= 20; ++id)
    index.add(job(id, id, id <= 10 ? "a" : "b"));
  std::string order;
  for (int i = 0; i < 20; ++i) {
    const auto taken = index.take({});
    CAF_REQUIRE(taken.has_value());
    order += taken->project;
    index.release(taken->project, taken->weight);
  }
  CAF_CHECK_EQUAL(order, "abababababababababab");
}

CAF_TEST(a project is not paid back for the time it had nothing to do) {
  ready_index index;
  for (std::int64_t id = 1; id <= 100; ++id)
    index.add(job(id, id, "busy"));
  for (int i = 0; i < 50; ++i) {
    CAF_REQUIRE(take_id(index) != 0);
    index.release("busy", 1);
  }
  for (std::int64_t id = 201; id <= 210; ++id)
    index.add(job(id, id, "late"));
  std::string order;
  for (int i = 0; i < 6; ++i) {
    const auto taken = index.take({});
    CAF_REQUIRE(taken.has_value());
    order += taken->project == "late" ? 'l' : 'b';
    index.release(taken->project, taken->weight);
  }
  CAF_CHECK_EQUAL(order, "lblblb");
}

CAF_TEST(what a project holds elsewhere counts) {
  ready_index index;
  index.hold("a", 2);
  index.add(job(1, 1, "a"));
  index.add(job(2, 2, "b"));
  CAF_CHECK_EQUAL(take_id(index), 2);
}

CAF_TEST(a snapshot replaces the jobs but not what projects hold) {
  ready_index index;
  index.add(job(1, 1, "a"));
  CAF_REQUIRE_EQUAL(take_id(index), 1);
  index.add(job(9, 0, "a"));
  index.reset({{job(2, 2, "a"), job(3, 3, "b")}, {}, false});
  CAF_CHECK_EQUAL(index.size(), 2u);
  CAF_CHECK(!index.truncated());
  CAF_CHECK_EQUAL(take_id(index), 3);
  CAF_CHECK_EQUAL(take_id(index), 2);
}

CAF_TEST(a full window drops the last job of the longest lane) {
  ready_index index{4};
  for (std::int64_t id = 1; id <= 4; ++id)
    index.add(job(id, id, "many"));
  CAF_CHECK(!index.truncated());
  index.add(job(10, 10, "one"));
  CAF_CHECK_EQUAL(index.size(), 4u);
  CAF_CHECK(index.contains({10}));
  CAF_CHECK(!index.contains({4}));
  CAF_CHECK(index.truncated());
  CAF_CHECK(!index.wants_refill());
  CAF_CHECK_EQUAL(take_id(index), 1);
  CAF_CHECK_EQUAL(take_id(index), 10);
  CAF_CHECK_EQUAL(take_id(index), 2);
  CAF_CHECK_EQUAL(take_id(index), 3);
  const auto from = index.wants_refill();
  CAF_REQUIRE(from && from->project == "many");
  // The next refill begins with the job that was dropped.
  CAF_CHECK((ready_position{3, {3}}) <= (ready_position{from->order_key, from->id}));
  CAF_CHECK((ready_position{from->order_key, from->id}) < (ready_position{4, {4}}));
}

CAF_TEST(a lane has a bound of its own) {
  ready_index index{100, 3};
  for (std::int64_t id = 1; id <= 5; ++id)
    index.add(job(id, id));
  CAF_CHECK_EQUAL(index.size(), 3u);
  index.add(job(9, 9));
  CAF_CHECK(!index.contains({9})); // behind what was dropped: its turn comes with a refill
  index.add(job(10, 0));
  CAF_CHECK(index.contains({10}));
  CAF_CHECK_EQUAL(index.size(), 3u);
}

CAF_TEST(a lane that drains asks for a refill and goes on from there) {
  ready_index index{4};
  index.reset({{job(1, 1), job(2, 2), job(3, 3), job(4, 4)}, {job(4, 4)}, false});
  CAF_CHECK(index.truncated());
  CAF_CHECK(!index.wants_refill());
  for (std::int64_t id = 1; id <= 3; ++id)
    CAF_CHECK_EQUAL(take_id(index), id);
  const auto from = index.wants_refill();
  CAF_REQUIRE(from && from->id == job_id{4});
  index.refill(*from, {{job(5, 5)}, {}, false});
  CAF_CHECK(!index.truncated());
  CAF_CHECK_EQUAL(take_id(index), 4);
  CAF_CHECK_EQUAL(take_id(index), 5);
}

CAF_TEST(a lane with nothing known left is filled again) {
  ready_index index{4};
  index.reset({{job(1, 1)}, {job(1, 1)}, false});
  CAF_CHECK_EQUAL(take_id(index), 1);
  CAF_CHECK_EQUAL(take_id(index), 0);
  const auto from = index.wants_refill();
  CAF_REQUIRE(from.has_value());
  index.refill(*from, {{}, {job(7, 7)}, false}); // all that came is being claimed
  const auto further = index.wants_refill();
  CAF_REQUIRE(further && further->id == job_id{7});
  index.refill(*from, {{job(2, 2)}, {}, false}); // an answer to an older question
  CAF_CHECK(!index.contains({2}));
  index.refill(*further, {});
  CAF_CHECK(!index.wants_refill());
  CAF_CHECK(!index.truncated());
}

CAF_TEST(a worker that serves some queues gets their jobs only) {
  ready_index index;
  index.add(job(1, 1));
  auto night = job(2, 2);
  night.queue = "night";
  index.add(night);
  const std::vector<std::string> none;
  const std::vector<std::string> queues{"night"};
  CAF_CHECK(index.take({none, INT64_MAX, &queues})->id == job_id{2});
  CAF_CHECK(!index.take({none, INT64_MAX, &queues}));
}

CAF_TEST(any history of operations hands out what a plain list would) {
  auto random = random_source();
  const auto pick = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
  const std::vector<std::vector<std::string>> label_sets{{}, {"a"}, {"b"}, {"a", "b"}, {"a", "b", "c"}};
  for (int history = 0; history < 200; ++history) {
    ready_index index;
    naive_index model;
    std::vector<std::pair<std::string, std::int32_t>> held;
    std::int64_t last_id = 0;
    for (int i = 0; i < 200; ++i) {
      const auto& labels = label_sets[static_cast<std::size_t>(pick(5))];
      const auto what = pick(10);
      if (what < 4) {
        auto added = job(++last_id, pick(20), "p" + std::to_string(pick(4)), labels);
        added.weight = 1 + pick(3);
        index.add(added);
        model.add(added);
      } else if (what < 7) {
        const auto taken = index.take(labels);
        CAF_REQUIRE_EQUAL(taken ? taken->id.value : 0, model.take(labels));
        if (taken)
          held.emplace_back(taken->project, taken->weight);
      } else if (what < 9 && !held.empty()) {
        const auto [project, weight] = held.back();
        held.pop_back();
        index.release(project, weight);
        model.release(project, weight);
      } else {
        const job_id gone{1 + pick(static_cast<int>(last_id) + 1)};
        CAF_REQUIRE_EQUAL(index.remove(gone), model.remove(gone));
      }
    }
  }
}

CAF_TEST(with a small window and refills every job is handed out exactly once) {
  auto random = random_source();
  for (int history = 0; history < 100; ++history) {
    std::map<ready_position, ready_job> database;
    ready_index index{8};
    std::int64_t last_id = 0;
    std::vector<std::int64_t> taken;
    const auto add = [&] {
      auto added = job(++last_id, static_cast<std::int64_t>(random() % 50), "p" + std::to_string(random() % 3));
      database.emplace(ready_position{added.order_key, added.id}, added);
      return added;
    };
    for (int i = 0; i < 30; ++i)
      add();
    const auto behind = [&](const ready_job& from, std::size_t limit) {
      ready_window window;
      for (const auto& [at, each] : database) {
        if (each.project != from.project || at <= ready_position{from.order_key, from.id})
          continue;
        if (window.jobs.size() == limit) {
          window.more.push_back(window.jobs.back());
          break;
        }
        window.jobs.push_back(each);
      }
      return window;
    };
    ready_window first;
    for (const auto* project : {"p0", "p1", "p2"}) {
      const auto lane = behind(job(0, -1, project), 2);
      first.jobs.insert(first.jobs.end(), lane.jobs.begin(), lane.jobs.end());
      first.more.insert(first.more.end(), lane.more.begin(), lane.more.end());
    }
    index.reset(first);
    while (!database.empty()) {
      if (random() % 3 == 0 && last_id < 60)
        index.add(add());
      while (const auto from = index.wants_refill())
        index.refill(*from, behind(*from, index.refill_limit()));
      CAF_REQUIRE(index.size() <= 8);
      if (const auto next = index.take({})) {
        CAF_REQUIRE_EQUAL(database.erase(ready_position{next->order_key, next->id}), 1u);
        taken.push_back(next->id.value);
        index.release(next->project, next->weight);
      } else {
        CAF_REQUIRE(index.wants_refill());
      }
    }
    CAF_CHECK_EQUAL(taken.size(), static_cast<std::size_t>(last_id));
  }
}

CAF_TEST(more lanes than places push each other out for no refill) {
  ready_index index{4};
  for (std::int64_t id = 1; id <= 4; ++id)
    index.add(job(id, id, "p" + std::to_string(id)));
  CAF_CHECK(!index.lanes_left_out());
  index.add(job(5, 5, "p5"));
  CAF_CHECK(index.lanes_left_out() && index.truncated());
  CAF_CHECK_EQUAL(index.size(), 4u);
  CAF_CHECK(!index.wants_refill());
  CAF_CHECK_EQUAL(take_id(index), 1);
  CAF_CHECK_EQUAL(take_id(index), 2);
  CAF_CHECK(!index.wants_refill() && !index.runs_low());
  CAF_CHECK_EQUAL(take_id(index), 3);
  CAF_CHECK(index.runs_low());
  index.reset({{job(4, 4, "p4"), job(5, 5, "p5")}, {}, false});
  CAF_CHECK(!index.lanes_left_out() && !index.runs_low());
}

CAF_TEST(a job of a lane that was left out does not go before its elders) {
  ready_index index;
  index.reset({{job(1, 1)}, {}, true});
  index.add(job(9, 9, "q"));
  index.add(job(8, 8));
  CAF_CHECK(!index.contains({9}) && index.contains({8}));
  const auto from = index.wants_refill();
  CAF_REQUIRE(from && from->project == "q");
  index.refill(*from, {{job(2, 2, "q"), job(9, 9, "q")}, {}, false});
  CAF_CHECK(!index.wants_refill());
  CAF_CHECK_EQUAL(take_id(index), 1);
  CAF_CHECK_EQUAL(take_id(index), 2);
  index.release("q", 1);
  CAF_CHECK_EQUAL(take_id(index), 9);
}

CAF_TEST(with more lanes than places every job is handed out exactly once) {
  auto random = random_source();
  for (int history = 0; history < 100; ++history) {
    std::map<std::string, std::map<ready_position, ready_job>> database;
    ready_index index{6};
    std::int64_t last_id = 0;
    std::vector<std::int64_t> taken;
    std::string shown_to;
    const auto add = [&] {
      auto added = job(++last_id, static_cast<std::int64_t>(random() % 50), "p" + std::to_string(random() % 20));
      database[added.project].emplace(ready_position{added.order_key, added.id}, added);
      return added;
    };
    const auto show = [&](const std::string& project, const ready_position& from, std::size_t limit, ready_window& to) {
      const auto& lane = database[project];
      std::size_t shown = 0;
      for (auto each = lane.upper_bound(from); each != lane.end(); ++each, ++shown) {
        if (shown == limit)
          return to.more.push_back(to.jobs.back());
        to.jobs.push_back(each->second);
      }
    };
    const auto snapshot = [&] {
      std::erase_if(database, [](const auto& each) { return each.second.empty(); });
      ready_window window;
      auto lane = database.upper_bound(shown_to);
      for (std::size_t shown = 0; shown < std::min<std::size_t>(4, database.size()); ++shown, ++lane) {
        if (lane == database.end())
          lane = database.begin();
        show(lane->first, {INT64_MIN, {}}, 1, window);
        shown_to = lane->first;
      }
      window.lanes_left_out = database.size() > 4;
      return window;
    };
    for (int i = 0; i < 40; ++i)
      add();
    index.reset(snapshot());
    for (auto left = std::size_t{40}; left > 0 || last_id < 80;) {
      if (last_id < 80 && random() % 2 == 0) {
        index.add(add());
        ++left;
      }
      for (auto refills = 0; const auto from = index.wants_refill(); ++refills) {
        CAF_REQUIRE_LESS(refills, 100);
        ready_window window;
        show(from->project, {from->order_key, from->id}, 3, window);
        index.refill(*from, window);
      }
      CAF_REQUIRE(index.size() <= 6);
      if (index.runs_low())
        index.reset(snapshot());
      if (const auto next = index.take({})) {
        CAF_REQUIRE_EQUAL(database[next->project].begin()->second.id.value, next->id.value);
        database[next->project].erase(ready_position{next->order_key, next->id});
        taken.push_back(next->id.value);
        index.release(next->project, next->weight);
        --left;
      } else if (left > 0) {
        CAF_REQUIRE(index.lanes_left_out());
        index.reset(snapshot()); // as the turn of others comes
      }
    }
    CAF_CHECK_EQUAL(taken.size(), 80u);
  }
}

CAF_TEST(free slots are kept for a heavy job until it fits) {
  ready_index index;
  auto heavy = job(1, 1);
  heavy.weight = 3;
  index.add(heavy);
  index.add(job(2, 2));
  CAF_CHECK(!index.take({}, 2));
  CAF_CHECK(index.reserved_for() == job_id{1});
  CAF_CHECK(index.take({}, 3)->id == job_id{1});
  CAF_CHECK(!index.reserved_for());
  CAF_CHECK(index.take({}, 1)->id == job_id{2});
}

CAF_TEST(a worker that names its queues costs nothing for the others) {
  ready_index index;
  for (std::int64_t id = 1; id <= 100; ++id) {
    auto each = job(id, id, "p", id % 2 == 0 ? std::vector<std::string>{"arm"} : std::vector<std::string>{});
    each.queue = "q" + std::to_string(id / 4);
    index.add(each);
  }
  const std::vector<std::string> none;
  const std::vector<std::string> queues{"none", "q1", "q10"};
  CAF_CHECK_EQUAL(std::int64_t{index.take({none, 9, &queues})->id.value}, 5);
  CAF_CHECK_EQUAL(index.looked_at(), 4u);
  CAF_CHECK_EQUAL(std::int64_t{index.take({none, 9, &queues})->id.value}, 7);
  CAF_CHECK_EQUAL(std::int64_t{index.take({none, 9, &queues})->id.value}, 41);
}

CAF_TEST(news is what becomes ready where nothing was) {
  ready_index index;
  using kinds = std::vector<std::string>;
  const auto news = [&] {
    kinds names;
    for (const auto& each : index.take_news())
      names.push_back(each.queue + (each.labels.empty() ? "" : "/" + each.labels[0]));
    return names;
  };
  index.add(job(1, 1));
  index.add(job(2, 2, "other"));
  index.add(job(3, 3, "p", {"arm"}));
  auto next = job(4, 4);
  next.queue = "q";
  next.after = job_id{3};
  index.add(next);
  CAF_CHECK_EQUAL(news(), (kinds{"default", "default/arm"}));
  CAF_CHECK(!index.has_news());
  CAF_CHECK_EQUAL(take_id(index), 1);
  index.add(job(5, 5));
  CAF_CHECK(!index.has_news());
  CAF_CHECK_EQUAL(take_id(index) + take_id(index), 7);
  index.add(job(6, 6));
  index.remove(job_id{3}); // lets 4 follow
  CAF_CHECK_EQUAL(news(), (kinds{"default", "q"}));
}

CAF_TEST(a worker that has room for everything it may have is kept from nothing) {
  ready_index index;
  auto heavy = job(1, 1);
  heavy.weight = 3;
  index.add(heavy);
  const std::vector<std::string> none;
  const std::vector<std::string> other{"other"};
  CAF_CHECK(!index.take({none, 1, nullptr, 5}));
  CAF_CHECK(index.reserved_for() == job_id{1});
  CAF_CHECK(!index.take({none, 1, &other, 5}));
  CAF_CHECK(!index.reserved_for());
  CAF_CHECK(index.take({none, 1, nullptr, 1})->id == job_id{1});
}

CAF_TEST(a job heavier than everything there is fits when all is free) {
  ready_index index;
  auto heavy = job(1, 1);
  heavy.weight = 50;
  index.add(heavy);
  index.limit_weight(4);
  CAF_CHECK(!index.take({}, 3));
  CAF_CHECK(index.take({}, 4));
}

CAF_TEST(the position of a job is the number of takes it needs) {
  std::mt19937 random{7};
  ready_index index;
  for (std::int64_t id = 1; id <= 200; ++id) {
    auto each = job(id, static_cast<std::int64_t>(random() % 50), "p" + std::to_string(random() % 4));
    each.weight = static_cast<std::int32_t>(1 + random() % 3);
    if (random() % 5 == 0)
      each.labels = {"gpu"};
    index.add(each);
  }
  const auto fits = [](const std::vector<std::string>& labels) { return labels.empty(); };
  std::map<std::int64_t, std::int64_t> told;
  for (std::int64_t id = 1; id <= 200; ++id) {
    if (const auto position = index.position({id}, 1'000, fits))
      told[id] = *position;
  }
  std::int64_t count = 0;
  while (const auto taken = index.take({}))
    CAF_CHECK_EQUAL(told[taken->id.value], ++count);
  CAF_CHECK_EQUAL(told.size(), static_cast<std::size_t>(count));
  CAF_CHECK(!index.position({1'000}, 1'000, fits));
}

CAF_TEST(the jobs of a queue are removed together) {
  ready_index index;
  index.add(job(1, 1));
  auto other = job(2, 2);
  other.queue = "slow";
  index.add(other);
  index.remove_queue("slow");
  CAF_CHECK(index.contains({1}));
  CAF_CHECK(!index.contains({2}));
}
