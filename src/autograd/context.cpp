#include "dtn/autograd/context.h"

#include <algorithm>

namespace dtn {

Variable Context::record(const char* op, Tensor y, std::initializer_list<const Variable*> inputs,
                         Tape::Backward backward) {
  if (tape && !tape->records()) tape->count(inputs);
  const bool wanted = recording() && std::ranges::any_of(inputs, [](const Variable* v) {
                        return v && v->requires_grad();
                      });
  Variable output(std::move(y), wanted);
  if (wanted) tape->record(op, output.sink(), inputs, std::move(backward));
  return output;
}

Variable checkpoint(Context& ctx, const Variable& x,
                    std::function<Variable(Context&, const Variable&)> piece) {
  if (!ctx.recording()) return piece(ctx, x);
  Tape counted(Tape::Kind::kCountUses);
  Context silent = ctx;
  silent.tape = &counted;
  Tensor value = piece(silent, Variable(x.value())).value();
  // Neither x nor a parameter inside needs a gradient.
  if (!x.requires_grad() && !counted.wants_gradient()) return Variable(std::move(value));
  Variable y(std::move(value), true);
  // The parameters inside stay in use until the piece has run backward.
  ctx.tape->record("checkpoint", y.sink(), counted.take_uses(),
                   [ctx, x = x.value(), dx = x.sink(), piece = std::move(piece)](const Tensor& dy) {
                     Tape tape;
                     Context again = ctx;
                     again.tape = &tape;
                     again.mode.recompute = true;
                     Variable input(x, dx != nullptr);
                     // The residual gradient that already waits at x joins inside the piece, where
                     // norms add to it in place.
                     if (dx && dx->has()) input.sink()->set(dx->take());
                     tape.backward(piece(again, input), dy);
                     if (dx && input.sink()->has()) dx->set(input.sink()->take());
                   });
  return y;
}

}  // namespace dtn
