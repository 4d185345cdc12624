/// The error codes of KCX and the value that carries one.
///
/// Everything that can go wrong and that a user may see has a code here. The HTTP bridge maps codes to problem
/// documents (actors/http/message/problem.hpp); nothing below it knows HTTP.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kcx {

/// Each enumerator's comment is its cause in one sentence. Numbers are never reused: append only.
enum class ec : std::uint8_t {
  none = 0,
  /// The input breaks a rule; `error::fields` names each offending field.
  invalid_input = 1,
  /// No job (attempt, queue, …) has this id and none ever had.
  not_found = 2,
  /// The job existed and was removed by retention or by hand.
  gone = 3,
  /// The operation does not fit the present state of the job.
  conflict = 4,
  /// A claim lost the race: the job is no longer queued.
  not_ready = 5,
  /// A finishing write named an attempt that is no longer the running one.
  stale_attempt = 6,
  /// The write was not confirmed before its database connection failed; it may or may not have happened.
  outcome_unknown = 7,
  /// The disk or the volume's quota is full; nothing was stored.
  storage_full = 8,
  /// The database file is held by another process; nothing was stored, trying again later helps.
  storage_busy = 9,
  /// Reading or writing the database failed; nothing was stored.
  storage_failed = 10,
  /// The database file is damaged or of another program or version; nothing was written.
  storage_unusable = 11,
  /// The node is stopping or draining and takes no new work.
  draining = 12,
  /// No valid token came with the request.
  unauthorized = 13,
  /// The token is valid but its scopes do not allow this.
  forbidden = 14,
  /// A request between actors was not answered in time.
  timeout = 15,
  /// The operating system refused something (process, file, socket); the text carries its words.
  system_failed = 16,
  /// A setting is wrong; the text names the option, the value and what is allowed.
  invalid_setting = 17,
  /// Another node holds the data directory.
  data_in_use = 18,
  /// A bug: an invariant of KCX itself does not hold.
  internal = 19,
  /// The idempotency key was used before with another body.
  idempotency_conflict = 20,
};

/// The snake_case name of a code, as it appears in logs and problem documents.
[[nodiscard]] std::string_view to_string(ec code) noexcept;

/// One offending field of an input document. `pointer` is a JSON pointer (RFC 6901), e.g. "/steps/0/command".
struct field_error {
  std::string pointer;
  std::string detail;
};

/// A code, a sentence for a human and, for ec::invalid_input, the offending fields.
struct error {
  ec code = ec::none;
  std::string message;
  std::vector<field_error> fields;
};

/// Either a value or the error that stood in its way. Never empty.
template <class T>
class [[nodiscard]] expected {
public:
  /// An error: there is no value yet.
  expected() : data_{std::in_place_index<1>, no_value()} {}
  expected(T value) : data_{std::in_place_index<0>, std::move(value)} {}
  expected(struct error failure) : data_{std::in_place_index<1>, std::move(failure)} {}

  explicit operator bool() const noexcept { return data_.index() == 0; }
  [[nodiscard]] bool has_value() const noexcept { return data_.index() == 0; }

  /// The value. Undefined unless has_value().
  T& operator*() & { return *std::get_if<0>(&data_); }
  const T& operator*() const& { return *std::get_if<0>(&data_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&data_)); }
  T* operator->() { return std::get_if<0>(&data_); }
  const T* operator->() const { return std::get_if<0>(&data_); }

  /// The error. Undefined if has_value().
  [[nodiscard]] const struct error& error() const& { return *std::get_if<1>(&data_); }
  [[nodiscard]] struct error&& error() && { return std::move(*std::get_if<1>(&data_)); }

private:
  static struct error no_value() { return {ec::internal, "an answer without a value", {}}; }

  std::variant<T, struct error> data_;
};

/// The result of an operation that yields nothing: done, or the error.
struct done {};
using outcome = expected<done>;

} // namespace kcx
