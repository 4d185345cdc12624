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

# kcx_embed_text(TARGET file HEADER FUNCTION): compiles one file of the current folder into the target as the
# std::string_view that FUNCTION of namespace kcx::http, declared in HEADER, returns.
function(kcx_embed_text target input header function)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${source} -DINPUT=${CMAKE_CURRENT_SOURCE_DIR}/${input} -DHEADER=${header}
            -DFUNCTION=${function} -P ${CMAKE_SOURCE_DIR}/scripts/cmake/embed_text.cmake
    DEPENDS ${input} ${CMAKE_SOURCE_DIR}/scripts/cmake/embed_text.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${source})
endfunction()
