#include "io/safetensors_header.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "core/format.h"
#include "dtn/core/parallel.h"

namespace dtn::safetensors {
namespace {

constexpr std::array<StoredType, 7> kStoredTypes{{
    {Stored::kF32, "F32", 4, DType::kFloat32},
    {Stored::kBF16, "BF16", 2, DType::kBFloat16},
    {Stored::kF64, "F64", 8, DType::kFloat64},
    {Stored::kI64, "I64", 8, DType::kInt64},
    {Stored::kU8, "U8", 1, DType::kUInt8},
    {Stored::kF16, "F16", 2, DType::kFloat32},
    {Stored::kI32, "I32", 4, DType::kInt64},
}};

// A tensor's fields as the JSON gives them.
struct RawEntry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<std::uint64_t>> shape, offsets;
};

// Handles the JSON event by event, so that only the expected structure is ever built. Unexpected
// nesting, list lengths and field names are refused as they appear.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<RawEntry> entries;
  StringMap metadata;
  std::string error;

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("boolean"); }
  bool number_integer(number_integer_t) override { return unexpected("negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return unexpected("number that is not a 64-bit integer");
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ != State::kList) return unexpected("number");
    const bool is_shape = &entries.back().shape == list_;
    if (is_shape && (*list_)->size() == Shape::kMaxRank) {
      return fail(cat(where(), " has more than ", Shape::kMaxRank,
                      " dimensions, which this library does not support"));
    }
    if (!is_shape && (*list_)->size() == 2) {
      return fail(cat(where(), " has more than two data_offsets"));
    }
    (*list_)->push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::kDtype) {
      entries.back().dtype = std::move(value);
      state_ = State::kEntry;
      return true;
    }
    if (state_ == State::kMetadataValue) {
      if (!metadata.emplace(key_, std::move(value)).second) {
        return fail(cat("__metadata__ holds the key ", in_quotes(key_), " twice"));
      }
      state_ = State::kMetadata;
      return true;
    }
    return unexpected("string");
  }

  bool start_object(std::size_t) override {
    switch (state_) {
      case State::kStart: return go(State::kTop);
      case State::kEntryOpen: return go(State::kEntry);
      case State::kMetadataOpen: return go(State::kMetadata);
      default: return unexpected("object");
    }
  }

  bool end_object() override {
    switch (state_) {
      case State::kTop: return go(State::kDone);
      case State::kMetadata: return go(State::kTop);
      case State::kEntry: return end_entry();
      default: return unexpected("end of an object");
    }
  }

  bool start_array(std::size_t) override {
    return state_ == State::kListOpen ? go(State::kList) : unexpected("array");
  }

  bool end_array() override { return go(State::kEntry); }

  bool key(string_t& name) override {
    switch (state_) {
      case State::kTop: return top_key(name);
      case State::kEntry: return entry_key(name);
      default: key_ = std::move(name); return go(State::kMetadataValue);
    }
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return fail(cat("the header is not valid JSON at its byte ", position));
  }

 private:
  enum class State {
    kStart,
    kTop,
    kMetadataOpen,
    kMetadata,
    kMetadataValue,
    kEntryOpen,
    kEntry,
    kDtype,
    kListOpen,
    kList,
    kDone
  };

  bool go(State next) {
    state_ = next;
    return true;
  }

  bool fail(std::string message) {
    if (error.empty()) error = std::move(message);
    return false;
  }

  std::string where() const {
    if (in_metadata_) return "__metadata__";
    return entries.empty() ? "the header" : cat("tensor ", in_quotes(entries.back().name));
  }

  bool unexpected(const char* what) { return fail(cat(where(), " has an unexpected ", what)); }

  bool top_key(string_t& name) {
    in_metadata_ = name == "__metadata__";
    if (in_metadata_) {
      if (seen_metadata_) return fail("__metadata__ appears twice");
      seen_metadata_ = true;
      return go(State::kMetadataOpen);
    }
    entries.emplace_back().name = std::move(name);
    return go(State::kEntryOpen);
  }

  bool entry_key(const string_t& name) {
    RawEntry& entry = entries.back();
    const bool is_dtype = name == "dtype";
    list_ = name == "shape" ? &entry.shape : name == "data_offsets" ? &entry.offsets : nullptr;
    if (!is_dtype && !list_) return fail(cat(where(), " has an unknown field ", in_quotes(name)));
    if (is_dtype ? entry.dtype.has_value() : list_->has_value()) {
      return fail(cat(where(), " has the field ", name, " twice"));
    }
    if (is_dtype) return go(State::kDtype);
    list_->emplace();
    return go(State::kListOpen);
  }

  bool end_entry() {
    const RawEntry& entry = entries.back();
    if (!entry.dtype) return fail(cat(where(), " has no dtype"));
    if (!entry.shape) return fail(cat(where(), " has no shape"));
    if (!entry.offsets || entry.offsets->size() != 2) {
      return fail(cat(where(), " does not have two data_offsets"));
    }
    return go(State::kTop);
  }

  State state_ = State::kStart;
  bool in_metadata_ = false;
  bool seen_metadata_ = false;
  std::string key_;
  std::optional<std::vector<std::uint64_t>>* list_ = nullptr;  // the list of the current entry
};

