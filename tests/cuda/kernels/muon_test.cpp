#include "kernels/optimizer/muon.h"

#include "cuda/twin.h"

namespace dtn::test {
namespace {

constexpr DType kF = DType::kFloat32;
// Both sides fuse products and sums in the same way, unless a build has no fused instructions.
constexpr double kRounding = 4 * 0x1p-24;

template <class S>
Twin struct_twin(const S& s) {
  Tensor t = Tensor::empty({sizeof(S)}, DType::kUInt8);
  std::memcpy(t.raw(), &s, sizeof s);
  return Twin(t);
}

float* floats(const Twin& t, Where w, int shift = 0) {
  return static_cast<float*>(t.at(w)) + shift;
}

// Buffers of `n` elements that begin `shift` elements after an aligned address.
struct Buffers {
  std::int64_t n;
  int shift;
  Twin param, m, grad, update, copy, inputs, state;

  Buffers(std::int64_t count, int shifted, std::int64_t finite = 1) : n(count), shift(shifted) {
    param = random_twin({n + 1}, kF, 1), m = random_twin({n + 1}, kF, 2, 0.1);
    grad = random_twin({n + 1}, kF, 3), update = random_twin({n + 1}, kF, 4);
    copy = Twin::output({n + 1}, DType::kBFloat16);
    inputs = struct_twin(StepInputs{4e-3, 0.25, 9});
    state = struct_twin(UpdateState{7, 0, 0, 0.125, finite});
  }
  MuonMomentum momentum(Where w, bool nesterov) const {
    return {.count = n,
            .m = floats(m, w, shift),
            .grad = floats(grad, w, shift),
            .update = floats(update, w, shift),
            .momentum = 0.95,
            .nesterov = nesterov,
            .state = static_cast<UpdateState*>(state.at(w))};
  }
  MuonStep step(Where w) const {
    return {.count = n,
            .param = floats(param, w, shift),
            .update = floats(update, w, shift),
            .param_bf16 = static_cast<bfloat16*>(copy.at(w)) + shift,
            .lr = NAN,
            .weight_decay = NAN,
            .scale = 3,
            .inputs = static_cast<StepInputs*>(inputs.at(w)),
            .state = static_cast<UpdateState*>(state.at(w)),
            .lr_factor = 0.5};
  }
};

TEST(CudaMuon, MomentumAndStepMatchHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (bool nesterov : {true, false}) {
    for (std::int64_t n : {1, 5, 4096, 10007}) {
      for (int shift : {0, 1}) {
        Buffers b(n, shift);
        run(cpu_queue(), b.momentum(kOnHost, nesterov));
        run(cpu_queue(), b.step(kOnHost));
        run(cuda_queue(), b.momentum(kOnDevice, nesterov));
        run(cuda_queue(), b.step(kOnDevice));
        expect_close("muon_momentum", "m", b.m.device(), doubles(b.m.host()), kRounding);
        expect_close("muon_momentum", "u", b.update.device(), doubles(b.update.host()), kRounding);
        expect_close("muon", "param", b.param.device(), doubles(b.param.host()), kRounding);
        const Tensor param = b.param.device(), copy = b.copy.device();
        for (std::int64_t i = shift; i < n + shift; ++i) {
          EXPECT_EQ(copy.data<bfloat16>()[i].bits, bfloat16(param.data<float>()[i]).bits) << i;
        }
      }
    }
  }
}

TEST(CudaMuon, SkippedUpdateChangesNothing) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Buffers b(1001, 0, 0), before(1001, 0, 0);
  run(cuda_queue(), b.momentum(kOnDevice, true));
  run(cuda_queue(), b.step(kOnDevice));
  EXPECT_TRUE(same_bits(b.m.device(), before.m.device()));
  EXPECT_TRUE(same_bits(b.update.device(), before.update.device()));
  EXPECT_TRUE(same_bits(b.param.device(), before.param.device()));
  EXPECT_TRUE(same_bits(b.copy.device(), before.copy.device()));
}

TEST(CudaMuon, DivideByNormMatchesHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (double squares : {9.0, 0.0, 1e-20}) {
    under_every_schedule([&] {
      const Twin x = random_twin({10007}, kF, 1);
      const Twin sum(from_doubles({squares}, {1}, DType::kFloat64));
      for (Where w : {kOnHost, kOnDevice}) {
        const DivideByNorm args{10007, floats(x, w), static_cast<const double*>(sum.at(w)), 1e-7};
        w == kOnHost ? run(cpu_queue(), args) : run(cuda_queue(), args);
      }
      EXPECT_TRUE(same_bits(x.device(), x.host()));
      return std::vector{x.device()};
    });
  }
}

TEST(CudaMuon, AddDiagonalMatchesHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t size : {1, 2, 4, 67, 128}) {
    const Twin x = random_twin({size, size}, kF, 1), y = Twin::output({size, size}, kF);
    for (Where w : {kOnHost, kOnDevice}) {
      const AddDiagonal apart{size, floats(x, w), floats(y, w), -2.5, 0.75};
      const AddDiagonal in_place{size, floats(x, w), floats(x, w), 1, 3};
      w == kOnHost ? run(cpu_queue(), apart) : run(cuda_queue(), apart);
      w == kOnHost ? run(cpu_queue(), in_place) : run(cuda_queue(), in_place);
    }
    expect_close("add_diagonal", cat(size), y.device(), doubles(y.host()), kRounding);
    expect_close("add_diagonal", cat(size, " in place"), x.device(), doubles(x.host()), kRounding);
  }
}

}  // namespace
}  // namespace dtn::test
