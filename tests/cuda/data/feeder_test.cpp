// Compares the feeder with the loader alone: the batches must have the same bits. The emulator
// defers all work until something waits for it, so a missing order between streams shows up.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <set>
#include <stdexcept>
#include <thread>

#include "cuda/data/feeder_fixtures.h"
#include "dtn/data/datasets.h"
#include "dtn/io/safetensors.h"

namespace dtn {
namespace {

using namespace dtn::test;

// Runs `body` for every combination of training or evaluation, and workers.
void for_every_way(const std::function<void(bool training, int workers)>& body) {
  for (bool training : {true, false}) {
    for (int workers : {0, 1, 3}) {
      SCOPED_TRACE(cat("training ", training, ", workers ", workers));
      body(training, workers);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(BatchFeeder, DeliversSameBatchesAsLoader) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (int channels : {1, 3}) {
    auto set = std::make_shared<NoisyImages>(47, channels);
    for_every_way([&](bool training, int workers) {
      const Transform transform = make_transform(training, channels);
      const LoaderOptions options = loading(training, workers);
      Loader loader(samples(set, transform, true), feeding(kCuda, options));
      ASSERT_EQ(loader.source().host_fields()[0].name, "pixels");
      BatchFeeder feeder(loader, kCuda);
      for (std::int64_t epoch : {0, 1}) {
        feeder.start(epoch);
        expect_same(play(feeder), expected_of(set, transform, options, epoch));
      }
    });
  }
}

TEST(BatchFeeder, DeliversTensorDatasetsUnchanged) {
  DTN_SKIP_WITHOUT_DEVICE();
  TempFolder dir;
  DataConfig data;
  data.dataset = "tensors";
  data.root = dir.string();
  ModelConfig model;
  model.image_size = kSide;
  std::vector<std::int64_t> labels(30);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i);
  write_safetensors(dir.path() / "train.safetensors",
                    {{"images", as(random_tensor({30, 3, kSide, kSide}, 1), DType::kFloat32)},
                     {"labels", Tensor::from(labels, {30})}});
  std::shared_ptr<const Dataset> set = open_dataset(data, model, Split::kTrain, 0);
  for_every_way([&](bool training, int workers) {
    const Transform transform = make_transform(training);
    const LoaderOptions options = loading(training, workers);
    Loader loader(samples(set, transform, true), feeding(kCuda, options));
    ASSERT_EQ(loader.source().host_fields()[0].name, "image");
    BatchFeeder feeder(loader, kCuda);
    feeder.start(2);
    expect_same(play(feeder), expected_of(set, transform, options, 2));
  });
}

// A loader that does not know the device: float images in ordinary memory.
TEST(BatchFeeder, AcceptsFloatImagesInPageableMemory) {
  DTN_SKIP_WITHOUT_DEVICE();
  auto set = std::make_shared<NoisyImages>(26);
  for_every_way([&](bool training, int workers) {
    const Transform transform = make_transform(training);
    const LoaderOptions options = loading(training, workers);
    Loader loader(samples(set, transform), options);
    BatchFeeder feeder(loader, kCuda);
    feeder.start(0);
    expect_same(play(feeder), expected_of(set, transform, options, 0));
  });
}

TEST(BatchFeeder, PrefetchesManyBatches) {
  DTN_SKIP_WITHOUT_DEVICE();
  auto set = std::make_shared<NoisyImages>(47);
  for_every_way([&](bool training, int workers) {
    const Transform transform = make_transform(training);
    const LoaderOptions options = loading(training, workers);
    Loader loader(samples(set, transform, true), feeding(kCuda, options));
    BatchFeeder feeder(loader, kCuda);
    feeder.start(0);
    expect_same(play(feeder, 1 << 20, &loader), expected_of(set, transform, options, 0));
    feeder.start(1, 3);
    expect_same(play(feeder, 4, &loader), [&] {
      auto want = expected_of(set, transform, options, 1, 3);
      want.resize(4);
      return want;
    }());
  });
}

TEST(BatchFeeder, StartsAtAnyBatchAtAnyTime) {
  DTN_SKIP_WITHOUT_DEVICE();
  auto set = std::make_shared<NoisyImages>(40);
  for_every_way([&](bool training, int workers) {
    const Transform transform = make_transform(training);
    const LoaderOptions options = loading(training, workers);
    Loader loader(samples(set, transform, true), feeding(kCuda, options));
    BatchFeeder feeder(loader, kCuda);
    std::vector<Seen> got, want;
    for (std::int64_t taken = 0; taken < 6; ++taken) {
      feeder.start(taken, taken);
      auto all = expected_of(set, transform, options, taken, taken);
      all.resize(static_cast<std::size_t>(taken));
      want.insert(want.end(), all.begin(), all.end());
      auto some = play(feeder, taken);
      got.insert(got.end(), some.begin(), some.end());
    }
    // The copies of the steps are compared only now, after later calls of start().
    expect_same(got, want);
    feeder.start(9, 10);
    EXPECT_TRUE(play(feeder).empty());
    feeder.start(7);
    expect_same(play(feeder), expected_of(set, transform, options, 7));
    EXPECT_TRUE(play(feeder).empty());
  });
}

TEST(BatchFeeder, SkipsDamagedImages) {
  DTN_SKIP_WITHOUT_DEVICE();
  // The batches 0 .. 3, 8 .. 11 and 32 .. 35 have one, two and four damaged images.
  const std::set<std::int64_t> bad = {2, 9, 10, 32, 33, 34, 35};
  auto set = std::make_shared<NoisyImages>(43, 3, [&](std::int64_t i) {
    if (bad.contains(i)) throw DataError(cat("fake-", i, " is damaged"));
  });
  for_every_way([&](bool training, int workers) {
    const Transform transform = make_transform(training);
    const LoaderOptions options = loading(training, workers);
    Loader loader(samples(set, transform, true), feeding(kCuda, options));
    BatchFeeder feeder(loader, kCuda);
    for (std::int64_t epoch : {0, 1}) {
      feeder.start(epoch);
      auto want = expected_of(set, transform, options, epoch);
      EXPECT_EQ(want.size(), 10u);
      expect_same(play(feeder), want);
    }
    EXPECT_EQ(feeder.report().bad_images, 7);
  });
}

TEST(BatchFeeder, ReportsErrorInFailingBatch) {
  DTN_SKIP_WITHOUT_DEVICE();
  std::atomic<bool> broken = true;
  auto set = std::make_shared<NoisyImages>(40, 3, [&](std::int64_t i) {
    if (broken && i == 21) throw std::domain_error("twenty-one");
  });
  for (int workers : {0, 1, 3}) {
    SCOPED_TRACE(cat("workers ", workers));
    broken = true;
    const Transform transform = make_transform(false);
    const LoaderOptions options = loading(false, workers);
    Loader loader(samples(set, transform, true), feeding(kCuda, options));
    BatchFeeder feeder(loader, kCuda);
    feeder.start(0);
    std::vector<Seen> got = play(feeder, 5, &loader);
    DeviceBatch batch;
    EXPECT_THROW(feeder.next(batch), std::domain_error);
    EXPECT_THROW(feeder.next(batch), std::domain_error);
    broken = false;
    auto want = expected_of(set, transform, options, 0);
    expect_same(got, {want.begin(), want.begin() + 5});
    feeder.start(0);
    expect_same(play(feeder), want);
  }
}

TEST(BatchFeeder, DeliversBatchesAtFixedAddresses) {
  DTN_SKIP_WITHOUT_DEVICE();
  auto set = std::make_shared<NoisyImages>(43);
  for (bool raw : {true, false}) {
    Loader loader(samples(set, make_transform(false), raw), feeding(kCuda, loading(false, 2)));
    BatchFeeder feeder(loader, kCuda);
    std::set<const void*> images, labels;
    DeviceBatch batch;
    for (std::int64_t epoch : {0, 1}) {
      feeder.start(epoch);
      while (feeder.next(batch)) {
        images.insert(batch.fields.at("image").raw());
        labels.insert(batch.fields.at("label").raw());
      }
    }
    EXPECT_EQ(images.size(), 1u);
    EXPECT_EQ(labels.size(), 1u);
  }
}

// A captured step is replayed for every batch without new addresses.
TEST(BatchFeeder, FeedsCapturedStep) {
  DTN_SKIP_WITHOUT_DEVICE();
  auto set = std::make_shared<NoisyImages>(40);
  const Transform transform = make_transform(true);
  const LoaderOptions options = loading(true, 2);
  Loader loader(samples(set, transform, true), feeding(kCuda, options));
  BatchFeeder feeder(loader, kCuda);
  Tensor read = Tensor::empty({4, 3, kSide, kSide}, DType::kFloat32, kCuda);
  Tensor labels = Tensor::empty({4}, DType::kInt64, kCuda);
  cuda::Graph step;
  std::vector<Seen> got;
  DeviceBatch batch;
  feeder.start(0);
  while (feeder.next(batch)) {
    if (!step.captured()) {
      step.capture([&] {
        read.copy_from(batch.fields.at("image"));
        labels.copy_from(batch.fields.at("label"));
      });
    }
    step.launch();
    got.push_back({batch.number, batch.n, batch.indices, read.clone(), labels.clone(),
                   batch.host.at("label").clone()});
  }
  expect_same(got, expected_of(set, transform, options, 0));
}

TEST(BatchFeeder, AllocatesNothingAfterWarmup) {
  DTN_SKIP_WITHOUT_DEVICE();
  // Incomplete batches also occur in the middle of an epoch.
  auto set = std::make_shared<NoisyImages>(83, 3, [&](std::int64_t i) {
    if (i % 20 == 7) throw DataError("damaged");
  });
  for (int workers : {0, 2}) {
    LoaderOptions options = feeding(kCuda, loading(false, workers));
    std::set<const void*> pinned;
    options.allocate = [&, inner = options.allocate](std::size_t bytes) {
      auto memory = inner(bytes);
      pinned.insert(memory.get());
      return memory;
    };
    Loader loader(samples(set, make_transform(false), true), options);
    BatchFeeder feeder(loader, kCuda);
    DeviceBatch batch;
    std::uint64_t misses = 0;
    for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
      feeder.start(epoch);
      while (feeder.next(batch)) continue;
      if (epoch == 0) misses = cuda::allocator_stats().misses;
    }
    EXPECT_EQ(cuda::allocator_stats().misses, misses);
    // Pixels, flips and labels: three slots, plus the batches that the loader prepares ahead.
    EXPECT_LE(pinned.size(), 3u * (3 + (workers ? 3 : 1)));
  }
}

TEST(BatchFeeder, MayEndWithPendingCopies) {
  DTN_SKIP_WITHOUT_DEVICE();
  auto set = std::make_shared<NoisyImages>(64);
  for (int taken = 0; taken < 5; ++taken) {
    Loader loader(samples(set, make_transform(true), true), feeding(kCuda, loading(true, 2)));
    std::vector<Seen> got;
    {
      BatchFeeder feeder(loader, kCuda);
      feeder.start(0);
      got = play(feeder, taken);
    }
    auto want = expected_of(set, make_transform(true), loading(true, 0), 0);
    want.resize(static_cast<std::size_t>(taken));
    expect_same(got, want);
    // The loader continues with another feeder.
    BatchFeeder feeder(loader, kCuda);
    feeder.start(1);
    expect_same(play(feeder), expected_of(set, make_transform(true), loading(true, 0), 1));
  }
}

TEST(BatchFeeder, MeasuresWaitTime) {
  DTN_SKIP_WITHOUT_DEVICE();
  auto set = std::make_shared<NoisyImages>(
      16, 3, [](std::int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
  for (int workers : {0, 1}) {
    Loader loader(samples(set, make_transform(false), true),
                  feeding(kCuda, loading(false, workers)));
    BatchFeeder feeder(loader, kCuda);
    feeder.start(0);
    EXPECT_EQ(play(feeder).size(), 4u);
    EXPECT_GT(feeder.report().wait_seconds, 0.016);
  }
}

// Work enqueued before memory returned to the cache may still read that memory.
TEST(BatchFeeder, WaitsForPreviousUsersOfReusedMemory) {
  ::setenv("DTN_CUDA_CACHE", "1", 1);  // effective if this test runs in a separate process
  DTN_SKIP_WITHOUT_DEVICE();
  auto set = std::make_shared<NoisyImages>(43);
  const Shape shape{4, kSide, kSide, 3};
  std::vector<Tensor> read;
  {
    std::vector<Tensor> former;
    for (int i = 0; i < 3; ++i) former.push_back(Tensor::empty(shape, DType::kUInt8, kCuda));
    for (Tensor& t : former) t.zero();
    cuda::synchronize();
    for (const Tensor& t : former) read.push_back(t.clone());
  }
  Loader loader(samples(set, make_transform(true), true), feeding(kCuda, loading(true, 2)));
  BatchFeeder feeder(loader, kCuda);
  feeder.start(0);
  DeviceBatch batch;
  while (feeder.next(batch)) continue;
  for (const Tensor& t : read) {
    EXPECT_EQ(std::ranges::count(t.to(kCpu).values<std::uint8_t>(), 0), shape.numel());
  }
}

// Needs no device.
TEST(BatchFeeder, PassesBatchesThroughOnCpu) {
  auto set = std::make_shared<NoisyImages>(63);
  for (bool training : {true, false}) {
    for (bool raw : {false, true}) {
      const Transform transform = make_transform(training);
      const LoaderOptions options = feeding(kCpu, loading(training, 2));
      EXPECT_FALSE(options.allocate);
      Loader loader(samples(set, transform, raw), options);
      BatchFeeder feeder(loader, kCpu);
      feeder.start(1, 2);
      expect_same(play(feeder), expected_of(set, transform, options, 1, 2));
      // The loader and the feeder exchange their buffers.
      std::set<const void*> buffers;
      DeviceBatch batch;
      feeder.start(0);
      while (feeder.next(batch)) {
        if (batch.n == 4) buffers.insert(batch.fields.at("image").raw());
      }
      EXPECT_LE(buffers.size(), raw ? 1u : 4u);
    }
  }
}

}  // namespace
}  // namespace dtn
