// libFuzzer: any bytes as the body of a submission and of the other requests with a document. Parsing must neither
// crash nor accept what it cannot keep: a job that is accepted comes back equal from its stored form, and an error
// names fields by JSON pointers of bounded length.
#include "storage/job_json.hpp"

#include "storage/job_requests.hpp"
#include "storage/webhook_json.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdlib>

namespace {

void demand(bool holds) {
  if (!holds)
    std::abort();
}

void demand_pointers(const kcx::error& why) {
  demand(why.code == kcx::ec::invalid_input && !why.fields.empty() && why.fields.size() <= 64);
  for (const auto& field : why.fields)
    demand((field.pointer.empty() || field.pointer.front() == '/') && field.pointer.size() < 1'000);
}

template <class Parsed>
void demand_answer(const Parsed& parsed) {
  if (!parsed)
    demand_pointers(parsed.error());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto document = nlohmann::json::parse(data, data + size, nullptr, false);
  if (document.is_discarded())
    return 0;
  demand_answer(kcx::parse_retry(document));
  demand_answer(kcx::parse_patch(document));
  demand_answer(kcx::parse_filter_document(document));
  demand_answer(kcx::parse_webhook(document));
  const auto spec = kcx::parse_job_spec(document);
  if (!spec) {
    demand_pointers(spec.error());
    return 0;
  }
  auto kept = *spec;
  kept.secrets.clear();
  const auto again = kcx::from_stored_json(kcx::to_stored_json(*spec).dump());
  demand(again.has_value() && *again == kept);
  return 0;
}
