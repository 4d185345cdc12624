# kcx_add_tests(NAME SOURCES file… LIBS target…): one executable whose tests run in processes of their own
# (tests/support/main.cpp) and one ctest entry of the same name. Include files as "tests/support/files.hpp".
function(kcx_add_tests name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "kcx_add_tests(${name} SOURCES … LIBS …): wrong arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${name} ${arg_SOURCES})
  # Tests gain nothing from speed, but much from quick builds; each file may name its own helpers as it likes.
  target_compile_options(${name} PRIVATE -O0)
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  target_link_libraries(${name} PRIVATE ${arg_LIBS} kcx_test_support)
  add_test(NAME ${name} COMMAND ${name} --junit=${CMAKE_BINARY_DIR}/junit/${name}.xml)
  set_property(GLOBAL APPEND PROPERTY KCX_TEST_EXECUTABLES ${name})
endfunction()
