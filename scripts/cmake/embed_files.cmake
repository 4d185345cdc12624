# Run by kcx_embed_web (kcx_embed.cmake): writes OUTPUT, a C++ source that holds the files INPUTS byte for byte.
set(arrays)
set(rows)
set(number 0)
foreach(input IN LISTS INPUTS)
  file(READ ${input} bytes HEX)
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
  # Short lines: some compilers and many tools choke on one of a megabyte.
  string(REGEX REPLACE "('[^,]*',)('[^,]*',)('[^,]*',)('[^,]*',)('[^,]*',)('[^,]*',)('[^,]*',)('[^,]*',)"
                       "\\1\\2\\3\\4\\5\\6\\7\\8\n" bytes "${bytes}")
  get_filename_component(file_name ${input} NAME)
  string(APPEND arrays "constexpr char file_${number}[] = {\n${bytes}'\\0'};\n")
  string(APPEND rows "  {\"${file_name}\", {file_${number}, sizeof file_${number} - 1}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUTPUT} "// Made by scripts/cmake/embed_files.cmake.
#include \"actors/inspector/web_files.hpp\"

namespace kcx::http {

namespace {
${arrays}
constexpr web_file all[] = {
${rows}};
} // namespace

std::span<const web_file> web_files() noexcept {
  return all;
}

} // namespace kcx::http
")
