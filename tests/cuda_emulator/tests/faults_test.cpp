// Tests that the emulator detects the faults that it was made for. Each kernel has a planted fault;
// the same kernel without the fault passes.
#include <gtest/gtest.h>

#include <set>

#include "core/cuda_device.h"
#include "core/cuda_stream.h"
#include "dtn/core/tensor.h"
#include "kernels/cuda/reduce.cuh"

namespace dtn {
namespace {

constexpr unsigned kThreads = 128;
constexpr unsigned kSchedules = 9;

// Returns the different results of `body` under all schedules, as sets of bits.
std::set<std::vector<float>> results(const std::function<std::vector<float>()>& body) {
  std::set<std::vector<float>> seen;
  for (unsigned seed = 0; seed < kSchedules; ++seed) {
    emu::set_schedule({seed});
    std::vector<float> values = body();
    for (float& v : values) {
      if (v != v) v = -12345;  // NaN never equals itself
    }
    seen.insert(values);
  }
  emu::set_schedule({0});
  return seen;
}

std::vector<float> host_values(const Tensor& t) {
  Tensor host = t.to(kCpu);
  return {host.data<float>(), host.data<float>() + host.numel()};
}

Tensor counting(std::int64_t n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  return Tensor::from(values, {n}).to(kCuda);
}

// --- a missing barrier --------------------------------------------------------------------------

__global__ void two_sums_kernel(const float* x, float* y) {
  DTN_SHARED(float, scratch);
  float v = x[threadIdx.x];
  float sum = cuda::block_sum(v, scratch);
  float squares = cuda::block_sum(v * v, scratch);
  y[threadIdx.x] = sum + squares;
}

std::vector<float> two_sums() {
  Tensor x = counting(kThreads), y = Tensor::empty({kThreads}, DType::kFloat32, kCuda);
  launch(cuda_queue(), {"two_sums"}, two_sums_kernel, {1, kThreads, 4 * sizeof(float)},
         static_cast<const float*>(x.raw()), static_cast<float*>(y.raw()));
  return host_values(y);
}

TEST(EmulatorFaults, DetectsEachRemovedBarrierOfBlockSum) {
  emu::take_barrier_sites();
  auto whole = results(two_sums);
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ((*whole.begin())[5], 8256.0f + 707264.0f);
  std::vector<emu::BarrierSite> sites = emu::take_barrier_sites();
  ASSERT_EQ(sites.size(), 2u);
  for (const emu::BarrierSite& site : sites) {
    emu::remove_barrier(site);
    EXPECT_NE(results(two_sums), whole) << site.file << ":" << site.line;
    emu::clear_faults();
  }
  EXPECT_EQ(results(two_sums), whole);
}

// --- a race between warps -----------------------------------------------------------------------

__global__ void last_writer_kernel(float* y, bool race) {
  DTN_SHARED(float, shared);
  if (race || threadIdx.x / 32 == 2) shared[0] = static_cast<float>(threadIdx.x / 32);
  __syncthreads();
  y[threadIdx.x] = shared[0];
}

TEST(EmulatorFaults, RaceBetweenWarpsDependsOnSchedule) {
  for (bool race : {false, true}) {
    auto seen = results([&] {
      Tensor y = Tensor::empty({kThreads}, DType::kFloat32, kCuda);
      launch(cuda_queue(), {"last_writer"}, last_writer_kernel, {1, kThreads, sizeof(float)},
             static_cast<float*>(y.raw()), race);
      return host_values(y);
    });
    EXPECT_EQ(seen.size() > 1, race);
  }
}

// --- an unwritten output ------------------------------------------------------------------------

__global__ void fill_kernel(float* y, int count) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) y[i] = 1.0f;
}

TEST(EmulatorFaults, UnwrittenOutputStaysNaN) {
  cuda::set_caching(false);
  for (int written : {100, 99}) {
    Tensor y = Tensor::empty({100}, DType::kFloat32, kCuda);
    launch(cuda_queue(), {"fill", {written}}, fill_kernel, {1, kThreads},
           static_cast<float*>(y.raw()), written);
    EXPECT_EQ(std::isnan(host_values(y)[99]), written == 99);
  }
}

// --- a store one element too far ----------------------------------------------------------------

#if !defined(DTN_SANITIZED)  // the sanitizer would stop the test here
TEST(EmulatorFaults, DetectsStorePastEndWhenMemoryIsFreed) {
  cuda::set_caching(false);
  for (int written : {100, 101}) {
    {
      Tensor y = Tensor::empty({100}, DType::kFloat32, kCuda);
      launch(cuda_queue(), {"fill", {written}}, fill_kernel, {1, kThreads},
             static_cast<float*>(y.raw()), written);
    }
    if (written == 100) {
      EXPECT_NO_THROW(cuda::synchronize());
    } else {
      EXPECT_THROW(cuda::synchronize(), Error);
    }
  }
}
#endif

TEST(EmulatorFaults, SharedMemoryStartsPoisoned) {
  auto kernel = +[](float* y) {
    DTN_SHARED(float, shared);
    y[threadIdx.x] = shared[threadIdx.x];
  };
  Tensor y = Tensor::empty({32}, DType::kFloat32, kCuda);
  launch(cuda_queue(), {"read_shared"}, kernel, {1, 32, 32 * sizeof(float)},
         static_cast<float*>(y.raw()));
  for (float v : host_values(y)) EXPECT_TRUE(std::isnan(v));
}

// --- diverging lanes ----------------------------------------------------------------------------

