#include "dtn/ops/elementary.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/gemm/gemm.h"
#include "ops/dispatch.h"

namespace dtn::elementary {
namespace {

// y = f(x); dx = dy * g(x, y).
template <class F, class G>
Variable unary(Context& ctx, const char* op, const Variable& x, F f, G g) {
  Tensor y = Tensor::empty_like(x.value());
  dispatch_real(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* in = x.value().data<T>();
    for (std::int64_t i = 0; i < y.numel(); ++i) y.data<T>()[i] = static_cast<T>(f(in[i]));
  });
  return ctx.record(op, y, {&x}, [x = x.value(), y, dx = x.sink(), g](const Tensor& dy) {
    Tensor grad = Tensor::empty_like(x);
    dispatch_real(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      for (std::int64_t i = 0; i < x.numel(); ++i) {
        grad.data<T>()[i] = static_cast<T>(dy.data<T>()[i] * g(x.data<T>()[i], y.data<T>()[i]));
      }
    });
    dx->accumulate(std::move(grad));
  });
}

// Visits every element of `shape` with its flat offset in a tensor broadcast to that shape.
class BroadcastIndex {
 public:
  BroadcastIndex(const Shape& shape, const Shape& source) : shape_(shape) {
    std::int64_t stride = 1;
    for (int i = shape.rank() - 1, j = source.rank() - 1; i >= 0; --i, --j) {
      std::int64_t extent = j >= 0 ? source[j] : 1;
      strides_[i] = extent == 1 ? 0 : stride;
      stride *= extent;
    }
  }
  std::int64_t operator()(std::int64_t flat) const {
    std::int64_t offset = 0;
    for (int i = shape_.rank() - 1; i >= 0; --i) {
      offset += flat % shape_[i] * strides_[i];
      flat /= shape_[i];
    }
    return offset;
  }

 private:
  Shape shape_;
  std::array<std::int64_t, Shape::kMaxRank> strides_{};
};

Shape broadcast_shape(const Shape& a, const Shape& b) {
  int rank = std::max(a.rank(), b.rank());
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  for (int i = 0; i < rank; ++i) {
    std::int64_t da = i < rank - a.rank() ? 1 : a[i - (rank - a.rank())];
    std::int64_t db = i < rank - b.rank() ? 1 : b[i - (rank - b.rank())];
    DTN_CHECK(da == db || da == 1 || db == 1, "shapes ", to_string(a), " and ", to_string(b),
              " do not broadcast");
    dims[static_cast<std::size_t>(i)] = da == 1 ? db : da;
  }
  return Shape(std::span<const std::int64_t>(dims.data(), static_cast<std::size_t>(rank)));
}

// y = f(a, b); da += dy * ga(a, b), db += dy * gb(a, b), summed over broadcast dimensions.
template <class F, class Ga, class Gb>
Variable binary(Context& ctx, const char* op, const Variable& a, const Variable& b, F f, Ga ga,
                Gb gb) {
  DTN_CHECK(a.dtype() == b.dtype(), op, " of ", name_of(a.dtype()), " and ", name_of(b.dtype()));
  Shape shape = broadcast_shape(a.shape(), b.shape());
  BroadcastIndex ia(shape, a.shape()), ib(shape, b.shape());
  Tensor y = Tensor::empty(shape, a.dtype());
  dispatch_real(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* pa = a.value().data<T>();
    const T* pb = b.value().data<T>();
    for (std::int64_t i = 0; i < y.numel(); ++i) y.data<T>()[i] = f(pa[ia(i)], pb[ib(i)]);
  });
  auto backward = [a = a.value(), b = b.value(), da = a.sink(), db = b.sink(), ia, ib, ga,
                   gb](const Tensor& dy) {
    auto send = [&](const GradSink& sink, const Tensor& like, const BroadcastIndex& index, auto g) {
      if (!sink) return;
      Tensor grad = Tensor::zeros(like.shape(), like.dtype());
      dispatch_real(like.dtype(), [&](auto zero) {
        using T = decltype(zero);
        for (std::int64_t i = 0; i < dy.numel(); ++i) {
          grad.data<T>()[index(i)] += dy.data<T>()[i] * g(a.data<T>()[ia(i)], b.data<T>()[ib(i)]);
        }
      });
      sink->accumulate(std::move(grad));
    };
    send(da, a, ia, ga);
    send(db, b, ib, gb);
  };
  return ctx.record(op, y, {&a, &b}, std::move(backward));
}

