// JPEG with libjpeg-turbo. Its defaults (accurate DCT, smooth chroma upsampling) are Pillow's.
//
// libjpeg reports errors through error_exit, which must not return. It jumps back to guarded(), the
// only function with a setjmp. Between the two there are only frames of libjpeg and of functions
// without destructors to run, because the jump skips destructors.
#include <algorithm>
#include <csetjmp>
#include <cstring>

// jpeglib.h needs FILE and size_t, and jerror.h needs jpeglib.h.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "dtn/core/check.h"
#include "io/image/image_codecs.h"

namespace dtn::codec {
namespace {

using RowConverter = void (*)(const std::uint8_t* in, std::uint8_t* out, std::int64_t n);

class JpegReader {
 public:
  explicit JpegReader(const Job& job) : job_(job) {
    cinfo_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = on_error;
    errors_.base.output_message = [](j_common_ptr) {};
    source_.init_source = [](j_decompress_ptr) {};
    source_.fill_input_buffer = on_end_of_data;
    source_.skip_input_data = on_skip;
    source_.resync_to_restart = jpeg_resync_to_restart;
    source_.term_source = [](j_decompress_ptr) {};
    source_.next_input_byte = reinterpret_cast<const JOCTET*>(job.bytes.data());
    source_.bytes_in_buffer = job.bytes.size();
    progress_.base.progress_monitor = on_progress;
    progress_.max_scans = job.options.max_scans;
    guarded(&JpegReader::read_header);
    check_header();
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  ImageInfo info() const {
    return {static_cast<int>(cinfo_.image_width), static_cast<int>(cinfo_.image_height),
            cinfo_.num_components == 1 ? 1 : 3, true};
  }

  void decode(Image& out) {
    const ImageInfo whole = info();
    region_ = scaled_region(wanted_region(job_, whole.width, whole.height), job_.eighths);
    const int channels = output_channels(job_.mode, whole.channels);
    choose_color(channels);
    cinfo_.scale_num = static_cast<unsigned>(job_.eighths);
    cinfo_.scale_denom = 8;
    guarded(&JpegReader::size_output);
    plan_part();
    shape_image(out, region_, channels);
    out_ = out.pixels.data();
    out_stride_ = static_cast<std::size_t>(out.width) * channels;
    guarded(&JpegReader::start);
    guarded(&JpegReader::read_rows);
    if (last_row_ == height_) guarded(&JpegReader::finish);
  }

 private:
  static constexpr int kStripRows = 4;  // rows that one call of libjpeg returns at most

  // Releases libjpeg's memory even if the constructor throws.
  struct Decompressor : jpeg_decompress_struct {
    Decompressor() : jpeg_decompress_struct{} {}
    ~Decompressor() { jpeg_destroy_decompress(this); }
  };
  struct Errors {
    jpeg_error_mgr base;
    std::jmp_buf jump;
  };
  struct Progress {
    jpeg_progress_mgr base;
    int max_scans;
  };

  static void on_error(j_common_ptr cinfo) {
    std::longjmp(reinterpret_cast<Errors*>(cinfo->err)->jump, 1);
  }
  static boolean on_end_of_data(j_decompress_ptr cinfo) {
    // A missing end marker is accepted if all rows are there.
    if (cinfo->output_scanline < cinfo->output_height || cinfo->output_height == 0)
      ERREXIT(cinfo, JERR_INPUT_EOF);
    static const JOCTET end_marker[2] = {0xFF, JPEG_EOI};
    cinfo->src->next_input_byte = end_marker;
    cinfo->src->bytes_in_buffer = 2;
    return TRUE;
  }
  static void on_skip(j_decompress_ptr cinfo, long count) {
    if (count <= 0) return;
    const std::size_t n = std::min(static_cast<std::size_t>(count), cinfo->src->bytes_in_buffer);
    cinfo->src->next_input_byte += n;
    cinfo->src->bytes_in_buffer -= n;
  }
  static void on_progress(j_common_ptr cinfo) {
    const int max_scans = reinterpret_cast<Progress*>(cinfo->progress)->max_scans;
    if (reinterpret_cast<j_decompress_ptr>(cinfo)->input_scan_number > max_scans)
      ERREXIT(cinfo, JERR_BAD_PROGRESSION);
  }

  void guarded(void (JpegReader::*step)()) {
    if (setjmp(errors_.jump) == 0) {
      (this->*step)();
      return;
    }
    explain();
  }

  [[noreturn]] void explain() {
    if (errors_.base.msg_code == JERR_INPUT_EOF) fail(job_.name, "the file is cut short");
    if (cinfo_.input_scan_number > job_.options.max_scans)
      fail(job_.name, cat("it has more than ", job_.options.max_scans, " scans"));
    if (errors_.base.msg_code == JERR_NO_BACKING_STORE) fail_for_memory(job_);
    char message[JMSG_LENGTH_MAX];
    (*errors_.base.format_message)(reinterpret_cast<j_common_ptr>(&cinfo_), message);
    fail(job_.name, message);
  }

  void read_header() {
    jpeg_create_decompress(&cinfo_);
    cinfo_.src = &source_;
    cinfo_.progress = &progress_.base;
    cinfo_.mem->max_memory_to_use = job_.options.max_memory;
    jpeg_read_header(&cinfo_, TRUE);
  }

  void check_header() {
    check_size(job_, cinfo_.image_width, cinfo_.image_height);
    const int components = cinfo_.num_components;
    if (components != 1 && components != 3 && components != 4)
      fail(job_.name, cat("it has ", components, " colour components; 1, 3 or 4 are supported"));
    // A Huffman-coded block takes at least one bit, and the largest component has at least a
    // quarter of the blocks of a full one. A file this short cannot hold that many pixels.
    const std::int64_t pixels = static_cast<std::int64_t>(cinfo_.image_width) * cinfo_.image_height;
    if (!cinfo_.arith_code && pixels / 2048 > static_cast<std::int64_t>(job_.bytes.size()))
      fail(job_.name, cat("the file is cut short: ", job_.bytes.size(), " bytes for ",
                          cinfo_.image_width, " x ", cinfo_.image_height, " pixels"));
  }

  static void row_cmyk_to_gray(const std::uint8_t* in, std::uint8_t* out, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      std::uint8_t rgb[3];
      row_cmyk_to_rgb(in + 4 * i, rgb, 1);
      row_rgb_to_gray(rgb, out + i, 1);
    }
  }

