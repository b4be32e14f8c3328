// A file that arrives in pieces, maybe over several runs of the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "apps/get/hub_endpoint.h"
#include "io/posix.h"
#include "io/sha256.h"

namespace dtn::app {

// The bytes are in FILE.part until the file is whole, and FILE.part.json says of which content they
// are. Nobody else may write these files at the same time.
class PartFile {
 public:
  // Opens FILE.part, or creates it. Bytes of a content that is not known are dropped.
  explicit PartFile(std::filesystem::path file);

  const std::filesystem::path& path() const { return part_; }
  std::int64_t bytes() const { return bytes_; }  // that have arrived
  // The content that the bytes belong to.
  const FileFacts& facts() const { return facts_; }
  // True if the bytes begin the content that a server describes.
  bool belongs_to(const FileFacts& served) const;

  // Drops all bytes; those that follow are of this content.
  void restart(const FileFacts& facts);
  // Appends bytes. Throws Error if the disk is full; what has been written remains.
  void append(std::span<const std::byte> bytes);
  // Returns the SHA-256 of all bytes. Reads those of earlier runs.
  std::string sha256();
  // Moves the file to its name, durably.
  void commit();
  // Deletes the part.
  void discard();

 private:
  std::filesystem::path file_, part_, state_;
  FileHandle handle_;
  FileFacts facts_;
  std::int64_t bytes_ = 0;
  Sha256 hash_;
  std::int64_t hashed_ = 0;  // bytes that hash_ has
};

}  // namespace dtn::app
