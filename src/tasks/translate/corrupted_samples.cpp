#include "tasks/translate/corrupted_samples.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "config/document.h"
#include "data/sample/random.h"
#include "dtn/config/condition_field.h"
#include "dtn/core/check.h"
#include "dtn/core/philox.h"

namespace dtn {
namespace {

constexpr std::uint32_t kCellStream = 0x7A150011u, kStyleStream = 0x7A150012u;
// Distinguishes the crop of a style image from that of the sample with the same key.
constexpr std::uint64_t kStyleSeed = 0x9E3779B97F4A7C15u;

std::string describe_corrupted(const Dataset& dataset, const DataConfig& data) {
  return cat(dataset.description(), ", ",
             data.corrupted == CorruptedPicture::kInput ? "input" : "target", " by ",
             config::join(data.corruptions));
}

// Keeps the first of three channels.
void keep_first_channel(const Image& color, Image& gray) {
  gray.reshape(color.width, color.height, 1);
  for (std::size_t i = 0; i < gray.pixels.size(); ++i) gray.pixels[i] = color.pixels[3 * i];
}

}  // namespace

struct CorruptedSamples::ImageWorkspace final : SampleSource::Workspace {
  SampleWorkspace sample;
  PictureCropWorkspace crop;
  CorruptScratch scratch;
  Image clean, corrupted;
  Image color, corrupted_color;  // of grey images
};

// The random choices of a sample.
struct CorruptedSamples::Draw {
  std::size_t cell = 0;
  SampleKey key;     // of the crop and of the style image
  std::string item;  // with key.seed, selects the random numbers of the corruption
};

CorruptedSamples::CorruptedSamples(std::shared_ptr<const Dataset> dataset,
                                   const ExperimentConfig& config, Split split)
    : dataset_(std::move(dataset)),
      cells_(corruption_list(config.data)),
      seed_(config.seed),
      training_(split == Split::kTrain),
      corrupts_input_(config.data.corrupted == CorruptedPicture::kInput),
      shape_{config.model.channels, config.model.image_size.height, config.model.image_size.width},
      condition_(condition_field(config.model)),
      crop_(config, config.model.channels, split),
      description_(describe_corrupted(*dataset_, config.data)) {
  if (!dataset_->has_pixels()) {
    throw ConfigError(cat("data.corruptions needs images of pixels, but the data set has none: ",
                          dataset_->description()));
  }
  if (cells_.empty()) throw ConfigError("data.corruptions is not set");
  DTN_CHECK(!condition_ || condition_->name != "vector", "corrupted images have no `vector`");
  const auto needs_frost = [](const CorruptionCell& cell) { return is_frost(*cell.corruption); };
  if (std::ranges::any_of(cells_, needs_frost)) frost_ = FrostTextures::stand_in();
}

std::vector<FieldSpec> CorruptedSamples::host_fields() const {
  std::vector<FieldSpec> fields{{"input", shape_, DType::kFloat32},
                                {"target", shape_, DType::kFloat32}};
  if (condition_) fields.push_back(*condition_);
  return fields;
}

std::unique_ptr<SampleSource::Workspace> CorruptedSamples::make_workspace() const {
  return std::make_unique<ImageWorkspace>();
}

CorruptedSamples::Draw CorruptedSamples::draw_sample(std::int64_t index,
                                                     const SampleKey& key) const {
  if (!training_) {
    const SampleKey fixed{seed_, 0, static_cast<std::uint64_t>(index)};
    return {fixed.sample % cells_.size(), fixed, cat("val ", index)};
  }
  const std::uint32_t word = philox_u32({key.seed, kCellStream, key.epoch}, key.sample);
  const int cell = uniform_index(word, static_cast<int>(cells_.size()));
  return {static_cast<std::size_t>(cell), key, cat("train ", key.epoch, " ", key.sample)};
}

// Returns another sample than `index`, if there is one.
std::int64_t CorruptedSamples::draw_other(std::int64_t index, const SampleKey& key) const {
  const std::int64_t others = size() - 1;
  if (others == 0) return index;
  const std::uint32_t word = philox_u32({key.seed, kStyleStream, key.epoch}, key.sample);
  const std::int64_t other = uniform_index(word, static_cast<int>(others));
  return other < index ? other : other + 1;
}

void CorruptedSamples::load(std::int64_t index, const SampleKey& key, ImageWorkspace& ws) const {
  crop_.load(dataset_->load(index, ws.sample), ws.sample, key, ws.crop, ws.clean);
}

void CorruptedSamples::corrupt(const Draw& draw, ImageWorkspace& ws) const {
  const CorruptionCell& cell = cells_[draw.cell];
  const CorruptionKey key{draw.key.seed, draw.item};
  if (ws.clean.channels == 3) {
    apply_adapted_corruption(ws.clean, cell, key, frost_.get(), ws.scratch, ws.corrupted);
    return;
  }
  gray_to_rgb(ws.clean, ws.color);
  apply_adapted_corruption(ws.color, cell, key, frost_.get(), ws.scratch, ws.corrupted_color);
  keep_first_channel(ws.corrupted_color, ws.corrupted);
}

void CorruptedSamples::make(std::int64_t index, const SampleKey& key, FieldRow& row,
                            SampleSource::Workspace& workspace) const {
  auto& ws = static_cast<ImageWorkspace&>(workspace);
  const Draw draw = draw_sample(index, key);
  load(index, draw.key, ws);
  corrupt(draw, ws);
  write_unit_pixels(corrupts_input_ ? ws.corrupted : ws.clean, row.at<float>("input"));
  write_unit_pixels(corrupts_input_ ? ws.clean : ws.corrupted, row.at<float>("target"));
  if (!condition_) return;
  if (condition_->dtype == DType::kInt64) {
    row.at<std::int64_t>("style")[0] = static_cast<std::int64_t>(draw.cell);
  } else {
    write_style_image(index, draw, row, ws);
  }
}

// A damaged style image is replaced by the next image. It counts as damaged where it is a sample.
void CorruptedSamples::write_style_image(std::int64_t index, const Draw& draw, FieldRow& row,
                                         ImageWorkspace& ws) const {
  Draw style = draw;
  style.item = "style " + draw.item;
  style.key.seed ^= kStyleSeed;
  std::int64_t other = draw_other(index, draw.key);
  for (std::int64_t left = size() - 1;; --left) {
    try {
      load(other, style.key, ws);
      break;
    } catch (const DataError&) {
      if (left <= 1) throw;
      other = (other + 1) % size();
      if (other == index) other = (other + 1) % size();
    }
  }
  corrupt(style, ws);
  write_unit_pixels(ws.corrupted, row.at<float>(condition_->name));
}

}  // namespace dtn
