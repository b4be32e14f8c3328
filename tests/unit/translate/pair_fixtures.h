// Data sets and samples of the tests of image-to-image models.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/feed/loader.h"
#include "dtn/config/train_config.h"
#include "dtn/core/check.h"
#include "dtn/data/dataset.h"
#include "dtn/data/sample_source.h"
#include "unit/data/data_fixtures.h"

namespace dtn::test {

using Floats = std::vector<float>;

// Pictures of noise that depend on their index. Those in `damaged` cannot be read.
class NoisePictures final : public Dataset {
 public:
  NoisePictures(std::int64_t count, int width, int height, int channels,
                std::vector<std::int64_t> damaged = {})
      : width_(width), height_(height), channels_(channels), damaged_(std::move(damaged)) {
    labels_.resize(static_cast<std::size_t>(count));
    description_ = cat(count, " noise pictures");
  }
  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    if (std::ranges::count(damaged_, index) > 0)
      throw DataError(sample_name(index) + " is damaged");
    workspace.image = picture(index);
    return {.encoded = {}, .image = &workspace.image, .ready = {}};
  }
  Image picture(std::int64_t index) const {
    const auto values = static_cast<std::size_t>(width_) * height_ * channels_;
    return {width_, height_, channels_, noise(values, static_cast<std::uint32_t>(index))};
  }
  std::string sample_name(std::int64_t index) const override { return cat("picture-", index); }

 private:
  int width_, height_, channels_;
  std::vector<std::int64_t> damaged_;
};

// A config of a translating model, for pictures of `size`.
inline ExperimentConfig pair_config(const ImageSize& size, int channels = 3) {
  ExperimentConfig config;
  config.seed = 7;
  config.model.image_size = size;
  config.model.channels = channels;
  config.model.num_classes = 0;
  config.augment.hflip = 0;
  return config;
}

// The fields of one sample, which is made with its index as the key.
struct PairRow {
  PairRow(const SampleSource& source, std::int64_t index, SampleKey key = {.seed = 7}) {
    for (const FieldSpec& spec : source.host_fields()) {
      fields[spec.name] = Tensor::empty(shape_of(spec, 1), spec.dtype);
    }
    FieldRow row(fields, 0);
    const auto workspace = source.make_workspace();
    key.sample = static_cast<std::uint64_t>(index);
    source.make(index, key, row, *workspace);
  }
  Floats floats(const char* field) const {
    const auto values = fields.at(field).values<float>();
    return {values.begin(), values.end()};
  }
  std::int64_t style() const { return fields.at("style").data<std::int64_t>()[0]; }
  Fields fields;
};

// The pixels of a picture as a field has them: [channels, height, width], v / 255.
inline Floats unit_pixels(const Image& image, bool mirrored = false) {
  Floats out;
  for (int c = 0; c < image.channels; ++c) {
    for (int y = 0; y < image.height; ++y) {
      for (int x = 0; x < image.width; ++x) {
        const int from = mirrored ? image.width - 1 - x : x;
        const auto at = static_cast<std::size_t>((y * image.width + from) * image.channels + c);
        out.push_back(static_cast<float>(image.pixels[at]) / 255.0f);
      }
    }
  }
  return out;
}

// The part [left, left + width) x [top, top + height) of a picture.
inline Image part_of(const Image& image, int left, int top, int width, int height) {
  Image out;
  out.reshape(width, height, image.channels);
  for (int y = 0; y < height; ++y) {
    for (int i = 0; i < width * image.channels; ++i) {
      out.pixels[static_cast<std::size_t>(y * width * image.channels + i)] =
          image.pixels[static_cast<std::size_t>(((top + y) * image.width + left) * image.channels +
                                                i)];
    }
  }
  return out;
}

// The "input", "target" and styles of all samples of an epoch of shuffled batches, in their order.
inline std::vector<Floats> loaded_epoch(std::shared_ptr<const SampleSource> source, int workers,
                                        int rank = 0, int ranks = 1, std::int64_t first_batch = 0) {
  LoaderOptions options;
  options.batch_size = 4;
  options.shuffle = options.drop_last = true;
  options.seed = 7;
  options.workers = workers;
  options.rank = rank;
  options.ranks = ranks;
  Loader loader(std::move(source), options);
  loader.start(2, first_batch);
  std::vector<Floats> rows;
  for (Batch batch; loader.next(batch);) {
    for (std::int64_t i = 0; i < batch.n; ++i) {
      Floats& row = rows.emplace_back();
      for (const auto& [name, tensor] : batch.fields.rows(i, i + 1)) {
        if (tensor.dtype() != DType::kFloat32) continue;
        std::ranges::copy(tensor.values<float>(), std::back_inserter(row));
      }
    }
  }
  return rows;
}

}  // namespace dtn::test
