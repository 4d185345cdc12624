/// A value out of an expected, for tests.
#pragma once

#include "config/error.hpp"

#include <stdexcept>
#include <utility>

namespace kcx::test {

/// The value itself. CAF_CHECK_EQUAL keeps references to its operands, and one into a temporary expected, as in
/// CAF_CHECK_EQUAL(open()->size, 3u), dangles: write value_of(open()).size. Throws, which fails the test with the
/// error's message, if there is no value.
template <class T>
[[nodiscard]] T value_of(expected<T> result) {
  if (!result)
    throw std::runtime_error{result.error().message};
  return *std::move(result);
}

} // namespace kcx::test
