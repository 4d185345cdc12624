# Run by kcx_embed_text (kcx_embed.cmake): writes OUTPUT, a C++ source whose FUNCTION, declared in HEADER, returns the
# text of the file INPUT byte for byte.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
# One literal of a megabyte is more than some compilers take; adjacent ones are one.
string(REGEX REPLACE "(................................................................)" "\\1\"\n  \"" bytes "${bytes}")
file(WRITE ${OUTPUT} "// Made by scripts/cmake/embed_text.cmake.
#include \"${HEADER}\"

namespace kcx::http {

std::string_view ${FUNCTION}() noexcept {
  static constexpr char text[] =
  \"${bytes}\";
  return {text, sizeof text - 1};
}

} // namespace kcx::http
")
