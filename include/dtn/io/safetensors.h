// safetensors files: eight bytes of header length, a JSON table of contents, raw little-endian data
// (https://github.com/huggingface/safetensors, section "Format"). Files written here carry CRC-32
// checksums of the table and of every tensor in `__metadata__`; files without them load as well.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtn/core/tensor.h"

namespace dtn {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using StringMap = std::map<std::string, std::string>;

struct TensorFile {
  NamedTensors tensors;  // sorted by name
  StringMap metadata;    // without the checksums

  // The tensor of that name, or null.
  const Tensor* find(std::string_view name) const;
};

struct ReadOptions {
  // The table's checksum is always verified where there is one; this one skips the tensors'.
  bool verify_checksums = true;
  // Maps the file instead of reading it: for data sets larger than memory. The file must then not
  // be changed in place while a tensor of it lives. Writing to a tensor never reaches the file.
  bool map = false;
};

// Reads a file whose content is not trusted. F32, BF16, F64, I64 and U8 keep their type; F16
// becomes float32 and I32 int64. Tensors are aligned for their type and have at most
// Shape::kMaxRank dimensions. Throws DataError naming the file, the tensor and the fault.
TensorFile read_safetensors(const std::filesystem::path& path, const ReadOptions& options = {});

// The same from memory, which is copied; `name` stands for the file in messages.
TensorFile parse_safetensors(std::span<const std::byte> bytes, const std::string& name,
                             const ReadOptions& options = {});

// Writes `path` atomically and durably (see atomic_file.h). The bytes depend on the arguments
// alone, not on the order of `tensors`: wider types come first, then names in order, so that every
// tensor is aligned in the file. Throws Error for undefined tensors, duplicate or reserved names,
// text that is not UTF-8, and when the system refuses.
void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const StringMap& metadata = {});

}  // namespace dtn
