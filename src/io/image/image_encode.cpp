#include "io/image/image_encode.h"

#include <zlib.h>

#include <algorithm>
#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

// jpeglib.h needs FILE and size_t.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#include "dtn/core/check.h"
#include "io/image/png_chunks.h"

namespace dtn {
namespace {

void check_image(const Image& image) {
  DTN_CHECK(image.width > 0 && image.height > 0 && (image.channels == 1 || image.channels == 3) &&
                image.pixels.size() ==
                    static_cast<std::size_t>(image.width) * image.height * image.channels,
            "cannot encode an image of ", image.width, " x ", image.height, " x ", image.channels,
            " with ", image.pixels.size(), " bytes");
}

// libjpeg reports errors through error_exit, which must not return. It jumps back to run(), the
// only function with a setjmp. Between the two there are only frames of libjpeg and of functions
// without destructors.
class JpegWriter {
 public:
  JpegWriter(const Image& image, int quality, HuffmanCodes codes, int orientation,
             std::vector<std::byte>& out)
      : image_(image), quality_(quality), codes_(codes), orientation_(orientation), out_(out) {
    cinfo_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = [](j_common_ptr cinfo) {
      std::longjmp(reinterpret_cast<Errors*>(cinfo->err)->jump, 1);
    };
    errors_.base.output_message = [](j_common_ptr) {};
    target_.base.init_destination = [](j_compress_ptr) {};
    target_.base.empty_output_buffer = [](j_compress_ptr cinfo) -> boolean {
      reinterpret_cast<Target*>(cinfo->dest)->writer->flush(kBufferBytes);
      return TRUE;
    };
    target_.base.term_destination = [](j_compress_ptr cinfo) {
      Target* target = reinterpret_cast<Target*>(cinfo->dest);
      target->writer->flush(kBufferBytes - target->base.free_in_buffer);
    };
    target_.writer = this;
    reset_target();
  }
  ~JpegWriter() { jpeg_destroy_compress(&cinfo_); }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;

  void run() {
    out_.clear();
    if (setjmp(errors_.jump) == 0) {
      compress();
      if (!no_memory_) return;
      throw std::bad_alloc();
    }
    char message[JMSG_LENGTH_MAX];
    (*errors_.base.format_message)(reinterpret_cast<j_common_ptr>(&cinfo_), message);
    throw Error(cat("cannot encode an image of ", image_.width, " x ", image_.height,
                    " pixels as JPEG: ", message));
  }

 private:
  static constexpr std::size_t kBufferBytes = 16384;
  struct Errors {
    jpeg_error_mgr base;
    std::jmp_buf jump;
  };
  struct Target {
    jpeg_destination_mgr base;
    JpegWriter* writer;
  };

  void compress() {
    jpeg_create_compress(&cinfo_);
    cinfo_.dest = &target_.base;
    cinfo_.image_width = static_cast<JDIMENSION>(image_.width);
    cinfo_.image_height = static_cast<JDIMENSION>(image_.height);
    cinfo_.input_components = image_.channels;
    cinfo_.in_color_space = image_.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&cinfo_);
    jpeg_set_quality(&cinfo_, quality_, TRUE);
    cinfo_.optimize_coding = codes_ == HuffmanCodes::kOptimized ? TRUE : FALSE;
    jpeg_start_compress(&cinfo_, TRUE);
    if (orientation_ != 1) write_orientation();
    const std::size_t stride = static_cast<std::size_t>(image_.width) * image_.channels;
    while (cinfo_.next_scanline < cinfo_.image_height) {
      auto* row = const_cast<JSAMPLE*>(image_.pixels.data() + cinfo_.next_scanline * stride);
      jpeg_write_scanlines(&cinfo_, &row, 1);
    }
    jpeg_finish_compress(&cinfo_);
  }

