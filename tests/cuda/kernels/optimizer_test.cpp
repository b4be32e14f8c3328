#include "kernels/optimizer/optimizer.h"

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
template <class S>
S struct_in(const Tensor& t) {
  S s;
  std::memcpy(&s, t.raw(), sizeof s);
  return s;
}

float* floats(const Twin& t, Where w, int shift = 0) {
  return static_cast<float*>(t.at(w)) + shift;
}

// Parameters, two moments, the copy, and a gradient with a third so small that eps matters.
struct Buffers {
  std::int64_t count;
  int shift;  // elements between an aligned address and the buffers
  Twin param, m, v, grad, copy;

  Buffers(std::int64_t n, int shift_)
      : count(n),
        shift(shift_),
        param(random_twin({n + 1}, kF, 1)),
        m(random_twin({n + 1}, kF, 2, 0.01)),
        v(random_twin({n + 1}, kF, 3, 1e-4, 1e-4)),
        copy(Twin::output({n + 1}, DType::kBFloat16)) {
    Tensor g = as(random_tensor({n + 1}, 4), kF);
    for (std::int64_t i = 0; i <= n; i += 3) g.data<float>()[i] *= 1e-7f;
    grad = Twin(g);
  }
  bfloat16* copy_at(Where w) const { return static_cast<bfloat16*>(copy.at(w)) + shift; }
  AdamWStep adamw(Where w, std::int64_t t) const {
    return {count,
            floats(param, w, shift),
            floats(m, w, shift),
            floats(v, w, shift),
            floats(grad, w, shift),
            copy_at(w),
            1e-2,
            0.9,
            0.999,
            1e-8,
            0.05,
            t,
            0.5};
  }
  SgdStep sgd(Where w, std::int64_t t) const {
    return {count,
            floats(param, w, shift),
            floats(m, w, shift),
            floats(grad, w, shift),
            copy_at(w),
            1e-2,
            0.9,
            0.05,
            t,
            0.5};
  }
  LionStep lion(Where w) const {
    return {count,
            floats(param, w, shift),
            floats(m, w, shift),
            floats(grad, w, shift),
            copy_at(w),
            1e-2,
            0.9,
            0.99,
            0.05,
            0.5};
  }
  std::vector<Tensor> on_device() const {
    return {param.device(), m.device(), v.device(), copy.device()};
  }
};

void expect_copies(const Buffers& b) {
  Tensor p = b.param.device(), copy = b.copy.device();
  for (std::int64_t i = b.shift; i < b.shift + b.count; ++i) {
    ASSERT_EQ(copy.data<bfloat16>()[i].bits, bfloat16(p.data<float>()[i]).bits) << i;
  }
}

// Expects that each element is within `ulps` roundings, relative to itself.
void expect_each_close(const Twin& t, double ulps) {
  Doubles got = doubles(t.device()), want = doubles(t.host());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(std::abs(got[i] - want[i]), ulps * unit_roundoff(kF) * std::abs(want[i])) << i;
  }
}

TEST(CudaOptimizer, AdamWMatchesHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t count : {1, 3, 4096, 6007}) {
    for (int shift : {0, 1}) {
      under_every_schedule([&] {
        Buffers b(count, shift);
        for (int t = 1; t <= 3; ++t) {
          run(cpu_queue(), b.adamw(kOnHost, t));
          run(cuda_queue(), b.adamw(kOnDevice, t));
        }
        // In each step p is rounded once or twice, and m and v in each product or sum.
        expect_close("adamw", cat("param ", count), b.param.device(), doubles(b.param.host()),
                     6 * unit_roundoff(kF));
        expect_close("adamw", cat("m ", count), b.m.device(), doubles(b.m.host()),
                     6 * unit_roundoff(kF));
        expect_each_close(b.v, 12);
        expect_copies(b);
        return b.on_device();
      });
    }
  }
}

TEST(CudaOptimizer, AdamWMatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  const std::int64_t count = 2053;
  under_every_schedule([&] {
    Buffers b(count, 0);
    Doubles p = doubles(b.param.host()), m = doubles(b.m.host()), v = doubles(b.v.host()),
            g = doubles(b.grad.host());
    for (int t = 5; t <= 8; ++t) {
      AdamWStep a = b.adamw(kOnDevice, t);
      run(cuda_queue(), a);
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
        double gradient = g[i] * a.grad_scale;
        p[i] -= a.lr * a.weight_decay * p[i];
        m[i] = a.beta1 * m[i] + (1 - a.beta1) * gradient;
        v[i] = a.beta2 * v[i] + (1 - a.beta2) * gradient * gradient;
        p[i] -= a.lr * (m[i] / (1 - std::pow(a.beta1, t))) /
                (std::sqrt(v[i] / (1 - std::pow(a.beta2, t))) + a.eps);
      }
    }
    // Four steps, each with a few roundings relative to the number.
    expect_close("adamw", "param, float64", b.param.device(), p, 16 * unit_roundoff(kF));
    expect_close("adamw", "m, float64", b.m.device(), m, 16 * unit_roundoff(kF));
    expect_close("adamw", "v, float64", b.v.device(), v, 16 * unit_roundoff(kF));
    return b.on_device();
  });
}

