// Writes a packed file piece by piece, so that a later run can continue after a kill.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "dtn/core/tensor.h"
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
  // The classes of a file.
  struct Classes {
    std::uint64_t count = 0;
    std::string names;   // each ended by a zero byte
    Tensor labels = {};  // [records, count] uint8 for records with any number of labels
  };
  // Appends index, names and labels, and gives the file its final name. describe(i) describes
  // record i.
  void finish(const Classes& classes, const std::function<Description(std::int64_t)>& describe);

 private:
  void start(std::uint32_t job);
  void take_up(std::uint32_t job);

  std::filesystem::path output_, partial_, journal_path_;
  FileHandle file_, journal_;
  std::int64_t records_ = 0, end_ = 0;
  std::string pending_;  // journal entries of records that are not synced
  std::int64_t synced_end_ = 0;
  std::chrono::steady_clock::time_point synced_at_ = std::chrono::steady_clock::now();
};

}  // namespace dtn::packed
