#include "io/tar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "core/text.h"
#include "dtn/core/check.h"

namespace dtn {

// Unit of a tar archive: a header, or a block of content.
struct TarReader::Block {
  static constexpr std::int64_t kSize = 512;
  std::array<char, kSize> bytes;

  std::string_view field(std::size_t at, std::size_t size) const { return {&bytes[at], size}; }
  // Returns a field up to its first zero byte, if it has one.
  std::string text(std::size_t at, std::size_t size) const {
    std::string_view whole = field(at, size);
    return std::string(whole.substr(0, whole.find('\0')));
  }
  char type() const { return bytes[156]; }
  std::string name() const;
  bool is_zero() const {
    return std::ranges::all_of(bytes, [](char c) { return c == 0; });
  }
};

// Contents of extension headers, which describe the next member.
struct TarReader::Extension {
  std::optional<std::string> path;
  std::optional<std::int64_t> size;
  bool sparse = false;
};

namespace {

constexpr std::int64_t kMaxExtensionBytes = 1 << 20;
constexpr int kMaxExtensions = 16;  // before one member
constexpr std::size_t kMaxName = 4096;

struct Range {
  std::size_t at, size;
};
// POSIX.1-2017, pax, "ustar Header Block".
constexpr Range kName{0, 100}, kSizeField{124, 12}, kChecksum{148, 8}, kMagic{257, 6},
    kPrefix{345, 155};
constexpr std::size_t kSparseContinues = 482;     // in a header of type S
constexpr std::size_t kSparseMapContinues = 504;  // in a map block

bool is_digit(char c, int base) { return c >= '0' && c < '0' + base; }

// Parses octal digits between spaces and zero bytes, an empty field (0), or GNU's binary form.
std::optional<std::int64_t> parse_field(std::string_view field) {
  std::uint64_t value = 0;
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (field[0] & '\x80') {
    if (static_cast<unsigned char>(field[0]) != 0x80) return std::nullopt;  // negative or too large
    for (char c : field.substr(1)) {
      if (value > kMax >> 8) return std::nullopt;
      value = value << 8 | static_cast<unsigned char>(c);
    }
    return static_cast<std::int64_t>(value);
  }
  std::size_t i = field.find_first_not_of(' ');
  for (; i < field.size() && is_digit(field[i], 8); ++i) {
    value = value << 3 | static_cast<std::uint64_t>(field[i] - '0');  // at most 36 bits
  }
  for (; i < field.size(); ++i) {
    if (field[i] != ' ' && field[i] != '\0') return std::nullopt;
  }
  return static_cast<std::int64_t>(value);
}

// Compares `stored` with the sum of the header's bytes, where the checksum field is read as spaces.
// Some old programs sum signed bytes.
bool checksum_matches(std::span<const char> bytes, std::int64_t stored) {
  std::int64_t sum = 0, signed_sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const bool in_checksum = i >= kChecksum.at && i < kChecksum.at + kChecksum.size;
    const char c = in_checksum ? ' ' : bytes[i];
    sum += static_cast<unsigned char>(c);
    signed_sum += static_cast<signed char>(c);
  }
  return stored == sum || stored == signed_sum;
}

// Returns null if a file below a folder can have this name; otherwise the reason why not.
const char* fault_of_name(std::string_view name) {
  if (name.empty()) return "has no name";
  if (name.size() > kMaxName) return "has a name that is too long";
  if (name.front() == '/') return "has an absolute name";
  for (char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return "has control characters";
  }
  for (const std::string_view part : split(name, '/')) {
    if (part == "..") return "has a name that leaves its folder";
  }
  return nullptr;
}

std::string without_dot(std::string name) {
  while (name.starts_with("./")) name.erase(0, name.find_first_not_of('/', 1));
  return name;
}

const char* kind_of(char type) {
  switch (type) {
    case '1': return "is a hard link";
    case '2': return "is a symbolic link";
    case '3':
    case '4': return "is a device";
    case '6': return "is a named pipe";
    case 'S': return "is a sparse file";
    default: return "is of an unknown type";
  }
}

}  // namespace

std::string TarReader::Block::name() const {
  std::string name = text(kName.at, kName.size);
  const std::string prefix = text(kPrefix.at, kPrefix.size);
  // GNU's own format ("ustar  ") stores other data where POSIX has the prefix.
  const bool posix = field(kMagic.at, kMagic.size) == std::string_view("ustar\0", 6);
  return posix && !prefix.empty() ? prefix + "/" + name : name;
}

std::string printable(const std::string& name) {
  constexpr std::size_t kMax = 200;
  std::string out = name.substr(0, kMax);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return name.size() > kMax ? out + "..." : out;
}

TarReader::TarReader(const ByteSource& source, std::int64_t begin, std::int64_t end)
    : source_(source), at_(begin), end_(end) {
  DTN_CHECK(0 <= begin && begin <= end && end <= source.size(), "not a part of ", source.name());
}

void TarReader::fail(const std::string& what) const {
  throw DataError(cat(source_.name(), ": the tar header at byte ", header_at_, " ", what,
                      "; is the archive damaged or cut short? Fetch it again"));
}

void TarReader::skip(const std::string& name, const char* why) {
  if (skipped_++ == 0) first_skipped_ = cat("'", printable(name), "' ", why);
}