// A captured step reads from the device the inputs that the host would pass.
std::vector<Tensor> compare_inputs_on_device(bool decays) {
  const std::int64_t count = 5001, updates = 7;
  Twin inputs = struct_twin(StepInputs{3e-3, 0.25, 9}),
       state = struct_twin(UpdateState{updates, 0, 0, 0.125, 1});
  Buffers passed(count, 0), read(count, 0);
  auto both = [&](auto step) {
    auto args = step(passed);
    args.lr = 3e-3 * 0.5, args.grad_scale = 0.125;
    args.weight_decay = decays ? 0.25 : 0;
    if constexpr (requires { args.t; }) args.t = updates;
    run(cuda_queue(), args);
    args = step(read);
    args.lr = args.grad_scale = args.weight_decay = NAN;
    args.lr_factor = 0.5, args.decays = decays;
    if constexpr (requires { args.t; }) args.t = 1000000;
    args.inputs = static_cast<StepInputs*>(inputs.at(kOnDevice));
    args.state = static_cast<UpdateState*>(state.at(kOnDevice));
    run(cuda_queue(), args);
    std::vector<Tensor> want = passed.on_device(), got = read.on_device();
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i;
  };
  both([&](Buffers& b) { return b.adamw(kOnDevice, 1); });
  both([&](Buffers& b) { return b.sgd(kOnDevice, 1); });
  both([&](Buffers& b) { return b.lion(kOnDevice); });
  return read.on_device();
}

TEST(CudaOptimizer, StepsReadInputsOnDevice) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (bool decays : {true, false}) {
    under_every_schedule([=] { return compare_inputs_on_device(decays); });
  }
}

// prepare_update stores bias corrections for the optimizer's betas. With other betas they are not
// used.
TEST(CudaOptimizer, UsesPreparedBiasCorrectionsForSameBetasOnly) {
  DTN_SKIP_WITHOUT_DEVICE();
  const std::int64_t count = 5001;
  Twin inputs = struct_twin(StepInputs{3e-3, 0.25, 9}), loss = random_twin({1}, kF, 7),
       sum = Twin(Tensor::full({1}, DType::kFloat64, 4));
  const auto after_update = [&](double prepared_beta1, double planted_correction) {
    Twin state = struct_twin(UpdateState{6, 0, 0, 0, 0});
    auto* on_device = static_cast<UpdateState*>(state.at(kOnDevice));
    run(cuda_queue(), PrepareUpdate{static_cast<const float*>(loss.at(kOnDevice)),
                                    static_cast<const double*>(sum.at(kOnDevice)), 0.125, 0,
                                    on_device, 1e-6, prepared_beta1, 0.999});
    auto prepared = struct_in<UpdateState>(state.device());
    EXPECT_EQ(prepared.updates, 7);
    if (planted_correction != 0) {
      prepared.correction1 = planted_correction;
      state = struct_twin(prepared);
    }
    Buffers b(count, 0);
    AdamWStep args = b.adamw(kOnDevice, 1000000);
    args.inputs = static_cast<StepInputs*>(inputs.at(kOnDevice));
    args.state = static_cast<UpdateState*>(state.at(kOnDevice));
    run(cuda_queue(), args);
    return b.on_device()[0];
  };
  const Tensor without = after_update(-1, 0);
  EXPECT_TRUE(same_bits(after_update(0.9, 0), without));
  EXPECT_FALSE(same_bits(after_update(0.9, 0.25), without)) << "they are not used";
  EXPECT_TRUE(same_bits(after_update(0.8, 0.25), without)) << "those for another beta are used";
}

