#include "tasks/diffusion/samples.h"

#include <algorithm>
#include <utility>

#include "core/normal_noise.h"
#include "data/sample/normalization.h"
#include "data/sample/random.h"
#include "dtn/core/check.h"
#include "dtn/core/philox.h"

namespace dtn {
namespace {

// Streams of random numbers. Evaluations have one of their own, so that they do not see the noise
// of an epoch.
constexpr std::uint32_t kTrainStream = 0xD1FF0001u, kEvaluationStream = 0xD1FF0002u,
                        kFlipStream = 0xD1FF0003u;

// Random words of a sample.
struct Draw {
  std::uint32_t time, drop;
  std::uint64_t noise;  // seed of the noise
};

Draw draw_sample(const PhiloxKey& key, std::uint64_t sample) {
  const Philox4 words = philox_group(key, sample);
  return {words.v[0], words.v[1], static_cast<std::uint64_t>(words.v[3]) << 32 | words.v[2]};
}

ImageSize size_of(const Shape& image) {
  return {static_cast<int>(image[1]), static_cast<int>(image[2])};
}

// Pixels 0 .. 255 become -1 .. 1.
std::vector<float> symmetric_table(std::int64_t channels) {
  const std::vector<float> half(static_cast<std::size_t>(channels), 0.5f);
  return normalization_table({half, half});
}

constexpr const char* kNoEmptyLabel =
    "; the model has no embedding for no label; change the file, or set model.label_dropout above "
    "0";

}  // namespace

struct DiffusionSamples::ImageWorkspace final : SampleSource::Workspace {
  SampleWorkspace sample;
  Image decoded;
  CenterCropWorkspace crop;
};

DiffusionSamples::DiffusionSamples(std::shared_ptr<const Dataset> dataset,
                                   const ExperimentConfig& config, Split split)
    : dataset_(std::move(dataset)),
      seed_(config.seed),
      training_(split == Split::kTrain),
      fast_decode_(config.data.decode == DecodeMode::kFast ||
                   (config.data.decode == DecodeMode::kAuto && training_)),
      decoding_{.upright = config.data.exif},
      image_shape_{config.model.channels, config.model.image_size.height,
                   config.model.image_size.width},
      classes_(config.model.num_classes),
      steps_(config.diffusion.steps),
      hflip_(training_ ? config.augment.hflip : 0),
      label_dropout_(training_ ? config.model.label_dropout : 0),
      hides_labels_(config.model.label_dropout > 0),
      resampling_(config.data.interpolation, config.data.resample),
      table_(symmetric_table(config.model.channels)) {
  if (dataset_->vocabulary() > 0) {
    throw ConfigError(cat("the model takes images, but the data set has sequences of tokens: ",
                          dataset_->description()));
  }
  const std::int64_t channels = image_shape_[0];
  if (dataset_->has_pixels() && channels != 1 && channels != 3) {
    throw ConfigError(cat("model.channels is ", channels,
                          ", but images have 1 or 3; set it, or train on latents from "
                          "data.dataset: tensors"));
  }
  check_labels();
  check_ready_fields();
}

// Tensors may have the label that stands for none, if the model has one.
void DiffusionSamples::check_labels() const {
  if (classes_ == 0) return;  // a model without classes has no labels
  const std::int64_t last = dataset_->has_pixels() || !hides_labels_ ? classes_ - 1 : classes_;
  for (std::int64_t i = 0; i < dataset_->size(); ++i) {
    const std::int64_t label = dataset_->label(i);
    if (0 <= label && label <= last) continue;
    throw DataError(cat(dataset_->sample_name(i), ": label ", label, " is outside [0, ", last,
                        "]; model.num_classes is ", classes_,
                        last == classes_         ? ", which stands for no label"
                        : dataset_->has_pixels() ? ""
                                                 : kNoEmptyLabel));
  }
}

void DiffusionSamples::check_ready_fields() const {
  const std::int64_t count = dataset_->size();
  const Shape noise{count, image_shape_[0], image_shape_[1], image_shape_[2]};
  for (const std::string_view name : {"timesteps", "drop", "noise"}) {
    const Tensor* values = dataset_->ready_fields().find(name);
    const Shape wanted = name == "noise" ? noise : Shape{count};
    if (!values || values->shape() == wanted) continue;
    throw DataError(cat(dataset_->description(), ": `", name, "` is ", to_string(values->shape()),
                        ", expected ", to_string(wanted), "; change the file or the model"));
  }
  check_range("timesteps", steps_);
  check_range("drop", hides_labels_ || classes_ == 0 ? 2 : 1);
}

void DiffusionSamples::check_range(const char* field, std::int64_t end) const {
  const Tensor* values = dataset_->ready_fields().find(field);
  if (!values) return;
  for (std::int64_t i = 0; i < values->numel(); ++i) {
    const std::int64_t value = values->data<std::int64_t>()[i];
    if (0 <= value && value < end) continue;
    throw DataError(cat(dataset_->sample_name(i), ": `", field, "` is ", value,
                        ", which is outside [0, ", end, ")",
                        end == steps_ ? "; change the file or diffusion.steps"
                        : end == 1    ? kNoEmptyLabel
                                      : ""));
  }
}

std::string DiffusionSamples::identity(std::int64_t index) const {
  return cat(dataset_->item_name(index), " ", dataset_->label(index));
}

std::vector<FieldSpec> DiffusionSamples::host_fields() const {
  return {{"image", image_shape_, DType::kFloat32},
          {"label", {}, DType::kInt64},
          {"timestep", {}, DType::kInt64},
          {"noise", image_shape_, DType::kFloat32}};
}

std::unique_ptr<SampleSource::Workspace> DiffusionSamples::make_workspace() const {
  return std::make_unique<ImageWorkspace>();
}

void DiffusionSamples::make(std::int64_t index, const SampleKey& key, FieldRow& row,
                            SampleSource::Workspace& workspace) const {
  write_image(index, key, row.at<float>("image"), static_cast<ImageWorkspace&>(workspace));
  write_process(index, key, row);
}

void DiffusionSamples::write_image(std::int64_t index, const SampleKey& key, std::span<float> out,
                                   ImageWorkspace& ws) const {
  const Sample sample = dataset_->load(index, ws.sample);
  if (!sample.ready.empty()) {
    DTN_CHECK(sample.ready.size() == out.size(), dataset_->sample_name(index), " has ",
              sample.ready.size(), " values, expected ", out.size());
    std::ranges::copy(sample.ready, out.begin());
    return;
  }
  const Image* image = sample.image ? sample.image : &decode(sample.encoded, ws);
  if (image->channels != image_shape_[0]) {
    // Only pixels of the data set have other channels; decoding converts.
    image_shape_[0] == 1 ? rgb_to_gray(*image, ws.decoded) : gray_to_rgb(*image, ws.decoded);
    image = &ws.decoded;
  }
  const bool flip =
      uniform(philox_u32({key.seed, kFlipStream, key.epoch}, key.sample), 0, 1) < hflip_;
  normalize_image(center_crop(*image, size_of(image_shape_), resampling_, ws.crop), table_, flip,
                  out.data());
}

const Image& DiffusionSamples::decode(std::span<const std::byte> bytes, ImageWorkspace& ws) const {
  decode_for_center_crop(bytes, ws.sample.name, size_of(image_shape_), fast_decode_, decoding_,
                         image_shape_[0] == 1 ? ColorMode::kGray : ColorMode::kRgb, ws.decoded);
  return ws.decoded;
}

void DiffusionSamples::write_process(std::int64_t index, const SampleKey& key,
                                     FieldRow& row) const {
  const Fields& ready = dataset_->ready_fields();
  const auto given = [&](const char* field) -> const std::int64_t* {
    const Tensor* values = ready.find(field);
    return values ? values->data<std::int64_t>() + index : nullptr;
  };
  const Draw draw =
      training_ ? draw_sample({key.seed, kTrainStream, key.epoch}, key.sample)
                : draw_sample({seed_, kEvaluationStream, 0}, static_cast<std::uint64_t>(index));
  const std::int64_t* time = given("timesteps");
  row.at<std::int64_t>("timestep")[0] =
      time ? *time : uniform_index(draw.time, static_cast<int>(steps_));
  const std::int64_t* drop = given("drop");
  const bool dropped = drop ? *drop == 1 : uniform(draw.drop, 0, 1) < label_dropout_;
  row.at<std::int64_t>("label")[0] = dropped || classes_ == 0 ? classes_ : dataset_->label(index);
  const std::span<float> noise = row.at<float>("noise");
  if (const Tensor* values = ready.find("noise")) {
    const std::size_t first = static_cast<std::size_t>(index) * noise.size();
    std::ranges::copy(values->values<float>().subspan(first, noise.size()), noise.begin());
  } else {
    write_noise(draw.noise, 0, static_cast<std::int64_t>(noise.size()), noise.data());
  }
}

}  // namespace dtn