int normalize_dim(int dim, int rank) {
  int d = dim < 0 ? dim + rank : dim;
  DTN_CHECK(0 <= d && d < rank, "dimension ", dim, " of a tensor of rank ", rank);
  return d;
}

// The extents before, at and after a dimension.
struct Split {
  std::int64_t outer = 1, extent = 1, inner = 1;
  Split(const Shape& s, int dim) {
    for (int i = 0; i < s.rank(); ++i) (i < dim ? outer : i == dim ? extent : inner) *= s[i];
  }
};

Tensor permuted(const Tensor& x, const std::vector<int>& order) {
  int rank = x.rank();
  std::array<std::int64_t, Shape::kMaxRank> strides{}, dims{};
  std::int64_t stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    strides[static_cast<std::size_t>(i)] = stride;
    stride *= x.dim(i);
  }
  for (std::size_t i = 0; i < order.size(); ++i) dims[i] = x.dim(order[i]);
  Shape shape(std::span<const std::int64_t>(dims.data(), order.size()));
  Tensor y = Tensor::empty(shape, x.dtype());
  dispatch_real(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t flat = 0; flat < y.numel(); ++flat) {
      std::int64_t rest = flat, offset = 0;
      for (int i = rank - 1; i >= 0; --i) {
        offset +=
            rest % shape[i] * strides[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])];
        rest /= shape[i];
      }
      y.data<T>()[flat] = x.data<T>()[offset];
    }
  });
  return y;
}

// Copies elements [begin, end) of a dimension out of x, or into it when `scatter`.
Tensor narrowed(const Tensor& x, int dim, std::int64_t begin, std::int64_t end) {
  Split s(x.shape(), dim);
  Shape shape = x.shape();
  shape[dim] = end - begin;
  Tensor y = Tensor::empty(shape, x.dtype());
  std::size_t unit = static_cast<std::size_t>(s.inner) * size_of(x.dtype());
  std::size_t chunk = static_cast<std::size_t>(end - begin) * unit;
  for (std::int64_t o = 0; o < s.outer; ++o) {
    std::memcpy(static_cast<std::byte*>(y.raw()) + static_cast<std::size_t>(o) * chunk,
                static_cast<const std::byte*>(x.raw()) +
                    static_cast<std::size_t>(o * s.extent + begin) * unit,
                chunk);
  }
  return y;
}

Tensor widened(const Tensor& part, const Shape& whole, int dim, std::int64_t begin) {
  Split s(whole, dim);
  Tensor y = Tensor::zeros(whole, part.dtype());
  std::size_t unit = static_cast<std::size_t>(s.inner) * size_of(part.dtype());
  std::size_t chunk = static_cast<std::size_t>(part.dim(dim)) * unit;
  for (std::int64_t o = 0; o < s.outer; ++o) {
    std::memcpy(
        static_cast<std::byte*>(y.raw()) + static_cast<std::size_t>(o * s.extent + begin) * unit,
        static_cast<const std::byte*>(part.raw()) + static_cast<std::size_t>(o) * chunk, chunk);
  }
  return y;
}

// op(A) op(B) over the last two dimensions.
Tensor product(const Tensor& a, bool ta, const Tensor& b, bool tb) {
  Gemm g{};
  g.dtype = g.c_dtype = a.dtype();
  g.m = a.dim(ta ? -1 : -2);
  g.k = a.dim(ta ? -2 : -1);
  g.n = b.dim(tb ? -2 : -1);
  g.batch = a.numel() / (g.m * g.k);
  DTN_CHECK(b.dim(tb ? -1 : -2) == g.k && b.numel() == g.batch * g.k * g.n, "matmul of ",
            to_string(a.shape()), " and ", to_string(b.shape()));
  Shape shape = a.shape();
  shape[-2] = g.m;
  shape[-1] = g.n;
  Tensor c = Tensor::empty(shape, a.dtype());
  g.a = a.raw();
  g.b = b.raw();
  g.c = c.raw();
  g.transpose_a = ta;
  g.transpose_b = tb;
  g.lda = a.dim(-1);
  g.ldb = b.dim(-1);
  g.ldc = g.n;
  g.stride_a = g.m * g.k;
  g.stride_b = g.k * g.n;
  g.stride_c = g.m * g.n;
  run(cpu_queue(), g);
  return c;
}

}  // namespace

