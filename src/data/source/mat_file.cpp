#include "data/source/mat_file.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "dtn/core/check.h"
#include "io/cursor.h"
#include "io/gzip.h"

namespace dtn {
namespace {

constexpr std::size_t kHeaderBytes = 128;  // text, version and byte order
constexpr std::size_t kMaxInflated = std::size_t{16} << 20;

// Types of data elements.
enum Type : std::uint32_t {
  kInt8 = 1,
  kUint8 = 2,
  kInt16 = 3,
  kUint16 = 4,
  kInt32 = 5,
  kUint32 = 6,
  kSingle = 7,
  kDouble = 9,
  kInt64 = 12,
  kUint64 = 13,
  kMatrix = 14,
  kCompressed = 15,
  kUtf8 = 16,
  kUtf16 = 17,
};
// Classes of arrays.
constexpr std::uint32_t kStructClass = 2, kCharClass = 4, kFirstNumeric = 6, kLastNumeric = 15;

struct Element {
  std::uint32_t type = 0;
  std::span<const std::byte> content;
};

// An element is a type, a size and its content, padded to 8 bytes; up to 4 bytes of content may
// share 8 bytes with type and size.
Element take_element(Cursor& in) {
  Element element;
  const auto first = in.take<std::uint32_t>();
  if (const std::uint32_t small = first >> 16; small != 0) {
    if (small > 4) in.fail(cat("a small element of ", small, " bytes"));
    element.type = first & 0xffff;
    element.content = in.take_bytes(4).first(small);
    return element;
  }
  element.type = first;
  const auto size = in.take<std::uint32_t>();
  element.content = in.take_bytes(size);
  const std::size_t padding = element.type == kCompressed ? 0 : (8 - size % 8) % 8;
  in.take_bytes(std::min(padding, in.left()));  // what ends the file may lack it
  return element;
}

template <class T>
std::vector<T> values_of(const Element& element) {
  std::vector<T> values(element.content.size() / sizeof(T));
  if (!values.empty()) {
    std::memcpy(values.data(), element.content.data(), values.size() * sizeof(T));
  }
  return values;
}

template <class T>
std::optional<double> single(const Element& element) {
  if (element.content.size() != sizeof(T)) return std::nullopt;
  return static_cast<double>(values_of<T>(element)[0]);
}

// MATLAB stores numbers in the smallest type that holds them, whatever the class of the array.
std::optional<double> single_number(const Element& element) {
  switch (element.type) {
    case kInt8: return single<std::int8_t>(element);
    case kUint8: return single<std::uint8_t>(element);
    case kInt16: return single<std::int16_t>(element);
    case kUint16: return single<std::uint16_t>(element);
    case kInt32: return single<std::int32_t>(element);
    case kUint32: return single<std::uint32_t>(element);
    case kSingle: return single<float>(element);
    case kDouble: return single<double>(element);
    case kInt64: return single<std::int64_t>(element);
    case kUint64: return single<std::uint64_t>(element);
    default: return std::nullopt;
  }
}

// Plain ASCII; anything else becomes '?'.
std::string text_of(const Element& element) {
  std::string text;
  auto add = [&](std::uint32_t c) { text += c >= 0x20 && c < 0x7f ? static_cast<char>(c) : '?'; };
  if (element.type == kUint16 || element.type == kUtf16) {
    for (std::uint16_t c : values_of<std::uint16_t>(element)) add(c);
  } else {
    for (std::uint8_t c : values_of<std::uint8_t>(element)) add(c);
  }
  return text;
}

// The parts that all arrays begin with.
struct Array {
  std::uint32_t array_class = 0;
  std::uint64_t count = 0;  // elements
  std::string name;
};

Array take_array(Cursor& in) {
  Array array;
  const std::vector<std::uint32_t> flags = values_of<std::uint32_t>(take_element(in));
  if (flags.size() != 2) in.fail("an array without its flags");
  array.array_class = flags[0] & 0xff;
  const std::vector<std::int32_t> dims = values_of<std::int32_t>(take_element(in));
  array.count = dims.empty() ? 0 : 1;
  for (std::int32_t dim : dims) {
    if (dim < 0 ||
        __builtin_mul_overflow(array.count, static_cast<std::uint64_t>(dim), &array.count))
      in.fail("an array with impossible dimensions");
  }
  array.name = text_of(take_element(in));
  return array;
}

MatValue parse_value(const Element& element, const std::string& name) {
  MatValue value;
  if (element.content.empty()) return value;  // an empty array
  Cursor in(element.content, name);
  const Array array = take_array(in);
  if (array.array_class == kCharClass) {
    value.text = text_of(take_element(in));
  } else if (array.array_class >= kFirstNumeric && array.array_class <= kLastNumeric &&
             array.count == 1) {
    value.number = single_number(take_element(in));
  }
  return value;
}

// Names of a structure's fields, each in `width` bytes and ended by a zero.
std::vector<std::string> take_field_names(Cursor& in) {
  const std::optional<double> width = single_number(take_element(in));
  const Element names = take_element(in);
  const auto bytes = width && *width >= 1 && *width <= 64 ? static_cast<std::size_t>(*width) : 0;
  if (bytes == 0 || names.content.size() % bytes != 0) in.fail("field names of a wrong length");
  std::vector<std::string> out;
  for (std::size_t at = 0; at < names.content.size(); at += bytes) {
    const auto field = names.content.subspan(at, bytes);
    const auto end = std::ranges::find(field, std::byte{0});
    out.emplace_back(reinterpret_cast<const char*>(field.data()),
                     static_cast<std::size_t>(end - field.begin()));
  }
  return out;
}

std::vector<std::vector<MatValue>> take_structs(Cursor& in, const Array& array,
                                                const std::string& name,
                                                std::span<const std::string> wanted) {
  const std::vector<std::string> fields = take_field_names(in);
  std::vector<std::size_t> slot(fields.size(), wanted.size());
  for (std::size_t w = 0; w < wanted.size(); ++w) {
    const auto at = std::ranges::find(fields, wanted[w]);
    if (at == fields.end()) in.fail(cat("'", array.name, "' has no field ", wanted[w]));
    slot[static_cast<std::size_t>(at - fields.begin())] = w;
  }
  // Every field of every element takes at least the 8 bytes of its tag.
  if (array.count > in.left() / (8 * fields.size())) in.fail("it is cut short");
  std::vector<std::vector<MatValue>> values(static_cast<std::size_t>(array.count));
  for (std::vector<MatValue>& element : values) {
    element.resize(wanted.size());
    for (std::size_t w : slot) {
      const Element field = take_element(in);
      if (field.type != kMatrix) in.fail("a field that is not an array");
      if (w < wanted.size()) element[w] = parse_value(field, name);
    }
  }
  return values;
}

}  // namespace

std::vector<std::vector<MatValue>> parse_mat_structs(std::span<const std::byte> bytes,
                                                     const std::string& name,
                                                     const std::string& variable,
                                                     std::span<const std::string> fields) {
  Cursor file(bytes, name);
  const std::string_view header = file.take_text(kHeaderBytes);
  // Version 1.0 and the mark "MI", as it looks when written by a little-endian machine.
  if (!header.starts_with("MATLAB 5.0") || header.substr(124) != std::string_view("\0\1IM", 4)) {
    file.fail("it is not a MAT-file of level 5 in little-endian order");
  }
  while (file.left() > 0) {
    Element element = take_element(file);
    std::vector<std::byte> inflated;
    if (element.type == kCompressed) {
      inflated = inflate_zlib(element.content, kMaxInflated, name);
      Cursor inside(inflated, name);
      element = take_element(inside);
    }
    if (element.type != kMatrix || element.content.empty()) continue;
    Cursor in(element.content, name);
    const Array array = take_array(in);
    if (array.name != variable) continue;
    if (array.array_class != kStructClass) in.fail(cat("'", variable, "' is no structure"));
    return take_structs(in, array, name, fields);
  }
  file.fail(cat("it has no variable '", variable, "'"));
}

}  // namespace dtn
