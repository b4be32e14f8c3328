// Copies between the host and the device, and ownership of a graph's memory.
#include <cstring>
#include <memory>

#include "core/cuda_device.h"
#include "core/cuda_stream.h"
#include "cuda/caching.h"
#include "cuda/twin.h"
#include "kernels/cuda/launch.cuh"

namespace dtn::test {
namespace {

// Host memory that is not page-locked may be overwritten as soon as the copy returns.
TEST(CudaMemory, PageableCopyCompletesBeforeReturning) {
  DTN_SKIP_WITHOUT_DEVICE();
  constexpr std::int64_t kCount = std::int64_t{4} << 20;
  Tensor host = Tensor::full({kCount}, DType::kFloat32, 5);
  Tensor device = Tensor::empty({kCount}, DType::kFloat32, kCuda);
  cuda::copy_to_device(device.raw(), host.raw(), host.nbytes());
  std::memset(host.raw(), 0, host.nbytes());
  const Tensor arrived = device.to(kCpu);
  for (std::int64_t i = 0; i < kCount; ++i) ASSERT_EQ(arrived.data<float>()[i], 5) << i;
}

TEST(CudaMemory, CaptureRejectsPageableMemory) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Caching caching;
  Tensor host = Tensor::full({16}, DType::kFloat32, 5);
  Tensor device = Tensor::zeros({16}, DType::kFloat32, kCuda);
  const std::shared_ptr<std::byte> pinned = cuda::allocate_pinned(device.nbytes());
  const auto expect_refused = [&](const std::function<void()>& copy) {
    cuda::Graph graph;
    try {
      graph.capture(copy);
      ADD_FAILURE() << "the copy was recorded";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("not page-locked"), std::string::npos) << e.what();
    }
    EXPECT_FALSE(graph.captured());
  };
  expect_refused([&] { cuda::copy_to_device(device.raw(), host.raw(), host.nbytes()); });
  expect_refused([&] { cuda::copy_to_host(host.raw(), device.raw(), device.nbytes()); });
  cuda::Graph graph;
  graph.capture([&] {
    cuda::copy_to_device(device.raw(), pinned.get(), device.nbytes());
    cuda::copy_to_host(pinned.get(), device.raw(), device.nbytes());
  });
  std::memcpy(pinned.get(), host.raw(), host.nbytes());
  graph.launch();
  EXPECT_EQ(device.to(kCpu).data<float>()[15], 5);
}

// A graph reserves the idle memory of its pool. Without a graph, that memory is free for all users.
TEST(CudaMemory, GraphReservesIdleMemoryOfItsPool) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Caching caching;
  cuda::release_cached_memory();
  constexpr std::size_t kBytes = 3 << 20;  // differs from the sizes of all other blocks
  cuda::MemoryPool pool;
  const std::byte* block = nullptr;
  const auto take = [&] { block = cuda::allocate(kBytes).get(); };
  auto graph = std::make_unique<cuda::Graph>();
  {
    const cuda::MemoryPool::Scope scope(pool);
    take();
    graph->capture(take);
  }
  const std::shared_ptr<std::byte> other = cuda::allocate(kBytes);
  EXPECT_NE(other.get(), block) << "the graph's memory was lent out";
  cuda::release_cached_memory();
  EXPECT_GE(cuda::allocator_stats().bytes_cached, kBytes) << "the graph's memory was given away";

  graph.reset();
  const std::shared_ptr<std::byte> again = cuda::allocate(kBytes);
  EXPECT_EQ(again.get(), block) << "a graph that is gone still holds its memory";
}

TEST(CudaMemory, ReleasesIdleMemoryOfPoolWithoutGraph) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Caching caching;
  cuda::release_cached_memory();
  const std::size_t before = cuda::allocator_stats().bytes_cached;
  cuda::MemoryPool pool;
  {
    const cuda::MemoryPool::Scope scope(pool);
    cuda::allocate(3 << 20);
  }
  EXPECT_GT(cuda::allocator_stats().bytes_cached, before);
  cuda::release_cached_memory();
  EXPECT_EQ(cuda::allocator_stats().bytes_cached, before);
}

// A pool without a block of the requested size takes an idle block instead of new memory.
TEST(CudaMemory, PoolReusesIdleMemoryBeforeAllocating) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Caching caching;
  const std::byte* idle = cuda::allocate(5 << 20).get();
  cuda::MemoryPool pool;
  const std::uint64_t misses = cuda::allocator_stats().misses;
  std::shared_ptr<std::byte> taken;
  {
    const cuda::MemoryPool::Scope scope(pool);
    taken = cuda::allocate(5 << 20);
  }
  EXPECT_EQ(taken.get(), idle);
  EXPECT_EQ(cuda::allocator_stats().misses, misses);
}

TEST(CudaMemory, GridHasAtMost31BitsOfBlocks) {
  EXPECT_EQ(blocks_for(1000, 256).x, 4u);
  EXPECT_EQ(blocks_for(std::int64_t{1} << 32, 4).x, 1u << 30);
  EXPECT_EQ(blocks_for((std::int64_t{1} << 31) - 1, 1).x, 0x7fffffffu);
  EXPECT_THROW(blocks_for(std::int64_t{1} << 31, 1), Error);
  EXPECT_THROW(blocks_for((std::int64_t{1} << 32) + 5, 1), Error);
  EXPECT_THROW(blocks_for(-5, 1), Error);
}

}  // namespace
}  // namespace dtn::test
