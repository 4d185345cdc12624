// Random histories, each run by the real store and by a plain model of the queue, which must agree after
// every step: submissions with needs, groups and unique keys, claims, ends, interruptions, retries, crashes with and
// without the last commit, and clocks that step.
//
// Seeds are fixed, so that a failure here is a failure everywhere. KCX_MODEL_SEED=n runs one history;
// KCX_MODEL_HISTORIES=n runs that many from a random seed on (scripts/test --long: thousands). The seed of a history
// that fails is told.
#define CAF_SUITE queue_model
#include "caf/test/unit_test.hpp"
#include "storage/sqlite/reader.hpp"
#include "storage/sqlite/store.hpp"
#include "tests/storage/queue_model.hpp"
#include "tests/support/files.hpp"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;

namespace {

/// The histories disagree.
class disagreement : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

template <class... Ts>
void require(bool holds, const Ts&... what) {
  if (holds)
    return;
  std::ostringstream text;
  (text << ... << what);
  throw disagreement{text.str()};
}

std::string text_of(const std::vector<std::int64_t>& ids) {
  std::string text;
  for (const auto id : ids)
    text += std::to_string(id) + " ";
  return text;
}

class history {
public:
  history(const std::filesystem::path& file, std::uint64_t seed, bool thorough)
    : file_{file}, random_{seed}, thorough_{thorough} {
    open();
  }

  void run(int steps) {
    for (auto i = 0; i < steps; ++i) {
      one_step();
      if (pick(3) == 0)
        commit();
    }
    commit();
    for (const auto& [id, told] : model_.jobs)
      look_at(id, told);
    end_everything();
  }

  /// What was done, the latest steps last.
  [[nodiscard]] std::string steps() const {
    std::string text;
    for (const auto& step : steps_)
      text += "\n    " + step;
    return text;
  }

private:
  template <class... Ts>
  void note(const Ts&... what) {
    std::ostringstream text;
    (text << ... << what);
    steps_.push_back(text.str());
    if (steps_.size() > 40)
      steps_.pop_front();
  }

  // -- chance --------------------------------------------------------------------------------------------------------

  std::int64_t pick(std::int64_t bound) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
  }
  bool maybe(int one_in) { return pick(one_in) == 0; }

  /// Mostly a job there is, sometimes one that never was or is gone.
  std::int64_t some_job() {
    if (model_.jobs.empty() || maybe(30))
      return pick(model_.last_id + 3);
    auto at = model_.jobs.begin();
    std::advance(at, pick(static_cast<std::int64_t>(model_.jobs.size())));
    return at->first;
  }

  job_spec some_spec(std::size_t index, std::size_t count) {
    job_spec spec;
    spec.command = command_line{false, {"true"}};
    spec.ref = "r" + std::to_string(index);
    spec.project = "p" + std::to_string(pick(2));
    spec.queue = "q" + std::to_string(pick(2));
    spec.priority = static_cast<std::int32_t>(pick(5) - 2);
    if (maybe(4))
      spec.labels = {"l" + std::to_string(pick(2))};
    if (maybe(3)) {
      spec.group = "g" + std::to_string(pick(2));
      spec.group_limit = static_cast<std::int32_t>(1 + pick(2));
      spec.supersede = static_cast<supersede_policy>(std::max<std::int64_t>(0, pick(5) - 2));
    }
    if (maybe(4)) {
      spec.unique_key = "k" + std::to_string(pick(2));
      spec.on_conflict = static_cast<conflict_policy>(pick(3));
    }
    if (maybe(4))
      spec.run_at = now_ + std::chrono::minutes{pick(20) - 5};
    if (maybe(5))
      spec.wait_limit = std::chrono::minutes{1 + pick(30)};
    if (maybe(3))
      spec.max_attempts = static_cast<std::int32_t>(2 + pick(2));
    if (maybe(3)) {
      spec.on_interrupt = interrupt_policy::requeue;
      spec.max_interrupts = static_cast<std::int32_t>(pick(3));
    }
    if (maybe(6))
      spec.secrets = {{"TOKEN", "secret"}};
    while (maybe(3) && spec.needs.size() < 3) {
      job_need need;
      need.condition = static_cast<need_condition>(pick(3));
      if (index + 1 < count && maybe(2))
        need.ref = "r" + std::to_string(index + 1);
      else
        need.job = job_id{std::max<std::int64_t>(1, some_job())};
      spec.needs.push_back(std::move(need));
    }
    return spec;
  }

