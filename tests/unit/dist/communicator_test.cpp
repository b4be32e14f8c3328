#include "dtn/dist/communicator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "thread_ranks.h"

namespace dtn {
namespace {

using testing::with_ranks;

// Different on every rank; sums in float32 depend on their order.
float value_of(int rank, std::int64_t i) {
  return std::sin(static_cast<float>(rank + 1) * 0.37f + static_cast<float>(i) * 0.011f) *
         (i % 7 == 0 ? 1e4f : 1.0f);
}

Tensor values_of(int rank, std::int64_t n) {
  Tensor x = Tensor::empty({n}, DType::kFloat32);
  for (std::int64_t i = 0; i < n; ++i) x.data<float>()[i] = value_of(rank, i);
  return x;
}

// Sizes with empty, partial and full slices per rank, and around the limit for one gather.
const std::int64_t kCounts[] = {1, 15, 16, 17, 16384, 16385, 20000, 100003};

class Ranks : public ::testing::TestWithParam<int> {};

TEST_P(Ranks, SumInRankOrder) {
  const int size = GetParam();
  with_ranks(size, [&](Communicator& ranks) {
    ASSERT_EQ(ranks.size(), size);
    for (std::int64_t n : kCounts) {
      Tensor x = values_of(ranks.rank(), n);
      ranks.all_reduce(x);
      for (std::int64_t i = 0; i < n; ++i) {
        float sum = value_of(0, i);
        for (int r = 1; r < size; ++r) sum += value_of(r, i);
        ASSERT_EQ(x.data<float>()[i], sum) << n << " values, at " << i;
      }
    }
  });
}

TEST_P(Ranks, SumBfloat16WithOneRounding) {
  const int size = GetParam();
  with_ranks(size, [&](Communicator& ranks) {
    for (std::int64_t n : kCounts) {
      Tensor x = values_of(ranks.rank(), n);
      ranks.start_all_reduce(x, DType::kBFloat16);
      ranks.finish();
      for (std::int64_t i = 0; i < n && size > 1; ++i) {
        float sum = 0;
        for (int r = 0; r < size; ++r) sum += static_cast<float>(bfloat16(value_of(r, i)));
        ASSERT_EQ(x.data<float>()[i], static_cast<float>(bfloat16(sum))) << n << " at " << i;
      }
    }
  });
}

TEST_P(Ranks, SumManyPendingTensors) {
  const int size = GetParam();
  with_ranks(size, [&](Communicator& ranks) {
    std::vector<Tensor> all;
    for (int k = 0; k < 12; ++k) {
      all.push_back(Tensor::full({k % 3 == 0 ? 5 : 30000 + k}, DType::kFloat64, k + ranks.rank()));
      ranks.start_all_reduce(all.back());
    }
    ranks.finish();
    for (int k = 0; k < 12; ++k) {
      const double sum = size * k + size * (size - 1) / 2.0;
      for (double v : all[static_cast<std::size_t>(k)].values<double>()) ASSERT_EQ(v, sum);
    }
  });
}

TEST_P(Ranks, BroadcastGatherAndAgree) {
  const int size = GetParam();
  with_ranks(size, [&](Communicator& ranks) {
    const int rank = ranks.rank(), last = size - 1;
    Tensor x = values_of(rank, 1000);
    ranks.broadcast(x, last);
    for (std::int64_t i = 0; i < 1000; ++i) ASSERT_EQ(x.data<float>()[i], value_of(last, i));

    const Tensor all = ranks.all_gather(Tensor::full({2, 3}, DType::kInt64, rank));
    ASSERT_EQ(all.shape(), (Shape{size, 2, 3}));
    for (std::int64_t i = 0; i < all.numel(); ++i) ASSERT_EQ(all.data<std::int64_t>()[i], i / 6);

    EXPECT_EQ(ranks.any(rank == last), true);
    EXPECT_EQ(ranks.any(false), false);
    EXPECT_EQ(ranks.sum(rank), size * (size - 1) / 2);
    EXPECT_NE(ranks.name_of(last).find(cat("rank ", last, " on ")), std::string::npos);
  });
}

INSTANTIATE_TEST_SUITE_P(, Ranks, ::testing::Values(1, 2, 3, 4, 7),
                         [](const auto& i) { return cat(i.param); });

TEST(Communicator, OneRankChangesNothing) {
  Communicator alone;
  EXPECT_TRUE(alone.is_single());
  EXPECT_TRUE(alone.is_root());
  Tensor x = values_of(0, 100);
  alone.all_reduce(x);
  alone.broadcast(x);
  EXPECT_EQ(x.data<float>()[99], value_of(0, 99));
  EXPECT_EQ(alone.all_gather(x).shape(), (Shape{1, 100}));
  EXPECT_EQ(alone.sum(5), 5);
  alone.barrier();
  EXPECT_EQ(alone.time().waiting, 0);
}

TEST(Communicator, PropagatesStartError) {
  auto fail = []() -> std::unique_ptr<Transport> { throw ConfigError("no network"); };
  EXPECT_THROW(Communicator{fail}, ConfigError);
}

TEST(Communicator, RejectsSumsOfBytes) {
  with_ranks(2, [](Communicator& ranks) {
    EXPECT_THROW(ranks.all_reduce(Tensor::zeros({4}, DType::kUInt8)), Error);
  });
}

// A device that has lost the other ranks blocks its program forever.
class LostDevice : public DeviceTransport {
 public:
  void all_reduce(Tensor, DType) override {}
  void broadcast(Tensor, int) override {}
  void all_gather(const Tensor&, Tensor) override {}
  void finish() override {}
  std::string failure() const override { return "the link is down"; }
};

[[noreturn]] void hang() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

// Hangs in one place: at the "start", in a "move" between ranks, during "abort" or at the "end".
class HangingTransport : public testing::ThreadTransport {
 public:
  explicit HangingTransport(std::string where = "")
      : ThreadTransport(std::make_shared<testing::ThreadHub>(where == "move" ? 2 : 1), 0),
        where_(std::move(where)) {
    if (where_ == "start") hang();
  }
  ~HangingTransport() override {
    if (where_ == "end") hang();
  }
  void send(const RankNote&, int) override {}
  std::unique_ptr<Move> gather(std::byte*, const std::vector<ByteBlock>&) override { hang(); }
  [[noreturn]] void abort(int exit_code) override {
    if (where_ == "abort") hang();
    std::_Exit(exit_code);
  }