// Returns false at the end mark, a block of zeros.
bool TarReader::read_block(Block& block) {
  header_at_ = at_;
  if (end_ - at_ < Block::kSize) fail("is missing: the archive ends without its end mark");
  source_.read(at_, std::as_writable_bytes(std::span(block.bytes)));
  if (block.is_zero()) return false;
  at_ += Block::kSize;
  const auto stored = parse_field(block.field(kChecksum.at, kChecksum.size));
  if (!stored || !checksum_matches(block.bytes, *stored)) fail("has a wrong checksum");
  return true;
}

std::int64_t TarReader::content_size(const Block& block, const Extension& extension) const {
  const auto size =
      extension.size ? extension.size : parse_field(block.field(kSizeField.at, kSizeField.size));
  if (!size) fail("has a size that is not a number");
  if (*size > end_ - at_) {
    fail(cat("declares ", *size, " bytes for '", printable(block.name()), "', but ", end_ - at_,
             " are left"));
  }
  return *size;
}

void TarReader::pass_content(std::int64_t size) {
  // If the archive ends inside the padding, the next read reports the missing end mark.
  const std::int64_t blocks = size / Block::kSize + (size % Block::kSize != 0);
  at_ = std::min(end_, at_ + blocks * Block::kSize);
}

// Skips the further map blocks that old GNU sparse files have between header and content.
void TarReader::pass_sparse_maps(const Block& block) {
  bool more = block.bytes[kSparseContinues] != 0;
  while (more) {
    Block map;
    if (end_ - at_ < Block::kSize) fail("has a sparse map that is cut short");
    source_.read(at_, std::as_writable_bytes(std::span(map.bytes)));
    at_ += Block::kSize;
    more = map.bytes[kSparseMapContinues] != 0;
  }
}

// Parses records "<length> <key>=<value>\n". The length counts the whole record.
void TarReader::parse_pax(const std::string& records, bool global, Extension& extension) const {
  std::string_view rest = records;
  while (!rest.empty()) {
    std::size_t length = 0;
    const auto [after, error] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const auto digits = static_cast<std::size_t>(after - rest.data());
    if (error != std::errc() || length > rest.size() || length < digits + 3 || *after != ' ' ||
        rest[length - 1] != '\n') {
      fail("has an extension whose records are damaged");
    }
    const std::string_view record = rest.substr(digits + 1, length - digits - 2);
    rest.remove_prefix(length);
    const std::size_t equals = record.find('=');
    if (equals == record.npos) fail("has an extension with a record that has no '='");
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (global && (key == "path" || key == "size")) {
      fail(cat("sets ", key, " for all members at once, which is not supported"));
    }
    if (key.starts_with("GNU.sparse.")) extension.sparse = true;
    if (key == "path" && !value.empty()) extension.path = value;
    if (key == "size" && !value.empty()) {
      extension.size = parse_number<std::int64_t>(value);
      if (extension.size.value_or(-1) < 0)
        fail("has an extension with a size that is not a number");
    }
  }
}

// Reads a header that describes the next member.
void TarReader::read_extension(const Block& block, Extension& extension) {
  const std::int64_t size = content_size(block, {});
  if (size > kMaxExtensionBytes)
    fail(cat("has an extension of ", size, " bytes; at most ", kMaxExtensionBytes, " are allowed"));
  std::string content(static_cast<std::size_t>(size), '\0');
  source_.read(at_, std::as_writable_bytes(std::span(content)));
  pass_content(size);
  switch (block.type()) {
    case 'L':
      while (content.ends_with('\0')) content.pop_back();
      extension.path = content;
      break;
    case 'x': parse_pax(content, false, extension); break;
    case 'g': {
      Extension ignored;
      parse_pax(content, true, ignored);
      break;
    }
    default: break;  // K: the target of a link
  }
}

// Reads one member with its extensions. Sets `found` to true if the member is a plain file. Returns
// false at the end of the archive.
bool TarReader::read_member(TarMember& member, bool& found) {
  Extension extension;
  Block block;
  for (int extensions = 0;; ++extensions) {
    if (!read_block(block)) {
      if (extensions > 0) fail("ends the archive, but a member must follow its extension");
      return false;
    }
    if (std::string_view("xgLK").find(block.type()) == std::string_view::npos) break;
    if (extensions == kMaxExtensions)
      fail(cat("is one of more than ", kMaxExtensions, " extensions of one member"));
    read_extension(block, extension);
  }
  member.name = without_dot(extension.path.value_or(block.name()));
  const char type = block.type();
  found = false;
  // Links, devices, folders and pipes have no content, whatever their size field says.
  if (type >= '1' && type <= '6') {
    if (type != '5') skip(member.name, kind_of(type));
    return true;
  }
  if (type == 'S') pass_sparse_maps(block);
  member.size = content_size(block, extension);
  member.offset = at_;
  pass_content(member.size);
  const bool plain = type == '0' || type == '\0' || type == '7';
  if (plain && !extension.sparse && member.name.ends_with('/')) return true;  // a folder, old style
  const char* fault = !plain             ? kind_of(type)
                      : extension.sparse ? kind_of('S')
                                         : fault_of_name(member.name);
  if (fault) skip(member.name, fault);
  found = !fault;
  return true;
}

bool TarReader::next(TarMember& member) {
  bool found = false;
  while (!found && !finished_) finished_ = !read_member(member, found);
  return found;
}

}  // namespace dtn
