// Tests that the emulator detects missing order between streams. See graphs.cpp.
#include <gtest/gtest.h>

#include "core/cuda_device.h"
#include "core/cuda_stream.h"
#include "kernels/cuda/launch.cuh"

namespace dtn {
namespace {

// Two streams, of which the device prefers the second, and one event per stream.
class EmulatedStreams : public ::testing::Test {
 protected:
  void SetUp() override {
    cudaStreamCreateWithFlags(&a_, cudaStreamNonBlocking);
    cudaStreamCreateWithPriority(&b_, cudaStreamNonBlocking, -1);
    for (cudaEvent_t* e : {&fork_, &join_}) cudaEventCreateWithFlags(e, cudaEventDisableTiming);
  }
  void TearDown() override {
    emu::run_high_priority_at_once(false);
    for (cudaStream_t s : {a_, b_}) cudaStreamDestroy(s);
    for (cudaEvent_t e : {fork_, join_}) cudaEventDestroy(e);
    (void)cudaGetLastError();
  }

  // Enqueues x = 10 x + digit. The digits of x show the order.
  void append(cudaStream_t stream, int digit) {
    emu::enqueue(stream, [this, digit] {
      x_ = 10 * x_ + digit;
      return cudaSuccess;
    });
  }
  cudaError_t wait(cudaStream_t later, cudaStream_t earlier, cudaEvent_t event) {
    if (cudaError_t error = cudaEventRecord(event, earlier); error != cudaSuccess) return error;
    return cudaStreamWaitEvent(later, event, 0);
  }
  // Enqueues the digits 1 to 4. If forked, 1 comes before 2. If joined, 2 comes before 4.
  void work(bool forked, bool joined) {
    append(a_, 1);
    if (forked) wait(b_, a_, fork_);
    append(b_, 2);
    append(a_, 3);
    if (joined) wait(a_, b_, join_);
    append(a_, 4);
  }
  int result() {
    cudaStreamSynchronize(a_);
    return std::exchange(x_, 0);
  }
  cudaError_t capture(bool forked, bool joined, cudaGraph_t* graph) {
    cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed);
    work(forked, joined);
    return cudaStreamEndCapture(a_, graph);
  }

  cudaStream_t a_ = nullptr, b_ = nullptr;
  cudaEvent_t fork_ = nullptr, join_ = nullptr;
  int x_ = 0;
};

// If memory runs out during capture, the error says so, and later work continues.
TEST(EmulatedGraphs, CaptureReportsOutOfMemory) {
  const std::shared_ptr<std::byte> before = cuda::allocate(1 << 10);
  emu::DeviceModel model = emu::device_model();
  model.memory = std::size_t{64} << 10;
  cuda::release_cached_memory();
  {
    const emu::ScopedDeviceModel small(model);
    cuda::Graph graph;
    try {
      graph.capture([] { cuda::allocate(1 << 20); });
      ADD_FAILURE() << "there was memory";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("out of memory while a step is captured as a graph: "
                                           "asked for 1 MiB with 1024 bytes in use and 0 MiB "
                                           "kept for graphs"),
                std::string::npos)
          << e.what();
    }
    EXPECT_FALSE(graph.captured());
  }
  EXPECT_TRUE(cuda::allocate(1 << 20));
  cuda::synchronize();
}

TEST_F(EmulatedStreams, RunInEveryAllowedOrder) {
  work(true, true);
  EXPECT_EQ(result(), 1324);
  emu::run_high_priority_at_once(true);
  work(true, true);
  EXPECT_EQ(result(), 1234);
}

TEST_F(EmulatedStreams, MissingForkChangesResult) {
  work(false, true);
  EXPECT_EQ(result(), 1324);
  emu::run_high_priority_at_once(true);
  work(false, true);
  EXPECT_EQ(result(), 2134);
}

TEST_F(EmulatedStreams, GraphReplaysInEveryAllowedOrder) {
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(capture(true, true, &graph), cudaSuccess);
  std::size_t nodes = 0;
  cudaGraphGetNodes(graph, nullptr, &nodes);
  EXPECT_EQ(nodes, 4u);
  cudaGraphExec_t exec = nullptr;
  cudaGraphInstantiate(&exec, graph, 0);
  std::vector<int> results;
  for (int i = 0; i < 3; ++i) {
    cudaGraphLaunch(exec, a_);
    results.push_back(result());
  }
  EXPECT_EQ(results, (std::vector<int>{1234, 1324, 1234}));
  work(true, true);  // the events can be reused
  EXPECT_EQ(result(), 1324);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

TEST_F(EmulatedStreams, RejectsUnjoinedCapture) {
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(capture(true, false, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(capture(true, true, &graph), cudaSuccess);  // the failed capture leaves nothing behind
  cudaGraphDestroy(graph);
}

TEST_F(EmulatedStreams, RejectsEventsAcrossCaptureBoundary) {
  cudaEventRecord(join_, b_);  // outside
  cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed);
  append(a_, 1);
  EXPECT_EQ(cudaStreamWaitEvent(a_, join_, 0), cudaErrorStreamCaptureIsolation);
  cudaEventRecord(fork_, a_);
  EXPECT_EQ(cudaEventQuery(fork_), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventSynchronize(fork_), cudaErrorCapturedEvent);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(b_, fork_, 0), cudaErrorCapturedEvent);
  cudaGraphDestroy(graph);
}

TEST_F(EmulatedStreams, RejectsAllocationOnWrongDevice) {
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  void* p = nullptr;
  EXPECT_EQ(cudaMalloc(&p, 16), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaSetDevice(1000), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&p, 16), cudaSuccess);
  EXPECT_EQ(cudaFree(p), cudaSuccess);
}

}  // namespace
}  // namespace dtn
