// Collectives on the device memory of several ranks: one rank per GPU of this machine, at most
// three. The emulator has enough devices.
#include <thread>

#include "core/cuda_stream.h"
#include "cuda/dist/forked_ranks.h"
#include "cuda/twin.h"
#include "kernels/pointwise/pointwise.h"
#ifdef DTN_CUDA_EMULATED
#include "cuda/nccl_library.h"
#endif

namespace dtn::test {
namespace {

constexpr int kMaxRanks = 3;

int devices() {
  static const int count = [] {
    const int end = fork_ranks(1, [](int, const ShareBytes&) {
      std::fflush(nullptr);
      _exit(std::min(static_cast<int>(cuda::usable_devices().size()), kMaxRanks));
    })[0];
    return WEXITSTATUS(end);
  }();
  return count;
}

struct Rank {
  int rank, size;
  DeviceTransport& transport;
  const ShareBytes& share;
};

// Runs `body` on each rank, with one device per rank. The emulator runs it twice: first it starts
// work as late as possible, then as early as possible.
void on_ranks(const std::function<void(const Rank&)>& body) {
  if (devices() == 0) GTEST_SKIP() << "there is no CUDA device";
  for (bool at_once : {false, true}) {
    with_forked_ranks(devices(), [&](int rank, const ShareBytes& share) {
      DTN_SKIP_WITHOUT_DEVICE();
      cuda::select_device(rank);
#ifdef DTN_CUDA_EMULATED
      emu::run_high_priority_at_once(at_once);
#endif
      auto transport = open_device_transport(rank, devices(), share);
      body({rank, devices(), *transport, share});
    });
#ifndef DTN_CUDA_EMULATED
    if (!at_once) break;
#endif
    if (::testing::Test::IsSkipped() || ::testing::Test::HasFailure()) break;
  }
}

// Integers, whose sums are exact in any order; they differ between ranks.
template <class T>
Tensor numbers(std::int64_t count, int rank) {
  Tensor x = Tensor::empty({count}, DTypeOf<T>::value);
  for (std::int64_t i = 0; i < count; ++i) {
    x.data<T>()[i] = static_cast<T>((i * 7 + rank * 1001) % 4001 - 2000);
  }
  return x;
}
template <class T>
Tensor sum_of_numbers(std::int64_t count, int ranks) {
  Tensor sum = numbers<T>(count, 0);
  for (int r = 1; r < ranks; ++r) {
    const Tensor x = numbers<T>(count, r);
    for (std::int64_t i = 0; i < count; ++i) sum.data<T>()[i] += x.data<T>()[i];
  }
  return sum;
}

template <class T>
void expect_sums(const Rank& r) {
  for (std::int64_t count : {1, 2, 1023, 300001}) {  // the last exceeds an emulator slot
    SCOPED_TRACE(cat(name_of(DTypeOf<T>::value), " ", count));
    Tensor x = numbers<T>(count + 1, r.rank).to(kCuda);
    Tensor part = x.slice(1, count + 1);
    r.transport.all_reduce(part, DType::kFloat32);
    r.transport.finish();
    Tensor want = sum_of_numbers<T>(count + 1, r.size).slice(1, count + 1);
    EXPECT_TRUE(same_bits(part.to(kCpu), want));
    EXPECT_TRUE(same_bits(x.slice(0, 1).to(kCpu), numbers<T>(count + 1, r.rank).slice(0, 1)));
  }
}

TEST(Nccl, SumsEveryType) {
  on_ranks([](const Rank& r) {
    expect_sums<float>(r);
    expect_sums<double>(r);
    expect_sums<std::int64_t>(r);
    r.transport.all_reduce(Tensor::empty({0}, DType::kFloat32, kCuda), DType::kFloat32);
    r.transport.finish();
    EXPECT_THROW(r.transport.all_reduce(Tensor::zeros({1}, DType::kUInt8, kCuda), DType::kFloat32),
                 Error);
  });
}

// Each value and each partial sum is rounded to bfloat16. Each rounding errs by at most the unit
// roundoff times the sum of all magnitudes.
TEST(Nccl, SendsFloat32AsBFloat16) {
  on_ranks([](const Rank& r) {
    constexpr std::int64_t kCount = 40001;
    auto values = [](int rank) {
      return as(random_tensor({kCount}, static_cast<std::uint32_t>(50 + rank)), DType::kFloat32);
    };
    Tensor x = values(r.rank).to(kCuda);
    r.transport.all_reduce(x, DType::kBFloat16);
    r.transport.finish();
    const Tensor got = x.to(kCpu);
    EXPECT_TRUE(same_bits(got, representable(got)));
    double worst = 0;
    for (std::int64_t i = 0; i < kCount; ++i) {
      double sum = 0, magnitude = 1e-30;
      for (int k = 0; k < r.size; ++k) {
        static std::vector<Tensor> all;
        if (static_cast<int>(all.size()) <= k) all.push_back(values(k));
        const double v = element(all[static_cast<std::size_t>(k)], i);
        sum += v;
        magnitude += std::abs(v);
      }
      worst = std::max(worst, std::abs(element(got, i) - sum) / magnitude);
    }
    const double bound = r.size * unit_roundoff(DType::kBFloat16);
    EXPECT_LE(worst, bound);
    EXPECT_GT(worst, 0);
    if (r.rank == 0) record_error("nccl", cat(r.size, " ranks"), DType::kBFloat16, worst, bound);
  });
}

TEST(Nccl, BroadcastsAndGathersAnyType) {
  on_ranks([](const Rank& r) {
    for (int root = 0; root < r.size; ++root) {
      Tensor x = numbers<std::int64_t>(1001, r.rank).to(kCuda);
      r.transport.broadcast(x, root);
      r.transport.finish();
      EXPECT_TRUE(same_bits(x.to(kCpu), numbers<std::int64_t>(1001, root)));
    }
    for (std::int64_t count : {7, 1500007}) {
      Tensor x = Tensor::empty({count}, DType::kUInt8);
      std::memset(x.raw(), 11 * (r.rank + 1), x.nbytes());
      Tensor all = Tensor::empty({r.size, count}, DType::kUInt8, kCuda);
      r.transport.all_gather(x.to(kCuda), all);
      r.transport.finish();
      const Tensor got = all.to(kCpu);
      for (std::int64_t i = 0; i < got.numel(); i += 3) {
        ASSERT_EQ(got.data<std::uint8_t>()[i], 11 * (i / count + 1)) << i;
      }
    }
  });
}

// Enqueues x = 2 x.
void twice(Tensor x) { run(cuda_queue(), Add{x.dtype(), x.numel(), x.raw(), x.raw(), x.raw()}); }

TEST(Nccl, OrdersAllReduceWithComputeStream) {
  on_ranks([](const Rank& r) {
    for (DType wire : {DType::kFloat32, DType::kBFloat16}) {
      constexpr std::int64_t kCount = 1 << 16;
      Tensor x = Tensor::full({kCount}, DType::kFloat32, r.rank + 1).to(kCuda);
      Tensor other = Tensor::full({kCount}, DType::kFloat32, 1).to(kCuda);
      for (int i = 0; i < 6; ++i) twice(x);
      r.transport.all_reduce(x, wire);
      for (int i = 0; i < 3; ++i) twice(other);  // concurrent with the reduction
      r.transport.finish();
      twice(x);
      const float sum = 128.0f * static_cast<float>(r.size * (r.size + 1) / 2);
      for (float v : x.to(kCpu).values<float>()) ASSERT_EQ(v, sum);
      for (float v : other.to(kCpu).values<float>()) ASSERT_EQ(v, 8);
    }
  });
}

// The compute stream may reuse memory that a tensor frees, but only after the other streams have
// finished with it.
TEST(Nccl, KeepsBuffersAliveUntilTransferEnds) {
  on_ranks([](const Rank& r) {
    cuda::set_caching(true);
    constexpr std::int64_t kCount = 1 << 18;
    for (DType wire : {DType::kFloat32, DType::kBFloat16}) {
      Tensor kept = Tensor::full({kCount}, DType::kFloat32, 1).to(kCuda);
      {
        Tensor dropped = Tensor::full({kCount}, DType::kFloat32, 3).to(kCuda);
        r.transport.all_reduce(dropped, wire);
        r.transport.all_reduce(kept, wire);
      }
      Tensor next = Tensor::empty({kCount}, DType::kFloat32, kCuda);
      Tensor small = Tensor::empty({kCount}, DType::kBFloat16, kCuda);
      Tensor smaller = Tensor::empty({kCount}, DType::kBFloat16, kCuda);
      for (Tensor* t : {&next, &small, &smaller}) t->zero();
      r.transport.finish();
      for (float v : kept.to(kCpu).values<float>()) ASSERT_EQ(v, r.size);
      EXPECT_EQ(max_abs(doubles(next.to(kCpu))), 0);
      EXPECT_EQ(max_abs(doubles(small.to(kCpu))), 0);
      EXPECT_EQ(max_abs(doubles(smaller.to(kCpu))), 0);
    }
  });
}

// The device of a rank continues its part while the rank's host program waits for another rank.
TEST(Nccl, ProgressesWhileHostWaitsElsewhere) {
  on_ranks([](const Rank& r) {
    Tensor x = Tensor::full({10}, DType::kFloat32, 1).to(kCuda);
    r.transport.all_reduce(x, DType::kFloat32);
    r.transport.finish();
    if (r.rank == 0) cuda::synchronize();
    std::byte word{};
    r.share(&word, 1);
    for (float v : x.to(kCpu).values<float>()) ASSERT_EQ(v, r.size);
  });
}

TEST(Nccl, ReplaysAllReduceInGraph) {
  on_ranks([](const Rank& r) {
    cuda::set_caching(true);
    constexpr std::int64_t kCount = 5000;
    Tensor x = Tensor::empty({kCount}, DType::kFloat32, kCuda);
    Tensor y = Tensor::empty_like(x), n = Tensor::zeros({3}, DType::kInt64, kCuda);
    cuda::MemoryPool pool;
    auto step = [&] {
      cuda::MemoryPool::Scope scope(pool);
      Tensor first = Tensor::empty_like(x), second = Tensor::empty_like(x);
      // Two buckets; the second is computed while the first is reduced.
      for (Tensor* t : {&first, &second}) {
        t->copy_from(x);
        twice(*t);
        r.transport.all_reduce(*t, t == &first ? DType::kFloat32 : DType::kBFloat16);
      }
      r.transport.all_reduce(n, DType::kInt64);
      r.transport.finish();
      run(cuda_queue(), Add{y.dtype(), kCount, first.raw(), second.raw(), y.raw()});
      r.transport.finish();  // no collective has started since
    };
    const std::vector<std::int64_t> counts{1, r.rank, 0};
    const auto ranks = static_cast<float>(r.size * (r.size + 1) / 2);
    auto expect_step = [&](float value, const std::function<void()>& run_it) {
      x.copy_from(Tensor::full({kCount}, DType::kFloat32, value * static_cast<float>(r.rank + 1)));
      n.copy_from(Tensor::from(counts, {3}));
      run_it();
      for (float v : y.to(kCpu).values<float>()) ASSERT_EQ(v, 4 * value * ranks);
      const Tensor total = n.to(kCpu);
      EXPECT_EQ(total.data<std::int64_t>()[0], r.size);
      EXPECT_EQ(total.data<std::int64_t>()[1], r.size * (r.size - 1) / 2);
      EXPECT_EQ(total.data<std::int64_t>()[2], 0);
    };
    expect_step(1, step);
    expect_step(2, step);
    const std::uint64_t misses = cuda::allocator_stats().misses;
    cuda::Graph graph;
    graph.capture(step);
    EXPECT_EQ(cuda::allocator_stats().misses, misses);
    for (float value : {3.0f, 4.0f, 5.0f}) expect_step(value, [&] { graph.launch(); });
    expect_step(6, step);  // between replays, as in an evaluation
    expect_step(7, [&] { graph.launch(); });
  });
}

TEST(Nccl, NewThreadsUseDeviceOfRank) {
  on_ranks([](const Rank& r) {
    Tensor x;
    auto pinned = std::shared_ptr<std::byte>();
    std::thread([&] {
      pinned = cuda::allocate_pinned(64);
      x = Tensor::full({100}, DType::kFloat32, 2).to(kCuda);
      twice(x);
    }).join();
    std::thread([gone = std::move(pinned)]() mutable { gone.reset(); }).join();
    r.transport.all_reduce(x, DType::kFloat32);
    r.transport.finish();
    for (float v : x.to(kCpu).values<float>()) ASSERT_EQ(v, 4 * r.size);
  });
}

// Two ranks on one GPU are an error, even if this machine has more GPUs.
TEST(Nccl, RejectsTwoRanksOnOneGpu) {
  if (devices() == 0) GTEST_SKIP() << "there is no CUDA device";
  with_forked_ranks(2, [](int rank, const ShareBytes& share) {
    DTN_SKIP_WITHOUT_DEVICE();
    try {
      open_device_transport(rank, 2, share);
      ADD_FAILURE() << "a transport between a GPU and itself";
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("the same GPU"), std::string::npos) << error.what();
    }
  });
}

#ifdef DTN_CUDA_EMULATED

TEST(Nccl, MissingLibraryErrorSaysWhatToInstall) {
  try {
    cuda::NcclLibrary("libnccl-that-is-not-there.so.2");
    ADD_FAILURE() << "it is there";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("install libnccl2"), std::string::npos);
  }
}

