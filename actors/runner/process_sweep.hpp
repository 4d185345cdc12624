/// Ends what an earlier node of the same data directory left running.
#pragma once

#include "config/error.hpp"

#include <chrono>
#include <cstddef>
#include <string>

namespace kcx {

/// Kills every process but this one whose environment holds `marker` ("KCX_NODE_ID=…", see node_marker()), or which
/// works below `workspaces` (absolute; empty: nowhere) without a terminal, with all below it, and waits until they
/// are gone. A job can drop the marker, or leave its workspace; not found is who did both, and for a node that is not
/// root who may not be looked into (setuid programs, ssh-agent). For the start of a node, before anything runs. Those
/// that fork and exit all the time are hunted, see hunt(). Returns how many processes were found. Fails with
/// ec::timeout if some are still there after `patience`. Blocks. Where no hunt comes to a proof, five in a row that met
/// nobody have to do, of a tenth of a second at most.
[[nodiscard]] expected<std::size_t> sweep_marked(const std::string& marker, const std::string& workspaces = {},
                                                 std::chrono::milliseconds patience = std::chrono::milliseconds{
                                                   10'000});

} // namespace kcx