  attempt_result some_end(attempt_key key) {
    attempt_result result;
    result.key = key;
    result.outcome = static_cast<attempt_outcome>(pick(11));
    if (result.outcome == attempt_outcome::exited)
      result.exit_code = static_cast<std::int32_t>(pick(2));
    return result;
  }

  // -- steps ---------------------------------------------------------------------------------------------------------

  void one_step() {
    switch (pick(20)) {
    case 0:
    case 1:
    case 2:
    case 3: return submit();
    case 4:
    case 5:
    case 6: return claim();
    case 7: return confirm();
    case 8:
    case 9:
    case 10:
    case 11: return finish();
    case 12: return cancel();
    case 13: return update();
    case 14: return retry();
    case 15: return remove();
    case 16: return pause_or_resume();
    case 17: return step_clock();
    case 18: return promote();
    default: return maybe(2) ? crash() : lose_worker();
    }
  }

  void submit() {
    std::vector<job_spec> specs;
    const auto count = static_cast<std::size_t>(1 + pick(3));
    for (std::size_t i = 0; i < count; ++i)
      specs.push_back(some_spec(i, count));
    for (const auto& each : specs)
      note("submit from ", model_.last_id + 1, ": group ", each.group, "/", each.group_limit, "/",
           to_string(each.supersede), " key ", each.unique_key, "/", to_string(each.on_conflict), " needs ",
           each.needs.size(), " run_at ", each.run_at ? (*each.run_at - now_).count() : 0, " attempts ",
           each.max_attempts, " ", to_string(each.on_interrupt), " waits ", each.wait_limit.value_or(0ms).count());
    const auto told = model_.submit(specs, now_);
    const auto real = store_->submit({specs, true}, now_);
    compare("submit", real, told);
    if (!real) {
      return;
    }
    std::vector<std::int64_t> ids;
    for (const auto& job : real->jobs)
      ids.push_back(job.id.value);
    require(ids == *told, "submit: ids ", text_of(ids), "instead of ", text_of(*told));
    for (const auto& job : real->jobs)
      require(job.state == model_.jobs.at(job.id.value).state, "submit: job ", job.id.value, " is told as ",
              to_string(job.state), " instead of ", to_string(model_.jobs.at(job.id.value).state));
  }

  void claim() {
    const auto ready = model_.ready();
    const auto id = ready.empty() || maybe(5) ? std::max<std::int64_t>(1, some_job()) : ready.front();
    const bool leased = maybe(3);
    const auto worker = "node/" + std::to_string(1 + pick(2));
    note("claim ", id, " for ", worker, leased ? " by lease" : "");
    const auto told = model_.claim(id, worker, leased, now_);
    const auto lease = leased ? std::optional<std::chrono::milliseconds>{30s} : std::nullopt;
    const auto real = store_->claim({job_id{id}, worker, ++nonce_, lease, false, {"l0", "l1"}}, now_);
    compare("claim", real, told);
    if (real)
      require(real->key.attempt == *told && !real->repeated, "claim: attempt ", real->key.attempt);
    if (real && maybe(4)) {
      const auto again = store_->claim({job_id{id}, worker, nonce_, lease, false, {"l0", "l1"}}, now_);
      require(again && again->repeated && again->key == real->key, "a claim asked again is not answered the same");
    }
  }

  attempt_key some_attempt() {
    const auto id = some_job();
    const auto found = model_.jobs.find(id);
    const auto attempt = found == model_.jobs.end() ? 1 : found->second.attempt;
    return {job_id{id}, maybe(10) ? std::max(1, attempt - 1) : std::max(1, attempt)};
  }

  void confirm() {
    const auto key = some_attempt();
    note("confirm ", key.job.value, "/", key.attempt);
    const auto told = model_.confirm(key);
    const auto real = store_->confirm_start(key, now_);
    require(code_of(real) == told, "confirm: ", to_string(code_of(real)), " instead of ", to_string(told));
  }

