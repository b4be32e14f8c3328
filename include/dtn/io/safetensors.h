// safetensors files: eight bytes of header length, a JSON table of contents, raw little-endian data
// (https://github.com/huggingface/safetensors, section "Format"). Files written here have CRC-32
// checksums of the table and of every tensor in `__metadata__`. Files without checksums load too.
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

// Tensors by name, in the order of a file or of a model.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
// Metadata of a file.
using StringMap = std::map<std::string, std::string>;

// The content of a file.
struct TensorFile {
  NamedTensors tensors;  // sorted by name
  StringMap metadata;    // without the checksums

  // The tensor with this name, or null.
  const Tensor* find(std::string_view name) const;
};

// Settings of read_safetensors().
struct ReadOptions {
  // False skips the checksums of the tensors. A checksum of the table is always verified.
  bool verify_checksums = true;
  // Memory-maps the file instead of reading it, for data sets larger than memory. The file must not
  // be changed in place while one of its tensors lives. Writing to a tensor never changes the file.
  bool map = false;
};

// Reads an untrusted file. F32, BF16, F64, I64 and U8 keep their type; F16 becomes float32 and I32
// becomes int64. Tensors are aligned for their type and have at most Shape::kMaxRank dimensions.
// Throws DataError naming the file, the tensor and the fault.
TensorFile read_safetensors(const std::filesystem::path& path, const ReadOptions& options = {});

// The same from memory, which is copied; `name` names the file in messages.
TensorFile parse_safetensors(std::span<const std::byte> bytes, const std::string& name,
                             const ReadOptions& options = {});

// Writes `path` atomically and durably (see atomic_file.h). The bytes depend only on the arguments,
// not on the order of `tensors`: wider types come first, then names in order, so that every tensor
// is aligned in the file. Throws Error for undefined tensors, duplicate or reserved names, text
// that is not UTF-8, and system errors.
void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const StringMap& metadata = {});

}  // namespace dtn
