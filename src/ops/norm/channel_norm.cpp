#include "ops/norm/channel_norm.h"

#include <numeric>
#include <type_traits>

#include "dtn/ops/primitive.h"
#include "kernels/norm/channel_norm.h"
#include "ops/norm/norm_gradients.h"

namespace dtn::ops {
namespace {

// State of one normalization between its forward and its backward pass. The kernel arguments point
// into its tensors.
struct Node {
  ChannelNorm how;
  bool frozen;
  Tensor x, weight, bias;
  ChannelMoments moments;
  std::shared_ptr<const SharedBatch> batch;  // null: x is the whole batch
  GradSink dx, dweight, dbias;
  Shape gains;  // of weight and bias
  std::int64_t channels, rows;
  DType accumulator;

  Node(const char* op, const Variable& input, const Variable& w, const Variable& b,
       const ChannelNorm& norm, const ChannelMoments* given)
      : how(norm),
        frozen(given != nullptr),
        x(input.value()),
        dx(input.sink()),
        dweight(w.sink()),
        dbias(b.sink()),
        channels(input.dim(-1)),
        accumulator(accumulator_of(input.dtype())) {
    const std::int64_t all = x.numel() / channels;
    const bool fits = how.rows.empty() ? how.sets > 0 && all % how.sets == 0
                                       : std::ssize(how.rows) == how.sets &&
                                             std::reduce(how.rows.begin(), how.rows.end()) == all;
    DTN_CHECK(fits, op, ": input ", to_string(x.shape()), " is not ", how.sets, " sets of rows");
    DTN_CHECK(how.groups > 0 && channels % how.groups == 0, op, ": ", channels,
              " channels are not divisible into ", how.groups, " groups");
    rows = how.rows.empty() ? all / how.sets : 0;
    for (const Variable* v : {&w, &b}) {
      if (!v->defined()) continue;
      DTN_CHECK(v->shape() == Shape{channels} || v->shape() == (Shape{how.sets, channels}), op,
                ": input ", to_string(x.shape()), " does not fit parameters ",
                to_string(v->shape()));
      DTN_CHECK(!w.defined() || w.shape() == v->shape(), op, ": weight ", to_string(w.shape()),
                " and bias ", to_string(v->shape()), " differ");
      gains = v->shape();
    }
    if (w.defined()) weight = w.value_as(accumulator);
    if (b.defined()) bias = b.value_as(accumulator);
    if (given) {
      moments = *given;
    } else {
      moments.mean = Tensor::empty({how.sets, how.groups}, accumulator, x.device());
      moments.rest = Tensor::empty_like(moments.mean);
      moments.variance = Tensor::empty_like(moments.mean);
    }
  }

  std::int64_t stride() const { return gains.numel() == channels ? 0 : channels; }

  // Runs all sets at once, or one after the other if their numbers of rows differ.
  template <class Arguments>
  void run_sets(const Arguments& args) const {
    if (how.rows.empty()) return run_on(x.device(), args);
    std::int64_t first = 0;
    for (std::int64_t set = 0; set < how.sets; ++set) {
      Arguments one = args;
      one.sets = 1;
      one.rows = how.rows[static_cast<std::size_t>(set)];
      const auto of_row = static_cast<std::int64_t>(size_of(x.dtype())) * channels;
      const auto of_number = static_cast<std::int64_t>(size_of(accumulator));
      point_at(one, {first * of_row, set * how.groups * of_number, set * stride() * of_number});
      run_on(x.device(), one);
      first += one.rows;
    }
  }

  // Offsets of a set from the first set; bytes.
  struct Offsets {
    std::int64_t rows, statistics, parameters;
  };
  template <class P>
  static void advance(P*& pointer, std::int64_t bytes) {
    using Bytes = std::conditional_t<std::is_const_v<P>, const std::byte, std::byte>;
    if (pointer) pointer = static_cast<Bytes*>(pointer) + bytes;
  }
  static void point_at(ChannelNormForward& args, const Offsets& by) {
    advance(args.x, by.rows);
    for (auto* p : {&args.weight, &args.bias}) advance(*p, by.parameters);
    for (auto* p : {&args.mean, &args.mean_rest, &args.variance}) advance(*p, by.statistics);
    advance(args.y, by.rows);
  }
  static void point_at(ChannelNormBackward& args, const Offsets& by) {
    for (auto* p : {&args.x, &args.dy, &args.dx_add}) advance(*p, by.rows);
    for (auto* p : {&args.mean, &args.mean_rest, &args.variance}) advance(*p, by.statistics);
    for (auto* p : {&args.dweight, &args.dbias}) advance(*p, by.parameters);
    for (auto* p : {&args.weight, &args.bias}) advance(*p, by.parameters);
    advance(args.dx, by.rows);
  }

  Tensor forward() const {
    Tensor y = Tensor::empty_like(x);
    ChannelNormForward args = forward_arguments();
    args.y = y.raw();
    if (batch) {
      args.part = ChannelNormPart::kStatistics;
      run_on(x.device(), args);
      batch->combine(moments);
      args.part = ChannelNormPart::kApplication;
    }
    run_sets(args);
    return y;
  }

