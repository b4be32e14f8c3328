// Header of a safetensors file, parsed and fully validated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dtn/core/dtype.h"
#include "dtn/core/shape.h"
#include "dtn/io/safetensors.h"

namespace dtn::safetensors {

inline constexpr std::uint64_t kLengthBytes = 8;
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference library's limit

// Checksums are stored in __metadata__: kAlgorithmKey names the algorithm, kHeaderKey holds the
// header's checksum, and kTensorPrefix + name a tensor's checksum. Either of the first two keys
// marks a file with checksums, so no single damaged key can disable the verification.
inline constexpr std::string_view kAlgorithmKey = "checksums";
inline constexpr std::string_view kHeaderKey = "header_checksum";
inline constexpr std::string_view kTensorPrefix = "checksum.";
inline constexpr std::string_view kAlgorithm = "crc32";
inline constexpr std::string_view kNoChecksum = "00000000";

enum class Stored : std::uint8_t { kF32, kBF16, kF64, kI64, kU8, kF16, kI32 };

struct StoredType {
  Stored type;
  std::string_view name;  // as in the file
  std::size_t size;       // bytes per element in the file
  DType loaded;           // type in memory
};

// Returns null if this library does not support the type.
const StoredType* find_stored_type(std::string_view name);
const StoredType& stored_type_of(DType dtype);

struct Entry {
  std::string name;
  const StoredType* type = nullptr;
  Shape shape;
  std::uint64_t begin = 0;  // in the data section
  std::uint64_t end = 0;
};

struct Header {
  std::vector<Entry> entries;  // sorted by name
  StringMap metadata;          // everything in __metadata__
};

// Parses a header before `data_bytes` of data. Throws DataError; its text begins with `file`.
Header parse_header(std::string_view json, std::uint64_t data_bytes, const std::string& file);

// Reads the header of a file, and checks it against the file's size. Does not read the tensors.
// Throws DataError, as read_safetensors() does.
Header read_header(const std::filesystem::path& path);

// Returns a name for a message: quoted, control characters replaced, cut if very long.
std::string in_quotes(std::string_view name);

// A tensor to be written.
struct Item {
  std::string name;
  DType dtype;
  Shape shape;

  std::uint64_t nbytes() const {
    return static_cast<std::uint64_t>(shape.numel()) * size_of(dtype);
  }
};

// Throws Error if two items have the same name, or if a name or a metadata key is reserved.
void check_names(const std::vector<Item>& items, const StringMap& metadata,
                 const std::string& file);

// Returns the header of items whose data follow each other in this order. It contains these
// checksums and the header's own. Its length does not depend on the checksums. Throws Error for
// text that is not UTF-8, and if the header is too large.
std::string make_header(const std::vector<Item>& items, const std::vector<std::uint32_t>& checksums,
                        const StringMap& metadata, const std::string& file);

// Returns the CRC-32 of the length field and the header, both as in the file. The digits of the
// header's own checksum are read as kNoChecksum; `digits_at` is their position in `json`.
std::uint32_t header_crc(std::string_view json, std::size_t digits_at);
// Returns the position of those digits, or npos.
std::size_t find_header_digits(std::string_view json);
// CRC-32 of many byte ranges at once. Long ranges are also split between threads. sizes[i] is the
// length of range i; bytes. piece(i, begin, bytes) makes bytes [begin, begin + bytes) of range i
// available and returns their address, or null if no checksum is wanted. It is called once per
// piece, from several threads.
std::vector<std::uint32_t> crc32_pieces(
    const std::vector<std::size_t>& sizes,
    const std::function<const std::byte*(std::size_t, std::size_t, std::size_t)>& piece);
// Returns eight lower-case hexadecimal digits.
std::string to_hex(std::uint32_t crc);

}  // namespace dtn::safetensors
