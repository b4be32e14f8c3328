// A source of samples other than labeled images: two views of different size, a ragged field, and a
// batch finished on the device. The expected output is computed a second time.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/queue.h"
#include "data/feed/feeder.h"
#include "dtn/core/philox.h"
#include "kernels/image/mix_images.h"
#include "tensors.h"

namespace dtn::test {

inline const FieldSpec kFar{"far", {3, 4, 5}, DType::kFloat32};
inline const FieldSpec kNear{"near", {3, 2, 2}, DType::kFloat32};
inline const FieldSpec kWords{"words", {5, 2}, DType::kInt64, true};
inline const FieldSpec kId{"id", {}, DType::kInt64};
inline const FieldSpec kPartner{"partner", {}, DType::kInt64};
inline const FieldSpec kShare{"share", {}, DType::kFloat32};

// All numbers of a sample.
struct View {
  std::array<float, 60> far;
  std::array<float, 12> near;
  std::vector<std::int64_t> words;  // [length, 2]
};

inline View view_of(std::int64_t index, const SampleKey& key) {
  View view;
  const PhiloxKey random{key.seed, static_cast<std::uint32_t>(index), key.epoch};
  const std::uint64_t first = 1000 * key.sample;
  for (std::uint64_t i = 0; i < 60; ++i) view.far[i] = philox_uniform(random, first + i);
  for (std::uint64_t i = 0; i < 12; ++i) view.near[i] = philox_uniform(random, first + 100 + i);
  const std::uint32_t length = philox_u32(random, first + 200) % 6;
  for (std::uint64_t i = 0; i < 2 * length; ++i) {
    view.words.push_back(1 + philox_u32(random, first + 300 + i) % 1000);
  }
  return view;
}

inline float share_of(const BatchKey& key) {
  return 1.0f / static_cast<float>(2 + (key.batch + key.epoch + key.seed) % 3);
}

class TwoViews final : public SampleSource {
 public:
  TwoViews(std::int64_t size, bool blends, std::set<std::int64_t> damaged)
      : size_(size), blends_(blends), damaged_(std::move(damaged)) {}

  std::int64_t size() const override { return size_; }
  const std::string& description() const override { return description_; }
  std::string sample_name(std::int64_t index) const override { return cat("view-", index); }
  std::vector<FieldSpec> host_fields() const override { return {kFar, kNear, kWords, kId}; }
  std::vector<FieldSpec> device_fields() const override {
    if (!blends_) return host_fields();
    return {kNear, kWords, kPartner, kFar, kShare, kId};
  }
  bool is_damaged(std::int64_t index) const { return damaged_.contains(index); }

  void make(std::int64_t index, const SampleKey& key, FieldRow& row, Workspace&) const override {
    const View view = view_of(index, key);
    std::ranges::copy(view.far, row.at<float>("far").begin());
    if (is_damaged(index)) throw DataError(cat("view-", index, " is damaged"));
    std::ranges::copy(view.near, row.at<float>("near").begin());
    const auto length = static_cast<std::int64_t>(view.words.size() / 2);
    std::ranges::copy(view.words, row.ragged<std::int64_t>("words", length).begin());
    row.at<std::int64_t>("id")[0] = index;
  }

  // Blends the far views of pairs, and returns their partners and shares.
  std::unique_ptr<BatchFinisher> make_finisher(Device device) const override {
    struct Finisher final : BatchFinisher {
      explicit Finisher(Device d) : device(d) {}
      void finish(const Fields& host_batch, const BatchKey& key, Fields& device_batch) override {
        const std::int64_t n = host_batch.count();
        const float share = share_of(key);
        run_on(device, BlendPairs{n, kFar.row.numel(), share, 1 - share,
                                  static_cast<float*>(device_batch.at("far").raw())});
        run_on(device,
               PairLabels{n, static_cast<const std::int64_t*>(host_batch.at("id").raw()), share,
                          static_cast<std::int64_t*>(device_batch.at("partner").raw()),
                          static_cast<float*>(device_batch.at("share").raw())});
      }
      Device device;
    };
    return blends_ ? std::make_unique<Finisher>(device) : nullptr;
  }

