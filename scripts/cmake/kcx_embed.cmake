# kcx_embed_web(TARGET files…): compiles files of the current folder into the target, so that a program needs no files
# beside it; actors/inspector/web_files.hpp says how to get at them.
function(kcx_embed_web target)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/web_files.cpp)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE inputs)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${source} "-DINPUTS=${inputs}" -P ${CMAKE_SOURCE_DIR}/scripts/cmake/embed_files.cmake
    DEPENDS ${inputs} ${CMAKE_SOURCE_DIR}/scripts/cmake/embed_files.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${source})
endfunction()