// Checks one tensor's fields against each other and the length of the data.
Entry validate(RawEntry& raw, std::uint64_t data_bytes, const std::string& file) {
  auto fail = [&](const auto&... what) {
    throw DataError(cat(file, ": tensor ", in_quotes(raw.name), " ", what...));
  };
  Entry entry;
  entry.type = find_stored_type(*raw.dtype);
  if (!entry.type) {
    fail("has dtype ", in_quotes(*raw.dtype),
         ", which this library does not support; convert it first");
  }
  std::vector<std::int64_t> dims;
  std::int64_t count = 1;
  for (std::uint64_t d : *raw.shape) {
    // Multiplies in this order, like Shape::numel, so that a shape accepted here has a numel.
    if (d > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
        __builtin_mul_overflow(count, static_cast<std::int64_t>(d), &count)) {
      fail("has a shape whose number of elements overflows");
    }
    dims.push_back(static_cast<std::int64_t>(d));
  }
  std::uint64_t bytes;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(count), entry.type->size, &bytes)) {
    fail("has a shape whose number of bytes overflows");
  }
  entry.shape = Shape(dims);
  entry.begin = raw.offsets->front();
  entry.end = raw.offsets->back();
  if (entry.begin > entry.end) fail("ends before it begins");
  if (entry.end > data_bytes) {
    fail("ends at byte ", entry.end, " of the data, which has ", data_bytes,
         " bytes; the file may be cut short");
  }
  if (entry.end - entry.begin != bytes) {
    fail("of shape ", to_string(entry.shape), " and dtype ", entry.type->name, " takes ", bytes,
         " bytes, but its data_offsets span ", entry.end - entry.begin);
  }
  entry.name = std::move(raw.name);
  return entry;
}

// Checks that the tensors cover the data without gap or overlap.
void check_coverage(const std::vector<Entry>& entries, std::uint64_t data_bytes,
                    const std::string& file) {
  std::vector<const Entry*> order;
  order.reserve(entries.size());
  for (const Entry& entry : entries) order.push_back(&entry);
  std::ranges::sort(order, [](const Entry* a, const Entry* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
  });
  std::uint64_t covered = 0;
  for (const Entry* entry : order) {
    if (entry->begin != covered) {
      throw DataError(cat(file, ": tensor ", in_quotes(entry->name),
                          entry->begin < covered ? " overlaps another" : " leaves a gap before it",
                          ": it begins at byte ", entry->begin, " of the data, not ", covered));
    }
    covered = entry->end;
  }
  if (covered != data_bytes) {
    throw DataError(cat(file, ": the tensors end at byte ", covered, " of the data, which has ",
                        data_bytes, "; the file has extra bytes at its end"));
  }
}

}  // namespace

const StoredType* find_stored_type(std::string_view name) {
  auto found = std::ranges::find(kStoredTypes, name, &StoredType::name);
  return found == kStoredTypes.end() ? nullptr : &*found;
}