Variable add(Context& ctx, const Variable& a, const Variable& b) {
  return binary(
      ctx, "add", a, b, [](auto p, auto q) { return p + q; },
      [](auto p, auto) { return decltype(p)(1); }, [](auto p, auto) { return decltype(p)(1); });
}
Variable sub(Context& ctx, const Variable& a, const Variable& b) {
  return binary(
      ctx, "sub", a, b, [](auto p, auto q) { return p - q; },
      [](auto p, auto) { return decltype(p)(1); }, [](auto p, auto) { return decltype(p)(-1); });
}
Variable mul(Context& ctx, const Variable& a, const Variable& b) {
  return binary(
      ctx, "mul", a, b, [](auto p, auto q) { return p * q; }, [](auto, auto q) { return q; },
      [](auto p, auto) { return p; });
}
Variable div(Context& ctx, const Variable& a, const Variable& b) {
  return binary(
      ctx, "div", a, b, [](auto p, auto q) { return p / q; }, [](auto, auto q) { return 1 / q; },
      [](auto p, auto q) { return -p / (q * q); });
}

Variable affine(Context& ctx, const Variable& x, double scale, double shift) {
  return unary(
      ctx, "affine", x, [=](auto v) { return scale * v + shift; },
      [=](auto, auto) { return scale; });
}
Variable exp(Context& ctx, const Variable& x) {
  return unary(
      ctx, "exp", x, [](auto v) { return std::exp(v); }, [](auto, auto y) { return y; });
}
Variable log(Context& ctx, const Variable& x) {
  return unary(
      ctx, "log", x, [](auto v) { return std::log(v); }, [](auto v, auto) { return 1 / v; });
}
Variable sqrt(Context& ctx, const Variable& x) {
  return unary(
      ctx, "sqrt", x, [](auto v) { return std::sqrt(v); },
      [](auto, auto y) { return decltype(y)(0.5) / y; });
}
Variable erf(Context& ctx, const Variable& x) {
  return unary(
      ctx, "erf", x, [](auto v) { return std::erf(v); },
      [](auto v, auto) { return 1.1283791670955126 * std::exp(-v * v); });  // 2 / sqrt(pi)
}
Variable sigmoid(Context& ctx, const Variable& x) {
  return unary(
      ctx, "sigmoid", x, [](auto v) { return 1 / (1 + std::exp(-v)); },
      [](auto, auto y) { return y * (1 - y); });
}
Variable clamp_at_zero(Context& ctx, const Variable& x) {
  return unary(
      ctx, "clamp", x, [](auto v) { return v > 0 ? v : decltype(v)(0); },
      [](auto v, auto) { return v > 0 ? 1.0 : 0.0; });
}

Variable sum(Context& ctx, const Variable& x, int dim) {
  dim = normalize_dim(dim, x.value().rank());
  Split s(x.shape(), dim);
  Shape shape = x.shape();
  shape[dim] = 1;
  Tensor y = Tensor::zeros(shape, x.dtype());
  dispatch_real(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t o = 0; o < s.outer; ++o) {
      for (std::int64_t i = 0; i < s.inner; ++i) {
        double total = 0;
        for (std::int64_t e = 0; e < s.extent; ++e) {
          total += x.value().data<T>()[(o * s.extent + e) * s.inner + i];
        }
        y.data<T>()[o * s.inner + i] = static_cast<T>(total);
      }
    }
  });
  return ctx.record("sum", y, {&x}, [shape = x.shape(), s, dx = x.sink()](const Tensor& dy) {
    Tensor grad = Tensor::empty(shape, dy.dtype());
    dispatch_real(dy.dtype(), [&](auto zero) {
      using T = decltype(zero);
      for (std::int64_t o = 0; o < s.outer; ++o) {
        for (std::int64_t e = 0; e < s.extent; ++e) {
          for (std::int64_t i = 0; i < s.inner; ++i) {
            grad.data<T>()[(o * s.extent + e) * s.inner + i] = dy.data<T>()[o * s.inner + i];
          }
        }
      }
    });
    dx->accumulate(std::move(grad));
  });
}

