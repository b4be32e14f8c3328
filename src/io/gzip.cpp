#include "io/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "core/format.h"
#include "dtn/core/check.h"
#include "io/file.h"

namespace dtn {

namespace {
// zlib counts bytes in 32 bits.
constexpr std::size_t kMaxPerCall = std::size_t{1} << 30;
constexpr int kGzipOnly = 16 + MAX_WBITS;
constexpr std::size_t kFirstPiece = std::size_t{1} << 16;
}  // namespace

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

std::uint64_t max_inflated_bytes(std::size_t compressed) {
  return static_cast<std::uint64_t>(compressed) * 1032;
}

struct GzipReader::Stream {
  std::span<const std::byte> input;  // not yet consumed
  std::string name;
  z_stream z{};
  bool member_ended = false;
  bool finished = false;

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(cat(name, ": ", what, "; fetch the file again"));
  }

  // Called at the end of a member. Another member, padding or nothing may follow.
  void begin_next_member() {
    if (std::ranges::all_of(input, [](std::byte b) { return b == std::byte{0}; })) {
      finished = true;
      return;
    }
    if (!is_gzip(input)) fail("has extra bytes after the end of its gzip data");
    if (inflateReset(&z) != Z_OK) fail("zlib cannot be reset");
    member_ended = false;
  }

  // Calls zlib once. Returns the number of bytes written to `out`.
  std::size_t inflate_some(std::span<std::byte> out) {
    std::size_t in_size = std::min(input.size(), kMaxPerCall);
    std::size_t out_size = std::min(out.size(), kMaxPerCall);
    z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input.data()));
    z.avail_in = static_cast<uInt>(in_size);
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    z.avail_out = static_cast<uInt>(out_size);
    int status = inflate(&z, Z_NO_FLUSH);
    input = input.subspan(in_size - z.avail_in);
    switch (status) {
      case Z_OK: break;
      case Z_STREAM_END: member_ended = true; break;
      case Z_BUF_ERROR: fail("the gzip data is cut short");
      case Z_MEM_ERROR: throw std::bad_alloc();
      default: fail(cat("the gzip data is damaged (", z.msg ? z.msg : "unknown reason", ")"));
    }
    return out_size - z.avail_out;
  }
};

GzipReader::GzipReader(std::span<const std::byte> compressed, std::string name)
    : stream_(std::make_unique<Stream>()) {
  stream_->input = compressed;
  stream_->name = std::move(name);
  if (!is_gzip(compressed)) stream_->fail("is not a gzip file");
  if (inflateInit2(&stream_->z, kGzipOnly) != Z_OK) throw std::bad_alloc();
}

GzipReader::~GzipReader() { inflateEnd(&stream_->z); }

std::size_t GzipReader::read(std::span<std::byte> out) {
  Stream& s = *stream_;
  std::size_t filled = 0;
  while (filled < out.size() && !s.finished) {
    if (s.member_ended) {
      s.begin_next_member();
    } else {
      filled += s.inflate_some(out.subspan(filled));
    }
  }
  return filled;
}

std::vector<std::byte> read_gzip_file(const std::string& path, std::int64_t max_bytes) {
  std::vector<std::byte> compressed = read_file(path);
  GzipReader reader(compressed, path);
  std::size_t limit = static_cast<std::size_t>(std::max<std::int64_t>(max_bytes, 0));
  std::vector<std::byte> content;
  for (std::size_t piece = kFirstPiece;; piece *= 2) {
    // Asks for one byte beyond the limit, to detect a file that is longer.
    std::size_t want = std::min(piece, limit - content.size() + 1);
    std::size_t before = content.size();
    content.resize(before + want);
    std::size_t got = reader.read(std::span(content).subspan(before));
    content.resize(before + got);
    if (content.size() > limit) {
      throw DataError(cat(path, ": decompresses to more than the ",
                          bytes_text(static_cast<double>(limit)), " allowed for it"));
    }
    if (got < want) return content;
  }
}

}  // namespace dtn