__global__ void parting_kernel(float* y, int kind) {
  float v = static_cast<float>(threadIdx.x);
  if (kind == 1 && threadIdx.x == 3) return;  // one lane leaves
  if (kind == 2 && threadIdx.x % 2) __syncwarp();
  v = __shfl_xor_sync(0xffffffffu, v, 1);
  if (kind == 2 && threadIdx.x % 2 == 0) __syncwarp();
  if (kind == 3 && threadIdx.x == 5) __syncthreads();
  v = __shfl_xor_sync(0xffffffffu, v, 2);
  y[threadIdx.x] = v;
}

TEST(EmulatorFaults, DetectsDivergentLanesInShuffle) {
  const char* said[] = {"", "has left", "different things", "for ever"};
  for (int kind = 0; kind < 4; ++kind) {
    Tensor y = Tensor::empty({32}, DType::kFloat32, kCuda);
    launch(cuda_queue(), {"parting"}, parting_kernel, {1, 32}, static_cast<float*>(y.raw()), kind);
    if (kind == 0) {
      EXPECT_EQ(host_values(y)[1], 2.0f);
      continue;
    }
    try {
      cuda::synchronize();
      ADD_FAILURE() << "kind " << kind << " went unnoticed";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(said[kind]), std::string::npos) << e.what();
    }
  }
}

TEST(EmulatorFaults, ErrorNamesInvalidLaunch) {
  Tensor y = Tensor::empty({1}, DType::kFloat32, kCuda);
  auto* p = static_cast<float*>(y.raw());
  struct Case {
    dim3 grid, block;
    std::size_t shared;
  };
  for (const Case& c : {Case{0, 32, 0}, Case{1, 2048, 0}, Case{dim3(1, 70000), 32, 0},
                        Case{1, 32, std::size_t{164} << 10}}) {
    try {
      launch(cuda_queue(), {"fill", {7, 9}}, fill_kernel, {c.grid, c.block, c.shared}, p, 1);
      ADD_FAILURE() << "an impossible launch went through";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("fill (7 x 9"), std::string::npos) << e.what();
    }
  }
}

// --- a host that does not wait ------------------------------------------------------------------

TEST(EmulatorFaults, HostReadBeforeSynchronizeSeesOldValue) {
  auto pinned = cuda::allocate_pinned(sizeof(float));
  auto* value = reinterpret_cast<float*>(pinned.get());
  *value = -1;
  Tensor y = Tensor::empty({1}, DType::kFloat32, kCuda);
  launch(cuda_queue(), {"fill"}, fill_kernel, {1, 32}, static_cast<float*>(y.raw()), 1);
  cuda::copy_to_host(value, y.raw(), sizeof(float));
  EXPECT_EQ(*value, -1);
  cuda::synchronize();
  EXPECT_EQ(*value, 1);
}

TEST(EmulatorFaults, PinnedBufferReusedTooEarlyCopiesNewValue) {
  auto pinned = cuda::allocate_pinned(sizeof(float));
  auto* value = reinterpret_cast<float*>(pinned.get());
  for (bool wait : {true, false}) {
    Tensor y = Tensor::empty({1}, DType::kFloat32, kCuda);
    cuda::Event copied;
    *value = 5;
    cuda::copy_ahead(y.raw(), value, sizeof(float));
    copied.record_copies();
    if (wait) copied.wait();
    *value = 6;
    cuda::compute_after(copied);
    EXPECT_EQ(host_values(y)[0], wait ? 5 : 6);
  }
}

TEST(EmulatorFaults, UnsynchronizedStreamsGiveOldValue) {
  auto pinned = cuda::allocate_pinned(sizeof(float));
  auto* value = reinterpret_cast<float*>(pinned.get());
  *value = 5;
  for (bool wait : {true, false}) {
    Tensor y = Tensor::full({1}, DType::kFloat32, 1).to(kCuda);
    cuda::synchronize();
    cuda::Event copied;
    cuda::copy_ahead(y.raw(), value, sizeof(float));
    copied.record_copies();
    if (wait) cuda::compute_after(copied);
    EXPECT_EQ(host_values(y)[0], wait ? 5 : 1);
    copied.wait();
  }
}

// --- graphs -------------------------------------------------------------------------------------

__global__ void add_from_memory_kernel(float* y, const float* step, float by_value) {
  if (threadIdx.x == 0) *y += *step + by_value;
}

TEST(EmulatorFaults, GraphFreezesArgumentsPassedByValue) {
  cuda::set_caching(true);
  Tensor y = Tensor::zeros({1}, DType::kFloat32, kCuda);
  Tensor step = Tensor::zeros({1}, DType::kFloat32, kCuda);
  float by_value = 100;
  cuda::Graph graph;
  graph.capture([&] {
    launch(cuda_queue(), {"add_from_memory"}, add_from_memory_kernel, {1, 32},
           static_cast<float*>(y.raw()), static_cast<const float*>(step.raw()), by_value);
  });
  EXPECT_EQ(graph.size(), 1u);
  EXPECT_EQ(host_values(y)[0], 0);  // recorded, not run
  by_value = 1000;
  for (float s : {1.0f, 2.0f}) {
    step.copy_from(Tensor::full({1}, DType::kFloat32, s));
    graph.launch();
  }
  EXPECT_EQ(host_values(y)[0], 203);
}

TEST(EmulatorFaults, PageableCopyCannotBeCaptured) {
  Tensor y = Tensor::zeros({1}, DType::kFloat32, kCuda),
         host = Tensor::full({1}, DType::kFloat32, 1);
  cuda::Graph graph;
  EXPECT_THROW(graph.capture([&] { y.copy_from(host); }), Error);
  EXPECT_FALSE(graph.captured());
  y.copy_from(host);  // the stream still works
  EXPECT_EQ(host_values(y)[0], 1);
}

}  // namespace
}  // namespace dtn
