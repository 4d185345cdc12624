#include "actors/http/message/auth.hpp"

#include "actors/http/message/message.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <array>
#include <cerrno>
#include <span>
#include <sys/random.h>
#include <system_error>

namespace kcx::http {

namespace {

constexpr bool is_token_character(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' ||
         c == '_' || c == '~' || c == '+' || c == '/' || c == '=';
}

std::string hex(std::span<const unsigned char> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string result;
  result.reserve(bytes.size() * 2);
  for (auto byte : bytes) {
    result.push_back(digits[byte >> 4]);
    result.push_back(digits[byte & 15]);
  }
  return result;
}

} // namespace

bool constant_time_equal(std::string_view a, std::string_view b) noexcept {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::optional<std::string_view> bearer_token(std::string_view authorization) noexcept {
  constexpr std::string_view scheme = "Bearer ";
  authorization = trimmed(authorization);
  if (!same_text(authorization.substr(0, scheme.size()), scheme))
    return std::nullopt;
  auto token = trimmed(authorization.substr(scheme.size()));
  if (token.empty())
    return std::nullopt;
  for (char c : token)
    if (!is_token_character(c))
      return std::nullopt;
  return token;
}

std::string make_token() {
  std::array<unsigned char, 32> bytes{};
  // Up to 256 bytes come whole or not at all; a signal can only interrupt the wait for the first seeding.
  while (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    if (errno != EINTR)
      throw std::system_error{errno, std::generic_category(), "getrandom"};
  return hex(bytes);
}

std::string token_digest(std::string_view token) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  ::SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  return hex(digest);
}

std::string hmac_sha256(std::string_view key, std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  unsigned int size = 0;
  ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
         text.size(), digest.data(), &size);
  return hex(digest);
}

} // namespace kcx::http
