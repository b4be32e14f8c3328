#include "kernels/optimizer/lamb.h"

#include <algorithm>

#include "cuda/twin.h"

namespace dtn::test {
namespace {

constexpr DType kF = DType::kFloat32;

// Copies a struct to both memories.
template <class S>
Twin struct_twin(const S& s) {
  Tensor t = Tensor::empty({sizeof(S)}, DType::kUInt8);
  std::memcpy(t.raw(), &s, sizeof s);
  return Twin(t);
}

float* floats(const Twin& t, Where w) { return static_cast<float*>(t.at(w)); }

// Tensors with gaps between them. The first is part of a vector, the second is several chunks and a
// remainder, the third is whole chunks, and the last is zero.
struct Problem {
  static constexpr std::int64_t kSizes[] = {3, 2 * kTensorChunk + 77, kTensorChunk, 130};
  std::int64_t count = 0, chunk_count = 0, tensor_count = 0;
  Twin param, m, v, grad, copy, chunks, first_chunk;

  Problem() {
    std::vector<std::int64_t> begins, table, first{0};
    for (const std::int64_t size : kSizes) {
      for (std::int64_t i = 0; i < size; i += kTensorChunk, ++chunk_count) {
        table.insert(table.end(),
                     {count + i, count + std::min(i + kTensorChunk, size), tensor_count});
      }
      begins.push_back(count);
      first.push_back(chunk_count);
      count += (size + 127) / 128 * 128;
      ++tensor_count;
    }
    param = masked(begins, 1, 1, false), m = masked(begins, 2, 0.01, true);
    Tensor moments = masked(begins, 3, 1e-4, true).host();
    for (std::int64_t i = 0; i < count; ++i) {
      moments.data<float>()[i] = std::abs(moments.data<float>()[i]);
    }
    v = Twin(moments);
    grad = masked(begins, 4, 1, true);
    copy = Twin(Tensor::zeros({count}, DType::kBFloat16));
    chunks = Twin(Tensor::from(table, {chunk_count, 3}));
    first_chunk = Twin(Tensor::from(first, {tensor_count + 1}));
  }
  // Returns random numbers in the tensors, in the last tensor only if `in_last`.
  Twin masked(const std::vector<std::int64_t>& begins, std::uint32_t stream, double spread,
              bool in_last) const {
    const Tensor all = as(random_tensor({count}, stream, spread), kF);
    Tensor some = Tensor::zeros({count}, kF);
    for (std::size_t k = 0; k + !in_last < begins.size(); ++k) {
      std::copy_n(all.data<float>() + begins[k], kSizes[k], some.data<float>() + begins[k]);
    }
    return Twin(some);
  }
  LambStep step(Where w, std::int64_t t, bool with_ratios = true) const {
    LambStep s{};
    s.count = count;
    s.param = floats(param, w), s.m = floats(m, w), s.v = floats(v, w), s.grad = floats(grad, w);
    s.param_bf16 = static_cast<bfloat16*>(copy.at(w));
    s.lr = 1e-2, s.beta1 = 0.9, s.beta2 = 0.999, s.eps = 1e-6, s.weight_decay = 0.05;
    s.t = t, s.grad_scale = 0.5;
    if (with_ratios) {
      s.tensors = {chunk_count, tensor_count, static_cast<const TensorChunk*>(chunks.at(w)),
                   static_cast<const std::int64_t*>(first_chunk.at(w))};
    }
    return s;
  }
  std::vector<Tensor> on_device() const {
    return {param.device(), m.device(), v.device(), copy.device()};
  }
};

TEST(CudaLamb, MatchesHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (bool with_ratios : {true, false}) {
    under_every_schedule([&] {
      Problem p;
      for (int t = 1; t <= 3; ++t) {
        run(cpu_queue(), p.step(kOnHost, t, with_ratios));
        run(cuda_queue(), p.step(kOnDevice, t, with_ratios));
      }
      // In each step p is rounded twice. It moves by a few hundredths, which have a few roundings
      // of error.
      expect_close("lamb", cat("param, ratios ", with_ratios), p.param.device(),
                   doubles(p.param.host()), 12 * unit_roundoff(kF));
      expect_close("lamb", "m", p.m.device(), doubles(p.m.host()), 6 * unit_roundoff(kF));
      expect_close("lamb", "v", p.v.device(), doubles(p.v.host()), 6 * unit_roundoff(kF));
      const Tensor param = p.param.device(), copy = p.copy.device();
      for (std::int64_t i = 0; i < p.count; ++i) {
        EXPECT_EQ(copy.data<bfloat16>()[i].bits, bfloat16(param.data<float>()[i]).bits) << i;
      }
      return p.on_device();
    });
  }
}

TEST(CudaLamb, StepReadsInputsOnDevice) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (bool with_ratios : {true, false}) {
    for (std::int64_t finite : {1, 0}) {
      under_every_schedule([&] {
        Twin inputs = struct_twin(StepInputs{4e-3, 0.25, 9}),
             state = struct_twin(UpdateState{7, 0, 0, 0.125, finite});
        Problem passed, read;
        LambStep args = passed.step(kOnDevice, 7, with_ratios);
        args.lr = 2e-3, args.grad_scale = 0.125, args.weight_decay = 0.25;
        if (finite) run(cuda_queue(), args);
        args = read.step(kOnDevice, 1000000, with_ratios);
        args.lr = args.grad_scale = args.weight_decay = NAN, args.lr_factor = 0.5;
        args.inputs = static_cast<StepInputs*>(inputs.at(kOnDevice));
        args.state = static_cast<UpdateState*>(state.at(kOnDevice));
        run(cuda_queue(), args);
        std::vector<Tensor> want = passed.on_device(), got = read.on_device();
        for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i;
        return got;
      });
    }
  }
}

TEST(CudaLamb, Bfloat16CopyIsOptionalAndEmptyStepIsNoOp) {
  DTN_SKIP_WITHOUT_DEVICE();
  Problem with, without;
  run(cuda_queue(), with.step(kOnDevice, 2));
  LambStep step = without.step(kOnDevice, 2);
  step.param_bf16 = nullptr;
  run(cuda_queue(), step);
  EXPECT_TRUE(same_bits(with.param.device(), without.param.device()));
  run(cuda_queue(), LambStep{});
}

TEST(CudaLamb, RejectsUnalignedTensors) {
  DTN_SKIP_WITHOUT_DEVICE();
  Problem p;
  LambStep step = p.step(kOnDevice, 1);
  ++step.param;
  EXPECT_THROW(run(cuda_queue(), step), Error);
}

}  // namespace
}  // namespace dtn::test
