#include "tasks/translate/picture_pairs.h"

#include <algorithm>
#include <cstring>

#include "core/format.h"
#include "data/source/image_folder.h"
#include "data/source/split_folders.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/file.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

fs::path folder_of_split(const DataConfig& data, Split split) {
  return fs::path(data.root) /
         (split == Split::kTrain ? data.train.value_or("train") : val_folder_of(data));
}

// Returns the names of the pictures below a folder. Throws DataError if there are none; `layout`
// says where pictures are expected.
std::vector<std::string> list_pictures(const fs::path& folder, const std::string& layout) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw DataError(cat("no such folder: ", folder.string(), "; expected ", layout,
                        " (see data/README.md); set data.root, data.train or data.val"));
  }
  LeftOut left_out;
  std::vector<std::string> names = list_images(folder, left_out);
  if (names.empty()) {
    throw DataError(cat(folder.string(), ": the folder has no images (", kImageEndings,
                        "); expected ", layout));
  }
  if (left_out.count() > 0) log_warn_once(left_out.warning(folder.string()));
  return names;
}

[[noreturn]] void fail_alone(const fs::path& file, const fs::path& partner) {
  throw DataError(
      cat(file.string(), ": has no partner ", partner.string(), "; add it, or remove the picture"));
}

// Copies the columns [left, left + width) of a picture.
void cut_columns(const Image& picture, int left, int width, Image& out) {
  out.reshape(width, picture.height, picture.channels);
  const std::size_t row = static_cast<std::size_t>(width) * picture.channels;
  for (int y = 0; y < picture.height; ++y) {
    const std::size_t from =
        (static_cast<std::size_t>(y) * picture.width + left) * picture.channels;
    std::memcpy(&out.pixels[static_cast<std::size_t>(y) * row], &picture.pixels[from], row);
  }
}

void check_equal_sizes(const ImageInfo& a, const std::string& file_a, const ImageInfo& b,
                       const std::string& file_b) {
  if (a.width == b.width && a.height == b.height) return;
  throw DataError(cat(file_a, ": has ", a.width, " x ", a.height, " pixels, but its partner ",
                      file_b, " has ", b.width, " x ", b.height,
                      "; both pictures of a pair must have the same size"));
}

void check_halves(int width, int height, const std::string& file) {
  if (width % 2 == 0) return;
  throw DataError(cat(file, ": has ", width, " x ", height,
                      " pixels; a picture of two halves (data.side_by_side) needs an even width"));
}

Shape shape_of_pictures(int channels, const ImageSize& size) {
  return {channels, size.height, size.width};
}

}  // namespace

struct PicturePairs::PairWorkspace final : SampleSource::Workspace {
  PictureCropWorkspace crop;
  std::vector<std::byte> input_bytes, target_bytes;
  Image whole, half;
  Image input, target;
};

PicturePairs::PicturePairs(const ExperimentConfig& config, Split split)
    : folder_(folder_of_split(config.data, split)),
      side_by_side_(config.data.side_by_side),
      input_side_(config.data.direction == PairDirection::kAToB ? 'A' : 'B'),
      target_side_(config.data.direction == PairDirection::kAToB ? 'B' : 'A'),
      input_shape_(shape_of_pictures(config.model.channels, config.model.image_size)),
      target_shape_(shape_of_pictures(config.model.out_channels.value_or(config.model.channels),
                                      config.model.image_size)),
      input_crop_(config, config.model.channels, split),
      target_crop_(config, static_cast<int>(target_shape_[0]), split) {
  list_pairs();
  check_first();
  description_ = cat(counted(size(), "pairs"), " of ", name_of(split), " pictures in ",
                     folder_.string(), ", ", input_side_, " to ", target_side_);
}