Variable mean(Context& ctx, const Variable& x, int dim) {
  dim = normalize_dim(dim, x.value().rank());
  return affine(ctx, sum(ctx, x, dim), 1.0 / static_cast<double>(x.dim(dim)));
}

Variable softmax(Context& ctx, const Variable& x) {
  Tensor peak = Tensor::empty_like(x.value());  // a constant: softmax does not depend on it
  std::int64_t n = x.dim(-1);
  dispatch_real(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t r = 0; r < x.value().numel() / n; ++r) {
      const T* row = x.value().data<T>() + r * n;
      std::fill_n(peak.data<T>() + r * n, n, *std::max_element(row, row + n));
    }
  });
  Variable e = exp(ctx, sub(ctx, x, Variable(peak)));
  return div(ctx, e, sum(ctx, e, -1));
}

Variable reshape(Context& ctx, const Variable& x, const Shape& shape) {
  return ctx.record(
      "reshape", x.value().reshape(shape), {&x},
      [old = x.shape(), dx = x.sink()](const Tensor& dy) { dx->accumulate(dy.reshape(old)); });
}

Variable permute(Context& ctx, const Variable& x, std::initializer_list<int> order) {
  std::vector<int> forward(order), inverse(order.size());
  DTN_CHECK(static_cast<int>(order.size()) == x.value().rank(), "permute of ", to_string(x.shape()),
            " with ", order.size(), " dimensions");
  for (std::size_t i = 0; i < forward.size(); ++i) {
    inverse[static_cast<std::size_t>(forward[i])] = static_cast<int>(i);
  }
  return ctx.record(
      "permute", permuted(x.value(), forward), {&x},
      [inverse, dx = x.sink()](const Tensor& dy) { dx->accumulate(permuted(dy, inverse)); });
}

Variable narrow(Context& ctx, const Variable& x, int dim, std::int64_t begin, std::int64_t end) {
  dim = normalize_dim(dim, x.value().rank());
  return ctx.record("narrow", narrowed(x.value(), dim, begin, end), {&x},
                    [shape = x.shape(), dim, begin, dx = x.sink()](const Tensor& dy) {
                      dx->accumulate(widened(dy, shape, dim, begin));
                    });
}

Variable concat(Context& ctx, const Variable& a, const Variable& b, int dim) {
  dim = normalize_dim(dim, a.value().rank());
  Shape shape = a.shape();
  std::int64_t cut = a.dim(dim);
  shape[dim] += b.dim(dim);
  Split s(shape, dim), sa(a.shape(), dim), sb(b.shape(), dim);
  DTN_CHECK(sa.outer == sb.outer && sa.inner == sb.inner, "concat of ", to_string(a.shape()),
            " and ", to_string(b.shape()));
  Tensor y = widened(a.value(), shape, dim, 0);
  Tensor tail = widened(b.value(), shape, dim, cut);
  dispatch_real(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t i = 0; i < y.numel(); ++i) y.data<T>()[i] += tail.data<T>()[i];
  });
  return ctx.record("concat", y, {&a, &b},
                    [dim, cut, da = a.sink(), db = b.sink()](const Tensor& dy) {
                      if (da) da->accumulate(narrowed(dy, dim, 0, cut));
                      if (db) db->accumulate(narrowed(dy, dim, cut, dy.dim(dim)));
                    });
}

Variable matmul(Context& ctx, const Variable& a, const Variable& b) {
  return ctx.record("matmul", product(a.value(), false, b.value(), false), {&a, &b},
                    [a = a.value(), b = b.value(), da = a.sink(), db = b.sink()](const Tensor& dy) {
                      if (da) da->accumulate(product(dy, false, b, true));
                      if (db) db->accumulate(product(a, true, dy, false));
                    });
}

Variable constant(const Variable& like, double value) {
  return Variable(Tensor::full({1}, like.dtype(), value));
}

}  // namespace dtn::elementary
