/// A READER actor: answers queries from one read-only connection. See reader_actor in interfaces.hpp.
#pragma once

#include "actors/actor_base.hpp"
#include "actors/interfaces.hpp"
#include "storage/job_reader.hpp"
#include "storage/job_store.hpp"

#include <memory>

namespace kcx {

/// Blocks on the disk: spawn detached. Closes its connection when it ends.
class reader : public actor_base<reader_actor> {
public:
  /// `log_of` tells how long the log of a running attempt is by now.
  reader(caf::actor_config& cfg, std::unique_ptr<job_reader> source, log_lookup log_of = {});

  behavior_type make_behavior() override;

private:
  expected<job_record> get(job_id id);
  expected<log_location> locate_log(job_id job, std::int32_t attempt);
  void on_stop() noexcept override { source_.reset(); }

  std::unique_ptr<job_reader> source_;
  log_lookup log_of_;
};

} // namespace kcx