TEST(CudaOptimizer, SkippedUpdateWritesNothing) {
  DTN_SKIP_WITHOUT_DEVICE();
  under_every_schedule([&] {
    Twin inputs = struct_twin(StepInputs{3e-3, 0.25, 9}),
         state = struct_twin(UpdateState{7, 0, 0, 1, 0});
    auto* on_device = static_cast<UpdateState*>(state.at(kOnDevice));
    Buffers b(1003, 0), slice(1003, 1);
    std::vector<Tensor> before = b.on_device();
    for (const Buffers* x : {&b, &slice}) {
      AdamWStep adamw = x->adamw(kOnDevice, 1);
      adamw.inputs = static_cast<StepInputs*>(inputs.at(kOnDevice)), adamw.state = on_device;
      run(cuda_queue(), adamw);
      SgdStep sgd = x->sgd(kOnDevice, 1);
      sgd.inputs = adamw.inputs, sgd.state = on_device;
      run(cuda_queue(), sgd);
      LionStep lion = x->lion(kOnDevice);
      lion.inputs = adamw.inputs, lion.state = on_device;
      run(cuda_queue(), lion);
      run(cuda_queue(),
          EmaStep{x->count, floats(x->v, kOnDevice), floats(x->param, kOnDevice), 0.5, on_device});
      std::vector<Tensor> after = x->on_device();
      for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(same_bits(after[i], before[i])) << i;
    }
    return b.on_device();
  });
}

TEST(CudaOptimizer, Sgd) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t count : {1, 6007}) {
    for (int shift : {0, 1}) {
      for (auto [momentum, nesterov] : {std::pair{0.9, false}, {0.9, true}, {0.0, false}}) {
        under_every_schedule([&, momentum = momentum, nesterov = nesterov] {
          Buffers b(count, shift);
          b.m = Twin::output({count + 1}, kF);  // not read at the first step
          for (int t = 1; t <= 3; ++t) {
            for (Where w : {kOnHost, kOnDevice}) {
              SgdStep step = b.sgd(w, t);
              step.momentum = momentum;
              step.nesterov = nesterov;
              if (momentum == 0) step.momentum_buffer = nullptr;
              w == kOnHost ? run(cpu_queue(), step) : run(cuda_queue(), step);
            }
          }
          expect_close("sgd", cat("param ", count, nesterov ? " nesterov" : ""), b.param.device(),
                       doubles(b.param.host()), 6 * unit_roundoff(kF));
          if (momentum != 0) {
            expect_close("sgd", cat("buffer ", count), b.m.device(), doubles(b.m.host()),
                         6 * unit_roundoff(kF));
          }
          expect_copies(b);
          return b.on_device();
        });
      }
    }
  }
}

// The device rounds as the host does, so no sign differs.
TEST(CudaOptimizer, LionMatchesHostBitForBit) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t count : {1, 3, 4096, 6007}) {
    for (int shift : {0, 1}) {
      under_every_schedule([&] {
        Buffers b(count, shift);
        for (int t = 1; t <= 3; ++t) {
          run(cpu_queue(), b.lion(kOnHost));
          run(cuda_queue(), b.lion(kOnDevice));
        }
        expect_close("lion", cat("param ", count), b.param.device(), doubles(b.param.host()),
                     6 * unit_roundoff(kF));
        expect_close("lion", cat("m ", count), b.m.device(), doubles(b.m.host()),
                     6 * unit_roundoff(kF));
        expect_copies(b);
        return b.on_device();
      });
    }
  }
}

TEST(CudaOptimizer, Bfloat16CopyIsOptional) {
  DTN_SKIP_WITHOUT_DEVICE();
  under_every_schedule([&] {
    Buffers with(777, 0), without(777, 0);
    AdamWStep adamw = without.adamw(kOnDevice, 2);
    SgdStep sgd = without.sgd(kOnDevice, 2);
    adamw.param_bf16 = sgd.param_bf16 = nullptr;
    run(cuda_queue(), with.adamw(kOnDevice, 2));
    run(cuda_queue(), with.sgd(kOnDevice, 2));
    run(cuda_queue(), adamw);
    run(cuda_queue(), sgd);
    EXPECT_TRUE(same_bits(with.param.device(), without.param.device()));
    return without.on_device();
  });
}

TEST(CudaOptimizer, Ema) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t count : {1, 7, 10007}) {
    for (int shift : {0, 1}) {
      under_every_schedule([&] {
        Twin average = random_twin({count + 1}, kF, 5), param = random_twin({count + 1}, kF, 6);
        Twin state = struct_twin(UpdateState{7, 0, 0, 1, 1}), decay = struct_twin(0.99996);
        auto args = [&](Where w) {
          EmaStep step{count, floats(average, w, shift), floats(param, w, shift), 0.99996};
          if (!shift) return step;
          step.state = static_cast<UpdateState*>(state.at(w));
          step.decay = NAN, step.device_decay = static_cast<double*>(decay.at(w));
          return step;
        };
        run(cpu_queue(), args(kOnHost));
        run(cuda_queue(), args(kOnDevice));
        expect_close("ema", cat(count), average.device(), doubles(average.host()),
                     2 * unit_roundoff(kF));
        return std::vector{average.device()};
      });
    }
  }
}

