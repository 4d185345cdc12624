// Submitting any number of jobs in one request, a line each (NDJSON): the body is read as it comes, what has arrived is
// one commit, and one line is told per job. Nothing piles up: the next lines are stored when the client has taken what
// was told of the last.
#include "actors/http/api/json_body.hpp"
#include "actors/http/api/line_cutter.hpp"
#include "actors/http/bridge/bridge.hpp"
#include "actors/http/bridge/requests.hpp"
#include "actors/http/message/problem.hpp"
#include "storage/job_json.hpp"

#include <caf/send.hpp>

#include <mutex>
#include <variant>

namespace kcx {

namespace {

/// Of one commit, and of one turn of this actor.
constexpr std::size_t lines_per_chunk = 500;
constexpr std::size_t longest_line = 1 << 20;

std::string refused_line(std::int64_t line, const http::response& why) {
  return "{\"line\":" + std::to_string(line) + ",\"error\":" + why.body + "}\n";
}

std::string stored_line(std::int64_t line, const accepted_jobs& accepted) {
  const auto job = accepted.jobs.front().id;
  return "{\"line\":" + std::to_string(line) + ",\"id\":" + std::to_string(job.value) +
         (accepted.is_new(job) ? "}\n" : ",\"existing\":true}\n");
}

/// The job of a line, or the problem that it is.
std::variant<job_spec, http::response> read_spec(const http::body_line& from) {
  if (from.too_long)
    return http::problem(http::kinds::body_too_large,
                         "the line is longer than " + std::to_string(longest_line) + " bytes");
  const auto document = http::parse_json_line(from.text);
  if (!document)
    return http::problem(http::kinds::malformed_body, document.error().message);
  auto spec = parse_job_spec(*document);
  if (!spec)
    return http::problem(spec.error());
  return *std::move(spec);
}

} // namespace

struct http_bridge::upload {
  /// Where the io thread leaves a piece for the actor.
  class piece_box {
  public:
    void put(http::incoming_piece piece) {
      const std::lock_guard lock{mutex_};
      piece_ = std::move(piece);
    }
    std::optional<http::incoming_piece> take() {
      const std::lock_guard lock{mutex_};
      return std::exchange(piece_, std::nullopt);
    }

  private:
    std::mutex mutex_;
    std::optional<http::incoming_piece> piece_;
  };

  call ask;
  std::weak_ptr<http::event_feed> body;
  std::shared_ptr<piece_box> box = std::make_shared<piece_box>();
  http::line_cutter lines{longest_line};
  std::int64_t accepted = 0;
  std::int64_t refused = 0;
  /// A piece is on its way; lines are being stored.
  bool taking = false;
  bool storing = false;
  /// The body has come to its end; why it has not come whole, as JSON.
  bool ended = false;
  std::string broken;
};

/// What one turn read: a line is told once its chunk is committed.
struct http_bridge::line_chunk {
  struct line {
    std::int64_t number = 0;
    /// Why it is refused; empty if it goes to the database.
    std::string refusal;
  };
  std::vector<line> lines;
  submissions asked;

  void add(const http::body_line& from) {
    auto read = read_spec(from);
    const auto* refusal = std::get_if<http::response>(&read);
    lines.push_back({from.number, refusal != nullptr ? refused_line(from.number, *refusal) : ""});
    if (refusal == nullptr)
      asked.emplace_back().specs.push_back(std::get<job_spec>(std::move(read)));
  }
};

void http_bridge::submit_lines(const call& ask) {
  if (ask.request().headers.find("Idempotency-Key"))
    return ask.answer(http::problem(http::kinds::invalid_parameter,
                                    "Idempotency-Key does not go with application/x-ndjson: give each job a "
                                    "unique_key instead"));
  const auto id = next_id_++;
  const http_bridge_actor self{this};
  auto body = std::make_shared<http::event_feed>([self, id] { caf::anon_send(self, grew_atom_v, follower_id{id}); },
                                                 [self, id] { caf::anon_send(self, expire_atom_v, id); });
  auto made = std::make_shared<upload>();
  made->ask = ask;
  made->body = body;
  uploads_.emplace(id, std::move(made));
  http::response answer;
  answer.headers.add("Content-Type", "application/x-ndjson");
  answer.headers.add("Cache-Control", "no-store");
  answer.stream = std::move(body);
  ask.answer(std::move(answer));
}

void http_bridge::advance(std::uint64_t id) {
  auto& from = *uploads_.at(id);
  if (auto piece = from.box->take()) {
    from.taking = false;
    from.ended = piece->last || piece->broken;
    // Of a body that breaks off, the last line is not whole.
    from.lines.put(piece->bytes, piece->last);
    if (piece->broken)
      from.broken = std::move(piece->broken->body);
  }
  const auto body = from.body.lock();
  if (body && body->hungry() && !from.storing && !from.taking)
    store_lines(id);
}

void http_bridge::store_lines(std::uint64_t id) {
  auto& from = *uploads_.at(id);
  auto chunk = std::make_shared<line_chunk>();
  while (chunk->lines.size() < lines_per_chunk) {
    const auto line = from.lines.next();
    if (!line)
      break;
    chunk->add(*line);
  }
  if (chunk->lines.empty() && !from.ended) {
    from.taking = true;
    return from.ask.request().incoming->next(
      [self = http_bridge_actor{this}, id, box = from.box](http::incoming_piece piece) {
        box->put(std::move(piece));
        caf::anon_send(self, grew_atom_v, follower_id{id});
      });
  }
  if (const auto why = settings_.tokens->ended(from.ask.who()); why && !chunk->asked.empty())
    return end_chunk(id, *chunk, *why);
  if (draining_ && !chunk->asked.empty())
    return end_chunk(id, *chunk, draining("takes no new jobs"));
  if (chunk->asked.empty())
    return end_chunk(id, *chunk, submission_results{});
  from.storing = true;
  write<submission_results>(
    peers_.database,
    [this, id, chunk](expected<submission_results> results) {
      if (uploads_.contains(id))
        end_chunk(id, *chunk, results);
    },
    enqueue_atom_v, std::move(chunk->asked));
}

void http_bridge::end_chunk(std::uint64_t id, const line_chunk& chunk, const expected<submission_results>& results) {
  auto& from = *uploads_.at(id);
  from.storing = false;
  std::string told;
  std::size_t next = 0;
  for (const auto& each : chunk.lines) {
    const auto* stored = each.refusal.empty() && results ? &results->at(next++) : nullptr;
    if (stored != nullptr && *stored) {
      ++from.accepted;
      told += stored_line(each.number, **stored);
      continue;
    }
    ++from.refused;
    if (!each.refusal.empty())
      told += each.refusal;
    else
      told += refused_line(each.number, http::problem(stored != nullptr ? stored->error() : results.error()));
  }
  const auto body = from.body.lock();
  if (!body)
    return;
  // What stopped one chunk would stop the next. After the last chunk a turn without lines comes.
  const bool over = !results || (from.ended && chunk.lines.empty());
  if (over) {
    nlohmann::json summary{{"accepted", from.accepted},
                           {"refused", from.refused},
                           {"lines_read", from.lines.lines()},
                           {"complete", results.has_value() && from.broken.empty()}};
    if (!from.broken.empty())
      summary["error"] = nlohmann::json::parse(from.broken);
    told += http::json_text(summary) + "\n";
  }
  body->put(std::move(told));
  if (over)
    body->finish();
}

void http_bridge::fail_uploads() {
  for (const auto& [id, each] : uploads_) {
    if (const auto body = each->body.lock())
      body->fail();
  }
  uploads_.clear();
}

} // namespace kcx
