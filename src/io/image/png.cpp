// PNG decoding with libpng. Samples are converted as in Pillow: gamma and colour profiles are
// ignored, alpha and transparent colours are dropped, and 16 bits are cut to the high byte. But
// 16-bit grey is clipped at 255.
//
// libpng reports errors through on_error(), which must not return. It jumps back to guarded(), the
// only function with a setjmp. Between the two there are only frames of libpng and of functions
// without destructors to run, because the jump skips destructors.
#include <png.h>
#include <zlib.h>

#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "dtn/core/check.h"
#include "io/image/image_codecs.h"

namespace dtn::codec {
namespace {

constexpr std::size_t kSignatureSize = 8;
constexpr std::size_t kChunkOverhead = 12;  // length, type, checksum

// Memory that is reused from image to image.
thread_local std::vector<std::uint8_t> row_memory;    // rows as libpng gives them
thread_local std::vector<std::uint8_t> pixel_memory;  // a row of 8-bit grey or RGB

// Releases libpng's memory even if the constructor of the reader throws.
struct PngHandles {
  png_structp png_ = nullptr;
  png_infop header_ = nullptr;
  PngHandles() = default;
  PngHandles(const PngHandles&) = delete;
  PngHandles& operator=(const PngHandles&) = delete;
  ~PngHandles() { png_destroy_read_struct(&png_, &header_, nullptr); }
};

class PngReader : PngHandles {
 public:
  explicit PngReader(const Job& job) : job_(job), memory_left_(job.options.max_memory) {
    guarded(&PngReader::read_header);
    check_header();
  }

  void decode(Image& out) {
    check_chunks();
    region_ = wanted_region(job_, width_, height_);
    shape_image(out, region_, output_channels(job_.mode, samples()));
    out_ = &out;
    guarded(&PngReader::choose_samples);
    const std::size_t row_count = static_cast<std::size_t>(passes_ > 1 ? height_ : 1);
    if (!take_memory(row_bytes_ * row_count)) fail_for_memory(job_);
    row_memory.resize(row_bytes_ * row_count);
    rows_ = row_memory.data();
    pixel_memory.resize(3 * static_cast<std::size_t>(out.width));
    pixels_ = pixel_memory.data();
    guarded(passes_ > 1 ? &PngReader::read_interlaced : &PngReader::read_rows);
    if (region_.y1 == height_) guarded(&PngReader::finish);
    if (clipped_) warn_of_clipping(job_);
  }

