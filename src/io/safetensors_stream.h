// Writes safetensors files whose tensors need not fit into memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "io/atomic_file.h"
#include "io/safetensors_header.h"

namespace dtn {

// Writes a file whose tensors have known names, types and shapes. The data arrive in pieces, in the
// order of the tensors. The file has the format of write_safetensors(), with checksums, and appears
// whole at commit(). Give wider types first, so that every tensor is aligned.
class SafetensorsStream {
 public:
  SafetensorsStream(const std::filesystem::path& path, std::vector<safetensors::Item> items,
                    StringMap metadata = {});

  void append(std::span<const std::byte> bytes);
  // Throws Error if data are missing.
  void commit();

 private:
  void flush();
  void skip_whole();

  std::filesystem::path path_;
  std::vector<safetensors::Item> items_;
  StringMap metadata_;
  std::vector<std::uint32_t> checksums_;  // CRC-32 so far
  std::size_t current_ = 0;               // the tensor that receives the next data
  std::uint64_t missing_ = 0;             // bytes that this tensor still lacks
  std::vector<std::byte> pending_;        // collected into larger writes
  AtomicFile file_;
};

}  // namespace dtn
