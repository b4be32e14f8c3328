#include "dtn/io/safetensors.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/format.h"
#include "io/file.h"
#include "io/safetensors_header.h"
#include "io/weights_file.h"

namespace dtn {
namespace {

using namespace safetensors;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

// Does not use the caching allocator, which would keep these odd-sized blocks forever.
std::shared_ptr<std::byte> allocate(std::size_t bytes, const std::string& file) {
  constexpr std::size_t kAlignment = 64;
  std::size_t rounded =
      (std::max(bytes, std::size_t{1}) + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = rounded < bytes ? nullptr : std::aligned_alloc(kAlignment, rounded);
  if (!memory)
    throw DataError(
        cat(file, ": not enough memory for a tensor of ", bytes_text(static_cast<double>(bytes))));
  return {static_cast<std::byte*>(memory), [](std::byte* p) { std::free(p); }};
}

float half_to_float(std::uint16_t half) {
  std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  std::uint32_t exponent = half >> 10 & 0x1fu;
  std::uint32_t fraction = half & 0x3ffu;
  if (exponent == 0) {  // zero and subnormals: fraction x 2^-24
    return std::bit_cast<float>(
        sign | std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24f));
  }
  std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

template <class From, class To, class F>
void upcast(const std::byte* from, std::byte* to, std::int64_t count, F&& convert) {
  for (std::int64_t i = 0; i < count; ++i) {
    From narrow;
    std::memcpy(&narrow, from + i * sizeof(From), sizeof narrow);
    To wide = convert(narrow);
    std::memcpy(to + i * sizeof(To), &wide, sizeof wide);
  }
}

void convert(Stored type, const std::byte* from, std::byte* to, std::int64_t count) {
  if (type == Stored::kF16) upcast<std::uint16_t, float>(from, to, count, half_to_float);
  if (type == Stored::kI32) {
    upcast<std::int32_t, std::int64_t>(from, to, count, [](std::int32_t v) { return v; });
  }
}

// Bytes of a tensor as stored, before they are verified and converted to the final type.
struct Loaded {
  std::shared_ptr<std::byte> storage;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  bool mapped = false;
};

// `mapping` holds the whole file; null if it is not mapped.
Loaded place(const Entry& entry, std::uint64_t data_at, const std::shared_ptr<std::byte>& mapping,
             const std::string& file) {
  const std::size_t bytes = entry.end - entry.begin;
  const std::uint64_t at = data_at + entry.begin;  // the mapping itself is page-aligned
  if (mapping && at % size_of(entry.type->loaded) == 0) return {mapping, at, bytes, true};
  return {allocate(bytes, file), 0, bytes, false};
}

Tensor finish(const Loaded& loaded, const Entry& entry, const std::string& file) {
  const StoredType& type = *entry.type;
  if (stored_type_of(type.loaded).type == type.type) {
    return Tensor::wrap(loaded.storage, loaded.offset, entry.shape, type.loaded);
  }
  std::int64_t count = entry.shape.numel();
  std::size_t bytes;
  if (__builtin_mul_overflow(static_cast<std::size_t>(count), size_of(type.loaded), &bytes)) {
    throw DataError(cat(file, ": tensor ", in_quotes(entry.name), " is too large"));
  }
  auto wide = allocate(bytes, file);
  convert(type.type, loaded.storage.get() + loaded.offset, wide.get(), count);
  return Tensor::wrap(std::move(wide), 0, entry.shape, type.loaded);
}

// Checksums that the file declares.
struct Declared {
  bool any = false;
  std::vector<std::string> tensors;  // per entry
};

// Removes the checksums from the metadata and verifies the header's checksum.
Declared take_checksums(Header& header, std::string_view json, const std::string& file) {
  Declared declared;
  StringMap& metadata = header.metadata;
  auto algorithm = metadata.extract(std::string(kAlgorithmKey));
  auto header_sum = metadata.extract(std::string(kHeaderKey));
  declared.any = !algorithm.empty() || !header_sum.empty();
  if (!declared.any) return declared;
  std::size_t at = find_header_digits(json);
  if (algorithm.empty() || algorithm.mapped() != kAlgorithm || header_sum.empty() ||
      at == std::string_view::npos || header_sum.mapped() != to_hex(header_crc(json, at))) {
    throw DataError(cat(file, ": the header does not match its checksum; the file is damaged"));
  }
  for (const Entry& entry : header.entries) {
    auto found = metadata.extract(cat(kTensorPrefix, entry.name));
    if (found.empty()) {
      throw DataError(cat(file, ": tensor ", in_quotes(entry.name), " has no checksum"));
    }
    declared.tensors.push_back(std::move(found.mapped()));
  }
  return declared;
}

// The checked header of a file.
struct OpenFile {
  Header header;
  Declared declared;
  std::uint64_t data_at = 0;  // position of the data section
};

OpenFile open_file(const ByteSource& source) {
  const std::string& file = source.name();
  const auto size = static_cast<std::uint64_t>(source.size());
  auto not_ours = [&](const auto&... what) {
    std::array<char, kFormatBytes> bytes;
    const std::span start = std::span(bytes).first(std::min<std::uint64_t>(bytes.size(), size));
    source.read(0, std::as_writable_bytes(start));
    const std::string other = describe_other_format(start, file);
    if (!other.empty()) throw DataError(cat(file, " is ", other));
    throw DataError(cat(file, ": not a safetensors file, or damaged: ", what...));
  };
  if (size < kLengthBytes) not_ours("it has ", size, " bytes");
  std::uint64_t header_bytes;
  source.read(0, std::as_writable_bytes(std::span(&header_bytes, 1)));
  if (header_bytes > kMaxHeaderBytes || header_bytes > size - kLengthBytes) {
    not_ours("its header would have ", header_bytes, " bytes, but the file has ", size);
  }
  std::string json(header_bytes, '\0');
  source.read(kLengthBytes, std::as_writable_bytes(std::span(json)));
  if (!json.starts_with('{')) not_ours("its header is not a JSON object");
  std::uint64_t data_at = kLengthBytes + header_bytes;
  Header header = parse_header(json, size - data_at, file);
  Declared declared = take_checksums(header, json, file);
  return {std::move(header), std::move(declared), data_at};
}

// Tensors share the memory of `mapping`, if it is not null.
TensorFile load(const ByteSource& source, const std::shared_ptr<std::byte>& mapping,
                const ReadOptions& options) {
  const std::string& file = source.name();
  OpenFile opened = open_file(source);
  Header& header = opened.header;
  const Declared& declared = opened.declared;
  const std::uint64_t data_at = opened.data_at;
  std::vector<Loaded> loaded;
  std::vector<std::size_t> sizes;
  for (const Entry& entry : header.entries) {
    loaded.push_back(place(entry, data_at, mapping, file));
    sizes.push_back(loaded.back().bytes);
  }
  bool verify = declared.any && options.verify_checksums;
  auto crcs = crc32_pieces(sizes, [&](std::size_t i, std::size_t begin, std::size_t bytes) {
    std::byte* at = loaded[i].storage.get() + loaded[i].offset + begin;
    if (!loaded[i].mapped) {
      const std::uint64_t from = data_at + header.entries[i].begin + begin;
      source.read(static_cast<std::int64_t>(from), {at, bytes});
    }
    return verify ? at : nullptr;
  });

  TensorFile result;
  for (std::size_t i = 0; i < header.entries.size(); ++i) {
    Entry& entry = header.entries[i];
    if (verify && declared.tensors[i] != to_hex(crcs[i])) {
      throw DataError(cat(file, ": tensor ", in_quotes(entry.name),
                          " does not match its checksum; the file is damaged"));
    }
    Tensor tensor = finish(loaded[i], entry, file);
    loaded[i].storage.reset();
    result.tensors.emplace_back(std::move(entry.name), std::move(tensor));
  }
  result.metadata = std::move(header.metadata);
  return result;
}

}  // namespace

const Tensor* TensorFile::find(std::string_view name) const {
  auto found = std::ranges::lower_bound(tensors, name, {}, &NamedTensors::value_type::first);
  return found != tensors.end() && found->first == name ? &found->second : nullptr;
}

Header safetensors::read_header(const std::filesystem::path& path) {
  return open_file(FileSource(path.string())).header;
}

TensorFile parse_safetensors(std::span<const std::byte> bytes, const std::string& name,
                             const ReadOptions& options) {
  return load(MemorySource(bytes, name), nullptr, options);
}

TensorFile read_safetensors(const std::filesystem::path& path, const ReadOptions& options) {
  const FileSource file(path.string());
  if (!options.map || file.size() == 0) return load(file, nullptr, options);
  const auto size = static_cast<std::size_t>(file.size());
  // Private and writable: a write to a tensor does not change the file.
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                        file.descriptor(), 0);
  if (memory == MAP_FAILED) fail_to_read(file.name(), std::strerror(errno));
  const std::shared_ptr<std::byte> mapping(static_cast<std::byte*>(memory),
                                           [size](std::byte* p) { ::munmap(p, size); });
  return load(MemorySource({mapping.get(), size}, file.name()), mapping, options);
}

}  // namespace dtn
