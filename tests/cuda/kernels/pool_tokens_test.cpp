// Compares the pooling of tokens, the soft split and upsampling on the device with float64 on the
// host.
#include "kernels/conv/pool_tokens.h"

#include "convolution_cases.h"
#include "cuda/twin.h"
#include "kernels/conv/soft_split.h"
#include "kernels/conv/upsample_join.h"
#include "kernels/conv/upsample_tokens.h"

namespace dtn::test {
namespace {

const DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

struct Case {
  Window window;
  std::int64_t batch, channels;
};
std::vector<Case> cases() {
  return {{window_of(7, 6, 3, 3, 2, 2, 1, 1), 2, 9},
          {window_of(6, 4, 2, 2, 2, 2, 0, 0), 1, 3},
          {window_of(7, 9, 3, 2, 1, 3, 2, 0), 2, 5},
          {window_of(5, 6, 1, 1, 2, 3, 0, 0), 2, 4}};
}

// Values with many ties, so the choice of the first maximum matters.
Tensor coarse(const Shape& shape, std::uint32_t stream) {
  Tensor t = random_tensor(shape, stream);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    t.data<double>()[i] = std::round(t.data<double>()[i] * 3) / 4;
  }
  return t;
}

// Checks a kernel, given by `make(dtype, in, out)`, on both sides and in both types.
template <class Make>
void check(const char* kernel, const std::string& what, const std::vector<Tensor>& inputs,
           const Shape& output, std::int64_t terms, Make make) {
  auto arguments = [&](DType dtype, const std::vector<Twin>& in, const Twin& out, Where w) {
    std::vector<const void*> pointers;
    for (const Twin& t : in) pointers.push_back(t.at(w));
    return make(dtype, pointers, out.at(w));
  };
  auto twins = [&](DType dtype) {
    std::vector<Twin> in;
    for (const Tensor& t : inputs) in.emplace_back(as(t, dtype));
    return in;
  };
  const Twin exact = Twin::output(output, DType::kFloat64);
  run(cpu_queue(), arguments(DType::kFloat64, twins(DType::kFloat64), exact, kOnHost));
  for (DType dtype : kTypes) {
    const std::vector<Twin> in = twins(dtype);
    Tensor got;
    under_every_schedule([&] {
      const Twin out = Twin::output(output, dtype);
      run(cuda_queue(), arguments(dtype, in, out, kOnDevice));
      got = out.device();
      return std::vector<Tensor>{got};
    });
    expect_close(kernel, what, got, doubles(exact.host()), rounding_bound(dtype, terms));
  }
}

TEST(CudaPoolTokens, MatchFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const Case& s : cases()) {
    const Window& w = s.window;
    const std::string what = cat(w.kernel_h, " x ", w.kernel_w, " by ", w.stride_h);
    const Tensor x = coarse({s.batch, w.height * w.width, s.channels}, 1);
    const Tensor dy = coarse({s.batch, w.out_h * w.out_w, s.channels}, 2);
    for (WindowPooling kind :
         {WindowPooling::kMax, WindowPooling::kAverage, WindowPooling::kAveragePadded}) {
      check("pool_tokens", what, {x}, dy.shape(), 9, [&](DType t, const auto& in, void* out) {
        return PoolTokensForward{t, kind, w, s.batch, s.channels, in[0], out};
      });
      check("pool_tokens", what, {x, dy}, x.shape(), 9, [&](DType t, const auto& in, void* out) {
        return PoolTokensBackward{t, kind, w, s.batch, s.channels, in[0], in[1], out};
      });
    }
  }
  run(cuda_queue(), PoolTokensForward{DType::kFloat32, WindowPooling::kMax, cases()[0].window, 0, 3,
                                      nullptr, nullptr});
}

TEST(CudaSoftSplit, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const Case& s : cases()) {
    const Window& w = s.window;
    const std::int64_t taps = w.kernel_h * w.kernel_w;
    const std::string what = cat(w.kernel_h, " x ", w.kernel_w, " by ", w.stride_h);
    const Tensor x = coarse({s.batch, w.height * w.width, s.channels}, 1);
    const Tensor dy = coarse({s.batch, w.out_h * w.out_w, s.channels * taps}, 2);
    check("soft_split", what, {x}, dy.shape(), 1, [&](DType t, const auto& in, void* out) {
      return SoftSplitForward{t, w, s.batch, s.channels, in[0], out};
    });
    check("soft_split", what, {dy}, x.shape(), taps, [&](DType t, const auto& in, void* out) {
      return SoftSplitBackward{t, w, s.batch, s.channels, in[0], out};
    });
  }
}

constexpr std::array<UpsampleShape, 4> kUpsamplings{{{{}, 2, 9, 6, 4, 3, 2},
                                                     {{}, 1, 3, 7, 5, 4, 3},
                                                     {{}, 2, 4, 5, 6, 1, 2},
                                                     {{}, 1, 8, 2, 3, 2, 3}}};

TEST(CudaUpsampleAdd, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const UpsampleShape& s : kUpsamplings) {
    const std::string what = cat(s.coarse_height, " x ", s.coarse_width, " to ", s.height);
    const Tensor fine = coarse({s.batch, s.height * s.width, s.channels}, 1);
    const Tensor add = coarse({s.batch, s.coarse_height * s.coarse_width, s.channels}, 2);
    const auto of = [&s](DType t) {
      UpsampleShape shape = s;
      shape.dtype = t;
      return shape;
    };
    check("upsample_add", what, {fine, add}, fine.shape(), 2,
          [&](DType t, const auto& in, void* out) {
            return UpsampleAddForward{of(t), in[0], in[1], out};
          });
    check("upsample_add", what, {fine}, add.shape(), 30, [&](DType t, const auto& in, void* out) {
      return UpsampleJoinBackward{of(t), 0, in[0], out, nullptr};
    });
  }
}

TEST(CudaUpsampleJoin, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  constexpr std::int64_t kBeside = 5;
  for (const UpsampleShape& s : kUpsamplings) {
    const std::string what = cat(s.coarse_height, " x ", s.coarse_width, " to ", s.height);
    const std::int64_t tokens = s.height * s.width;
    const Tensor low = coarse({s.batch, s.coarse_height * s.coarse_width, s.channels}, 1);
    const Tensor fine = coarse({s.batch, tokens, kBeside}, 2);
    const Tensor dy = coarse({s.batch, tokens, s.channels + kBeside}, 3);
    const auto of = [&s](DType t) {
      UpsampleShape shape = s;
      shape.dtype = t;
      return shape;
    };
    check("upsample_join", what, {low, fine}, dy.shape(), 1,
          [&](DType t, const auto& in, void* out) {
            return UpsampleJoinForward{of(t), kBeside, in[0], in[1], out};
          });
    check("upsample_join", what, {dy}, low.shape(), 30, [&](DType t, const auto& in, void* out) {
      return UpsampleJoinBackward{of(t), kBeside, in[0], out, nullptr};
    });
    check("upsample_join", what, {dy}, fine.shape(), 1, [&](DType t, const auto& in, void* out) {
      return UpsampleJoinBackward{of(t), kBeside, in[0], nullptr, out};
    });
  }
}

}  // namespace
}  // namespace dtn::test
