// A loader that delivers pixels and leaves the rest to a device. With tables, flips and erasures
// they become the images that the loader would have delivered, bit for bit.
#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "core/allocator.h"
#include "core/normal_noise.h"
#include "data/feed/loader.h"
#include "data_fixtures.h"
#include "dtn/data/datasets.h"
#include "dtn/io/safetensors.h"
#include "golden/data/fixtures.h"
#include "samples.h"

namespace dtn {
namespace {

using namespace dtn::test;

struct Record {
  std::int64_t number;
  std::vector<std::int64_t> indices, labels;
  std::vector<float> images;
  bool operator==(const Record&) const = default;
};

// Position (c, y, x) in an image, and a test whether it is in the box of an erasure.
struct Place {
  std::int64_t c, y, x, side;
  std::int64_t index() const { return (c * side + y) * side + x; }
  bool in(const std::int64_t* box) const {
    return x >= box[0] && x < box[0] + box[2] && y >= box[1] && y < box[1] + box[3];
  }
};

// A second implementation of the device's kernels.
std::vector<float> images_of(const Batch& batch, std::span<const float> table) {
  const std::int64_t side = batch.fields.at("pixels").dim(1),
                     channels = batch.fields.at("pixels").dim(3);
  const std::uint8_t* pixels = batch.fields.at("pixels").data<std::uint8_t>();
  std::vector<float> images;
  for (std::int64_t b = 0; b < batch.n; ++b) {
    const bool flip = batch.fields.at("flip").data<std::uint8_t>()[b] != 0;
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t y = 0; y < side; ++y) {
        for (std::int64_t x = 0; x < side; ++x) {
          const std::int64_t from = flip ? side - 1 - x : x;
          const std::uint8_t v = pixels[((b * side + y) * side + from) * channels + c];
          images.push_back(table[static_cast<std::size_t>(c * 256 + v)]);
          if (!batch.fields.has("erasure")) continue;
          const std::int64_t* box = batch.fields.at("erasure").data<std::int64_t>() + 5 * b;
          const Place place{c, y, x, side};
          if (!place.in(box)) continue;
          const auto seed = static_cast<std::uint64_t>(box[4]);
          const auto element = static_cast<std::uint64_t>(place.index());
          images.back() = noise_of(normal_table(), noise_words(seed, element / kNoisePerGroup),
                                   static_cast<int>(element % kNoisePerGroup));
        }
      }
    }
  }
  return images;
}

Record record(const Batch& batch, const Transform& transform, bool raw) {
  const std::int64_t side = transform.image_size().height, channels = transform.channels();
  EXPECT_EQ(batch.fields.has("image"), !raw);
  EXPECT_EQ(batch.fields.has("pixels"), raw);
  EXPECT_EQ(batch.fields.has("flip"), raw);
  EXPECT_EQ(batch.fields.has("erasure"), raw && transform.erases());
  Record r{batch.number, batch.indices, {}, {}};
  if (raw) {
    EXPECT_EQ(batch.fields.at("pixels").shape(), (Shape{batch.n, side, side, channels}));
    EXPECT_EQ(batch.fields.at("flip").shape(), (Shape{batch.n}));
    r.images = images_of(batch, transform.table());
  } else {
    EXPECT_EQ(batch.fields.at("image").shape(), (Shape{batch.n, channels, side, side}));
    std::ranges::copy(batch.fields.at("image").values<float>(), std::back_inserter(r.images));
  }
  std::ranges::copy(batch.fields.at("label").values<std::int64_t>(), std::back_inserter(r.labels));
  return r;
}

AugmentConfig light() {
  AugmentConfig augment;
  augment.preset = AugmentPreset::kLight;
  augment.erase = 0.5;
  return augment;
}

LoaderOptions options_for(bool training, int workers) {
  LoaderOptions options;
  options.batch_size = 4;
  options.shuffle = options.drop_last = training;
  options.repeats = training ? 2 : 1;
  options.seed = 7;
  options.workers = workers;
  return options;
}

std::vector<Record> epoch(const std::shared_ptr<const Dataset>& set, const Transform& transform,
                          const LoaderOptions& options, bool raw, std::int64_t number,
                          std::int64_t first_batch = 0) {
  const auto source = samples(set, transform, raw);
  EXPECT_EQ(source->carries_pixels(), raw);
  Loader loader(source, options);
  loader.start(number, first_batch);
  std::vector<Record> records;
  Batch batch;
  while (loader.next(batch)) records.push_back(record(batch, transform, raw));
  return records;
}

// Compares both modes over a whole epoch and from its middle, for several numbers of workers.
void expect_equal_modes(const std::shared_ptr<const Dataset>& set, const DataConfig& data,
                        int image_size, int channels) {
  for (bool training : {false, true}) {
    const Transform transform(data, light(), image_size, channels, training);
    const auto expected = epoch(set, transform, options_for(training, 0), false, 3);
    ASSERT_GE(expected.size(), 3u);
    for (int workers = 0; workers <= 4; ++workers) {
      const LoaderOptions options = options_for(training, workers);
      EXPECT_TRUE(epoch(set, transform, options, true, 3) == expected)
          << set->description() << ", training " << training << ", workers " << workers;
      EXPECT_TRUE(epoch(set, transform, options, true, 3, 2) ==
                  std::vector<Record>(expected.begin() + 2, expected.end()))
          << set->description() << ", resumed, training " << training << ", workers " << workers;
    }
  }
}

