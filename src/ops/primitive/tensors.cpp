#include "ops/primitive/tensors.h"

#include <algorithm>

#include "kernels/pointwise/pointwise.h"
#include "kernels/primitive/copy.h"

namespace dtn::primitive {
namespace {

Strides dense_strides(const Shape& shape) {
  Strides strides;
  std::int64_t step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides.step[d] = step;
    step *= shape[d];
  }
  return strides;
}

// Returns the strides of a dense array of shape `from` that is broadcast to `to`.
Strides broadcast_strides(const Shape& from, const Shape& to) {
  const Strides dense = dense_strides(from);
  const int lead = to.rank() - from.rank();
  DTN_CHECK(lead >= 0, to_string(from), " does not broadcast to ", to_string(to));
  Strides strides;
  for (int d = lead; d < to.rank(); ++d) {
    DTN_CHECK(from[d - lead] == to[d] || from[d - lead] == 1, to_string(from),
              " does not broadcast to ", to_string(to));
    strides.step[d] = from[d - lead] == 1 ? 0 : dense.step[d - lead];
  }
  return strides;
}

// Returns the extents of a loop over `shape`: drops extents of 1, and joins neighbouring dimensions
// that are contiguous in all arrays. Changes the strides of the arrays accordingly.
Extents collapse(const Shape& shape, std::initializer_list<Strides*> arrays) {
  Extents result;
  int last = -1;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    const bool joins = last >= 0 && std::ranges::all_of(arrays, [&](const Strides* s) {
                         return s->step[last] == s->step[d] * shape[d];
                       });
    if (joins) {
      result.size[last] *= shape[d];
    } else {
      result.size[++last] = shape[d];
    }
    for (Strides* s : arrays) s->step[last] = s->step[d];
  }
  if (last < 0) {
    result.size[++last] = 1;
    for (Strides* s : arrays) s->step[0] = 1;
  }
  result.rank = last + 1;
  return result;
}

// Elements of a tensor from element `begin` on.
struct Place {
  const Tensor& tensor;
  Strides strides;
  std::int64_t begin = 0;

  const void* raw() const {
    return static_cast<const std::byte*>(tensor.raw()) +
           static_cast<std::size_t>(begin) * size_of(tensor.dtype());
  }
};

// Returns every step-th element of a dimension from `begin` on.
Place every(const Tensor& x, int dim, std::int64_t begin, std::int64_t step) {
  Place place{x, dense_strides(x.shape())};
  place.begin = begin * place.strides.step[dim];
  place.strides.step[dim] *= step;
  return place;
}

void copy_strided(const Shape& shape, Place from, Place to) {
  if (shape.numel() == 0) return;
  StridedCopy args{};
  args.dtype = from.tensor.dtype();
  args.extents = collapse(shape, {&from.strides, &to.strides});
  args.x = from.raw();
  args.x_strides = from.strides;
  args.y = const_cast<void*>(to.raw());  // the caller may write to this tensor
  args.y_strides = to.strides;
  run_on(from.tensor.device(), args);
}

}  // namespace

int normalize_dim(int dim, int rank) {
  const int d = dim < 0 ? dim + rank : dim;
  DTN_CHECK(0 <= d && d < rank, "dimension ", dim, " is not in a tensor of rank ", rank);
  return d;
}

Shape broadcast_shape(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  for (int i = 0; i < rank; ++i) {
    const std::int64_t da = i < rank - a.rank() ? 1 : a[i - (rank - a.rank())];
    const std::int64_t db = i < rank - b.rank() ? 1 : b[i - (rank - b.rank())];
    DTN_CHECK(da == db || da == 1 || db == 1, "shapes ", to_string(a), " and ", to_string(b),
              " do not broadcast");
    dims[static_cast<std::size_t>(i)] = da == 1 ? db : da;
  }
  return Shape(std::span<const std::int64_t>(dims.data(), static_cast<std::size_t>(rank)));
}

Tensor map(Function f, const Shape& shape, std::initializer_list<const Tensor*> in, double a,
           double b) {
  const Tensor& first = **in.begin();
  Tensor y = Tensor::empty(shape, first.dtype(), first.device());
  Elementwise args{};
  args.dtype = first.dtype();
  args.function = f;
  args.out = y.raw();
  args.a = a;
  args.b = b;
  std::size_t k = 0;
  for (const Tensor* t : in) {
    DTN_CHECK(t->dtype() == first.dtype(), "cannot combine ", name_of(first.dtype()), " and ",
              name_of(t->dtype()), "; cast one of them");
    DTN_CHECK(t->device() == first.device(), "cannot combine tensors on ",
              to_string(first.device()), " and ", to_string(t->device()));
    args.in[k] = t->raw();
    args.strides[k++] = broadcast_strides(t->shape(), shape);
  }
  // The result must be dense in the remaining dimensions, so its strides count, too.
  Strides out = dense_strides(shape);
  args.extents = collapse(
      shape, {&args.strides[0], &args.strides[k > 1 ? 1 : 0], &args.strides[k > 2 ? 2 : 0], &out});
  if (y.numel() > 0) run_on(y.device(), args);
  return y;
}