  void choose_color(int channels) {
    if (cinfo_.num_components == 4) {
      cinfo_.out_color_space = JCS_CMYK;
      convert_ = channels == 1 ? row_cmyk_to_gray : row_cmyk_to_rgb;
    } else if (cinfo_.num_components == 1) {
      cinfo_.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    } else {
      cinfo_.out_color_space = JCS_RGB;
      convert_ = channels == 1 ? row_rgb_to_gray : nullptr;
    }
  }

  void size_output() {
    jpeg_calc_output_dimensions(&cinfo_);
    width_ = static_cast<int>(cinfo_.output_width);
    height_ = static_cast<int>(cinfo_.output_height);
  }

  // Plans the rows and columns that libjpeg must produce for the region. The upsampling of
  // subsampled chroma reads one sample beyond a pixel. A cut that is not the image's own edge
  // therefore has a margin of one MCU (the unit of coding, 8 to 32 pixels a side before scaling).
  void plan_part() {
    const ImageRegion& region = region_;
    first_row_ = first_column_ = 0;
    columns_ = width_;
    // A file without the end marker may be cut short, so it is decoded to its last row.
    const auto tail = job_.bytes.last(2);
    const bool complete = tail[0] == std::byte{0xFF} && tail[1] == std::byte{0xD9};
    last_row_ = complete ? region.y1 : height_;
    const int across = max_sampling(&jpeg_component_info::h_samp_factor);
    const int down = max_sampling(&jpeg_component_info::v_samp_factor);
    const int margin = across > 1 || down > 1 ? 1 : 0;
    const int mcu_width = job_.eighths * across, mcu_height = job_.eighths * down;
    first_row_ = std::max(0, region.y0 / mcu_height - margin) * mcu_height;
    const int left = std::max(0, region.x0 / mcu_width - margin) * mcu_width;
    const int right = std::min(width_, region.x1 + margin * mcu_width);
    if (right - left < width_) {
      first_column_ = left;
      columns_ = right - left;
    }
  }

