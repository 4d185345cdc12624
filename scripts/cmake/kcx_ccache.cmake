# Compiles through ccache where it is installed, so that a second checkout or a clean build costs seconds.
find_program(KCX_CCACHE ccache)
if(KCX_CCACHE)
  # base_dir makes paths relative, so checkouts in different folders share their results.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                  ${KCX_CCACHE})
endif()