// An old library is recognized by its version, not by the first function that it lacks.
TEST(Nccl, OldLibraryErrorNamesVersion) {
  try {
    cuda::NcclLibrary(DTN_OLD_NCCL);
    ADD_FAILURE() << "version 2.12 was taken";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("NCCL 2.13 or newer is needed"), std::string::npos) << text;
    EXPECT_NE(text.find("is version 2.12.10"), std::string::npos) << text;
  }
}

// NVLS, whose summation order changes from run to run, is disabled unless the user enables it.
TEST(Nccl, DisablesNvlsByDefault) {
  unsetenv("NCCL_ALGO");
  cuda::nccl();
  const char* said = std::getenv("NCCL_NVLS_ENABLE");
  ASSERT_NE(said, nullptr);
  EXPECT_STREQ(said, "0");
  EXPECT_EQ(std::getenv("NCCL_ALGO"), nullptr)
      << "newer versions refuse words that they do not know";
}

TEST(Nccl, ReportsLostRank) {
  on_ranks([](const Rank& r) {
    Tensor x = Tensor::zeros({1000}, DType::kFloat32, kCuda);
    EXPECT_EQ(r.transport.failure(), "");
    if (r.rank == 1) return;  // destroys the transport
    r.transport.all_reduce(x, DType::kFloat32);
    try {
      r.transport.finish();
      cuda::synchronize();
      r.transport.all_reduce(x, DType::kFloat32);
      ADD_FAILURE() << "it goes on";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("remote"), std::string::npos) << error.what();
    }
    EXPECT_NE(r.transport.failure().find("have lost their connection"), std::string::npos);
  });
}

// Faults that the emulated library must detect.
TEST(Nccl, EmulatorAbortsProgramsThatWouldHang) {
  auto expect_crash = [](const std::function<void(const Rank&)>& body) {
    for (int end : fork_ranks(2, [&](int rank, const ShareBytes&share) {
           cuda::select_device(rank);
           cuda::set_caching(true);
           auto transport = open_device_transport(rank, 2, share);
           body({rank, 2, *transport, share});
         })) {
      EXPECT_TRUE(!WIFEXITED(end) || WEXITSTATUS(end) != 0);
    }
  };
  expect_crash([](const Rank& r) {  // different sizes
    r.transport.all_reduce(Tensor::zeros({10 + r.rank}, DType::kFloat32, kCuda), DType::kFloat32);
    r.transport.finish();
    cuda::synchronize();
  });
  cuda::Graph* outlives = nullptr;
  expect_crash([&](const Rank& r) {
    Tensor x = Tensor::zeros({10}, DType::kFloat32, kCuda);
    outlives = new cuda::Graph;
    outlives->capture([&] {
      r.transport.all_reduce(x, DType::kFloat32);
      r.transport.finish();
    });
  });
}

#endif

}  // namespace
}  // namespace dtn::test
