/// Real runners for the worker supervisor: runner_host on top of process_io.
#pragma once

#include "actors/runner/process_io.hpp"
#include "actors/runner/runner_host.hpp"

#include <functional>
#include <memory>

namespace kcx {

/// `io` must outlive the host and every link it made.
[[nodiscard]] std::shared_ptr<runner_host> make_runner_host(process_io& io, runner_options options);

} // namespace kcx
