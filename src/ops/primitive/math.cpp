// Constants, types and elementwise operations; see dtn/ops/primitive.h.
#include "dtn/ops/primitive.h"
#include "ops/primitive/tensors.h"

namespace dtn::primitive {
namespace {

// y = f(x; a). Its gradient is g(y, dy; a) or g(x, dy; a).
enum class Saves { kInput, kResult };
Variable unary(Context& ctx, const char* op, const Variable& x, Function f, Function g, Saves saves,
               double a = 0) {
  Tensor y = map(f, x.shape(), {&x.value()}, a);
  Tensor saved = saves == Saves::kResult ? y : x.value();
  return ctx.record(op, y, {&x}, [saved, g, a, dx = x.sink()](const Tensor& dy) {
    dx->accumulate(map(g, saved.shape(), {&saved, &dy}, a));
  });
}

// Two operands of one type: bfloat16 with float32 becomes float32.
struct Operands {
  Variable a, b;
  Shape shape;

  Operands(Context& ctx, const Variable& p, const Variable& q)
      : a(p), b(q), shape(broadcast_shape(p.shape(), q.shape())) {
    if (a.dtype() == DType::kBFloat16 && b.dtype() == DType::kFloat32) a = upcast(ctx, a);
    if (b.dtype() == DType::kBFloat16 && a.dtype() == DType::kFloat32) b = upcast(ctx, b);
  }
  Tensor compute(Function f) const { return map(f, shape, {&a.value(), &b.value()}); }
};

void send(const GradSink& sink, const Tensor& grad, const Shape& shape) {
  sink->accumulate(sum_to(grad, shape));
}

// Returns the larger or the smaller element. If both are equal, the gradient goes to p.
Variable choose(Context& ctx, const char* op, Function f, const Variable& p, const Variable& q) {
  const Operands in(ctx, p, q);
  return ctx.record(op, in.compute(f), {&in.a, &in.b},
                    [f, a = in.a.value(), b = in.b.value(), da = in.a.sink(),
                     db = in.b.sink()](const Tensor& dy) {
                      const Tensor &most = f == Function::kMaximum ? a : b,
                                   &least = f == Function::kMaximum ? b : a;
                      auto where_chosen = [&](Function keep) {
                        return map(keep, dy.shape(), {&most, &least, &dy});
                      };
                      if (da) send(da, where_chosen(Function::kKeepWhereGreaterEqual), a.shape());
                      if (db) send(db, where_chosen(Function::kKeepWhereLess), b.shape());
                    });
}

}  // namespace

Variable full(const Shape& shape, DType dtype, Device device, double value) {
  Tensor y = Tensor::empty(shape, dtype, device);
  Elementwise args{};
  args.dtype = dtype;
  args.function = Function::kFill;
  args.extents.rank = 1;
  args.extents.size[0] = y.numel();
  args.out = y.raw();
  args.a = value;
  if (y.numel() > 0) run_on(device, args);
  return Variable(y);
}

Variable constant(const Variable& like, double value) {
  return full({1}, like.dtype(), like.device(), value);
}

Variable detach(const Variable& x) { return Variable(x.value()); }

Variable cast(Context& ctx, const Variable& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return ctx.record("cast", x.value_as(dtype), {&x},
                    [from = x.dtype(), dx = x.sink()](const Tensor& dy) {
                      dx->accumulate(cast_tensor(dy, from));
                    });
}

Variable upcast(Context& ctx, const Variable& x) { return cast(ctx, x, accumulator_of(x.dtype())); }

Variable add(Context& ctx, const Variable& p, const Variable& q) {
  const Operands in(ctx, p, q);
  return ctx.record(
      "add", in.compute(Function::kAdd), {&in.a, &in.b},
      [sa = in.a.shape(), sb = in.b.shape(), da = in.a.sink(), db = in.b.sink()](const Tensor& dy) {
        if (da) send(da, dy, sa);
        if (db) send(db, dy, sb);
      });
}

Variable sub(Context& ctx, const Variable& p, const Variable& q) {
  const Operands in(ctx, p, q);
  return ctx.record(
      "sub", in.compute(Function::kSub), {&in.a, &in.b},
      [sa = in.a.shape(), sb = in.b.shape(), da = in.a.sink(), db = in.b.sink()](const Tensor& dy) {
        if (da) send(da, dy, sa);
        if (!db) return;
        const Tensor grad = sum_to(dy, sb);
        db->accumulate(map(Function::kAffine, sb, {&grad}, -1));
      });
}

Variable mul(Context& ctx, const Variable& p, const Variable& q) {
  const Operands in(ctx, p, q);
  return ctx.record(
      "mul", in.compute(Function::kMul), {&in.a, &in.b},
      [a = in.a.value(), b = in.b.value(), da = in.a.sink(), db = in.b.sink()](const Tensor& dy) {
        const Shape& shape = dy.shape();
        if (da) send(da, map(Function::kMul, shape, {&dy, &b}), a.shape());
        if (db) send(db, map(Function::kMul, shape, {&dy, &a}), b.shape());
      });
}

Variable div(Context& ctx, const Variable& p, const Variable& q) {
  const Operands in(ctx, p, q);
  Tensor y = in.compute(Function::kDiv);
  return ctx.record("div", y, {&in.a, &in.b},
                    [y, a = in.a.shape(), b = in.b.value(), da = in.a.sink(),
                     db = in.b.sink()](const Tensor& dy) {
                      const Shape& shape = dy.shape();
                      if (da) send(da, map(Function::kDiv, shape, {&dy, &b}), a);
                      if (db)
                        send(db, map(Function::kDivisorGradient, shape, {&dy, &y, &b}), b.shape());
                    });
}

Variable maximum(Context& ctx, const Variable& a, const Variable& b) {
  return choose(ctx, "maximum", Function::kMaximum, a, b);
}
Variable minimum(Context& ctx, const Variable& a, const Variable& b) {
  return choose(ctx, "minimum", Function::kMinimum, a, b);
}

Variable greater(const Variable& a, const Variable& b) {
  Context silent;
  return Variable(Operands(silent, a, b).compute(Function::kGreater));
}

Variable where(Context& ctx, const Variable& condition, const Variable& p, const Variable& q) {
  const Operands in(ctx, p, q);
  const Tensor c = cast_tensor(condition.value(), in.a.dtype());
  const Shape shape = broadcast_shape(c.shape(), in.shape);
  Tensor y = map(Function::kWhere, shape, {&c, &in.a.value(), &in.b.value()});
  return ctx.record("where", y, {&in.a, &in.b},
                    [c, sa = in.a.shape(), sb = in.b.shape(), da = in.a.sink(),
                     db = in.b.sink()](const Tensor& dy) {
                      const Tensor zero = constant(Variable(dy), 0).value();
                      auto keep = [&](const Tensor& yes, const Tensor& no) {
                        return map(Function::kWhere, dy.shape(), {&c, &yes, &no});
                      };
                      if (da) send(da, keep(dy, zero), sa);
                      if (db) send(db, keep(zero, dy), sb);
                    });
}

Variable affine(Context& ctx, const Variable& x, double scale, double shift) {
  Tensor y = map(Function::kAffine, x.shape(), {&x.value()}, scale, shift);
  return ctx.record("affine", y, {&x}, [scale, dx = x.sink()](const Tensor& dy) {
    dx->accumulate(map(Function::kAffine, dy.shape(), {&dy}, scale));
  });
}
Variable neg(Context& ctx, const Variable& x) { return affine(ctx, x, -1); }

Variable exp(Context& ctx, const Variable& x) {
  return unary(ctx, "exp", x, Function::kExp, Function::kMul, Saves::kResult);
}
Variable log(Context& ctx, const Variable& x) {
  return unary(ctx, "log", x, Function::kLog, Function::kLogGradient, Saves::kInput);
}
Variable sqrt(Context& ctx, const Variable& x) {
  return unary(ctx, "sqrt", x, Function::kSqrt, Function::kSqrtGradient, Saves::kResult);
}
Variable erf(Context& ctx, const Variable& x) {
  return unary(ctx, "erf", x, Function::kErf, Function::kErfGradient, Saves::kInput);
}
Variable sigmoid(Context& ctx, const Variable& x) {
  return unary(ctx, "sigmoid", x, Function::kSigmoid, Function::kSigmoidGradient, Saves::kResult);
}
Variable tanh(Context& ctx, const Variable& x) {
  return unary(ctx, "tanh", x, Function::kTanh, Function::kTanhGradient, Saves::kResult);
}
Variable relu(Context& ctx, const Variable& x) {
  return unary(ctx, "relu", x, Function::kRelu, Function::kReluGradient, Saves::kInput);
}
Variable abs(Context& ctx, const Variable& x) {
  return unary(ctx, "abs", x, Function::kAbs, Function::kAbsGradient, Saves::kInput);
}
Variable cos(Context& ctx, const Variable& x) {
  return unary(ctx, "cos", x, Function::kCos, Function::kCosGradient, Saves::kInput);
}
Variable sin(Context& ctx, const Variable& x) {
  return unary(ctx, "sin", x, Function::kSin, Function::kSinGradient, Saves::kInput);
}
Variable power(Context& ctx, const Variable& x, double exponent) {
  return unary(ctx, "power", x, Function::kPower, Function::kPowerGradient, Saves::kInput,
               exponent);
}

}  // namespace dtn::primitive
