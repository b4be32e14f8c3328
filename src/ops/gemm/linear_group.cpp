#include "ops/gemm/linear_group.h"

#include <algorithm>
#include <numeric>

#include "kernels/gemm/linear.h"
#include "ops/outputs.h"
#include "ops/pointwise/rows.h"

namespace dtn::ops {
namespace {

// True if each tensor begins where the previous one ends. The meta device has no addresses.
bool are_consecutive(const std::vector<Variable>& tensors) {
  if (tensors.front().device() == kMeta) return true;
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const Tensor &before = tensors[i - 1].value(), &t = tensors[i].value();
    if (static_cast<const std::byte*>(before.raw()) + before.nbytes() != t.raw()) return false;
  }
  return true;
}

// Returns a tensor at whose address all tensors follow one another: the first one, or a copy.
Tensor joined(const std::vector<Variable>& tensors) {
  const Tensor& first = tensors.front().value();
  if (are_consecutive(tensors)) return first;
  const std::int64_t count = std::ssize(tensors), size = first.numel();
  Tensor all = Tensor::empty({count, size}, first.dtype(), first.device());
  for (std::int64_t i = 0; i < count; ++i) {
    const Tensor& t = tensors[static_cast<std::size_t>(i)].value();
    copy_rows(t, 0, size, all, i * size, size, 1, size);
  }
  return all;
}

}  // namespace

LinearGroup::LinearGroup(Context& ctx, const Variable& x, std::vector<Variable> weights,
                         std::vector<Variable> biases)
    : x_(x), weights_(std::move(weights)), biases_(std::move(biases)) {
  DTN_CHECK(!weights_.empty() && weights_.size() == biases_.size(),
            "linear_group: ", weights_.size(), " weights and ", biases_.size(), " biases");
  const Shape shape = weights_.front().shape();
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const Variable &w = weights_[i], &b = biases_[i];
    DTN_CHECK(w.shape() == shape && b.shape() == Shape({shape[0]}) && w.dtype() == x.dtype() &&
                  b.dtype() == x.dtype() && shape[1] == x.dim(1),
              "linear_group: weight ", to_string(w.shape()), " and bias ", to_string(b.shape()),
              " of layer ", i, " do not fit ", name_of(x.dtype()), " ", to_string(x.shape()));
  }
  const std::int64_t rows = x.dim(0), in = shape[1], out = shape[0] * std::ssize(weights_);
  Tensor y = Tensor::empty({rows, out}, x.dtype(), x.device());
  const Tensor weight = joined(weights_), bias = joined(biases_);
  LinearForward forward{};
  forward.dtype = x.dtype();
  forward.rows = rows;
  forward.in = in;
  forward.out = out;
  forward.x = x.value().raw();
  forward.weight = weight.raw();
  forward.bias = bias.raw();
  forward.bias_as_dtype = bias.raw();
  forward.y = y.raw();
  run_on(x.device(), forward);
  all_ = ctx.record("linear_group", y, {&x}, [=, to_x = x.sink()](const Tensor& dy) {
    Tensor dx = Tensor::empty({rows, in}, dy.dtype(), dy.device());
    LinearBackwardInput back{};
    back.dtype = dy.dtype();
    back.rows = rows;
    back.in = in;
    back.out = out;
    back.dy = dy.raw();
    back.weight = weight.raw();
    back.dx = dx.raw();
    run_on(dy.device(), back);
    to_x->accumulate(std::move(dx));
  });
}

template <std::size_t n>
std::array<Variable, n> LinearGroup::part(Context& ctx, std::size_t i,
                                          const std::array<std::int64_t, n>& widths) const {
  const Variable &weight = weights_.at(i), &bias = biases_.at(i);
  const std::int64_t rows = x_.dim(0), in = weight.dim(1), out = weight.dim(0), all = all_.dim(1);
  DTN_CHECK(std::accumulate(widths.begin(), widths.end(), std::int64_t{0}) == out,
            "linear_group: the columns are not those of a layer with ", out, " outputs");
  const std::int64_t first = static_cast<std::int64_t>(i) * out;
  std::array<Tensor, n> values;
  std::int64_t begin = first;
  for (std::size_t k = 0; k < n; ++k) {
    values[k] = Tensor::empty({rows, widths[k]}, x_.dtype(), x_.device());
    copy_rows(all_.value(), begin, all, values[k], 0, widths[k], rows, widths[k]);
    begin += widths[k];
  }
  return record_outputs<n>(
      ctx, "linear_group_part", values, {&all_, &weight, &bias},
      [=, x = x_.value(), to_all = all_.sink(), to_weight = weight.sink(),
       to_bias = bias.sink()](const std::array<Tensor, n>& gradients) {
        Tensor dy = Tensor::zeros({rows, out}, x.dtype(), x.device());
        std::int64_t column = 0;
        for (std::size_t k = 0; k < n; ++k) {
          const std::int64_t width = widths[k];
          if (gradients[k].defined()) {
            copy_rows(gradients[k], 0, width, dy, column, out, rows, width);
          }
          column += width;
        }
        LinearBackwardWeight back{x.dtype(), rows, in, out, dy.raw(), x.raw(), nullptr, nullptr};
        if (to_weight) back.dweight = to_weight->buffer({out, in}, x.dtype(), x.device()).raw();
        if (to_bias) back.dbias = to_bias->buffer({out}, x.dtype(), x.device()).raw();
        if (to_weight || to_bias) run_on(x.device(), back);
        if (!to_all) return;
        Tensor& dall = to_all->buffer({rows, all}, x.dtype(), x.device());
        copy_rows(dy, 0, out, dall, first, all, rows, out);
      });
}

template std::array<Variable, 2> LinearGroup::part(Context&, std::size_t,
                                                   const std::array<std::int64_t, 2>&) const;
template std::array<Variable, 4> LinearGroup::part(Context&, std::size_t,
                                                   const std::array<std::int64_t, 4>&) const;

}  // namespace dtn::ops
