#include "config/logging.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string_view>

namespace kcx {

namespace {

void append_visible(std::string_view text, spdlog::memory_buf_t& out) {
  constexpr std::string_view digits = "0123456789abcdef";
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out.append(std::string_view{"\\n"});
    } else if ((byte < 0x20 && c != '\t') || byte == 0x7f) {
      const char escaped[] = {'\\', 'x', digits[byte >> 4U], digits[byte & 15U]};
      out.append(std::string_view{escaped, sizeof escaped});
    } else {
      out.push_back(c);
    }
  }
}

class one_line_formatter : public spdlog::formatter {
public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    spdlog::memory_buf_t line;
    pattern_.format(message, line);
    append_visible({line.data(), line.size()}, out);
    out.push_back('\n');
  }

  [[nodiscard]] std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<one_line_formatter>();
  }

private:
  spdlog::pattern_formatter pattern_{"%Y-%m-%dT%H:%M:%S.%eZ %-7l %v", spdlog::pattern_time_type::utc, ""};
};

spdlog::level::level_enum to_spdlog(log_level level) {
  switch (level) {
  case log_level::debug: return spdlog::level::debug;
  case log_level::info: return spdlog::level::info;
  case log_level::warning: return spdlog::level::warn;
  case log_level::error: return spdlog::level::err;
  }
  return spdlog::level::info;
}

} // namespace

void set_up_logging(log_level level) {
  auto logger = std::make_shared<spdlog::logger>("kcx", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(std::make_unique<one_line_formatter>());
  logger->set_level(to_spdlog(level));
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
}

void set_log_level(log_level level) {
  spdlog::default_logger()->set_level(to_spdlog(level));
}

} // namespace kcx
