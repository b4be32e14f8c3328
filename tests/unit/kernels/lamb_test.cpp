#include "kernels/optimizer/lamb.h"

#include <gtest/gtest.h>

#include <limits>

#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(LambStep)

namespace dtn::test {
namespace {

constexpr double kEps = 0x1p-23;

// Consecutive tensors, each aligned to 128 elements, and their chunks.
struct Layout {
  std::vector<std::int64_t> begins, ends;
  std::vector<TensorChunk> chunks;
  std::vector<std::int64_t> first_chunk{0};
  std::int64_t count = 0;

  explicit Layout(const std::vector<std::int64_t>& sizes) {
    for (std::int64_t size : sizes) {
      begins.push_back(count);
      ends.push_back(count + size);
      for (std::int64_t i = 0; i < size; i += kTensorChunk) {
        chunks.push_back({count + i, count + std::min(i + kTensorChunk, size),
                          static_cast<std::int64_t>(begins.size()) - 1});
      }
      first_chunk.push_back(static_cast<std::int64_t>(chunks.size()));
      count += (size + 127) / 128 * 128;
    }
  }
  TensorChunks tensors() const {
    return {static_cast<std::int64_t>(chunks.size()), static_cast<std::int64_t>(begins.size()),
            chunks.data(), first_chunk.data()};
  }
};

struct Buffers {
  std::vector<float> param, m, v;
  std::vector<bfloat16> copy;

  // Weights; zero between the tensors and in the last tensor.
  explicit Buffers(const Layout& layout) {
    const auto n = static_cast<std::size_t>(layout.count);
    param.resize(n), m.resize(n), v.resize(n), copy.resize(n);
    const std::vector<float> values = normal_values<float>(layout.count, 1);
    for (std::size_t k = 0; k + 1 < layout.begins.size(); ++k) {
      std::copy(values.begin() + layout.begins[k], values.begin() + layout.ends[k],
                param.begin() + layout.begins[k]);
    }
  }
  LambStep step(const std::vector<float>& grad, int t, TensorChunks tensors) {
    LambStep s{};
    s.count = static_cast<std::int64_t>(param.size());
    s.param = param.data(), s.m = m.data(), s.v = v.data();
    s.grad = grad.data(), s.param_bf16 = copy.data();
    s.lr = 1e-2, s.beta1 = 0.9, s.beta2 = 0.999, s.eps = 1e-6, s.weight_decay = 0.05;
    s.t = t, s.grad_scale = 0.5, s.tensors = tensors;
    return s;
  }
};

std::vector<float> gradient(const Layout& layout, int t) {
  std::vector<float> g = normal_values<float>(layout.count, 100u + static_cast<unsigned>(t));
  for (std::size_t i = 0; i < g.size(); i += 3) g[i] *= 1e-5f;  // so small that eps matters
  std::vector<float> inside(g.size());
  for (std::size_t k = 0; k < layout.begins.size(); ++k) {
    std::copy(g.begin() + layout.begins[k], g.begin() + layout.ends[k],
              inside.begin() + layout.begins[k]);
  }
  return inside;
}

// The formulas in float64, tensor by tensor.
struct Reference {
  std::vector<double> p, m, v;

  explicit Reference(const Buffers& start)
      : p(start.param.begin(), start.param.end()), m(p.size()), v(p.size()) {}