class RawPixels : public testing::Test {
 protected:
  std::shared_ptr<const Dataset> open(Split split = Split::kTrain) {
    data.root = dir.string();
    return open_dataset(data, model, split, 5);
  }

  // Sizes around the crop's: some images are enlarged, some are reduced, and some need a border.
  std::shared_ptr<const Dataset> open_folder() {
    for (int i = 0; i < 11; ++i) {
      const int width = 3 + 2 * i, height = 20 - i;
      write_bytes(dir.path() / "train" / (i % 2 ? "a" : "b") / cat(i, ".bmp"),
                  bmp_file(width, height,
                           noise(static_cast<std::size_t>(3 * width * height),
                                 static_cast<std::uint32_t>(i))));
    }
    for (const char* name : {"420.jpg", "gray.jpg", "palette4.png"}) {
      const auto bytes = golden::image_bytes(name);
      const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
      write_bytes(dir.path() / "train/a" / name, Bytes(begin, begin + bytes.size()));
    }
    data.dataset = "imagefolder";
    return open();
  }

  // 64 synthetic images of 8 x 8, in one batch.
  Batch all_at_once(bool training) {
    data.dataset = "synthetic";
    data.size = 64;
    model.image_size = 8;
    LoaderOptions options = options_for(training, 2);
    options.batch_size = 64;
    Loader loader(samples(open(), Transform(data, light(), 8, 3, training), true), options);
    loader.start(0);
    Batch batch;
    EXPECT_TRUE(loader.next(batch));
    return batch;
  }

  TempFolder dir;
  DataConfig data;
  ModelConfig model;
};

TEST_F(RawPixels, EqualImagesFromImageFolder) {
  auto set = open_folder();
  for (int channels : {1, 3}) {
    for (double crop_pct : {0.875, 1.0, 1.5}) {
      data.crop_pct = crop_pct;
      expect_equal_modes(set, data, 12, channels);
    }
  }
}

TEST_F(RawPixels, EqualImagesFromIdx) {
  const std::uint32_t n = 14, side = 9;
  write_bytes(dir.path() / "train-images-idx3-ubyte",
              idx_file({n, side, side}, noise(n * side * side, 1)));
  write_bytes(dir.path() / "train-labels-idx1-ubyte",
              idx_file({n}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3}));
  data.dataset = "idx";
  data.crop_pct = 1;
  auto set = open();
  for (int channels : {1, 3}) {
    for (int image_size : {9, 12}) expect_equal_modes(set, data, image_size, channels);
  }
}

TEST_F(RawPixels, EqualImagesFromCifar) {
  Bytes file;
  for (std::uint8_t label = 0; label < 10; ++label) {
    file.push_back(label);
    const Bytes planes = noise(3072, label);
    file.insert(file.end(), planes.begin(), planes.end());
  }
  for (int i = 1; i <= 5; ++i) write_bytes(dir.path() / cat("data_batch_", i, ".bin"), file);
  data.dataset = "cifar10";
  data.crop_pct = 1;
  model.num_classes = 10;
  auto set = open();
  for (int channels : {1, 3}) expect_equal_modes(set, data, 32, channels);
}

TEST_F(RawPixels, EqualImagesFromSynthetic) {
  data.dataset = "synthetic";
  data.size = 15;
  model.image_size = 8;
  for (int channels : {1, 3}) {
    model.channels = channels;
    expect_equal_modes(open(), data, 8, channels);
  }
}

TEST_F(RawPixels, PadsWithBlackBeforeNormalization) {
  write_bytes(dir.path() / "train/a/white.bmp", bmp_file(4, 4, Bytes(48, 255)));
  data.dataset = "imagefolder";
  data.crop_pct = 2;  // resized to 4 x 4, in the middle of 8 x 8
  data.mean = {0.1, 0.2, 0.3};
  data.std = {0.5};
  const Transform transform(data, {}, 8, 3, false);
  Loader loader(samples(open(), transform, true), LoaderOptions{});
  loader.start(0);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  const std::vector<float> images = images_of(batch, transform.table());
  for (std::size_t c = 0; c < 3; ++c) {
    const float mean = static_cast<float>(data.mean[c]);
    for (std::size_t y = 0; y < 8; ++y) {
      for (std::size_t x = 0; x < 8; ++x) {
        const bool inside = y >= 2 && y < 6 && x >= 2 && x < 6;
        const std::size_t at = y * 8 + x;
        EXPECT_EQ(batch.fields.at("pixels").data<std::uint8_t>()[at * 3 + c], inside ? 255 : 0);
        EXPECT_EQ(images[c * 64 + at], ((inside ? 1.0f : 0.0f) - mean) / 0.5f);
      }
    }
  }
}

