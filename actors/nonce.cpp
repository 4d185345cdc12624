#include "actors/nonce.hpp"

#include <array>
#include <random>
#include <stdexcept>
#include <sys/random.h>

namespace kcx {

std::uint64_t new_nonce() {
  // From the kernel, a few at a time: whoever sees some of them must not be able to tell the next.
  static thread_local std::array<std::uint64_t, 32> stock{};
  static thread_local std::size_t left = 0;
  for (;;) {
    if (left == 0) {
      if (::getrandom(stock.data(), sizeof stock, 0) != ssize_t{sizeof stock})
        throw std::runtime_error{"the system gives no random numbers"};
      left = stock.size();
    }
    if (const auto nonce = stock[--left] >> 1U; nonce != 0)
      return nonce;
  }
}

} // namespace kcx