void PicturePairs::list_pairs() {
  if (side_by_side_) {
    names_ = list_pictures(folder_, cat(folder_.string(), "/<picture>"));
    return;
  }
  const std::string layout =
      cat(folder_.string(), "/A/<picture> and ", folder_.string(), "/B/<picture>");
  names_ = list_pictures(folder_ / "A", layout);
  const std::vector<std::string> partners = list_pictures(folder_ / "B", layout);
  // Both are in the same order.
  for (std::size_t i = 0; i < std::max(names_.size(), partners.size()); ++i) {
    const bool a_ends = i >= names_.size(), b_ends = i >= partners.size();
    if (!a_ends && !b_ends && names_[i] == partners[i]) continue;
    const bool a_alone = !a_ends && (b_ends || comes_before(names_[i], partners[i]));
    const std::string& alone = a_alone ? names_[i] : partners[i];
    fail_alone(folder_ / (a_alone ? "A" : "B") / alone, folder_ / (a_alone ? "B" : "A") / alone);
  }
}

// Finds pictures that are no pairs at all before the run begins.
void PicturePairs::check_first() const {
  const DecodeOptions& decoding = input_crop_.decoding();
  const std::string a = file_of('A', 0), b = file_of('B', 0);
  const ImageInfo info = read_image_info(read_file(a), a, decoding);
  if (side_by_side_) return check_halves(info.width, info.height, a);
  check_equal_sizes(info, a, read_image_info(read_file(b), b, decoding), b);
}

std::string PicturePairs::file_of(char side, std::int64_t index) const {
  if (side_by_side_) return (folder_ / name(index)).string();
  return (folder_ / std::string(1, side) / name(index)).string();
}

std::string PicturePairs::sample_name(std::int64_t index) const { return file_of('A', index); }

std::vector<FieldSpec> PicturePairs::host_fields() const {
  return {{"input", input_shape_, DType::kFloat32}, {"target", target_shape_, DType::kFloat32}};
}

std::unique_ptr<SampleSource::Workspace> PicturePairs::make_workspace() const {
  return std::make_unique<PairWorkspace>();
}

void PicturePairs::load_files(std::int64_t index, const SampleKey& key, PairWorkspace& ws) const {
  const std::string input = file_of(input_side_, index), target = file_of(target_side_, index);
  read_file_into(input, ws.input_bytes);
  read_file_into(target, ws.target_bytes);
  const DecodeOptions& decoding = input_crop_.decoding();
  check_equal_sizes(read_image_info(ws.input_bytes, input, decoding), input,
                    read_image_info(ws.target_bytes, target, decoding), target);
  input_crop_.decode(ws.input_bytes, input, key, ws.crop, ws.input);
  target_crop_.decode(ws.target_bytes, target, key, ws.crop, ws.target);
}

void PicturePairs::load_halves(std::int64_t index, const SampleKey& key, PairWorkspace& ws) const {
  const std::string file = file_of('A', index);
  read_file_into(file, ws.input_bytes);
  decode_image_into(ws.input_bytes, file, ws.whole, input_crop_.decoding());
  check_halves(ws.whole.width, ws.whole.height, file);
  const int width = ws.whole.width / 2;
  const auto left_of = [&](char side) { return side == 'A' ? 0 : width; };
  cut_columns(ws.whole, left_of(input_side_), width, ws.half);
  input_crop_.crop(ws.half, key, ws.crop, ws.input);
  cut_columns(ws.whole, left_of(target_side_), width, ws.half);
  target_crop_.crop(ws.half, key, ws.crop, ws.target);
}

void PicturePairs::make(std::int64_t index, const SampleKey& key, FieldRow& row,
                        SampleSource::Workspace& workspace) const {
  auto& ws = static_cast<PairWorkspace&>(workspace);
  side_by_side_ ? load_halves(index, key, ws) : load_files(index, key, ws);
  write_unit_pixels(ws.input, row.at<float>("input"));
  write_unit_pixels(ws.target, row.at<float>("target"));
}

}  // namespace dtn