  // Writes EXIF data with the tag Orientation alone: a TIFF with one directory of one entry.
  void write_orientation() {
    std::array<JOCTET, 32> exif = {
        'E', 'x',  'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1,  // entries
        1,   0x12, 0,   3,   0, 0, 0,   1,                             // tag, type short, count
        0,   0,    0,   0,   0, 0, 0,   0};  // value, next directory: none
    exif[25] = static_cast<JOCTET>(orientation_);
    jpeg_write_marker(&cinfo_, JPEG_APP0 + 1, exif.data(), static_cast<unsigned>(exif.size()));
  }

  void reset_target() {
    target_.base.next_output_byte = reinterpret_cast<JOCTET*>(buffer_);
    target_.base.free_in_buffer = kBufferBytes;
  }

  // Called from libjpeg's C code, through which no exception may pass.
  void flush(std::size_t bytes) noexcept {
    try {
      if (!no_memory_) out_.insert(out_.end(), buffer_, buffer_ + bytes);
    } catch (...) {
      no_memory_ = true;
    }
    reset_target();
  }

  const Image& image_;
  int quality_;
  HuffmanCodes codes_;
  int orientation_;
  std::vector<std::byte>& out_;
  Errors errors_{};
  Target target_{};
  jpeg_compress_struct cinfo_{};
  bool no_memory_ = false;
  std::byte buffer_[kBufferBytes];
};

// Writes the rows and the end of the file.
void end_png(int height, std::span<const std::uint8_t> pixels, std::vector<std::byte>& out) {
  const std::size_t stride = pixels.size() / static_cast<std::size_t>(height);
  // Each row begins with its filter type: 0, none.
  std::vector<std::uint8_t> rows((stride + 1) * static_cast<std::size_t>(height));
  for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y) {
    std::memcpy(&rows[y * (stride + 1) + 1], &pixels[y * stride], stride);
  }
  DTN_CHECK(rows.size() <= std::numeric_limits<std::int32_t>::max(),
            "the image is too large for PNG");
  uLongf size = compressBound(rows.size());
  std::vector<std::byte> data(size);
  if (compress2(reinterpret_cast<Bytef*>(data.data()), &size, rows.data(), rows.size(),
                Z_DEFAULT_COMPRESSION) != Z_OK) {
    throw std::bad_alloc();
  }
  data.resize(size);
  put_chunk(out, "IDAT", data);
  put_chunk(out, "IEND", {});
}

}  // namespace

void encode_jpeg(const Image& image, int quality, std::vector<std::byte>& out, HuffmanCodes codes,
                 int orientation) {
  check_image(image);
  DTN_CHECK(1 <= quality && quality <= 100, "JPEG quality ", quality, " is not in 1 .. 100");
  DTN_CHECK(1 <= orientation && orientation <= 8, "orientation ", orientation, " is not in 1 .. 8");
  JpegWriter(image, quality, codes, orientation, out).run();
}

void encode_png(const Image& image, std::vector<std::byte>& out) {
  check_image(image);
  begin_png(image.width, image.height, image.channels == 1 ? 0 : 2, out);
  end_png(image.height, image.pixels, out);
}

void encode_png(int width, int height, std::span<const std::uint8_t> indices,
                std::span<const std::array<std::uint8_t, 3>> palette, std::vector<std::byte>& out) {
  DTN_CHECK(width > 0 && height > 0 && !palette.empty() && palette.size() <= 256 &&
                indices.size() == static_cast<std::size_t>(width) * height,
            "cannot encode ", width, " x ", height, " pixels in ", palette.size(), " colours");
  DTN_CHECK(std::all_of(indices.begin(), indices.end(),
                        [&palette](std::uint8_t i) { return i < palette.size(); }),
            "a pixel has an index outside the palette of ", palette.size(), " colours");
  begin_png(width, height, 3, out);
  std::vector<std::byte> colors;
  for (const auto& color : palette) {
    for (std::uint8_t sample : color) colors.push_back(static_cast<std::byte>(sample));
  }
  put_chunk(out, "PLTE", colors);
  put_chunk(out, "tRNS", {std::byte{0}});
  end_png(height, indices, out);
}

}  // namespace dtn
