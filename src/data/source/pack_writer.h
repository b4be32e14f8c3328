// Writes a packed file piece by piece, so that a later run can continue after a kill.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "io/posix.h"

namespace dtn::packed {

// Records go to `<output>.partial`. After records are synced, the journal beside the file gets an
// entry for each. All records that the journal lists are therefore in the file, even after a crash
// of the process or the machine.
class PackWriter {
 public:
  // `job` is a checksum of everything that decides the contents of the file. A partial file of the
  // same job is continued. Throws ConfigError if the partial file belongs to another job, or
  // another process is writing it.
  PackWriter(std::filesystem::path output, std::uint32_t job);

  std::int64_t records() const { return records_; }  // in the file
  std::int64_t bytes() const { return end_; }

  void add(std::span<const std::byte> record);
  // sync() makes the records so far survive a kill. sync_when_due() does so after these limits.
  void sync();
  void sync_when_due(std::int64_t after_bytes, double after_seconds);

  // Contents of the index for a record, besides its size and checksum.
  struct Description {
    std::string name;
    std::uint32_t label = 0;
  };
  // Appends index and names, and gives the file its final name. describe(i) describes record i.
  template <class Describe>
  void finish(std::uint64_t num_classes, const std::string& class_names, Describe&& describe) {
    std::string index, names;
    const std::string journal = begin_index();
    for (std::int64_t i = 0; i < records_; ++i) {
      append_entry(journal, i, describe(i), index, names);
    }
    finish_file(num_classes, index, names, class_names);
  }

 private:
  void start(std::uint32_t job);
  void take_up(std::uint32_t job);
  std::string begin_index();
  void append_entry(const std::string& journal, std::int64_t i, const Description& description,
                    std::string& index, std::string& names);
  void finish_file(std::uint64_t num_classes, const std::string& index, const std::string& names,
                   const std::string& class_names);

  std::filesystem::path output_, partial_, journal_path_;
  FileHandle file_, journal_;
  std::int64_t records_ = 0, end_ = 0;
  std::string pending_;  // journal entries of records that are not synced
  std::int64_t synced_end_ = 0;
  std::chrono::steady_clock::time_point synced_at_ = std::chrono::steady_clock::now();
  std::uint64_t entry_at_ = 0;  // offset of the next record, while the index is made
};

}  // namespace dtn::packed
