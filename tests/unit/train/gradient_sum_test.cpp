// Every gradient is summed once, mostly during the backward pass.
#include "train/gradient_sum.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "counting_transport.h"
#include "tensors.h"

namespace dtn {
namespace {

using testing::CountingTransport;
using testing::with_ranks;

constexpr std::int64_t kMatrix = 400'003;  // 1.6 MB; not a multiple of the padding
constexpr int kMatrices = 8;               // 12.8 MB: more than three buckets of 4 MB
constexpr std::int64_t kBias = 20'001;     // no weight decay; larger than a message

void fill_store(ParameterStore& store) {
  for (int i = 0; i < kMatrices; ++i) {
    store.add(cat("bias", i), {kBias}, InitKind::kZeros, Decay::kNo);
    store.add(cat("matrix", i), {kMatrix}, InitKind::kZeros, Decay::kYes);
  }
  store.allocate();
}

// Integers so small that sums over three ranks are exact even in bfloat16.
float gradient(int rank, int step, std::int64_t i) {
  return static_cast<float>((i % 61 + step + 1) * (rank == 1 ? 2 : 1));
}
// Not exact in bfloat16: losses are always summed in float32.
float loss_of(int rank) { return 1 + static_cast<float>(rank + 1) * 0x1p-12f; }

GradSlot& matrix(ParameterStore& store, int i) {
  return *store.find(cat("matrix", i))->variable.sink();
}

// Matrices in the order in which the backward pass ends their uses.
using Ends = std::vector<int>;

// A backward pass and the uses that it ends.
struct WayBack {
  std::string name;
  Ends ends;
  Ends never_ended{};    // dropped with their tape
  bool earlier = false;  // an earlier micro-batch ended the same uses
};

std::vector<WayBack> ways_back() {
  const Ends from_the_end = {7, 6, 5, 4, 3, 2, 1, 0}, from_the_front = {0, 1, 2, 3, 4, 5, 6, 7};
  Ends thrice;
  for (int time = 0; time < 3; ++time) {
    thrice.insert(thrice.end(), from_the_end.begin(), from_the_end.end());
  }
  return {{.name = "uses nothing", .ends = {}},
          {.name = "layer by layer", .ends = from_the_end},
          {.name = "from the front", .ends = from_the_front},
          {.name = "to and fro", .ends = {5, 7, 0, 6, 2, 1, 4, 3}},
          {.name = "thrice", .ends = thrice},
          {.name = "again and again", .ends = {7, 6, 5, 7, 5, 4, 4, 4, 3, 2, 6, 1, 0, 1, 0}},
          {.name = "some", .ends = {6, 3, 4}},
          {.name = "the first alone", .ends = {0}},
          {.name = "the last alone", .ends = {7}},
          {.name = "half of it", .ends = {7, 6, 5, 4, 3}, .never_ended = {3, 2, 1, 0}},
          {.name = "never there", .ends = {}, .never_ended = from_the_end},
          {.name = "of two micro-batches", .ends = from_the_end, .earlier = true}};
}

class GradientSums : public ::testing::TestWithParam<std::tuple<int, DType>> {};

TEST_P(GradientSums, IncludeEveryElementOnce) {
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
    const auto write = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) g[i] = gradient(ranks.rank(), step, i);
    };
    const auto add_uses = [&](const Ends& uses) {
      for (int i : uses) matrix(store, i).add_use();
    };
    for (const WayBack& way : ways_back()) {
      SCOPED_TRACE(way.name);
      write(0, n);
      if (way.earlier) {
        add_uses(way.ends);
        for (int i : way.ends) matrix(store, i).end_use();
      }
      // A gradient has its value only when it is complete.
      for (int i : way.ends) matrix(store, i).buffer({kMatrix}, DType::kFloat32, kCpu).zero();
      add_uses(way.ends);
      add_uses(way.never_ended);
      sum.begin();
      for (std::size_t at = 0; at < way.ends.size(); ++at) {
        const int i = way.ends[at];
        if (std::find(way.ends.begin() + static_cast<std::ptrdiff_t>(at) + 1, way.ends.end(), i) ==
            way.ends.end()) {
          const std::int64_t begin = store.find(cat("matrix", i))->offset;
          write(begin, begin + kMatrix);
        }
        matrix(store, i).end_use();
      }
      Tensor loss = Tensor::full({1}, DType::kFloat32, loss_of(ranks.rank()));
      sum.finish(loss);
      for (int i : way.never_ended) matrix(store, i).drop_use();
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

// Waits until all ranks together have started this many exchanges; returns false after a timeout.
bool comes_to(int exchanges) {
  for (int i = 0; i < 10'000; ++i) {
    if (CountingTransport::exchanges >= exchanges) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

// Ends the uses of matrices in this order. `started`: total exchanges started by each rank after
// each use; the last number is the total after finish().
void expect_started(ParameterStore& store, GradientSum& sum, Communicator& ranks, const Ends& ends,
                    const std::vector<int>& started) {
  ASSERT_EQ(started.size(), ends.size() + 1);
  const auto expect = [&](int exchanges) {
    ASSERT_TRUE(comes_to(exchanges * ranks.size())) << exchanges << " of each rank";
    ranks.barrier();
    EXPECT_EQ(CountingTransport::exchanges, exchanges * ranks.size());
    ranks.barrier();
  };
  for (std::size_t at = 0; at < ends.size(); ++at) {
    matrix(store, ends[at]).end_use();
    expect(started[at]);
  }
  sum.finish(Tensor::zeros({1}, DType::kFloat32));
  expect(started.back());
}

// A matrix has 1.6 MB, so three matrices fill a bucket of 4 MB.
class GradientSumOverlap : public ::testing::Test {
 protected:
  void run(const std::function<void(ParameterStore&, GradientSum&, Communicator&)>& body) {
    CountingTransport::exchanges = 0;
    with_ranks<CountingTransport>(2, [&](Communicator& ranks) {
      ParameterStore store;
      fill_store(store);
      GradientSum sum(store, ranks, DType::kFloat32);
      body(store, sum, ranks);
    });
  }
  static void use(ParameterStore& store, const Ends& matrices) {
    for (int i : matrices) matrix(store, i).add_use();
  }
};

const Ends kFromTheEnd = {7, 6, 5, 4, 3, 2, 1, 0};

TEST_F(GradientSumOverlap, SendsBucketsDuringBackwardPass) {
  run([](ParameterStore& store, GradientSum& sum, Communicator& ranks) {
    for (int step = 0; step < 2; ++step) {
      use(store, kFromTheEnd);
      sum.begin();
      // finish() sends the last two matrices and the parameters without weight decay.
      std::vector<int> started = {0, 0, 1, 1, 1, 2, 2, 2, 4};
      for (int& exchanges : started) exchanges += step * 4;
      expect_started(store, sum, ranks, kFromTheEnd, started);
    }
  });
}

TEST_F(GradientSumOverlap, SendsNothingBeforeLastMicroBatch) {
  run([](ParameterStore& store, GradientSum& sum, Communicator& ranks) {
    use(store, kFromTheEnd);
    for (int i : kFromTheEnd) matrix(store, i).end_use();
    use(store, kFromTheEnd);
    sum.begin();
    expect_started(store, sum, ranks, kFromTheEnd, {0, 0, 1, 1, 1, 2, 2, 2, 4});
  });
}

// Matrices 5 to 7 are not used, so their gradients are complete from the start.
TEST_F(GradientSumOverlap, SendsUnusedGradientsFirst) {
  run([](ParameterStore& store, GradientSum& sum, Communicator& ranks) {
    const Ends used = {4, 3, 2, 1, 0};
    use(store, used);
    sum.begin();
    expect_started(store, sum, ranks, used, {1, 1, 1, 2, 2, 4});
  });
}

TEST_F(GradientSumOverlap, WaitsForLastUseOfParameter) {
  run([](ParameterStore& store, GradientSum& sum, Communicator& ranks) {
    use(store, {7, 7, 6, 5, 4, 3, 2, 1, 0});
    sum.begin();
    // The backward pass uses matrix 7 again, so matrices 2 to 6 wait for it.
    expect_started(store, sum, ranks, {7, 6, 5, 4, 3, 2, 7, 1, 0}, {0, 0, 0, 0, 0, 0, 1, 1, 1, 3});
  });
}

TEST_F(GradientSumOverlap, SendsNothingAfterDestruction) {
  CountingTransport::exchanges = 0;
  with_ranks<CountingTransport>(2, [](Communicator& ranks) {
    ParameterStore store;
    fill_store(store);
    {
      GradientSum sum(store, ranks, DType::kFloat32);
      use(store, kFromTheEnd);
      sum.begin();
    }
    for (int i : kFromTheEnd) matrix(store, i).end_use();
  });
  EXPECT_EQ(CountingTransport::exchanges, 0);
}

}  // namespace
}  // namespace dtn