  ChannelNormArguments arguments() const {
    ChannelNormArguments args{};
    args.dtype = x.dtype();
    args.sets = how.sets;
    args.rows = rows;
    args.channels = channels;
    args.groups = how.groups;
    args.eps = how.eps;
    args.unbiased = how.unbiased;
    args.x = x.raw();
    args.weight = weight.raw();
    args.bias = bias.raw();
    args.parameter_stride = stride();
    args.relu = how.relu;
    return args;
  }
  ChannelNormForward forward_arguments() const {
    auto raw = [](Tensor t) { return t.raw(); };  // the kernel writes the moments
    ChannelNormForward args{arguments(), nullptr, raw(moments.mean), raw(moments.rest),
                            raw(moments.variance)};
    if (frozen) args.part = ChannelNormPart::kApplication;
    return args;
  }

  void backward(const Tensor& dy) const {
    NormInputGradient input(dx, x);
    ChannelNormBackward args{arguments(),
                             frozen,
                             /*total_rows=*/0,
                             moments.mean.raw(),
                             moments.rest.raw(),
                             moments.variance.raw(),
                             dy.raw()};
    args.dx_add = input.waiting();
    args.dx = input.destination();
    args.dweight = buffer_or_null(dweight, gains, accumulator, x.device());
    args.dbias = buffer_or_null(dbias, gains, accumulator, x.device());
    Tensor sums;
    if (batch && dx) {
      // Stays 0 without rows.
      sums = Tensor::zeros({how.sets, 2, channels}, accumulator, x.device());
      args.part = ChannelNormPart::kStatistics;
      args.sums = sums.raw();
      run_on(x.device(), args);
      batch->add_up(sums);
      args.part = ChannelNormPart::kApplication;
      args.total_rows = batch->rows();
    }
    run_sets(args);
    input.deliver();
  }
};

Variable record(Context& ctx, const char* op, const Node& node, const Variable& x,
                const Variable& weight, const Variable& bias) {
  return ctx.record(op, node.forward(), {&x, &weight, &bias},
                    [node](const Tensor& dy) { node.backward(dy); });
}

}  // namespace

ChannelMoments channel_statistics(const Tensor& x, const ChannelNorm& how) {
  Node node("channel_statistics", Variable(x), {}, {}, how, nullptr);
  ChannelNormForward args = node.forward_arguments();
  args.part = ChannelNormPart::kStatistics;
  node.run_sets(args);
  return node.moments;
}

Variable channel_norm(Context& ctx, const char* op, const Variable& x, const Variable& weight,
                      const Variable& bias, const ChannelNorm& how, ChannelMoments* moments,
                      std::shared_ptr<const SharedBatch> batch) {
  Node node(op, x, weight, bias, how, nullptr);
  DTN_CHECK(!batch || (how.sets == 1 && how.groups == node.channels && !how.unbiased), op,
            ": statistics over ranks need one set, groups of one channel and the biased variance");
  node.batch = std::move(batch);
  if (moments) *moments = node.moments;
  return record(ctx, op, node, x, weight, bias);
}

Variable channel_affine(Context& ctx, const char* op, const Variable& x, const Variable& weight,
                        const Variable& bias, const ChannelNorm& how, const ChannelMoments& given) {
  return record(ctx, op, Node(op, x, weight, bias, how, &given), x, weight, bias);
}

namespace reference {
using namespace primitive;

// Normalizes sets with different numbers of rows, one after the other; weight and bias are [C].
static Variable norm_of_sets(Context& ctx, const Variable& x, const Variable& weight,
                             const Variable& bias, const ChannelNorm& how) {
  Variable y;
  std::int64_t first = 0;
  for (const std::int64_t rows : how.rows) {
    const Variable set = narrow(ctx, x, 0, first, first + rows);
    const Variable normed =
        channel_norm(ctx, set, weight, bias, {1, how.groups, how.eps, how.unbiased});
    y = y.defined() ? concat(ctx, y, normed, 0) : normed;
    first += rows;
  }
  return y;
}

Variable channel_norm(Context& ctx, const Variable& x, const Variable& weight, const Variable& bias,
                      const ChannelNorm& how) {
  if (!how.rows.empty()) return norm_of_sets(ctx, x, weight, bias, how);
  const std::int64_t channels = x.dim(-1), size = channels / how.groups;
  const std::int64_t rows = x.value().numel() / (how.sets * channels);
  const Shape split = {how.sets, rows, how.groups, size};
  const std::int64_t n = rows * size, divisor = how.unbiased && n > 1 ? n - 1 : n;

  Variable values = reshape(ctx, upcast(ctx, x), split);
  Variable mean = affine(ctx, sum(ctx, values, {1, 3}), 1.0 / static_cast<double>(n));
  Variable centred = sub(ctx, values, mean);
  Variable var = affine(ctx, sum(ctx, mul(ctx, centred, centred), {1, 3}),
                        1.0 / static_cast<double>(divisor), how.eps);
  Variable y = div(ctx, centred, sqrt(ctx, var));
  auto gains = [&](const Variable& v) {
    return reshape(ctx, v, {v.value().numel() / channels, 1, how.groups, size});
  };
  if (weight.defined()) y = mul(ctx, y, gains(weight));
  if (bias.defined()) y = add(ctx, y, gains(bias));
  return cast(ctx, reshape(ctx, y, x.shape()), x.dtype());
}

}  // namespace reference
}  // namespace dtn::ops