  void finish() {
    auto key = some_attempt();
    // A job that runs is wanted more often than chance gives one.
    for (auto i = 0; i < 4; ++i) {
      const auto found = model_.jobs.find(key.job.value);
      if (found != model_.jobs.end() && found->second.attempt > 0)
        break;
      key = some_attempt();
    }
    const auto result = some_end(key);
    end_attempt(result);
    if (maybe(4))
      end_attempt(result);
  }

  void end_attempt(const attempt_result& result) {
    const auto before = model_.jobs.find(result.key.job.value);
    const bool live =
      before != model_.jobs.end() && is_held(before->second.state) && before->second.attempt == result.key.attempt;
    note("finish ", result.key.job.value, "/", result.key.attempt, " ", to_string(result.outcome), " ",
         result.exit_code.value_or(-1));
    const auto real = store_->finish(result, now_);
    std::optional<timestamp> retry_at;
    if (real && live && real->change.state == job_state::scheduled)
      retry_at = now_ + with_jitter(delay_of(before->second), result.key);
    const auto told = model_.finish(result, now_, retry_at);
    require(code_of(real) == told, "finish: ", to_string(code_of(real)), " instead of ", to_string(told));
    if (real)
      require(real->repeated == !live, "finish: repeated is ", real->repeated);
  }

  /// The back-off doubles with each counted attempt.
  static std::chrono::milliseconds delay_of(const model_job& job) {
    return job.spec.backoff * (std::int64_t{1} << (job.attempt - job.uncounted - 1));
  }

  void cancel() {
    const auto id = some_job();
    note("cancel ", id);
    const auto told = model_.cancel(id);
    const auto real = store_->cancel(job_id{id}, "a test", now_);
    require(code_of(real) == told, "cancel: ", to_string(code_of(real)), " instead of ", to_string(told));
  }

  void update() {
    const auto id = some_job();
    job_patch patch;
    if (maybe(2))
      patch.priority = static_cast<std::int32_t>(pick(5) - 2);
    if (!patch.priority || maybe(2))
      patch.run_at.emplace(maybe(3) ? std::nullopt : std::optional{now_ + std::chrono::minutes{pick(20) - 5}});
    note("update ", id, " priority ", patch.priority.value_or(99), " run_at ",
         !patch.run_at    ? "stays"
         : !*patch.run_at ? "now"
                          : std::to_string((**patch.run_at - now_).count()));
    const auto told = model_.update(id, patch, now_);
    const auto real = store_->update(job_id{id}, patch, now_);
    require(code_of(real) == told, "update: ", to_string(code_of(real)), " instead of ", to_string(told));
  }

  void retry() {
    const auto id = some_job();
    const auto found = model_.jobs.find(id);
    const auto secrets = found == model_.jobs.end() ? std::map<std::string, std::string>{} : found->second.spec.secrets;
    note("retry ", id);
    const auto told = model_.retry(id, now_);
    const auto real = store_->retry(job_id{id}, secrets, now_);
    compare("retry", real, told);
    if (real)
      require(real->id.value == *told, "retry: job ", real->id.value);
  }

  void remove() {
    const auto id = some_job();
    note("remove ", id);
    const auto told = model_.remove(id);
    const auto real = store_->remove(job_id{id});
    require(code_of(real) == told, "remove: ", to_string(code_of(real)), " instead of ", to_string(told));
  }

  void pause_or_resume() {
    const auto queue = "q" + std::to_string(pick(2));
    if (model_.paused.erase(queue) != 0) {
      require(bool{store_->resume_queue(queue)}, "resume failed");
    } else {
      model_.paused.insert(queue);
      require(bool{store_->pause_queue(queue, "a test", now_)}, "pause failed");
    }
  }

  void step_clock() {
    constexpr std::chrono::minutes steps[] = {1min, 5min, 60min, -60min, 24h};
    now_ += steps[pick(5)];
    note("it is ", now_.time_since_epoch().count());
  }

