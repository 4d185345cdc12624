/// Copies the log of one attempt while other processes write, compress or remove it.
#pragma once

#include "config/error.hpp"
#include "storage/log_format.hpp"
#include "storage/sparse_copy.hpp"

#include <cstdint>
#include <filesystem>
#include <utility>

namespace kcx {

class log_copy {
public:
  /// Opens both files of a log, each in the form it has now. What is opened is copied, also if it is compressed or
  /// removed meanwhile. Fails with ec::not_found if there is none (removed, or only just being made), or
  /// ec::system_failed.
  [[nodiscard]] static expected<log_copy> open(const std::filesystem::path& data_file);

  /// Writes both files as those of the log `data_file`, whose directory exists and which does not. The copy is a log as
  /// it was at one moment since open(); of one that was cut meanwhile, without what was cut. Returns the bytes that
  /// take room. Fails with ec::storage_full or ec::system_failed; part of the copy may be there then. Call it once.
  [[nodiscard]] expected<std::uint64_t> write(const std::filesystem::path& data_file) const;

private:
  struct part {
    named_file file;
    bool packed = false;
  };

  /// How far the log has come: what its index says, see log_extent.
  struct state {
    log_header header;
    std::uint64_t records = 0;
    log_record last;

    [[nodiscard]] bool same_head(const state& other) const noexcept {
      return header.gap_begin == other.header.gap_begin && header.mark_begin == other.header.mark_begin;
    }
  };

  log_copy(part data, part index) : data_{std::move(data)}, index_{std::move(index)} {}

  [[nodiscard]] static expected<part> open_part(const std::filesystem::path& file);
  [[nodiscard]] expected<state> look() const;
  [[nodiscard]] expected<std::uint64_t> write_plain(const named_file& data, const named_file& index) const;

  part data_;
  part index_;
  /// As it was when the log was opened. Only where neither file is compressed.
  state opened_;
};

} // namespace kcx
