// Contents of a trace: all work of the compute stream, by name, and no work of graphs.
#include "kernels/cuda/trace.h"

#include <algorithm>
#include <thread>

#include "core/cuda_stream.h"
#include "cuda/caching.h"
#include "cuda/twin.h"
#include "kernels/gemm/gemm.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn::test {
namespace {

std::vector<std::string> names_of(const cuda::Trace& trace) {
  std::vector<std::string> names;
  for (const cuda::TimedLaunch& launch : trace.launches()) {
    EXPECT_GE(launch.microseconds, 0) << launch.name;  // the clock of events may tick less often
    names.push_back(launch.name);
  }
  return names;
}

struct CudaTrace : testing::Test {
  Twin a, b, sums;

  void SetUp() override {
    DTN_SKIP_WITHOUT_DEVICE();
    a = random_twin({8, 16}, DType::kFloat32, 1);
    b = random_twin({16, 24}, DType::kFloat32, 2);
    sums = Twin::accumulated({16}, DType::kFloat32, 3);
  }
  void sum_rows() const {
    run(cuda_queue(), SumRows{DType::kFloat32, 8, 16, a.at(kOnDevice), sums.at(kOnDevice)});
  }
};

TEST_F(CudaTrace, RecordsKernelsProductsAndCopiesInOrder) {
  sum_rows();
  const Twin c = Twin::output({8, 24}, DType::kFloat32);
  // 64 MiB take at least 10 us, far more than the 0.5 us resolution of events.
  Tensor large = Tensor::empty({std::int64_t{64} << 20}, DType::kUInt8, kCuda);
  const cuda::Trace trace;
  EXPECT_TRUE(trace.launches().empty()) << "what came before is no part of it";
  sum_rows();
  run(cuda_queue(), Gemm{DType::kFloat32, DType::kFloat32, 8, 24, 16, a.at(kOnDevice),
                         b.at(kOnDevice), c.at(kOnDevice), 16, 24, 24});
  cuda::fill_with_zero(c.at(kOnDevice), 4);
  sum_rows();
  cuda::fill_with_zero(large.raw(), large.nbytes());
  EXPECT_EQ(names_of(trace),
            (std::vector<std::string>{"sum_rows", "matmul nn 8 x 24 x 16", "fill with zero",
                                      "sum_rows", "fill with zero"}));
  EXPECT_GT(trace.launches().back().microseconds, 0);
}

TEST_F(CudaTrace, IgnoresCapturedWorkAndOtherThreads) {
  Caching caching;
  sum_rows();
  cuda::Graph graph;
  cuda::MemoryPool pool;
  const cuda::MemoryPool::Scope scope(pool);
  sum_rows();
  const cuda::Trace trace;
  graph.capture([&] { sum_rows(); });
  EXPECT_GT(graph.size(), 0u);
  graph.launch();
  std::thread([&] { sum_rows(); }).join();
  EXPECT_TRUE(names_of(trace).empty());
  sum_rows();
  EXPECT_EQ(names_of(trace).size(), 1u);
}

TEST_F(CudaTrace, RejectsSecondTraceAndStopsWhenDestroyed) {
  {
    const cuda::Trace trace;
    EXPECT_THROW(cuda::Trace(), Error);
    sum_rows();
    EXPECT_EQ(names_of(trace).size(), 1u) << "the one that was refused leaves it alone";
  }
  sum_rows();
  const cuda::Trace next;
  EXPECT_TRUE(next.launches().empty());
}

}  // namespace
}  // namespace dtn::test
