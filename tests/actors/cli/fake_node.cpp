#include "tests/actors/cli/fake_node.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace kcx::test {

namespace {

class breaking_body : public http::body_source {
public:
  explicit breaking_body(std::string bytes) : bytes_{std::move(bytes)} {}

  void next(std::size_t max_bytes, chunk_handler done) override {
    http::chunk piece;
    piece.bytes = bytes_.substr(0, max_bytes);
    piece.failed = bytes_.empty();
    bytes_.erase(0, max_bytes);
    done(std::move(piece));
  }

private:
  std::string bytes_;
};

} // namespace

http::response broken_off(std::string bytes) {
  http::response answer;
  answer.stream = std::make_shared<breaking_body>(std::move(bytes));
  return answer;
}

fake_node::fake_node() {
  auto handle = [this](http::request ask, http::responder answer) {
    std::shared_ptr<reaction> how;
    {
      const std::lock_guard lock{mutex_};
      seen_.push_back({ask.method, ask.target, std::string{ask.headers.find("Authorization").value_or("")}, ask.body});
      ++counts_[ask.method + ask.path];
      if (auto found = reactions_.find(ask.method + ask.path); found != reactions_.end())
        how = found->second;
    }
    answer(how ? (*how)(ask)
               : http::json_response(404, R"({"title":"Not found","code":"not_found","detail":"nothing"})"));
  };
  auto started = http::server::start({}, handle);
  if (!started)
    throw std::runtime_error{started.error().message};
  server_ = *std::move(started);
  write_file(dir_ / "node.json", R"({"http":")" + server_->url() + "\"}");
  write_file(dir_ / "admin.token", token() + '\n');
}

fake_node::~fake_node() {
  server_->stop(std::chrono::milliseconds{0});
}

void fake_node::react(const std::string& method, const std::string& path, reaction how) {
  const std::lock_guard lock{mutex_};
  reactions_[method + path] = std::make_shared<reaction>(std::move(how));
}

void fake_node::answer(const std::string& method, const std::string& path, unsigned status, std::string document) {
  react(method, path,
        [status, text = std::move(document)](const http::request&) { return http::json_response(status, text); });
}

void fake_node::answer_in_turn(const std::string& method, const std::string& path, std::vector<std::string> documents) {
  react(method, path, [texts = std::move(documents), next = std::size_t{0}](const http::request&) mutable {
    const auto at = std::min(next++, texts.size() - 1);
    return http::json_response(200, texts[at]);
  });
}

std::vector<fake_node::call> fake_node::seen() {
  const std::lock_guard lock{mutex_};
  return seen_;
}

std::size_t fake_node::count(const std::string& method, const std::string& path) {
  const std::lock_guard lock{mutex_};
  return counts_[method + path];
}

} // namespace kcx::test