  int max_sampling(int jpeg_component_info::*factor) const {
    int most = 1;
    for (int i = 0; i < cinfo_.num_components; ++i)
      most = std::max(most, cinfo_.comp_info[i].*factor);
    return most;
  }

  void start() {
    jpeg_start_decompress(&cinfo_);
    if (columns_ < width_) {
      JDIMENSION offset = static_cast<JDIMENSION>(first_column_);
      JDIMENSION width = static_cast<JDIMENSION>(columns_);
      jpeg_crop_scanline(&cinfo_, &offset, &width);
      first_column_ = static_cast<int>(offset);
    }
    const JDIMENSION row_bytes =
        cinfo_.output_width * static_cast<unsigned>(cinfo_.output_components);
    strip_ = cinfo_.mem->alloc_sarray(reinterpret_cast<j_common_ptr>(&cinfo_), JPOOL_IMAGE,
                                      row_bytes, kStripRows);
    fits_ = !convert_ && row_bytes == out_stride_;
  }

  void read_rows() {
    if (first_row_ > 0) jpeg_skip_scanlines(&cinfo_, static_cast<JDIMENSION>(first_row_));
    JSAMPROW rows[kStripRows];
    const std::size_t skip =
        static_cast<std::size_t>(region_.x0 - first_column_) * cinfo_.output_components;
    while (static_cast<int>(cinfo_.output_scanline) < last_row_) {
      const int y = static_cast<int>(cinfo_.output_scanline);
      // Rows that need neither cropping nor conversion are written directly to the result.
      const bool direct = fits_ && y >= region_.y0 && y + kStripRows <= region_.y1;
      for (int i = 0; i < kStripRows; ++i)
        rows[i] = direct ? out_ + (y + i - region_.y0) * out_stride_ : strip_[i];
      const JDIMENSION n = jpeg_read_scanlines(&cinfo_, rows, kStripRows);
      if (n == 0) ERREXIT(&cinfo_, JERR_INPUT_EOF);
      for (int i = 0; !direct && i < static_cast<int>(n); ++i)
        if (y + i >= region_.y0 && y + i < region_.y1)
          store_row(rows[i] + skip, out_ + (y + i - region_.y0) * out_stride_);
    }
  }

  // Reads the data after the last row, where damage is also an error.
  void finish() { jpeg_finish_decompress(&cinfo_); }

  void store_row(const std::uint8_t* from, std::uint8_t* to) const {
    if (convert_) {
      convert_(from, to, region_.x1 - region_.x0);
    } else {
      std::memcpy(to, from, out_stride_);
    }
  }

  const Job& job_;
  Errors errors_{};
  jpeg_source_mgr source_{};
  Progress progress_{};
  Decompressor cinfo_;
  RowConverter convert_ = nullptr;
  int width_ = 0, height_ = 0;  // size of the decoded (scaled) image
  ImageRegion region_;          // in the decoded image
  int first_row_ = 0, last_row_ = 0, first_column_ = 0, columns_ = 0;
  std::uint8_t* out_ = nullptr;
  std::size_t out_stride_ = 0;
  JSAMPARRAY strip_ = nullptr;  // [kStripRows, bytes of a row]; owned by libjpeg
  bool fits_ = false;           // libjpeg's rows equal rows of the result
};

}  // namespace

ImageInfo jpeg_info(const Job& job) { return JpegReader(job).info(); }
void jpeg_decode(const Job& job, Image& out) { JpegReader(job).decode(out); }

}  // namespace dtn::codec