 private:
  std::string where_;
};

TEST(CommunicatorDeathTest, EndsJobWhenDeviceLosesOtherRanks) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Communicator ranks([] { return std::make_unique<HangingTransport>(); });
        ranks.set_device_transport(std::make_unique<LostDevice>());
        std::this_thread::sleep_for(std::chrono::seconds(20));
      },
      ::testing::ExitedWithCode(1), "rank 0.*the link is down.*--resume auto");
}

// A dead process can make an MPI call of the other processes block forever.
void run_with_hanging_transport(const std::string& where) {
  Communicator ranks([&] { return std::make_unique<HangingTransport>(where); },
                     {.timeout_seconds = 0.5, .meeting_seconds = 0.5});
  if (where == "abort") {
    ranks.set_device_transport(std::make_unique<LostDevice>());
    hang();
  }
}

TEST(CommunicatorDeathTest, EndsProcessWhenTransportHangs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto one = ::testing::ExitedWithCode(1);
  EXPECT_EXIT(run_with_hanging_transport("start"), one,
              "rank 0 has waited in MPI.*connecting to.*--resume");
  EXPECT_EXIT(run_with_hanging_transport("move"), one, "rank 0 .* in MPI.*exchanging.*--resume");
  EXPECT_EXIT(run_with_hanging_transport("abort"), one, "the link is down");
  EXPECT_EXIT(run_with_hanging_transport("end"), one,
              "rank 0 on .* in MPI.*disconnecting.*--resume");
}

TEST(Communicator, MeasuresTime) {
  with_ranks(2, [](Communicator& ranks) {
    if (ranks.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(60));
    ranks.barrier();
    if (ranks.rank() == 0) {
      EXPECT_GT(ranks.time().waiting, 0.03);
      EXPECT_GT(ranks.time().moving, 0.03);
    }
  });
}

}  // namespace
}  // namespace dtn
