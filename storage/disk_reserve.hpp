/// A file of a few MiB that holds space back, so that the database can still store how jobs end, cancels and removals
/// when something else has filled the disk to its last byte.
///
/// Used by the database actor, before each commit, and when the database is opened. It gives up its space piece by
/// piece, each no larger than what is to be written: whatever fills the disk takes the rest as soon as it is free.
#pragma once

#include <cstdint>
#include <filesystem>

namespace kcx {

/// Not thread safe; one at a time per file.
class disk_reserve {
public:
  /// Of a reserve that is whole, in bytes.
  static constexpr std::int64_t whole = 4LL << 20;

  /// Makes no file yet; takes over what an earlier one left.
  explicit disk_reserve(std::filesystem::path file);

  /// Gives up as much as is missing until `needed` bytes are free to this account. Whether it gave up anything.
  bool make_room(std::int64_t needed) noexcept;
  /// Gives up so much, whatever the file system says: quotas are full of their own accord. Whether there was any.
  bool give_up(std::int64_t bytes) noexcept;

  /// How many bytes it is short of.
  [[nodiscard]] std::int64_t missing() const noexcept { return whole - size_; }
  /// Makes it whole again, with mode 0600, where several times its size stays free. Does nothing if it is whole.
  void fill() noexcept;

private:
  [[nodiscard]] std::int64_t free_bytes() const noexcept;

  std::filesystem::path file_;
  std::int64_t size_ = 0;
};

} // namespace kcx