TEST_F(RawPixels, FlipsInTrainingOnly) {
  for (bool training : {false, true}) {
    const Batch batch = all_at_once(training);
    const auto flips = batch.fields.at("flip").values<std::uint8_t>();
    const auto set = std::ranges::count(flips, 1);
    EXPECT_EQ(set + std::ranges::count(flips, 0), 64);
    EXPECT_TRUE(training ? set > 10 && set < 54 : set == 0) << set;
  }
}

TEST_F(RawPixels, ErasesInTrainingOnly) {
  for (bool training : {false, true}) {
    const Batch batch = all_at_once(training);
    ASSERT_EQ(batch.fields.has("erasure"), training);
    if (!training) continue;
    int erased = 0;
    for (int b = 0; b < 64; ++b)
      erased += batch.fields.at("erasure").data<std::int64_t>()[5 * b + 3] != 0;
    EXPECT_TRUE(erased > 10 && erased < 54) << erased;
  }
}

TEST_F(RawPixels, TensorDatasetsHaveNoRawPixels) {
  std::vector<float> values(6 * 3 * 4 * 4);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.25f * static_cast<float>(i);
  write_safetensors(dir.path() / "train.safetensors",
                    {{"images", Tensor::from(values, {6, 3, 4, 4})},
                     {"labels", Tensor::from(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}, {6})}});
  data.dataset = "tensors";
  model.image_size = 4;
  // Nothing is erased from tensors either: they are the input of the model, unchanged.
  const Transform transform(data, light(), 4, 3, true);
  const auto source = samples(open(), transform, true);
  EXPECT_FALSE(source->carries_pixels());
  Loader loader(source, options_for(false, 2));
  loader.start(0);
  std::vector<float> got;
  Batch batch;
  while (loader.next(batch)) {
    for (float v : record(batch, transform, false).images) got.push_back(v);
  }
  EXPECT_EQ(got, values);
}

TEST_F(RawPixels, HandlesDamagedImagesLikeFloatImages) {
  open_folder();
  write_bytes(dir.path() / "train/a/0-damaged.jpg", {0xff, 0xd8, 0xff, 0xe0, 1, 2, 3});
  write_bytes(dir.path() / "train/b/1-empty.png", {});
  write_bytes(dir.path() / "train/b/1-empty2.png", {});
  auto set = open();
  ASSERT_EQ(set->size(), 17);
  expect_equal_modes(set, data, 10, 3);
  // Samples 10 and 11 form a damaged batch, which is skipped. A batch that lost one sample does not
  // shrink the next batches.
  const Transform transform(data, {}, 10, 3, false);
  LoaderOptions options = options_for(false, 0);
  options.batch_size = 2;
  Loader loader(samples(set, transform, true), options);
  Batch batch;
  for (int pass = 0; pass < 2; ++pass) {
    std::size_t n = 0;
    loader.start(0);
    while (loader.next(batch)) n += record(batch, transform, true).indices.size();
    EXPECT_EQ(n, 14u);
  }
}

TEST_F(RawPixels, UsesAllocatorOfCaller) {
  data.dataset = "synthetic";
  data.size = 40;
  model.image_size = 8;
  for (bool raw : {false, true}) {
    int calls = 0;
    std::set<const void*> given;
    LoaderOptions options = options_for(false, 2);
    options.allocate = [&](std::size_t bytes) {
      ++calls;
      auto memory = allocate_cached(bytes);
      given.insert(memory.get());
      return memory;
    };
    const Transform transform(data, {}, 8, 3, false);
    Loader loader(samples(open(), transform, raw), options);
    Batch batch;
    loader.start(0);
    ASSERT_TRUE(loader.next(batch));
    const int warm = calls;
    do {
      for (const auto& [name, tensor] : batch.fields) {
        EXPECT_TRUE(given.contains(tensor.raw())) << name;
      }
    } while (loader.next(batch));
    EXPECT_EQ(calls, warm);
    EXPECT_EQ(warm, 4 * (raw ? 3 : 2));  // three batches made ahead, one with the caller
  }
}

TEST_F(RawPixels, HasReadyTellsIfNextWouldWait) {
  data.dataset = "synthetic";
  data.size = 8;
  model.image_size = 8;
  const Transform transform(data, {}, 8, 3, false);
  Loader alone(samples(open(), transform, true), options_for(false, 0));
  alone.start(0);
  EXPECT_FALSE(alone.has_ready());
  Loader loader(samples(open(), transform, true), options_for(false, 1));
  EXPECT_FALSE(loader.has_ready());
  Batch batch;
  for (int pass = 0; pass < 2; ++pass) {
    loader.start(0);
    for (int i = 0; i < 2; ++i) {
      for (int tries = 0; tries < 2000 && !loader.has_ready(); ++tries) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      EXPECT_TRUE(loader.has_ready());
      const double waited = loader.report().wait_seconds;
      ASSERT_TRUE(loader.next(batch));
      EXPECT_EQ(loader.report().wait_seconds, waited);
    }
    EXPECT_FALSE(loader.has_ready());
    EXPECT_FALSE(loader.next(batch));
  }
}

}  // namespace
}  // namespace dtn
