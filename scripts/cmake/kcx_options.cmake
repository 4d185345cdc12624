# kcx_options: the one interface target every KCX target links: language level, warnings, definitions.
find_package(Threads REQUIRED)

add_library(kcx_options INTERFACE)
target_compile_features(kcx_options INTERFACE cxx_std_20)
target_include_directories(kcx_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(kcx_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
                                             # CAF's and Asio's templates trip this one at -O2 under C++20.
                                             -Wno-maybe-uninitialized
                                             # g++ 12 reports "literal" + std::string at -O2 (GCC bug 105651).
                                             -Wno-restrict)
target_compile_definitions(kcx_options INTERFACE KCX_VERSION="${PROJECT_VERSION}")
target_link_libraries(kcx_options INTERFACE Threads::Threads)
if(KCX_WERROR)
  target_compile_options(kcx_options INTERFACE -Werror)
endif()
if(KCX_SANITIZE)
  # CAF 0.17.6 dereferences a null pointer in init_fun_factory.hpp; the null check of UBSan reports that library line.
  target_compile_options(kcx_options INTERFACE -fsanitize=${KCX_SANITIZE} -fno-sanitize=null -fno-omit-frame-pointer)
  target_link_options(kcx_options INTERFACE -fsanitize=${KCX_SANITIZE})
endif()

# Debian ships no CMake package for CAF: an imported target made by hand.
find_library(KCX_CAF_CORE caf_core REQUIRED)
add_library(kcx_caf INTERFACE)
# An unregistered message type becomes a compile error instead of an empty message at run time.
target_compile_definitions(kcx_caf INTERFACE CAF_ENABLE_TYPE_ID_CHECKS)
target_link_libraries(kcx_caf INTERFACE ${KCX_CAF_CORE} Threads::Threads)

find_package(Boost 1.81 REQUIRED)
find_package(OpenSSL REQUIRED)
add_library(kcx_asio INTERFACE)
target_compile_definitions(kcx_asio INTERFACE BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_SEPARATE_COMPILATION
                                              BOOST_BEAST_SEPARATE_COMPILATION BOOST_POSIX_HAS_VFORK=1)
target_link_libraries(kcx_asio INTERFACE Boost::headers OpenSSL::SSL OpenSSL::Crypto Threads::Threads)
