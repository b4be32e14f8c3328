#include <algorithm>
#include <cstdio>
#include <utility>

#include "apps/common/program.h"
#include "apps/data/data_command.h"
#include "core/format.h"
#include "data/feed/field_buffers.h"
#include "data/feed/open_split.h"
#include "data/feed/view_samples.h"
#include "data/sample/preview.h"
#include "dtn/config/load.h"
#include "dtn/core/log.h"
#include "dtn/data/datasets.h"
#include "io/atomic_file.h"
#include "io/image/image_encode.h"
#include "plot/draw_objects.h"

namespace dtn::app {
namespace {

// The tasks whose images are prepared without augment.preset.
bool is_diffusion(const ExperimentConfig& config) { return config.task == "diffusion"; }
bool translates(const ExperimentConfig& config) { return config.task == "translate"; }
bool detects(const ExperimentConfig& config) { return config.task == "detect"; }

// Returns the training samples: several views of each image, or images.
std::shared_ptr<const SampleSource> training_samples(const ExperimentConfig& config,
                                                     const Registries& registries) {
  if (is_diffusion(config) || translates(config) || detects(config)) {
    // The model is not used, so it needs no values.
    return make_task({config, kMeta, registries})->source(Split::kTrain, kCpu);
  }
  if (trains_on_views(config)) return open_view_samples(config, kCpu, registries);
  if (config.task == "multilabel") {
    ModelConfig any = config.model;
    any.num_classes = 0;
    return image_samples_of(
        open_multilabel(config.data, any, Split::kTrain, config.seed, registries.datasets), config,
        Split::kTrain, kCpu, registries);
  }
  return open_image_samples(config, Split::kTrain, kCpu, registries);
}

// Makes samples and converts them back to pictures.
class SamplePictures {
 public:
  SamplePictures(std::shared_ptr<const SampleSource> source, const ExperimentConfig& config,
                 const Registries& registries)
      : source_(std::move(source)),
        seed_(config.seed),
        workspace_(source_->make_workspace()),
        classes_(source_->class_names()) {
    for (const FieldSpec& spec : with_lengths(source_->host_fields())) {
      fields_[spec.name] = allocate_rows(spec, 1, kCpu);
    }
    if (fields_.has("boxes")) return;
    if (translates(config)) {
      normal_ = {{0, 0, 0}, {1, 1, 1}};  // pixels lie in [0, 1]
      return;
    }
    const int channels = config.model.channels;
    if (config.data.dataset != "tensors" && (channels == 1 || channels == 3)) {
      normal_ =
          resolve_normalization(is_diffusion(config) ? symmetric_pixels(config.data) : config.data,
                                channels, registries.datasets);
    }
  }

  // Adds the images of one sample, as they are in an epoch.
  void add(std::int64_t index, std::uint32_t epoch, std::vector<Image>& row) {
    FieldRow to(fields_, 0);
    source_->make(index, {seed_, epoch, static_cast<std::uint64_t>(index)}, to, *workspace_);
    if (fields_.has("boxes")) return row.push_back(with_boxes());
    for (const auto& [name, tensor] : fields_) {
      if (name == "noise") continue;  // of a diffusion model
      if (tensor.dtype() == DType::kFloat32 && tensor.rank() >= 4) add_images(tensor, row);
    }
  }

 private:
  // images [1, channels, height, width] or [1, views, channels, height, width]
  void add_images(const Tensor& images, std::vector<Image>& row) const {
    const std::size_t rank = images.rank();
    const std::int64_t channels = images.dim(rank - 3);
    const ImageSize size{static_cast<int>(images.dim(rank - 2)),
                         static_cast<int>(images.dim(rank - 1))};
    const std::int64_t each = channels * size.height * size.width;
    for (std::int64_t at = 0; at < images.numel(); at += each) {
      row.push_back(
          preview_of(images.data<float>() + at, channels, size, normal_.mean, normal_.std));
    }
  }

  // The image of a detector with its truths; src/tasks/detect/samples.h has the fields.
  Image with_boxes() const {
    const auto* size = fields_.at("size").data<std::int64_t>();
    Image image;
    image.reshape(static_cast<int>(size[1]), static_cast<int>(size[0]), 3);
    std::copy_n(fields_.at("pixels").data<std::uint8_t>(), image.pixels.size(),
                image.pixels.begin());
    const auto count = *fields_.at(lengths_of("boxes")).data<std::int64_t>();
    const auto* box = fields_.at("boxes").data<float>();
    const auto* truth = fields_.at("truths").data<std::int64_t>();
    std::vector<plot::DrawnObject> objects;
    for (std::int64_t i = 0; i < count; ++i, box += 4, truth += 2) {
      objects.push_back({.x1 = box[0],
                         .y1 = box[1],
                         .x2 = box[2],
                         .y2 = box[3],
                         .label = truth[0],
                         .text = classes_.at(static_cast<std::size_t>(truth[0]))});
    }
    return plot::draw_objects(image, objects);
  }

  std::shared_ptr<const SampleSource> source_;
  std::uint64_t seed_;
  std::unique_ptr<SampleSource::Workspace> workspace_;
  std::vector<std::string> classes_;
  Fields fields_;
  Normalization normal_;
};

}  // namespace

CLI::App* PreviewCommand::add_to(CLI::App& app) {
  CLI::App* sub = app.add_subcommand(
      "preview",
      "write a PNG of augmented training images, one image per row: its views, if augment.preset "
      "makes several of each, or its appearance in different epochs; for a detector with the boxes "
      "and names of the truths, for an image-to-image model input and target of each epoch");
  sub->add_option("--config", config_, "config file or name")->required();
  add_overrides(*sub, overrides_, "override one key of the config (repeatable)");
  sub->add_option("--output", output_, "file to write")->required();
  add_defaulted(*sub, "--images", images_, "number of images")->check(CLI::Range(1, 1000));
  sub->add_option("--epochs", epochs_,
                  "number of epochs shown for each image (default: 1 with several views, 2 for a "
                  "detector, 3 for an image-to-image model, else 8)")
      ->check(CLI::Range(1, 1000));
  return sub;
}

int PreviewCommand::run(const Registries& registries) const {
  const ConfigSchemas schemas = registries.schemas();
  const ExperimentConfig config =
      load_experiment(find_config(config_, schemas), overrides_, schemas);
  const auto source = training_samples(config, registries);
  log_info(source->description());
  SamplePictures pictures(source, config, registries);
  const std::int64_t epochs = epochs_.value_or(trains_on_views(config) ? 1
                                               : detects(config)       ? 2
                                               : translates(config)    ? 3
                                                                       : 8);
  std::vector<std::vector<Image>> rows(static_cast<std::size_t>(std::min(images_, source->size())));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    // Spread over the data set, which is often sorted by class.
    const auto index =
        static_cast<std::int64_t>(i) * source->size() / static_cast<std::int64_t>(rows.size());
    for (std::int64_t e = 0; e < epochs; ++e) {
      pictures.add(index, static_cast<std::uint32_t>(e), rows[i]);
    }
  }
  std::vector<std::byte> png;
  encode_png(sheet_of(rows), png);
  write_file_atomic(output_, {reinterpret_cast<const char*>(png.data()), png.size()});
  std::printf("%s in %s\n", counted(static_cast<std::int64_t>(rows.size()), "images").c_str(),
              output_.c_str());
  return kExitDone;
}

}  // namespace dtn::app