 private:
  static void on_error(png_structp png, png_const_charp message) {
    auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
    std::snprintf(reader->message_.data(), reader->message_.size(), "%s", message);
    std::longjmp(reader->jump_, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static png_voidp on_malloc(png_structp png, png_alloc_size_t size) {
    const bool granted = static_cast<PngReader*>(png_get_mem_ptr(png))->take_memory(size);
    return granted ? std::malloc(size) : nullptr;
  }
  static void on_free(png_structp, png_voidp memory) { std::free(memory); }
  static void on_read(png_structp png, png_bytep to, std::size_t size) {
    auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
    const Bytes file = reader->job_.bytes;
    if (size > file.size() - reader->at_) {
      reader->cut_short_ = true;
      png_error(png, "no more data");
    }
    std::memcpy(to, file.data() + reader->at_, size);
    reader->at_ += size;
  }

  // Counts all requested memory, freed or not. The total is small for any valid file.
  bool take_memory(std::size_t size) {
    memory_left_ -= static_cast<std::int64_t>(size);
    return memory_left_ >= 0;
  }

  void guarded(void (PngReader::*step)()) {
    if (setjmp(jump_) == 0) {
      (this->*step)();
      return;
    }
    if (memory_left_ < 0) fail_for_memory(job_);
    if (cut_short_) fail(job_.name, "the file is cut short");
    fail(job_.name, cat("damaged PNG (", message_.data(), ")"));
  }

  void read_header() {
    png_ = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, this, on_error, on_warning, this,
                                    on_malloc, on_free);
    header_ = png_ ? png_create_info_struct(png_) : nullptr;
    if (!header_) std::longjmp(jump_, 1);
    png_set_read_fn(png_, this, on_read);
    // Texts, profiles and similar chunks are skipped unread: a file may have any number of them.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // see check_header()
    png_read_info(png_, header_);
  }

  void check_header() {
    const std::int64_t width = png_get_image_width(png_, header_);
    const std::int64_t height = png_get_image_height(png_, header_);
    const int depth = png_get_bit_depth(png_, header_);
    check_size(job_, width, height);
    // The ratio of deflate is at most 1032 : 1.
    const std::int64_t raw = width * height * png_get_channels(png_, header_) * depth / 8;
    if (raw / 1032 > static_cast<std::int64_t>(job_.bytes.size()))
      fail(job_.name, cat("the file is cut short: ", job_.bytes.size(), " bytes for ", width, " x ",
                          height, " pixels"));
    width_ = static_cast<int>(width);
    height_ = static_cast<int>(height);
    color_type_ = png_get_color_type(png_, header_);
    words_ = depth == 16 && color_type_ == PNG_COLOR_TYPE_GRAY;
  }

  int samples() const { return (color_type_ & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1; }

  // Walks from chunk to chunk to the end mark and verifies the checksums of critical chunks. libpng
  // would not see damage below the region.
  void check_chunks() {
    const Bytes file = job_.bytes;
    const auto* data = reinterpret_cast<const Bytef*>(file.data());
    for (std::size_t at = kSignatureSize; at + kChunkOverhead <= file.size();) {
      const std::size_t size = png_get_uint_32(data + at);
      if (size > file.size() - at - kChunkOverhead) break;
      const Bytef* type = data + at + 4;
      const bool critical = (type[0] & 0x20) == 0;
      if (critical && crc32_z(0, type, 4 + size) != png_get_uint_32(type + 4 + size))
        fail(job_.name, cat("the chunk at byte ", at, " does not match its checksum"));
      if (std::memcmp(type, "IEND", 4) == 0) return;
      at += kChunkOverhead + size;
    }
    fail(job_.name, "the file is cut short");
  }

  void choose_samples() {
    png_set_crc_action(png_, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);  // see check_chunks()
    if (color_type_ == PNG_COLOR_TYPE_PALETTE) {
      png_set_packing(png_);  // one byte per index
      read_palette();
    } else if (color_type_ == PNG_COLOR_TYPE_GRAY) {
      if (!words_) png_set_expand_gray_1_2_4_to_8(png_);
    } else {
      png_set_strip_16(png_);
      png_set_strip_alpha(png_);
    }
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, header_);
    row_bytes_ = png_get_rowbytes(png_, header_);
  }

  // An index beyond the palette is black, as in Pillow 13.
  void read_palette() {
    png_colorp given = nullptr;
    int count = 0;
    png_get_PLTE(png_, header_, &given, &count);
    for (int i = 0; i < 256; ++i) {
      palette_[static_cast<std::size_t>(i)] = i < count ? given[i] : png_color{};
    }
  }

  void read_rows() {
    for (int y = 0; y < region_.y1; ++y) {
      png_read_row(png_, rows_, nullptr);
      if (y >= region_.y0) store_row(rows_, y);
    }
  }

  void read_interlaced() {
    for (int pass = 0; pass < passes_; ++pass)
      for (int y = 0; y < height_; ++y) png_read_row(png_, rows_ + row_bytes_ * y, nullptr);
    for (int y = region_.y0; y < region_.y1; ++y) store_row(rows_ + row_bytes_ * y, y);
  }

  // Reads the data after the last row, where damage is also an error.
  void finish() { png_read_end(png_, nullptr); }

  void store_row(const std::uint8_t* row, int y) {
    const std::uint8_t* pixels = row + std::ptrdiff_t{region_.x0} * samples();
    if (words_) {
      pixels = clip_words(row + std::ptrdiff_t{2} * region_.x0);
    } else if (color_type_ == PNG_COLOR_TYPE_PALETTE) {
      pixels = look_up(row + region_.x0);
    }
    store_pixels(pixels, samples(), out_->width, 0, y - region_.y0, *out_);
  }

  const std::uint8_t* clip_words(const std::uint8_t* words) {
    std::uint8_t high = 0;
    for (int x = 0; x < out_->width; ++x, words += 2) {
      pixels_[x] = words[0] != 0 ? std::uint8_t{255} : words[1];
      high |= words[0];
    }
    clipped_ |= high != 0;
    return pixels_;
  }

  const std::uint8_t* look_up(const std::uint8_t* indices) {
    std::uint8_t* to = pixels_;
    for (int x = 0; x < out_->width; ++x, to += 3) {
      const png_color& color = palette_[indices[x]];
      to[0] = color.red;
      to[1] = color.green;
      to[2] = color.blue;
    }
    return pixels_;
  }

  const Job& job_;
  std::size_t at_ = 0;  // position in the file
  std::int64_t memory_left_;
  std::jmp_buf jump_;
  std::array<char, 128> message_{{"out of memory"}};
  bool cut_short_ = false;
  bool clipped_ = false;  // a 16-bit grey value was above 255
  int width_ = 0, height_ = 0;
  int color_type_ = 0;
  bool words_ = false;  // 16-bit grey
  int passes_ = 1;      // 7 when interlaced
  std::array<png_color, 256> palette_;
  ImageRegion region_;
  std::size_t row_bytes_ = 0;       // bytes of a libpng row
  std::uint8_t* rows_ = nullptr;    // one row, or all rows if interlaced
  std::uint8_t* pixels_ = nullptr;  // a converted row of the region
  Image* out_ = nullptr;
};

}  // namespace

// The size is at the same place in every file. Reading it with libpng would take as long as
// decoding a small image. png_decode() finds other faults of the header.
ImageInfo png_info(const Job& job) {
  constexpr std::size_t kWidthAt = 16, kHeightAt = 20, kColorTypeAt = 25;
  if (job.bytes.size() <= kColorTypeAt) fail(job.name, "the file is cut short");
  const auto* data = reinterpret_cast<png_const_bytep>(job.bytes.data());
  const std::int64_t width = png_get_uint_32(data + kWidthAt);
  const std::int64_t height = png_get_uint_32(data + kHeightAt);
  check_size(job, width, height);
  const bool color = (data[kColorTypeAt] & PNG_COLOR_MASK_COLOR) != 0;
  return {static_cast<int>(width), static_cast<int>(height), color ? 3 : 1};
}

void png_decode(const Job& job, Image& out) { PngReader(job).decode(out); }

}  // namespace dtn::codec