Tensor reduce(const Tensor& x, Reduction kind, const Mask& mask, DType dtype, double scale) {
  Shape kept = x.shape();
  Reduce args{};
  args.kind = kind;
  int last = -1;
  for (int d = 0; d < x.rank(); ++d) {
    const bool reduced = mask[static_cast<std::size_t>(d)];
    if (reduced) kept[d] = 1;
    if (x.dim(d) == 1) continue;
    if (last >= 0 && args.reduced[last] == reduced) {
      args.extents.size[last] *= x.dim(d);
    } else {
      args.extents.size[++last] = x.dim(d);
      args.reduced[last] = reduced;
    }
  }
  if (last < 0) args.extents.size[++last] = 1;
  args.extents.rank = last + 1;
  DTN_CHECK(x.numel() > 0 || kind == Reduction::kSum || kept.numel() == 0,
            "cannot take the maximum over the empty ", to_string(x.shape()));
  if (x.numel() == 0) return Tensor::zeros(kept, dtype, x.device());
  Tensor y = Tensor::empty(kept, dtype, x.device());
  args.dtype = x.dtype();
  args.y_dtype = dtype;
  args.x = x.raw();
  args.y = y.raw();
  args.scale = scale;
  run_on(x.device(), args);
  return y;
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Mask mask{};
  const int lead = x.rank() - shape.rank();
  for (int d = 0; d < x.rank(); ++d) {
    mask[static_cast<std::size_t>(d)] = d < lead || (shape[d - lead] == 1 && x.dim(d) != 1);
  }
  return reduce(x, Reduction::kSum, mask, x.dtype()).reshape(shape);
}

Tensor cast_tensor(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor y = Tensor::empty(x.shape(), dtype, x.device());
  run_on(x.device(), Cast{x.dtype(), dtype, x.numel(), x.raw(), y.raw()});
  return y;
}

Tensor broadcast(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  copy_strided(shape, {x, broadcast_strides(x.shape(), shape)}, {y, dense_strides(shape)});
  return y;
}

Tensor permuted(const Tensor& x, std::span<const int> order) {
  Shape shape = x.shape();
  const Strides dense = dense_strides(x.shape());
  Strides strides;
  for (std::size_t i = 0; i < order.size(); ++i) {
    shape[static_cast<int>(i)] = x.dim(order[i]);
    strides.step[i] = dense.step[order[i]];
  }
  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  copy_strided(shape, {x, strides}, {y, dense_strides(shape)});
  return y;
}

void check_index(const char* op, const Tensor& x, int dim, const Tensor& index, const char* place) {
  DTN_CHECK(index.defined() && index.rank() == 1 && index.dtype() == DType::kInt64, op,
            " needs an int64 index [R]");
  DTN_CHECK(index.device() == x.device(), op, ": the index is on ", to_string(index.device()),
            ", the values on ", to_string(x.device()));
  if (index.device() != kCpu) return;
  for (std::int64_t r = 0; r < index.numel(); ++r) {
    const std::int64_t i = index.data<std::int64_t>()[r];
    DTN_CHECK(0 <= i && i < x.dim(dim), "index ", i, " ", place, " ", r, " is outside [0, ",
              x.dim(dim), ")");
  }
}

Tensor narrowed(const Tensor& x, int dim, std::int64_t begin, std::int64_t end, std::int64_t step) {
  DTN_CHECK(0 <= begin && begin <= end && end <= x.dim(dim), "elements [", begin, ", ", end,
            ") are not in dimension ", dim, " of ", to_string(x.shape()));
  DTN_CHECK(step > 0, "a step must be positive, not ", step);
  if (dim == 0 && step == 1) return x.slice(begin, end);
  Shape shape = x.shape();
  shape[dim] = (end - begin + step - 1) / step;
  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  copy_strided(shape, every(x, dim, begin, step), {y, dense_strides(shape)});
  return y;
}

void insert(const Tensor& x, Tensor& y, int dim, std::int64_t begin, std::int64_t step) {
  copy_strided(x.shape(), {x, dense_strides(x.shape())}, every(y, dim, begin, step));
}

}  // namespace dtn::primitive
