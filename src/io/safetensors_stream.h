// Safetensors files of tensors that need not fit into memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "io/atomic_file.h"
#include "io/safetensors_header.h"

namespace dtn {

// Writes a file whose tensors are known by name, type and shape, and whose data come bit by bit in
// the order of the tensors. The file is like one of write_safetensors(), checksums and all, and
// appears with commit(), whole. Give wider types first, so that every tensor is aligned.
class SafetensorsStream {
 public:
  SafetensorsStream(const std::filesystem::path& path, std::vector<safetensors::Item> items,
                    StringMap metadata = {});

  void append(std::span<const std::byte> bytes);
  // Throws Error unless all data are there.
  void commit();

 private:
  void flush();
  void skip_whole();

  std::filesystem::path path_;
  std::vector<safetensors::Item> items_;
  StringMap metadata_;
  std::vector<std::uint32_t> checksums_;  // so far
  std::size_t current_ = 0;               // the tensor whose data come next
  std::uint64_t missing_ = 0;             // bytes of it
  std::vector<std::byte> pending_;        // gathered into larger writes
  AtomicFile file_;
};

}  // namespace dtn
