/// Takes server-sent events apart, however the bytes come.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace kcx::cli {

/// The node says something every 15 s: whoever hears nothing for so long has lost it.
inline constexpr std::chrono::seconds longest_silence{50};

struct server_event {
  /// Empty where it has none.
  std::string id;
  /// Empty for a plain message.
  std::string name;
  std::string data;
};

class event_reader {
public:
  /// `each` gets every event that is complete and has data; return false from it to stop.
  explicit event_reader(std::function<bool(const server_event&)> each) : each_{std::move(each)} {}

  /// False once `each` said so. What is incomplete waits for the next piece; comments are dropped.
  [[nodiscard]] bool take(std::string_view piece);
  /// The last id that came, be it with an event that has no data; empty before the first.
  [[nodiscard]] const std::string& last_id() const noexcept { return last_id_; }

private:
  std::function<bool(const server_event&)> each_;
  std::string rest_;
  std::string last_id_;
};

} // namespace kcx::cli
