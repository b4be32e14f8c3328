// Tensors without values, and the work of kernels that do not run on them.
#include <gtest/gtest.h>

#include "core/queue.h"
#include "dtn/core/tensor.h"

namespace dtn {
namespace {

TEST(MetaDevice, TensorsHaveShapesButNoValues) {
  const std::int64_t before = meta_bytes_in_use();
  {
    Tensor huge = Tensor::zeros({1 << 20, 1 << 20}, DType::kBFloat16, kMeta);  // 2 TiB
    EXPECT_EQ(to_string(huge.device()), "meta");
    EXPECT_EQ(meta_bytes_in_use() - before, std::int64_t{2} << 40);
    const Tensor view = huge.slice(3, 7).reshape({-1});
    EXPECT_EQ(view.shape(), Shape({4 << 20}));
    const Tensor copy = view.clone();
    EXPECT_EQ(meta_bytes_in_use() - before, (std::int64_t{2} << 40) + (8 << 20));
    EXPECT_THROW(copy.data<bfloat16>(), Error);
    EXPECT_THROW(copy.to(kCpu), Error);
  }
  EXPECT_EQ(meta_bytes_in_use(), before);
  const Tensor there = Tensor::full({3}, DType::kFloat32, 1.5).to(kMeta);
  EXPECT_EQ(there.shape(), Shape({3}));
  EXPECT_EQ(there.device(), kMeta);
}

struct Free {
  std::int64_t count;
};
struct Counted {
  double multiply_adds() const { return 6; }
};
struct CountedOtherwise {
  double multiply_adds() const { return 6; }
  double paper_multiply_adds() const { return 10; }
};
// No kernel may run.
[[maybe_unused]] void run(auto&, const auto&) { FAIL(); }

TEST(MetaDevice, SumsMultiplyAddsOfKernels) {
  meta_queue().take_work();
  run_on(kMeta, Free{5});
  EXPECT_EQ(meta_queue().take_work().multiply_adds, 0);
  run_on(kMeta, Counted{});
  run_on(kMeta, CountedOtherwise{});
  const KernelWork work = meta_queue().take_work();
  EXPECT_EQ(work.multiply_adds, 12);
  EXPECT_EQ(work.paper_multiply_adds, 16);
  EXPECT_EQ(meta_queue().take_work().multiply_adds, 0);
}

}  // namespace
}  // namespace dtn
