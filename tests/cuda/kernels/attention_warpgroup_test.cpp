// Compares attention by warpgroup products with the CPU in float64. Skipped on devices and in
// builds without these products.
#include "cuda/hardware.h"
#include "cuda/kernels/attention_problem.h"
#ifdef DTN_CUDA_EMULATED
#include "cuda_emulator/device_model.h"
#endif

namespace dtn::test {
namespace {

// Selects the warpgroup kernels until the end of the scope. The emulated device then has Hopper's
// shared memory.
class Warpgroups {
 public:
  explicit Warpgroups(bool used = true) : before_(attention::use_warpgroups) {
    attention::use_warpgroups = used;
  }
  ~Warpgroups() { attention::use_warpgroups = before_; }
  Warpgroups(const Warpgroups&) = delete;
  Warpgroups& operator=(const Warpgroups&) = delete;

 private:
  bool before_;
#ifdef DTN_CUDA_EMULATED
  static emu::DeviceModel hopper() {
    emu::DeviceModel model = emu::device_model();
    model.shared_memory = std::size_t{227} << 10;
    return model;
  }
  emu::ScopedDeviceModel model_{hopper()};
#endif
};

// A build that lacks the code on a card that could run it is a fault, and no absent hardware.
#define DTN_SKIP_WITHOUT_WARPGROUPS()                                                           \
  DTN_SKIP_WITHOUT_DEVICE();                                                                    \
  DTN_NEEDS_HARDWARE(cuda::device_info().major == 9, "compute capability 9.0",                  \
                     "src/kernels/attention/attention_warpgroup* src/kernels/cuda/warpgroup*"); \
  if (!cuda_queue().has_warpgroup_products())                                                   \
  GTEST_SKIP() << "this build has no code for 90a; pass -DCMAKE_CUDA_ARCHITECTURES=90a-real"

TEST(CudaAttentionWarpgroup, MatchesFloat64) {
  DTN_SKIP_WITHOUT_WARPGROUPS();
  const Warpgroups used;
  for (const AttentionSize& s :
       {AttentionSize{1, 196, 1, 48}, AttentionSize{1, 197, 2, 64}, AttentionSize{1, 129, 1, 48},
        AttentionSize{2, 256, 1, 48}, AttentionSize{1, 208, 1, 48}, AttentionSize{1, 193, 1, 48}}) {
    expect_matches(AttentionProblem(s), DType::kBFloat16);
  }
}

// With D = 64, only the forward pass uses warpgroups.
TEST(CudaAttentionWarpgroup, WideHeadsUsePlainBackward) {
  DTN_SKIP_WITHOUT_WARPGROUPS();
  const Warpgroups used;
  for (const AttentionSize& s : {AttentionSize{1, 208, 1, 64}, AttentionSize{1, 256, 1, 64}}) {
    expect_matches(AttentionProblem(s), DType::kBFloat16);
  }
}

// Checks that the warpgroup kernels run: they sum in another order, so their bits differ.
TEST(CudaAttentionWarpgroup, UsedForSupportedShapesOnly) {
  DTN_SKIP_WITHOUT_WARPGROUPS();
  const auto differs = [](const AttentionProblem& p) {
    const auto bits = [&](bool used) {
      const Warpgroups warpgroups(used);
      return on_device(p, DType::kBFloat16);
    };
    const AttentionResult with = bits(true), without = bits(false);
    return std::pair(!same_bits(with.lse, without.lse), !same_bits(with.dqkv, without.dqkv));
  };
  const std::pair both(true, true), none(false, false);
  EXPECT_EQ(differs(AttentionProblem({2, 196, 3, 48})), both);
  EXPECT_EQ(differs(AttentionProblem({2, 197, 3, 64})), both);  // dqkv, as out differs
  EXPECT_EQ(differs(AttentionProblem({1, 128, 2, 48})), none);  // too short
  EXPECT_EQ(differs(AttentionProblem({1, 257, 2, 48})), none);  // too long
  EXPECT_EQ(differs(AttentionProblem({1, 130, 2, 40})), none);
  EXPECT_EQ(differs(AttentionProblem::on_grid(1, 13, 10, 1, 48)), none);
}

TEST(CudaAttentionWarpgroup, LargeScoresAndAnyScale) {
  DTN_SKIP_WITHOUT_WARPGROUPS();
  const Warpgroups used;
  expect_matches(AttentionProblem({1, 131, 1, 48}, 16), DType::kBFloat16);
  for (double scale : {-4.0, 1e-3}) {
    AttentionProblem p({1, 140, 1, 64}, 2);
    p.scale = scale;
    expect_matches(p, DType::kBFloat16);
  }
}

TEST(CudaAttentionWarpgroup, NanAndInfinityPropagateAsOnCpu) {
  DTN_SKIP_WITHOUT_WARPGROUPS();
  const Warpgroups used;
  for (int part = 0; part < 4; ++part) {
    expect_same_spread({1, 197, 1, 48}, 17, part, NAN, DType::kBFloat16);
    expect_same_spread({1, 196, 1, 64}, 195, part, NAN, DType::kBFloat16);
    if (part >= 2) expect_same_spread({1, 130, 1, 48}, 129, part, INFINITY, DType::kBFloat16);
  }
}

TEST(CudaAttentionWarpgroup, MoreImagesThanGridLimit) {
  DTN_SKIP_WITHOUT_WARPGROUPS();
  const Warpgroups used;
  const AttentionProblem p({3, 130, 2, 48});
  const AttentionResult at_once = on_device(p, DType::kBFloat16);
  attention::images_of_grid = 2;
  const AttentionResult in_turn = on_device(p, DType::kBFloat16);
  attention::images_of_grid = 65535;
  for (std::size_t i = 0; i < at_once.all().size(); ++i) {
    EXPECT_TRUE(same_bits(in_turn.all()[i], at_once.all()[i])) << i;
  }
}

}  // namespace
}  // namespace dtn::test
