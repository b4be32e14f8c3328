#include "apps/bench/attention_command.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "apps/bench/random_values.h"
#include "apps/common/program.h"
#include "apps/common/sizes.h"
#include "apps/estimate/timing.h"
#include "core/meta_device.h"
#include "dtn/autograd/tape.h"
#include "dtn/ops/attention.h"
#include "dtn/ops/sparse_attention.h"

namespace dtn::app {
namespace {

struct AttentionShape {
  std::int64_t batch, tokens, channels, heads;
  DType dtype;
  ops::SparseVariant variant;
};

// A kind of attention, with the shapes of its inputs.
struct AttentionSubject {
  std::function<Variable(Context&, const std::vector<Variable>&)> attend;
  std::vector<Shape> inputs;
};

AttentionSubject make_attention_subject(const std::string& kind, const AttentionShape& o,
                                        std::int64_t length = 0, double dropout = 0) {
  Tensor lengths;
  if (length > 0) {
    lengths = Tensor::from(std::vector<std::int64_t>(static_cast<std::size_t>(o.batch), length),
                           {o.batch});
  }
  const Shape packed = {o.batch, o.tokens, 3 * o.channels}, one = {o.batch, o.tokens, o.channels};
  if (kind == "dense") {
    const ops::AttentionOptions how{.lengths = lengths, .dropout = dropout, .stream = 1};
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
  AttentionRuns(const AttentionSubject& subject, const AttentionShape& o) : subject_(subject) {
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
double multiply_adds_of_attention(const AttentionSubject& subject, const AttentionShape& o) {
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

void AttentionBenchCommand::add_to(CLI::App& app) {
  add_choice(app, "--kind", kind, {"dense", "bigbird", "reformer"}, "dense, bigbird or reformer");
  add_defaulted(app, "--shape", shape, "B,T,C of the output");
  add_count(app, "--heads", heads, "heads H, must divide C");
  add_choice(app, "--variant", variant, {"clean", "lra"},
             "variant of bigbird and reformer: clean or lra");
  app.add_option("--length", length, "tokens of each sample that are not padding (default: all)")
      ->check(positive());
  add_defaulted(app, "--dropout", dropout, "dropout probability of the weights of dense attention")
      ->check(CLI::Range(0.0, 0.99));
}

BenchmarkResult AttentionBenchCommand::result(DType dtype, int steps, Device device) const {
  const auto [batch, tokens, channels] = parse_sizes<3>("--shape", shape, "B,T,C, like 8,2001,512");
  if (device != kCpu)
    throw ConfigError("dtn-bench attention measures only the CPU; use --device cpu");
  if (channels % heads != 0) {
    throw ConfigError(cat("--heads ", heads, " does not divide the ", channels, " channels"));
  }
  if (length > tokens) {
    throw ConfigError(cat("--length ", length, " is more than the ", tokens, " tokens"));
  }
  const AttentionShape o{
      batch, tokens, channels,
      heads, dtype,  variant == "lra" ? ops::SparseVariant::kLra : ops::SparseVariant::kClean};
  const AttentionSubject subject = make_attention_subject(kind, o, length, dropout);
  const AttentionSubject dense = make_attention_subject("dense", o);
  AttentionRuns runs(subject, o), dense_runs(dense, o);
  ModelConfig model;
  model.embed_dim = channels;
  model.num_heads = heads;
  const DType rate_type = dtype == DType::kFloat64 ? DType::kFloat32 : dtype;
  const auto ceiling = [&] { return measure_gemms(model, 1, rate_type, kCpu)[0].gflops; };
  const double before = ceiling();
  constexpr int kWarmup = 2;
  for (int i = 0; i < kWarmup + steps; ++i) {
    runs.run(i >= kWarmup);
    dense_runs.run(i >= kWarmup);
  }
  const double gemm_gflops = std::max(before, ceiling());
  const double ms = runs.forward_ms() + runs.backward_ms();
  const double dense_ms = dense_runs.forward_ms() + dense_runs.backward_ms();
  BenchmarkResult result = {{"forward_ms", runs.forward_ms()},
                            {"backward_ms", runs.backward_ms()},
                            {"dense_forward_ms", dense_runs.forward_ms()},
                            {"dense_backward_ms", dense_runs.backward_ms()},
                            {"times_faster", dense_ms / ms},
                            {"gemm_gflops", gemm_gflops}};
  if (length == 0) {
    const double gflops = 2 * multiply_adds_of_attention(subject, o) / (ms * 1e6);
    result["gflops"] = gflops;
    result["fraction_of_gemm"] = gflops / gemm_gflops;
  }
  return result;
}

}  // namespace dtn::app
