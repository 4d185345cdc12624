/// Reading untrusted JSON field by field: each helper checks one kind of value and notes what is wrong with it, by JSON
/// pointer and in a sentence that says what is allowed. Used by job_json.cpp; knows nothing of jobs.
#pragma once

#include "config/error.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kcx {

/// Where a value stands in the document. Lives on the stack, linked to its parent; becomes text only in an error.
struct json_place {
  const json_place* parent = nullptr;
  std::string_view key;

  /// As a JSON pointer. Keys longer than 64 bytes are shortened, so that an error cannot be as large as its input.
  [[nodiscard]] std::string pointer() const;
};

/// The errors found so far: at most 64, further ones are dropped.
class json_errors {
public:
  void add(const json_place& at, std::string detail);
  [[nodiscard]] bool empty() const noexcept { return found_.empty(); }
  /// An invalid_input error with all of them.
  [[nodiscard]] struct error to_error() &&;

private:
  std::vector<field_error> found_;
};

/// Valid UTF-8 (no surrogates, nothing overlong) without a NUL.
[[nodiscard]] bool is_clean_text(std::string_view text) noexcept;

/// Letters, digits and `extra`, the first one a letter or a digit: so never a path that leads upwards, never an option.
[[nodiscard]] bool is_plain_name(std::string_view text, std::string_view extra) noexcept;

/// A string of clean text with at most `most` bytes.
[[nodiscard]] std::optional<std::string> read_text(json_errors& errors, const json_place& at,
                                                   const nlohmann::json& value, std::size_t most);

/// The number that stands there if it is whole, also written as 1.0 or 1e3.
[[nodiscard]] std::optional<std::int64_t> whole_number(const nlohmann::json& value) noexcept;

/// A whole number from `least` to `most`.
[[nodiscard]] std::optional<std::int64_t> read_whole(json_errors& errors, const json_place& at,
                                                     const nlohmann::json& value, std::int64_t least,
                                                     std::int64_t most);

/// A number of seconds, fractions allowed, from `least` to `most`.
[[nodiscard]] std::optional<std::chrono::milliseconds> read_seconds(json_errors& errors, const json_place& at,
                                                                    const nlohmann::json& value,
                                                                    std::chrono::milliseconds least,
                                                                    std::chrono::milliseconds most);

[[nodiscard]] std::optional<bool> read_bool(json_errors& errors, const json_place& at, const nlohmann::json& value);

/// One of `names`: returns its index.
[[nodiscard]] std::optional<std::size_t> read_choice(json_errors& errors, const json_place& at,
                                                     const nlohmann::json& value,
                                                     const std::vector<std::string_view>& names);

/// How deep arrays and objects are nested, counted up to `most` only: safe on hostile input.
[[nodiscard]] std::size_t json_depth(const nlohmann::json& value, std::size_t most) noexcept;

} // namespace kcx