 private:
  std::int64_t size_;
  bool blends_;
  std::set<std::int64_t> damaged_;
  std::string description_ = "two views";
};

// A batch, copied from the feeder to the host.
struct ViewBatch {
  std::int64_t number = 0;
  std::vector<std::int64_t> indices;
  std::vector<std::pair<std::string, Tensor>> fields;  // sorted by name
};

inline void expect_same(const ViewBatch& got, const ViewBatch& want) {
  EXPECT_EQ(got.number, want.number);
  EXPECT_EQ(got.indices, want.indices);
  ASSERT_EQ(got.fields.size(), want.fields.size());
  for (std::size_t i = 0; i < got.fields.size(); ++i) {
    EXPECT_EQ(got.fields[i].first, want.fields[i].first);
    EXPECT_TRUE(same_bits(got.fields[i].second, want.fields[i].second)) << want.fields[i].first;
  }
}

// Global batch `number` of an epoch, by its definition.
inline ViewBatch expected_views(const TwoViews& source, const LoaderOptions& options,
                                std::int64_t epoch, std::int64_t number) {
  EpochPlan plan(source.size(), options);
  plan.start(epoch);
  const std::int64_t first = number * options.batch_size;
  ViewBatch batch{number, {}, {}};
  std::vector<View> views;
  for (std::int64_t at = first; at < std::min(first + options.batch_size, plan.length()); ++at) {
    auto [index, sample] = plan.at(at);
    while (options.drop_last && source.is_damaged(index)) index = (index + 1) % source.size();
    if (source.is_damaged(index)) continue;
    views.push_back(view_of(index, {options.seed, static_cast<std::uint32_t>(epoch), sample}));
    batch.indices.push_back(index);
  }
  const auto n = static_cast<std::int64_t>(views.size());
  const bool blends = source.device_fields().size() == 6;
  const float share = share_of(
      {options.seed, static_cast<std::uint32_t>(epoch), static_cast<std::uint64_t>(number)});
  Tensor far = Tensor::empty({n, 3, 4, 5}, DType::kFloat32);
  Tensor near = Tensor::empty({n, 3, 2, 2}, DType::kFloat32);
  Tensor words = Tensor::zeros({n, 5, 2}, DType::kInt64),
         lengths = Tensor::empty({n}, DType::kInt64);
  Tensor id = Tensor::from(batch.indices, {n}), partner = Tensor::empty({n}, DType::kInt64);
  for (std::int64_t b = 0; b < n; ++b) {
    const View& own = views[static_cast<std::size_t>(b)];
    const View& other = views[static_cast<std::size_t>(n - 1 - b)];
    for (std::size_t i = 0; i < own.far.size(); ++i) {
      const volatile float rounded = (1 - share) * other.far[i];
      const bool alone = !blends || 2 * b + 1 == n;
      far.data<float>()[b * 60 + static_cast<std::int64_t>(i)] =
          alone ? own.far[i] : std::fma(share, own.far[i], rounded);
    }
    std::ranges::copy(own.near, near.data<float>() + b * 12);
    std::ranges::copy(own.words, words.data<std::int64_t>() + b * 10);
    lengths.data<std::int64_t>()[b] = static_cast<std::int64_t>(own.words.size() / 2);
    partner.data<std::int64_t>()[b] = batch.indices[static_cast<std::size_t>(n - 1 - b)];
  }
  batch.fields = {{"far", far}, {"id", id}, {"near", near}};
  if (blends) {
    batch.fields.emplace_back("partner", partner);
    batch.fields.emplace_back("share", Tensor::full({n}, DType::kFloat32, share));
  }
  batch.fields.emplace_back("words", words);
  batch.fields.emplace_back("words.lengths", lengths);
  return batch;
}

// Returns the batches of a feeder, as a step on the device reads them, and the addresses of fields.
inline std::vector<ViewBatch> play_views(BatchFeeder& feeder,
                                         std::set<std::pair<std::string, const void*>>& places) {
  std::vector<ViewBatch> seen;
  DeviceBatch batch;
  while (feeder.next(batch)) {
    seen.push_back({batch.number, batch.indices, {}});
    for (const auto& [name, tensor] : batch.fields) {
      EXPECT_EQ(tensor.dim(0), batch.n) << name;
      seen.back().fields.emplace_back(name, tensor.clone());
      places.insert({name, tensor.raw()});
    }
    EXPECT_TRUE(std::ranges::equal(batch.host.at("id").values<std::int64_t>(), batch.indices));
    EXPECT_EQ(batch.host.at("words").device(), kCpu);
  }
  for (ViewBatch& one : seen) {  // after all work is enqueued
    for (auto& [name, tensor] : one.fields) tensor = tensor.to(kCpu);
    std::ranges::sort(one.fields, {}, &std::pair<std::string, Tensor>::first);
  }
  return seen;
}

// Copies the rows of a rank to the global batch.
inline void add_rows(const ViewBatch& mine, const std::vector<std::int64_t>& rows,
                     std::int64_t batch_size, ViewBatch& whole) {
  whole.number = mine.number;
  whole.indices.resize(static_cast<std::size_t>(batch_size));
  whole.fields.resize(mine.fields.size());
  for (std::size_t f = 0; f < mine.fields.size(); ++f) {
    const auto& [name, from] = mine.fields[f];
    Tensor& to = whole.fields[f].second;
    whole.fields[f].first = name;
    if (!to.defined()) {
      std::vector<std::int64_t> dims(from.shape().dims().begin(), from.shape().dims().end());
      dims[0] = batch_size;
      to = Tensor::empty(Shape(std::span<const std::int64_t>(dims)), from.dtype());
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      Tensor row = to.slice(rows[i], rows[i] + 1);
      row.copy_from(from.slice(at, at + 1));
      whole.indices[static_cast<std::size_t>(rows[i])] = mine.indices[i];
    }
  }
}

// Training: samples are blended, and damaged ones replaced. Runs with 0 to 3 workers and 1 to 3
// ranks, from the start and from the middle of an epoch.
inline void expect_views_in_training(Device device) {
  const auto source = std::make_shared<TwoViews>(50, true, std::set<std::int64_t>{3, 4, 49});
  LoaderOptions options;
  options.batch_size = 11;
  options.shuffle = options.drop_last = true;
  options.seed = 5;
  options.copies = 2;
  options.repeats = 2;
  for (int ranks = 1; ranks <= 3; ++ranks) {
    for (int workers = 0; workers <= 3; ++workers) {
      for (auto [epoch, first] : {std::pair{0, 0}, {4, 5}}) {
        SCOPED_TRACE(cat(ranks, " ranks, ", workers, " workers, from ", first));
        std::vector<ViewBatch> whole(static_cast<std::size_t>(9 - first));
        for (int rank = 0; rank < ranks; ++rank) {
          LoaderOptions mine = feeding(device, options);
          mine.rank = rank;
          mine.ranks = ranks;
          mine.workers = workers;
          Loader loader(source, mine);
          BatchFeeder feeder(loader, device);
          std::set<std::pair<std::string, const void*>> places;
          feeder.start(epoch, first);
          const std::vector<ViewBatch> seen = play_views(feeder, places);
          ASSERT_EQ(seen.size(), whole.size());
          const auto rows = rows_of_rank(options.batch_size, rank, ranks);
          for (std::size_t i = 0; i < seen.size(); ++i) {
            add_rows(seen[i], rows, options.batch_size, whole[i]);
          }
          if (device != kCpu) {
            EXPECT_EQ(places.size(), 7u);  // one for each field
          }
        }
        for (std::size_t i = 0; i < whole.size(); ++i) {
          expect_same(whole[i], expected_views(*source, options, epoch,
                                               first + static_cast<std::int64_t>(i)));
        }
      }
    }
  }
}

// Evaluation: samples of the host batch, without the damaged ones; the last batch is not full.
inline void expect_views_in_evaluation(Device device) {
  const auto source = std::make_shared<TwoViews>(38, false, std::set<std::int64_t>{0, 17, 18, 37});
  for (int workers = 0; workers <= 3; ++workers) {
    SCOPED_TRACE(cat(workers, " workers"));
    LoaderOptions options = feeding(device, {});
    options.batch_size = 7;
    options.workers = workers;
    Loader loader(source, options);
    BatchFeeder feeder(loader, device);
    std::set<std::pair<std::string, const void*>> places;
    for (std::int64_t epoch : {0, 1}) {
      feeder.start(epoch);
      const std::vector<ViewBatch> seen = play_views(feeder, places);
      ASSERT_EQ(seen.size(), 6u);
      for (std::size_t i = 0; i < seen.size(); ++i) {
        expect_same(seen[i], expected_views(*source, options, epoch, static_cast<std::int64_t>(i)));
      }
    }
    EXPECT_EQ(feeder.report().bad_images, 4);
  }
}

}  // namespace dtn::test