// Rounded products would move values that are already equal.
TEST(CudaOptimizer, EmaKeepsEqualValues) {
  DTN_SKIP_WITHOUT_DEVICE();
  constexpr std::int64_t kCount = 10007;
  Twin average = random_twin({kCount}, kF, 5), param = random_twin({kCount}, kF, 5);
  for (const double decay : {0.996, 0.9, 0.3}) {
    run(cuda_queue(), EmaStep{kCount, floats(average, kOnDevice), floats(param, kOnDevice), decay});
  }
  EXPECT_TRUE(same_bits(average.device(), param.device()));
}

// The device reads the number of updates.
TEST(CudaOptimizer, EmaWarmsUp) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t updates : {1, 2, 50, 1000}) {
    for (int shift : {0, 1}) {
      under_every_schedule([&] {
        const std::int64_t count = 5003;
        Twin average = random_twin({count + 1}, kF, 5), param = random_twin({count + 1}, kF, 6);
        Twin state = struct_twin(UpdateState{updates, 0, 0, 1, 1});
        const Tensor before = average.host().clone();
        auto args = [&](Where w) {
          const auto* s = static_cast<UpdateState*>(state.at(w));
          return EmaStep{count, floats(average, w, shift), floats(param, w, shift), 0.98, s, true};
        };
        run(cpu_queue(), args(kOnHost));
        run(cuda_queue(), args(kOnDevice));
        expect_close("ema", cat("warmup ", updates), average.device(), doubles(average.host()),
                     2 * unit_roundoff(kF));
        const double decay = std::min(0.98, 1 - std::pow(static_cast<double>(updates), -2.0 / 3));
        const Doubles was = doubles(before), is = doubles(param.host()),
                      now = doubles(average.device());
        for (std::size_t i = 1; i < static_cast<std::size_t>(count); ++i) {
          EXPECT_NEAR(now[i], decay * was[i] + (1 - decay) * is[i], 2e-6) << i;
        }
        return std::vector{average.device()};
      });
    }
  }
}

TEST(CudaOptimizer, CommitsBuffersUnlessUpdateIsSkipped) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t count : {1, 7, 5000}) {
    for (int shift : {0, 1}) {
      for (int finite : {0, 1}) {
        Twin value = random_twin({count + 1}, kF, 1), next = random_twin({count + 1}, kF, 2);
        const Tensor kept = finite ? next.host().clone() : value.host().clone();
        UpdateState state;
        state.finite = finite;
        Twin states = struct_twin(state);
        auto args = [&](Where w) {
          return CommitBuffers{kF, count, floats(value, w, shift), floats(next, w, shift),
                               static_cast<const UpdateState*>(states.at(w))};
        };
        run(cpu_queue(), args(kOnHost));
        run(cuda_queue(), args(kOnDevice));
        for (const Twin* t : {&value, &next}) {
          EXPECT_TRUE(same_bits(t->device(), t->host())) << count << " + " << shift;
          EXPECT_TRUE(
              same_bits(t->host().slice(shift, shift + count), kept.slice(shift, shift + count)));
        }
      }
    }
  }
}

TEST(CudaOptimizer, SumSquares) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t count : {0, 1, 3, 8191, 8192, 70001}) {
    under_every_schedule([&] {
      Twin x = random_twin({count + 1}, kF, 7), result = Twin::output({1}, DType::kFloat64);
      Twin slice = Twin::output({1}, DType::kFloat64);
      auto at = [](const Twin& r, Where w) { return static_cast<double*>(r.at(w)); };
      for (int shift : {0, 1}) {
        const Twin& r = shift ? slice : result;
        run(cpu_queue(), SumSquares{count, floats(x, kOnHost, shift), at(r, kOnHost)});
        run(cuda_queue(), SumSquares{count, floats(x, kOnDevice, shift), at(r, kOnDevice)});
        double n = static_cast<double>(count);
        expect_close("sum_squares", cat(count), r.device(), doubles(r.host()),
                     2 * unit_roundoff(DType::kFloat64) * std::sqrt(n + 1));
      }
      return std::vector{result.device(), slice.device()};
    });
  }
}

