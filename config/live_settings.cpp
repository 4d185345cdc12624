#include "config/live_settings.hpp"

#include <algorithm>
#include <array>

namespace kcx {

namespace {

/// How one setting is told from its former self, and taken over; without `take`, only a restart does that.
struct live_row {
  std::string_view name;
  bool (*same)(const settings& a, const settings& b);
  void (*take)(settings& to, const settings& from);
};

template <auto Member>
constexpr live_row fixed(std::string_view name) {
  return {name, [](const settings& a, const settings& b) { return a.*Member == b.*Member; }, nullptr};
}

template <auto Member>
constexpr live_row live(std::string_view name) {
  auto row = fixed<Member>(name);
  row.take = [](settings& to, const settings& from) { to.*Member = from.*Member; };
  return row;
}

constexpr std::array rows{
  fixed<&settings::data>("data"),
  live<&settings::min_free>("min-free"),
  fixed<&settings::http>("http"),
  fixed<&settings::inspect>("inspect"),
  fixed<&settings::insecure>("insecure"),
  fixed<&settings::allowed_hosts>("allow-host"),
  fixed<&settings::allowed_origins>("allow-origin"),
  fixed<&settings::tls_certificate>("tls-certificate"),
  fixed<&settings::tls_key>("tls-key"),
  fixed<&settings::rate_limit>("rate-limit"),
  fixed<&settings::webhook_backoff>("webhook-backoff"),
  fixed<&settings::body_limit>("body-limit"),
  live<&settings::slots>("slots"),
  fixed<&settings::labels>("label"),
  fixed<&settings::runner>("runner"),
  live<&settings::log_limit>("log-limit"),
  live<&settings::compress_logs_after>("compress-logs-after"),
  live<&settings::artifacts_limit>("artifacts-limit"),
  live<&settings::keep>("keep"),
  live<&settings::keep_count>("keep-count"),
  fixed<&settings::cgroups>("cgroups"),
  fixed<&settings::job_user>("job-user"),
  live<&settings::drain_timeout>("drain-timeout"),
  live<&settings::stop_grace>("stop-grace"),
  fixed<&settings::readers>("readers"),
  fixed<&settings::scheduler_threads>("scheduler-threads"),
  fixed<&settings::ageing_step>("ageing-step"),
  live<&settings::log>("log-level"),
  fixed<&settings::fault_injection>("fault-injection"),
};

} // namespace

reload_report live_settings::reload(const settings& fresh) {
  const std::lock_guard lock{mutex_};
  auto next = *now_;
  reload_report report;
  for (const auto& row : rows) {
    if (row.same(next, fresh))
      continue;
    if (row.take != nullptr)
      row.take(next, fresh);
    (row.take != nullptr ? report.changed : report.kept).emplace_back(row.name);
  }
  now_ = std::make_shared<const settings>(std::move(next));
  return report;
}

bool changes_while_running(std::string_view name) noexcept {
  const auto* row = std::find_if(rows.begin(), rows.end(), [&](const live_row& each) { return each.name == name; });
  return row != rows.end() && row->take != nullptr;
}

} // namespace kcx
