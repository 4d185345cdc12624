/// The files of actors/inspector/web/, compiled into the program (scripts/cmake/kcx_embed.cmake).
#pragma once

#include <span>
#include <string_view>

namespace kcx::http {

struct web_file {
  /// Without a folder: "index.html".
  std::string_view name;
  std::string_view bytes;
};

[[nodiscard]] std::span<const web_file> web_files() noexcept;

} // namespace kcx::http