  void promote() {
    note("promote");
    model_.promote(now_);
    require(bool{store_->promote_due(now_, 1'000)}, "promote failed");
  }

  // -- crashes -------------------------------------------------------------------------------------------------------

  void lose_worker() {
    const auto worker = "node/" + std::to_string(1 + pick(2));
    end_held(worker, attempt_outcome::worker_crashed);
  }

  void end_held(const std::optional<std::string>& worker, attempt_outcome as) {
    note("end held by ", worker.value_or("anybody"));
    for (const auto key : model_.held(worker)) {
      attempt_result result;
      result.key = key;
      const auto& job = model_.jobs.at(key.job.value);
      result.outcome = job.started ? as : attempt_outcome::not_started;
      model_.finish(result, now_, now_ + with_jitter(delay_of(job), key));
    }
    for (;;) {
      const auto ended = store_->end_held(worker, as, now_, 3);
      require(bool{ended}, "end_held failed");
      if (ended->empty())
        return;
    }
  }

  /// The node dies: what was not committed is gone. Then it comes back.
  void crash() {
    note("crash");
    reader_.reset();
    store_.reset();
    model_ = committed_;
    open();
    end_held(std::nullopt, attempt_outcome::node_restarted);
    const auto leased = store_->leased_attempts();
    const auto still = std::ranges::count_if(
      model_.jobs, [](const auto& each) { return each.second.leased && is_held(each.second.state); });
    require(leased && static_cast<std::int64_t>(leased->size()) == still, "leases are lost or invented");
  }

  void open() {
    auto store = open_sqlite_store(file_, now_);
    require(bool{store}, "the store does not open");
    store_ = *std::move(store);
    auto reader = open_sqlite_reader(file_, 10s);
    require(bool{reader}, "the reader does not open");
    reader_ = *std::move(reader);
  }

  // -- comparing -----------------------------------------------------------------------------------------------------

  template <class T>
  static ec code_of(const expected<T>& result) {
    return result ? ec::none : result.error().code;
  }

  template <class A, class B>
  static void compare(const char* what, const expected<A>& real, const expected<B>& told) {
    require(code_of(real) == code_of(told), what, ": ", to_string(code_of(real)), " instead of ",
            to_string(code_of(told)), real ? std::string{} : " (" + real.error().message + ")");
  }

  void commit() {
    note("commit");
    model_.settle(now_);
    for (auto more = true; more;) {
      const auto done = store_->settle(now_, static_cast<std::size_t>(1 + pick(3)));
      require(bool{done}, "settle failed");
      more = done->more;
    }
    require(bool{store_->commit()}, "commit failed");
    committed_ = model_;
    look();
  }

  /// Everything that can be seen of the queue.
  void look() {
    // Reading every job each time would be most of the work. What is wrong stays wrong: it is found a little later, and
    // at once where one history is looked into.
    ++looks_;
    for (const auto& [id, told] : model_.jobs)
      if (thorough_ || (id + looks_) % 5 == 0)
        look_at(id, told);
    auto window = store_->ready_jobs(10'000);
    require(bool{window}, "the ready jobs cannot be read");
    std::ranges::sort(window->jobs, {}, [](const auto& job) { return std::pair{job.order_key, job.id}; });
    std::vector<std::int64_t> ready;
    for (const auto& job : window->jobs)
      ready.push_back(job.id.value);
    require(ready == model_.ready(), "ready are ", text_of(ready), "instead of ", text_of(model_.ready()));
    std::vector<std::int64_t> followers;
    for (const auto& job : window->followers)
      followers.push_back(job.id.value);
    std::ranges::sort(followers);
    require(followers == model_.followers(), "behind them in their groups are ", text_of(followers), "instead of ",
            text_of(model_.followers()));
    const auto gone = pick(model_.last_id + 2);
    if (gone >= 1 && !model_.jobs.contains(gone))
      require(code_of(reader_->job(job_id{gone})) == model_.missing(gone), "job ", gone, " is not gone");
  }

  void look_at(std::int64_t id, const model_job& told) const {
    const auto job = reader_->job(job_id{id});
    require(bool{job}, "job ", id, " cannot be read");
    const auto name = "job " + std::to_string(id) + " ";
    require(job->state == told.state, name, "is ", to_string(job->state), " instead of ", to_string(told.state));
    if (job->state != job_state::scheduled && job->state != job_state::queued)
      require(job->reason == told.reason, name, "has reason ", to_string(job->reason), " instead of ",
              to_string(told.reason));
    require(job->attempt == told.attempt, name, "has attempt ", job->attempt, " instead of ", told.attempt);
    require(job->uncounted == told.uncounted, name, "has ", job->uncounted, " attempts uncounted instead of ",
            told.uncounted);
    require(job->interrupts == told.interrupts, name, "has ", job->interrupts, " interrupts");
    require(job->dead_letter == told.dead_letter, name, "is a dead letter: ", job->dead_letter);
    require(job->retry_of == told.retry_of, name, "is a retry of another job");
    if (job->state == job_state::queued || job->state == job_state::scheduled)
      require(job->order_key == told.order_key, name, "has its place ", job->order_key - told.order_key, " ms off");
    require(!job->duration || *job->duration >= 0ms, name, "ran for a negative time");
    require(job->history.back().state == told.state, name, "has another history");
    for (std::size_t i = 1; i < job->history.size(); ++i)
      require(is_permitted(job->history[i - 1].state, job->history[i].state), name,
              "made a move that is not permitted");
  }

  /// Nothing may be stuck: every job can be brought to its end, and then be removed.
  void end_everything() {
    std::vector<std::int64_t> ids;
    for (const auto& [id, job] : model_.jobs)
      ids.push_back(id);
    for (const auto id : ids) {
      model_.cancel(id);
      (void)store_->cancel(job_id{id}, "a test", now_);
    }
    for (const auto id : ids) {
      const auto& job = model_.jobs.at(id);
      if (is_held(job.state))
        end_attempt(some_end({job_id{id}, job.attempt}));
    }
    commit();
    for (const auto id : ids) {
      require(model_.remove(id) == ec::none, "job ", id, " has not ended");
      require(bool{store_->remove(job_id{id})}, "job ", id, " cannot be removed");
    }
    commit();
  }

  std::deque<std::string> steps_;
  std::filesystem::path file_;
  std::mt19937_64 random_;
  timestamp now_{std::chrono::milliseconds{1'767'268'800'000}};
  std::unique_ptr<job_store> store_;
  std::unique_ptr<job_reader> reader_;
  queue_model model_;
  queue_model committed_;
  std::int64_t looks_ = 0;
  bool thorough_ = false;
  std::uint64_t nonce_ = 0;
};

/// In memory where the machine has such a directory: the model is about what is stored, not about the disk.
std::filesystem::path fast_directory() {
  std::error_code missing;
  return std::filesystem::is_directory("/dev/shm", missing) ? "/dev/shm" : std::filesystem::temp_directory_path();
}

void run_history(std::uint64_t seed, bool thorough = false) {
  const auto directory = fast_directory() / ("kcx-model-" + std::to_string(::getpid()));
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  std::string why;
  history one{directory / "kcx.db", seed, thorough};
  try {
    one.run(60);
  } catch (const disagreement& found) {
    why = found.what() + one.steps();
  }
  std::filesystem::remove_all(directory);
  if (!why.empty())
    CAF_FAIL("KCX_MODEL_SEED=" << seed << ": " << why);
}

std::optional<std::uint64_t> number_of(const char* variable) {
  const auto* text = std::getenv(variable);
  return text == nullptr ? std::nullopt : std::optional{std::strtoull(text, nullptr, 10)};
}

} // namespace

CAF_TEST(the store and a plain model agree after every step of every history) {
  if (const auto seed = number_of("KCX_MODEL_SEED"))
    return run_history(*seed, true);
  const auto wanted = number_of("KCX_MODEL_HISTORIES");
  const auto first = wanted ? std::uint64_t{std::random_device{}()} << 20U : std::uint64_t{1};
  CAF_MESSAGE("from seed " << first);
  for (auto i = std::uint64_t{0}; i < wanted.value_or(300); ++i)
    run_history(first + i);
}
