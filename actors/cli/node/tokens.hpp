/// `kcx token …`: makes, lists and revokes tokens.
#pragma once

#include "actors/cli/line/command_line.hpp"

namespace kcx::cli {

/// Each gives the exit code. token_create prints the new token alone on standard output: it is shown only this once.
[[nodiscard]] int token_create(const invocation& what);
[[nodiscard]] int token_list(const invocation& what);
[[nodiscard]] int token_revoke(const invocation& what);

} // namespace kcx::cli