TEST(CudaOptimizer, SumSquaresDoesNotDependOnAlignment) {
  DTN_SKIP_WITHOUT_DEVICE();
  const std::int64_t count = 20011;
  Tensor values = as(random_tensor({count + 1}, 8), kF), moved = Tensor::zeros({count + 1}, kF);
  std::memcpy(moved.data<float>() + 1, values.raw(), static_cast<std::size_t>(count) * 4);
  Twin x(values), y(moved);
  Twin a = Twin::output({1}, DType::kFloat64), b = Twin::output({1}, DType::kFloat64);
  run(cuda_queue(), SumSquares{count, floats(x, kOnDevice), static_cast<double*>(a.at(kOnDevice))});
  run(cuda_queue(),
      SumSquares{count, floats(y, kOnDevice, 1), static_cast<double*>(b.at(kOnDevice))});
  EXPECT_TRUE(same_bits(a.device(), b.device()));
}

TEST(CudaOptimizer, SumSquaresDetectsNonFiniteElementsAndDoesNotOverflow) {
  DTN_SKIP_WITHOUT_DEVICE();
  const std::int64_t count = 8192 + 37;
  for (std::int64_t i : {std::int64_t{0}, std::int64_t{4097}, std::int64_t{8195}, count - 1}) {
    for (float value : {INFINITY, -INFINITY, NAN, 3e38f}) {
      Tensor values = Tensor::zeros({count}, kF);
      values.data<float>()[i] = value;
      Twin x(values), result = Twin::output({1}, DType::kFloat64);
      run(cuda_queue(),
          SumSquares{count, floats(x, kOnDevice), static_cast<double*>(result.at(kOnDevice))});
      double sum = result.device().data<double>()[0];
      EXPECT_EQ(std::isfinite(sum), std::isfinite(value)) << i;
      if (std::isfinite(value)) {
        EXPECT_NEAR(sum / 9e76, 1, 1e-6);
      }
    }
  }
}

TEST(CudaOptimizer, PrepareUpdate) {
  DTN_SKIP_WITHOUT_DEVICE();
  struct Case {
    float loss;
    double sum, scale, clip;
    bool finite;
  };
  for (Case c : {Case{6.5f, 16, 0.5, 0, true}, Case{6.5f, 16, 0.5, 1, true},
                 Case{6.5f, 16, 0.5, 3, true}, Case{0, 0, 1, 1, true}, Case{NAN, 16, 1, 1, false},
                 Case{1, INFINITY, 1, 1, false}, Case{1, NAN, 1, 0, false}}) {
    under_every_schedule([&] {
      Twin loss(Tensor::full({1}, kF, c.loss)), sum(Tensor::full({1}, DType::kFloat64, c.sum));
      Twin state = struct_twin(UpdateState{41, NAN, NAN, NAN, -1});
      auto args = [&](Where w) {
        return PrepareUpdate{floats(loss, w), static_cast<double*>(sum.at(w)), c.scale, c.clip,
                             static_cast<UpdateState*>(state.at(w))};
      };
      run(cpu_queue(), args(kOnHost));
      run(cuda_queue(), args(kOnDevice));
      auto got = struct_in<UpdateState>(state.device()),
           host = struct_in<UpdateState>(state.host());
      EXPECT_EQ(got.finite, c.finite ? 1 : 0);
      EXPECT_EQ(got.updates, c.finite ? 42 : 41);
      EXPECT_EQ(host.finite, got.finite);
      EXPECT_EQ(host.updates, got.updates);
      if (c.finite) {
        double norm = std::sqrt(c.sum) * c.scale;
        EXPECT_EQ(got.loss, c.loss * c.scale);
        EXPECT_EQ(got.grad_norm, norm);
        double clipped = c.clip > 0 && norm > c.clip ? c.clip / (norm + 1e-6) : 1;
        EXPECT_NEAR(got.grad_scale, c.scale * clipped, 1e-15);
        EXPECT_NEAR(host.grad_scale, got.grad_scale, 1e-15);
      }
      return std::vector{state.device()};
    });
  }
}

TEST(CudaOptimizer, EmptyInputIsNoOp) {
  DTN_SKIP_WITHOUT_DEVICE();
  run(cuda_queue(),
      AdamWStep{0, nullptr, nullptr, nullptr, nullptr, nullptr, 1e-2, 0.9, 0.999, 1e-8, 0, 1});
  run(cuda_queue(), SgdStep{0, nullptr, nullptr, nullptr, nullptr, 1e-2, 0.9, 0, 1});
  run(cuda_queue(), LionStep{0, nullptr, nullptr, nullptr, nullptr, 1e-2, 0.9, 0.99, 0});
  run(cuda_queue(), EmaStep{0, nullptr, nullptr, 0.5});
}

}  // namespace
}  // namespace dtn::test
