/// The commands about webhooks of projects and what was told to them. Each does all of its work and returns the exit
/// code, as carry_out() does.
#pragma once

#include "actors/cli/line/command_line.hpp"

namespace kcx::cli {

int set_webhook(const invocation& what);
int list_webhooks(const invocation& what);
int remove_webhook(const invocation& what);
int list_deliveries(const invocation& what);
int redeliver(const invocation& what);

} // namespace kcx::cli
