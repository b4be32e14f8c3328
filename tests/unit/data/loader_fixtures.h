// Fixtures for the loader's tests: a data set that can fail on request, and epochs as records.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "data/feed/loader.h"
#include "data_fixtures.h"
#include "samples.h"

namespace dtn::test {

constexpr int kSide = 6;

// Images that depend on their index only, with a hook that may throw or wait.
class FakeDataset final : public Dataset {
 public:
  explicit FakeDataset(std::int64_t size, std::function<void(std::int64_t)> hook = {})
      : hook_(std::move(hook)) {
    for (std::int64_t i = 0; i < size; ++i) labels_.push_back(1000 + i);
    description_ = "a fake";
  }
  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    if (hook_) hook_(index);
    workspace.image = {kSide + 2, kSide + 3, 3,
                       noise(3 * (kSide + 2) * (kSide + 3), static_cast<std::uint32_t>(index))};
    return {.encoded = {}, .image = &workspace.image, .ready = {}};
  }
  std::string sample_name(std::int64_t index) const override { return cat("fake-", index); }

 private:
  std::function<void(std::int64_t)> hook_;
};

// Copy of a batch's content.
struct Record {
  std::int64_t number;
  std::vector<std::int64_t> indices, labels;
  std::vector<float> pixels;
  bool operator==(const Record&) const = default;
};

inline Transform make_transform(bool training = true) {
  AugmentConfig augment;
  if (training) augment.preset = AugmentPreset::kLight;
  return Transform(DataConfig{}, augment, kSide, 3, training);
}

inline Record record(const Batch& batch) {
  EXPECT_EQ(batch.fields.at("image").shape(), (Shape{batch.n, 3, kSide, kSide}));
  EXPECT_EQ(batch.fields.at("label").shape(), (Shape{batch.n}));
  auto pixels = batch.fields.at("image").values<float>();
  auto labels = batch.fields.at("label").values<std::int64_t>();
  return {
      batch.number, batch.indices, {labels.begin(), labels.end()}, {pixels.begin(), pixels.end()}};
}

inline std::vector<Record> read_all(Loader& loader) {
  std::vector<Record> out;
  Batch batch;
  while (loader.next(batch)) out.push_back(record(batch));
  return out;
}

inline LoaderOptions training(int workers, std::int64_t batch_size = 4) {
  LoaderOptions options;
  options.batch_size = batch_size;
  options.shuffle = true;
  options.seed = 42;
  options.workers = workers;
  options.drop_last = true;
  return options;
}

inline LoaderOptions evaluation(int workers, std::int64_t batch_size = 4) {
  LoaderOptions options;
  options.batch_size = batch_size;
  options.workers = workers;
  return options;
}

inline std::vector<Record> epoch(std::shared_ptr<const Dataset> set, const LoaderOptions& options,
                                 std::int64_t number, std::int64_t first_batch = 0) {
  Loader loader(samples(std::move(set), make_transform(options.drop_last)), options);
  loader.start(number, first_batch);
  return read_all(loader);
}

inline void damaged_if(bool bad, std::int64_t index) {
  if (bad) throw DataError(cat("fake-", index, " is damaged"));
}

inline std::shared_ptr<FakeDataset> dataset_with_bad(std::int64_t size,
                                                     std::set<std::int64_t> bad) {
  return std::make_shared<FakeDataset>(
      size, [bad = std::move(bad)](std::int64_t i) { damaged_if(bad.contains(i), i); });
}

}  // namespace dtn::test