const StoredType& stored_type_of(DType dtype) {
  // Returns the first match: types that are converted come last in the table.
  return *std::ranges::find(kStoredTypes, dtype, &StoredType::loaded);
}

Header parse_header(std::string_view json, std::uint64_t data_bytes, const std::string& file) {
  // The JSON parser would take a zero byte for the end, and would skip a byte order mark.
  if (json.empty() || json.front() != '{' || json.find('\0') != std::string_view::npos) {
    throw DataError(
        cat(file, ": not a safetensors file, or damaged: its header is not a JSON object"));
  }
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(json, &reader)) {
    throw DataError(cat(file, ": ", reader.error));
  }
  Header header;
  header.metadata = std::move(reader.metadata);
  header.entries.reserve(reader.entries.size());
  for (RawEntry& raw : reader.entries) header.entries.push_back(validate(raw, data_bytes, file));
  std::ranges::sort(header.entries, {}, &Entry::name);
  auto twin = std::ranges::adjacent_find(header.entries, {}, &Entry::name);
  if (twin != header.entries.end()) {
    throw DataError(cat(file, ": tensor ", in_quotes(twin->name), " appears twice"));
  }
  check_coverage(header.entries, data_bytes, file);
  return header;
}

std::string in_quotes(std::string_view name) {
  constexpr std::size_t kMax = 120;
  std::string text = "'";
  for (char c : name.substr(0, kMax)) text += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  return text + (name.size() > kMax ? "...'" : "'");
}

std::uint32_t header_crc(std::string_view json, std::size_t digits_at) {
  std::array<Bytef, kLengthBytes> length;
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<Bytef>(static_cast<std::uint64_t>(json.size()) >> (8 * i));
  }
  auto add = [](uLong crc, std::string_view part) {
    return crc32_z(crc, reinterpret_cast<const Bytef*>(part.data()), part.size());
  };
  uLong crc = crc32_z(0, length.data(), length.size());
  crc = add(crc, json.substr(0, digits_at));
  crc = add(crc, kNoChecksum);
  crc = add(crc, json.substr(digits_at + kNoChecksum.size()));
  return static_cast<std::uint32_t>(crc);
}

std::size_t find_header_digits(std::string_view json) {
  // Inside a JSON string the quotes would be escaped, so this can only be the key itself.
  std::string opening = cat('"', kHeaderKey, "\":\"");
  std::size_t at = json.find(opening);
  if (at == std::string_view::npos) return at;
  at += opening.size();
  return at + kNoChecksum.size() <= json.size() ? at : std::string_view::npos;
}

std::vector<std::uint32_t> crc32_pieces(
    const std::vector<std::size_t>& sizes,
    const std::function<const std::byte*(std::size_t, std::size_t, std::size_t)>& piece) {
  constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  struct Piece {
    std::size_t range, begin, bytes;
    uLong crc = 0;
  };
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    for (std::size_t begin = 0; begin < sizes[i]; begin += kPieceBytes) {
      pieces.push_back({i, begin, std::min(kPieceBytes, sizes[i] - begin)});
    }
  }
  auto run = [&](std::int64_t k) {
    Piece& p = pieces[static_cast<std::size_t>(k)];
    const std::byte* bytes = piece(p.range, p.begin, p.bytes);
    if (bytes) p.crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes), p.bytes);
  };
  auto count = static_cast<std::int64_t>(pieces.size());
  if (std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}) <= kPieceBytes) {
    for (std::int64_t k = 0; k < count; ++k) run(k);  // too little work to wake the threads
  } else {
    parallel_for(count, run);
  }
  std::vector<std::uint32_t> result(sizes.size(), 0);
  for (const Piece& p : pieces) {
    result[p.range] = static_cast<std::uint32_t>(
        p.begin == 0 ? p.crc
                     : crc32_combine(result[p.range], p.crc, static_cast<z_off_t>(p.bytes)));
  }
  return result;
}

std::string to_hex(std::uint32_t crc) { return format("%08x", crc); }

}  // namespace dtn::safetensors
