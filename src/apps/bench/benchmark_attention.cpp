#include "apps/bench/benchmark_attention.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "apps/bench/benchmark.h"
#include "apps/bench/random_values.h"
#include "apps/estimate/timing.h"
#include "core/meta_device.h"
#include "dtn/autograd/tape.h"
#include "dtn/ops/attention.h"

namespace dtn {
namespace {

// A kind of attention, with the shapes of its inputs.
struct AttentionSubject {
  std::function<Variable(Context&, const std::vector<Variable>&)> attend;
  std::vector<Shape> inputs;
};

AttentionSubject make_attention_subject(const std::string& kind,
                                        const AttentionBenchmarkOptions& o) {
  Tensor lengths;
  if (o.length > 0) {
    lengths = Tensor::from(std::vector<std::int64_t>(static_cast<std::size_t>(o.batch), o.length),
                           {o.batch});
  }
  const Shape packed = {o.batch, o.tokens, 3 * o.channels}, one = {o.batch, o.tokens, o.channels};
  if (kind == "dense") {
    const ops::AttentionOptions how{.lengths = lengths, .dropout = o.dropout, .stream = 1};
    return {[=, heads = o.heads](Context& ctx, const std::vector<Variable>& x) {
              return ops::attention(ctx, x[0], heads, how);
            },
            {packed}};
  }
  if (kind == "bigbird") {
    const auto pattern =
        ops::BlockPattern::make({.tokens = o.tokens, .heads = o.heads, .variant = o.variant});
    return {[=](Context& ctx, const std::vector<Variable>& x) {
              return ops::block_attention(ctx, x[0], *pattern, lengths);
            },
            {packed}};
  }
  RandomValues values;
  const Tensor rotations = values.tensor({o.channels / o.heads, 1, 5}, DType::kFloat32, kCpu);
  return {[=](Context& ctx, const std::vector<Variable>& x) {
            return ops::hashed_attention(ctx, x[0], x[1], rotations, {o.heads, o.variant}, lengths);
          },
          {one, one}};
}

// Times the forward and backward passes of one kind of attention.
class AttentionRuns {
 public:
  AttentionRuns(const AttentionSubject& subject, const AttentionBenchmarkOptions& o)
      : subject_(subject) {
    RandomValues values;
    for (const Shape& shape : subject.inputs) x_.push_back(values.tensor(shape, o.dtype, kCpu));
    dy_ = values.tensor({o.batch, o.tokens, o.channels}, o.dtype, kCpu);
  }
  void run(bool counts) {
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    ctx.mode.training = true;
    std::vector<Variable> leaves;
    for (const Tensor& x : x_) leaves.emplace_back(x, true);
    Variable y;
    const double f = seconds_of(kCpu, [&] { y = subject_.attend(ctx, leaves); });
    const double b = seconds_of(kCpu, [&] { tape.backward(y, dy_); });
    if (!counts) return;
    forward_.push_back(f * 1e3);
    backward_.push_back(b * 1e3);
  }
  double forward_ms() const { return median(forward_); }
  double backward_ms() const { return median(backward_); }

 private:
  const AttentionSubject& subject_;
  std::vector<Tensor> x_;
  Tensor dy_;
  std::vector<double> forward_, backward_;
};

// Multiply-adds of a forward and a backward pass.
double multiply_adds_of_attention(const AttentionSubject& subject,
                                  const AttentionBenchmarkOptions& o) {
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  std::vector<Variable> leaves;
  for (const Shape& shape : subject.inputs) {
    leaves.emplace_back(Tensor::empty(shape, o.dtype, kMeta), true);
  }
  meta_queue().take_work();
  const Variable y = subject.attend(ctx, leaves);
  tape.backward(y, Tensor::empty(y.shape(), o.dtype, kMeta));
  return meta_queue().take_work().multiply_adds;
}

}  // namespace

AttentionBenchmark benchmark_attention(const AttentionBenchmarkOptions& o) {
  AttentionBenchmarkOptions whole = o;
  whole.length = 0, whole.dropout = 0;
  const AttentionSubject subject = make_attention_subject(o.kind, o);
  const AttentionSubject dense = make_attention_subject("dense", whole);
  AttentionRuns runs(subject, o), dense_runs(dense, o);
  ModelConfig shape;
  shape.embed_dim = o.channels;
  shape.num_heads = o.heads;
  const DType rate_type = o.dtype == DType::kFloat64 ? DType::kFloat32 : o.dtype;
  const auto ceiling = [&] { return measure_gemms(shape, 1, rate_type, kCpu)[0].gflops; };
  AttentionBenchmark result;
  result.gemm_gflops = ceiling();
  constexpr int kWarmup = 2;
  for (int i = 0; i < kWarmup + o.steps; ++i) {
    runs.run(i >= kWarmup);
    dense_runs.run(i >= kWarmup);
  }
  result.gemm_gflops = std::max(result.gemm_gflops, ceiling());
  result.forward_ms = runs.forward_ms();
  result.backward_ms = runs.backward_ms();
  result.dense_forward_ms = dense_runs.forward_ms();
  result.dense_backward_ms = dense_runs.backward_ms();
  if (o.length == 0) {
    result.gflops = 2 * multiply_adds_of_attention(subject, o) /
                    ((result.forward_ms + result.backward_ms) * 1e6);
  }
  return result;
}

}  // namespace dtn
