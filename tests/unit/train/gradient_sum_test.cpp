// Every gradient is summed once, most of them while the backward pass still runs.
#include "train/gradient_sum.h"

#include <chrono>
#include <thread>

#include "counting_transport.h"
#include "tensors.h"

namespace dtn {
namespace {

using testing::CountingTransport;
using testing::with_ranks;

constexpr std::int64_t kMatrix = 400'003;  // 1.6 MB, and no multiple of the padding
constexpr int kMatrices = 8;               // 12.8 MB: three buckets of 4 MB, and some more
constexpr std::int64_t kBias = 20'001;     // of those that do not decay: more than a message

void fill_store(ParameterStore& store) {
  for (int i = 0; i < kMatrices; ++i) {
    store.add(cat("bias", i), {kBias}, InitKind::kZeros, Decay::kNo);
    store.add(cat("matrix", i), {kMatrix}, InitKind::kZeros, Decay::kYes);
  }
  store.allocate();
}

// Whole numbers, so small that sums over three ranks are exact even in bfloat16.
float gradient(int rank, int step, std::int64_t i) {
  return static_cast<float>((i % 61 + step + 1) * (rank == 1 ? 2 : 1));
}
// Not exact in bfloat16, in which a loss never travels.
float loss_of(int rank) { return 1 + static_cast<float>(rank + 1) * 0x1p-12f; }

// Places in the order in which a backward pass comes to them.
using Places = std::vector<std::int64_t>;

std::vector<std::pair<std::string, Places>> ways_back(const ParameterStore& store) {
  const std::int64_t end = store.decay_end();
  Places layers, steps, halves = {end / 2}, bucket = {end - (std::int64_t{1} << 20), 16};
  for (std::int64_t i = kMatrices - 1; i >= 0; --i) layers.push_back(i * end / kMatrices);
  for (std::int64_t at = end; at >= 0; at -= 1008) steps.push_back(at);
  return {
      {"never", {}},          {"layer by layer", layers}, {"thousands of times", steps},
      {"once", halves},       {"at the end", {0}},        {"again and again", {end, 16, 16, 0, 0}},
      {"at a bucket", bucket}};
}

class GradientSums : public ::testing::TestWithParam<std::tuple<int, DType>> {};

TEST_P(GradientSums, HaveEveryElementOnce) {
  const auto [size, wire] = GetParam();
  with_ranks(size, [size = size, wire = wire](Communicator& ranks) {
    ParameterStore store;
    fill_store(store);
    GradientSum sum(store, ranks, wire);
    float* g = store.gradients().data<float>();
    const std::int64_t n = store.flat_size();
    float of_ranks = 0, of_losses = 0;
    for (int r = 0; r < size; ++r) of_ranks += r == 1 ? 2 : 1;
    for (int r = 0; r < size; ++r) of_losses += loss_of(r);
    int step = 0;
    for (const auto& [name, places] : ways_back(store)) {
      SCOPED_TRACE(name);
      for (std::int64_t i = 0; i < n; ++i) g[i] = gradient(ranks.rank(), step, i);
      Tensor loss = Tensor::full({1}, DType::kFloat32, loss_of(ranks.rank()));
      for (std::int64_t from : places) sum.whole_from(from);
      sum.finish(loss);
      std::int64_t wrong = 0, first = -1;
      for (std::int64_t i = 0; i < n; ++i) {
        if (g[i] == gradient(0, step, i) * of_ranks) continue;
        if (wrong++ == 0) first = i;
      }
      EXPECT_EQ(wrong, 0) << "the first at " << first << " of " << n;
      EXPECT_EQ(*loss.data<float>(), of_losses);
      ++step;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(, GradientSums,
                         ::testing::Combine(::testing::Values(2, 3),
                                            ::testing::Values(DType::kFloat32, DType::kBFloat16)),
                         [](const auto& i) {
                           return cat(std::get<0>(i.param), "ranks_",
                                      name_of(std::get<1>(i.param)));
                         });

// Waits until all ranks together have started that many exchanges; false after a while.
bool comes_to(int exchanges) {
  for (int i = 0; i < 10'000; ++i) {
    if (CountingTransport::exchanges >= exchanges) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

TEST(GradientSumStarts, ABucketAtATimeWhileTheBackwardPassRuns) {
  constexpr int kSize = 2;
  CountingTransport::exchanges = 0;
  with_ranks<CountingTransport>(kSize, [](Communicator& ranks) {
    ParameterStore store;
    fill_store(store);
    GradientSum sum(store, ranks, DType::kFloat32);
    for (int step = 0; step < 2; ++step) {
      const int before = step * 4 * kSize;
      // A matrix has 1.6 MB: every third fills a bucket of 4 MB.
      for (int matrix = kMatrices - 1; matrix >= 0; --matrix) {
        sum.whole_from(store.find(cat("matrix", matrix))->offset);
        const int started = (kMatrices - matrix) / 3;
        ASSERT_TRUE(comes_to(before + started * kSize)) << started << " buckets";
        ranks.barrier();
        EXPECT_EQ(CountingTransport::exchanges, before + started * kSize);
        ranks.barrier();
      }
      Tensor loss = Tensor::zeros({1}, DType::kFloat32);
      sum.finish(loss);  // two matrices, and what does not decay
      ranks.barrier();
      EXPECT_EQ(CountingTransport::exchanges, before + 4 * kSize);
      ranks.barrier();
    }
  });
}

}  // namespace
}  // namespace dtn