  void step(const LambStep& s, const Layout& layout, bool with_ratios) {
    for (std::size_t k = 0; k < layout.begins.size(); ++k) {
      const auto begin = static_cast<std::size_t>(layout.begins[k]);
      const auto end = static_cast<std::size_t>(layout.ends[k]);
      std::vector<double> u(end);
      double p2 = 0, u2 = 0;
      for (std::size_t i = begin; i < end; ++i) {
        const double g = s.grad[i] * s.grad_scale;
        m[i] = s.beta1 * m[i] + (1 - s.beta1) * g;
        v[i] = s.beta2 * v[i] + (1 - s.beta2) * g * g;
        u[i] = m[i] / (1 - std::pow(s.beta1, s.t)) /
               (std::sqrt(v[i] / (1 - std::pow(s.beta2, s.t))) + s.eps);
        u[i] += s.weight_decay * p[i];
        p2 += p[i] * p[i], u2 += u[i] * u[i];
      }
      const bool adapts = with_ratios && p2 > 0 && u2 > 0;
      const double ratio = adapts ? std::sqrt(p2) / std::sqrt(u2) : 1;
      for (std::size_t i = begin; i < end; ++i) p[i] -= s.lr * ratio * u[i];
    }
  }
};

// A tensor of one weight, one of several chunks, one of exactly one chunk, a small one and zeros.
const Layout& layout() {
  static const Layout some({1, 3 * kTensorChunk + 77, kTensorChunk, 130, 515});
  return some;
}

TEST(Lamb, TenStepsMatchFloat64) {
  for (bool with_ratios : {true, false}) {
    for (Isa isa : isas()) {
      SCOPED_TRACE(cat(name_of(isa), with_ratios ? ", ratios" : ""));
      Buffers b(layout());
      Reference want(b);
      const TensorChunks tensors = with_ratios ? layout().tensors() : TensorChunks{};
      for (int t = 1; t <= 10; ++t) {
        const std::vector<float> grad = gradient(layout(), t);
        const LambStep step = b.step(grad, t, tensors);
        run_on(isa, step);
        want.step(step, layout(), with_ratios);
      }
      for (std::size_t i = 0; i < want.p.size(); ++i) {
        // Each step rounds p twice and an update of a few lr a few times; a ratio is at most 4.
        ASSERT_NEAR(b.param[i], want.p[i], 10 * kEps * (std::abs(want.p[i]) + 0.5)) << i;
        ASSERT_NEAR(b.v[i], want.v[i], 20 * kEps * want.v[i]) << i;
        ASSERT_EQ(b.copy[i].bits, bfloat16(b.param[i]).bits) << i;
      }
    }
  }
}

TEST(Lamb, ZeroTensorOrZeroUpdateHasTrustRatioOne) {
  const Layout two({5, 9});
  for (Isa isa : isas()) {
    Buffers b(two);
    const std::vector<float> start = b.param;
    std::vector<float> grad(static_cast<std::size_t>(two.count));
    grad[128] = 3;
    LambStep step = b.step(grad, 1, two.tensors());
    step.weight_decay = 0;  // so the first tensor, which has no gradient, has no update
    step.eps = 1e-30;
    run_on(isa, step);
    EXPECT_TRUE(std::equal(start.begin(), start.begin() + 5, b.param.begin()));
    EXPECT_NEAR(b.param[128], -step.lr, step.lr * 4 * kEps);
  }
}

TEST(Lamb, SameBitsForAnyNumberOfThreads) {
  const Layout large({300001, 7, 200000});
  for (Isa isa : isas()) {
    Buffers first(large);
    for (int threads : kThreadCounts) {
      SCOPED_TRACE(cat(name_of(isa), ", ", threads, " threads"));
      Threads scope(threads);
      Buffers b(large);
      for (int t = 1; t <= 2; ++t) run_on(isa, b.step(gradient(large, t), t, large.tensors()));
      if (threads == 1) first = b;
      EXPECT_TRUE(same_bits(b.param, first.param));
      EXPECT_TRUE(same_bits(b.m, first.m));
      EXPECT_TRUE(same_bits(b.v, first.v));
      EXPECT_TRUE(same_bits(b.copy, first.copy));
    }
  }
}

TEST(Lamb, ReadsStepInputsFromMemory) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const StepInputs inputs{4e-3, 0.25, 9};
  for (const TensorChunks& tensors : {layout().tensors(), TensorChunks{}}) {
    for (std::int64_t finite : {1, 0}) {
      const UpdateState state{7, 0, 0, 0.125, finite};
      for (Isa isa : isas()) {
        SCOPED_TRACE(cat(name_of(isa), " finite ", finite));
        Buffers passed(layout()), read(layout());
        const std::vector<float> grad = gradient(layout(), 1);
        LambStep args = passed.step(grad, 7, tensors);
        args.lr = 2e-3, args.grad_scale = 0.125, args.weight_decay = 0.25;
        if (finite) run_on(isa, args);
        args = read.step(grad, 1000000, tensors);
        args.lr = args.grad_scale = args.weight_decay = nan;
        args.inputs = &inputs, args.state = &state, args.lr_factor = 0.5;
        run_on(isa, args);
        EXPECT_TRUE(same_bits(read.param, passed.param));
        EXPECT_TRUE(same_bits(read.m, passed.m));
        EXPECT_TRUE(same_bits(read.v, passed.v));
        EXPECT_TRUE(same_bits(read.copy, passed.copy));
      }
    }
  }
}

}  // namespace
}  // namespace dtn::test
