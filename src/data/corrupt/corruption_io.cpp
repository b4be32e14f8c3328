#include "data/corrupt/corruption_io.h"

#include <algorithm>
#include <utility>

#include "core/format.h"
#include "core/text.h"
#include "data/source/image_names.h"
#include "dtn/core/check.h"
#include "io/image/image_encode.h"

namespace dtn {
namespace {

constexpr int kShortSide = 256;
constexpr int kSavedQuality = 85;

// Applies torchvision's Resize(256) and CenterCrop(224), as on a Pillow image.
void crop_middle(const Image& image, ResampleWorkspace& workspace, Image& out) {
  const int shorter = std::min(image.width, image.height);
  const auto scaled = [&](int length) {
    return static_cast<int>(static_cast<std::int64_t>(kShortSide) * length / shorter);
  };
  const int width = scaled(image.width), height = scaled(image.height);
  const int left = round_even((width - kCorruptedSide) / 2.0);
  const int top = round_even((height - kCorruptedSide) / 2.0);
  const ResizeWindow window{
      width, height, {left, top, left + kCorruptedSide, top + kCorruptedSide}};
  resize_window(view(image), {0, 0, image.width, image.height}, image.width, image.height, window,
                {Interpolation::kBilinear, Resample::kPillow12}, workspace, out);
}

const Image& rgb_of(const Sample& sample, CorruptWorkspace& ws) {
  if (!sample.ready.empty()) {
    throw ConfigError("a data set of tensors or sequences has no pixels to corrupt");
  }
  if (!sample.image) {
    decode_image_into(sample.encoded, ws.sample.name, ws.decoded);
    return ws.decoded;
  }
  if (sample.image->channels == 3) return *sample.image;
  gray_to_rgb(*sample.image, ws.decoded);
  return ws.decoded;
}

// Returns true if a part of the path is empty, "." or "..", or if the path has a zero byte.
bool leads_elsewhere(const std::string& path) {
  const auto is_special = [](auto part) { return part.empty() || part == "." || part == ".."; };
  return std::ranges::any_of(split(path, '/'), is_special) || path.find('\0') != path.npos;
}

// Thread-local, because a data set does not know its threads.
thread_local CorruptWorkspace corrupt_workspace;

class CorruptedDataset final : public Dataset {
 public:
  CorruptedDataset(std::shared_ptr<const Dataset> clean, CorruptedOptions options)
      : clean_(std::move(clean)), options_(std::move(options)) {
    if (!clean_->has_pixels())
      throw ConfigError("a data set of tensors or sequences has no pixels to corrupt");
    for (std::int64_t i = 0; i < clean_->size(); ++i) labels_.push_back(clean_->label(i));
    class_names_ = clean_->class_names();
    num_classes_ = clean_->num_classes();
    description_ = cat(options_.cell.name(), " of ", clean_->description());
  }

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    CorruptWorkspace& ws = corrupt_workspace;
    const Image& image = load_for_corruption(*clean_, index, options_.source, ws);
    const std::string item = corruption_item(*clean_, index);
    apply_corruption(image, options_.cell, {options_.seed, item}, options_.frost.get(), ws.scratch,
                     ws.corrupted);
    workspace.name = sample_name(index);
    Sample sample;
    if (options_.format == CorruptFormat::kJpeg) {
      encode_corrupted(ws.corrupted, options_.format, ws);
      std::swap(workspace.bytes, ws.encoded);
      sample.encoded = workspace.bytes;
    } else {
      std::swap(workspace.image, ws.corrupted);
      sample.image = &workspace.image;
    }
    return sample;
  }

  std::string sample_name(std::int64_t index) const override {
    return cat(clean_->sample_name(index), " (", options_.cell.name(), ")");
  }
  std::string item_name(std::int64_t index) const override { return clean_->item_name(index); }
  std::string file_name(std::int64_t index) const override { return clean_->file_name(index); }

 private:
  std::shared_ptr<const Dataset> clean_;
  CorruptedOptions options_;
};

}  // namespace

const char* name_of(CorruptFormat format) {
  return format == CorruptFormat::kJpeg ? "jpeg" : "png";
}

CorruptFormat corrupt_format(const std::string& name) {
  if (name == "jpeg") return CorruptFormat::kJpeg;
  if (name == "png") return CorruptFormat::kPng;
  throw ConfigError(cat("unknown format '", name, "'; use jpeg or png"));
}

const Image& load_for_corruption(const Dataset& dataset, std::int64_t index, CorruptSource source,
                                 CorruptWorkspace& workspace) {
  const Image& image = rgb_of(dataset.load(index, workspace.sample), workspace);
  if (source == CorruptSource::kAsItIs) return image;
  crop_middle(image, workspace.scratch.resample, workspace.crop);
  return workspace.crop;
}

std::string corruption_item(const Dataset& dataset, std::int64_t index) {
  std::string item = dataset.item_name(index);
  if (item.find('/') == item.npos) {
    const auto label = static_cast<std::size_t>(dataset.label(index));
    const auto& names = dataset.class_names();
    item = cat(label < names.size() ? names[label] : format("%04zu", label), "/", item);
  }
  if (leads_elsewhere(item)) {
    throw DataError(cat(dataset.sample_name(index), ": '", item, "' cannot be a file name"));
  }
  return item;
}

std::string corrupted_file_name(const std::string& item, CorruptFormat format) {
  const std::size_t dot = item.rfind('.'), slash = item.rfind('/');
  const bool has_suffix =
      dot != item.npos && (slash == item.npos || dot > slash + 1) && is_image_name(item);
  const std::string suffix = lowered(has_suffix ? item.substr(dot) : "");
  const std::string stem = item.substr(0, item.size() - suffix.size());
  if (format == CorruptFormat::kPng) return stem + ".png";
  return suffix == ".jpg" || suffix == ".jpeg" ? item : stem + ".JPEG";
}

void encode_corrupted(const Image& image, CorruptFormat format, CorruptWorkspace& workspace) {
  if (format == CorruptFormat::kPng) return encode_png(image, workspace.encoded);
  encode_jpeg(image, kSavedQuality, workspace.encoded, HuffmanCodes::kOptimized);
}

std::unique_ptr<Dataset> corrupted_dataset(std::shared_ptr<const Dataset> clean,
                                           CorruptedOptions options) {
  return std::make_unique<CorruptedDataset>(std::move(clean), std::move(options));
}

}  // namespace dtn
