// libFuzzer: any bytes as the body of a submission. Parsing must neither crash nor accept what it cannot keep: a job
// that is accepted comes back equal from its stored form, and an error names fields by JSON pointers of bounded length.
#include "storage/job_json.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdlib>

namespace {

void demand(bool holds) {
  if (!holds)
    std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto document = nlohmann::json::parse(data, data + size, nullptr, false);
  if (document.is_discarded())
    return 0;
  const auto spec = kcx::parse_job_spec(document);
  if (!spec) {
    demand(spec.error().code == kcx::ec::invalid_input && !spec.error().fields.empty());
    demand(spec.error().fields.size() <= 64);
    for (const auto& field : spec.error().fields)
      demand((field.pointer.empty() || field.pointer.front() == '/') && field.pointer.size() < 1'000);
    return 0;
  }
  auto kept = *spec;
  kept.secrets.clear();
  const auto again = kcx::from_stored_json(kcx::to_stored_json(*spec).dump());
  demand(again.has_value() && *again == kept);
  return 0;
}
