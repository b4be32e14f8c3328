#include "ops/channel_norm.h"

#include "dtn/ops/primitive.h"
#include "kernels/norm/channel_norm.h"
#include "ops/norm_gradients.h"

namespace dtn::ops {
namespace {

// One normalization between its forward and its backward pass. The arguments of the kernels point
// into the tensors that are held here.
struct Node {
  ChannelNorm how;
  bool frozen;
  Tensor x, weight, bias;
  ChannelMoments moments;
  std::shared_ptr<const SharedBatch> batch;  // null: x is all of it
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
    DTN_CHECK(how.sets > 0 && x.numel() % (how.sets * channels) == 0, op, ": input ",
              to_string(x.shape()), " is not ", how.sets, " sets of rows");
    DTN_CHECK(how.groups > 0 && channels % how.groups == 0, op, ": ", channels,
              " channels do not divide into ", how.groups, " groups");
    rows = x.numel() / (how.sets * channels);
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
  static void* raw(Tensor t) { return t.defined() ? t.raw() : nullptr; }

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
    run_on(x.device(), args);
    return y;
  }

  ChannelNormForward forward_arguments() const {
    ChannelNormForward args{};
    args.dtype = x.dtype();
    args.part = frozen ? ChannelNormPart::kApplication : ChannelNormPart::kWhole;
    args.sets = how.sets;
    args.rows = rows;
    args.channels = channels;
    args.groups = how.groups;
    args.eps = how.eps;
    args.unbiased = how.unbiased;
    args.x = x.raw();
    args.weight = raw(weight);
    args.bias = raw(bias);
    args.parameter_stride = stride();
    args.mean = raw(moments.mean);
    args.mean_rest = raw(moments.rest);
    args.variance = raw(moments.variance);
    return args;
  }

  void backward(const Tensor& dy) const {
    NormInputGradient input(dx, x);
    ChannelNormBackward args{};
    args.dtype = x.dtype();
    args.sets = how.sets;
    args.rows = rows;
    args.channels = channels;
    args.groups = how.groups;
    args.eps = how.eps;
    args.unbiased = how.unbiased;
    args.frozen = frozen;
    args.x = x.raw();
    args.weight = raw(weight);
    args.parameter_stride = stride();
    args.mean = raw(moments.mean);
    args.mean_rest = raw(moments.rest);
    args.variance = raw(moments.variance);
    args.dy = dy.raw();
    args.dx_add = input.waiting();
    args.dx = input.destination();
    args.dweight = buffer_or_null(dweight, gains, accumulator, x.device());
    args.dbias = buffer_or_null(dbias, gains, accumulator, x.device());
    Tensor sums;
    if (batch && dx) {
      sums = Tensor::empty({how.sets, 2, channels}, accumulator, x.device());
      args.part = ChannelNormPart::kStatistics;
      args.sums = sums.raw();
      run_on(x.device(), args);
      batch->add_up(sums);
      args.part = ChannelNormPart::kApplication;
      args.total_rows = batch->rows();
    }
    run_on(x.device(), args);
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
  run_on(x.device(), args);
  return node.moments;
}

Variable channel_norm(Context& ctx, const char* op, const Variable& x, const Variable& weight,
                      const Variable& bias, const ChannelNorm& how, ChannelMoments* moments,
                      std::shared_ptr<const SharedBatch> batch) {
  Node node(op, x, weight, bias, how, nullptr);
  DTN_CHECK(!batch || (how.sets == 1 && how.groups == node.channels && !how.unbiased), op,
            ": only one set of channels on their own is shared with other processes");
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

Variable channel_norm(Context& ctx, const Variable& x, const Variable& weight, const Variable& bias,
                      const ChannelNorm& how) {
  const std::int64_t channels = x.dim(-1), size = channels / how.groups;
  const std::int64_t rows = x.value().numel() / (how.sets * channels);
  const Shape split = {how.sets, rows, how.groups, size};
  const std::int64_t n = rows * size, divisor = how.unbiased && n > 1 ? n - 1 : n;

  Variable values = reshape(ctx, widen(ctx, x), split);
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
