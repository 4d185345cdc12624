/// The commands about the node itself. Each does all of its work and returns the exit code, as carry_out() does.
#pragma once

#include "actors/cli/line/command_line.hpp"

namespace kcx::cli {

int node_status(const invocation& what);
int node_drain(const invocation& what);
int node_backup(const invocation& what);
/// Prints the address of the dashboard with a one-time code that signs a browser in.
int dashboard_address(const invocation& what);
/// Exit code 1 if a check failed.
int node_doctor(const invocation& what);

} // namespace kcx::cli
