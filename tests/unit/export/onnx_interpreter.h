// Evaluates the operators that dtn-export writes, in float64, from their definitions in ONNX's
// documentation (Operators.md).
#pragma once

#include <cmath>
#include <functional>
#include <numeric>

#include "onnx_file.h"

namespace dtn::test {

using Extents = std::vector<std::int64_t>;

inline std::int64_t product_of(const Extents& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// Position of an index in an array of this shape, with broadcasting: shapes align at the end, and
// extents of 1 repeat.
inline std::int64_t position_in(const Extents& shape, const Extents& index) {
  std::int64_t at = 0;
  const std::size_t skip = index.size() - shape.size();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    at = at * shape[d] + (shape[d] == 1 ? 0 : index[d + skip]);
  }
  return at;
}

// Calls f(index) for each index of a shape, in order.
template <class F>
void for_each_index(const Extents& shape, F&& f) {
  Extents index(shape.size());
  for (std::int64_t n = product_of(shape); n > 0; --n) {
    f(index);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

class OnnxInterpreter {
 public:
  explicit OnnxInterpreter(const OnnxFile& file) : file_(file), values_(file.constants) {}

  // Returns the only output for the only input.
  Array run(const Array& input) {
    values_[file_.inputs.at(0)] = input;
    for (const OnnxNode& node : file_.nodes) values_[node.output] = evaluate(node);
    return values_.at(file_.outputs.at(0));
  }

 private:
  const Array& input(const OnnxNode& node, std::size_t i) const {
    return values_.at(node.inputs.at(i));
  }
  Extents list(const OnnxNode& node, std::size_t i) const {
    const Array& a = input(node, i);
    return {a.values.begin(), a.values.end()};
  }
  static std::size_t axis_of(std::int64_t axis, const Array& a) {
    return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(a.shape.size())
                                             : axis);
  }

  Array evaluate(const OnnxNode& node) const {
    using D = double;
    static const std::map<std::string, D (*)(D)> unary = {
        {"Sqrt", [](D x) { return std::sqrt(x); }},
        {"Erf", [](D x) { return std::erf(x); }},
        {"Tanh", [](D x) { return std::tanh(x); }},
        {"Sigmoid", [](D x) { return 1 / (1 + std::exp(-x)); }},
        {"Relu", [](D x) { return x > 0 ? x : 0; }},
        {"Identity", [](D x) { return x; }}};
    static const std::map<std::string, D (*)(D, D)> binary = {
        {"Add", [](D a, D b) { return a + b; }},
        {"Sub", [](D a, D b) { return a - b; }},
        {"Mul", [](D a, D b) { return a * b; }},
        {"Div", [](D a, D b) { return a / b; }},
        {"Max", [](D a, D b) { return std::max(a, b); }}};
    static const std::map<std::string, Array (OnnxInterpreter::*)(const OnnxNode&) const> others = {
        {"Gelu", &OnnxInterpreter::gelu},
        {"Reshape", &OnnxInterpreter::reshape},
        {"Transpose", &OnnxInterpreter::transpose},
        {"Concat", &OnnxInterpreter::concat},
        {"Slice", &OnnxInterpreter::slice},
        {"Gather", &OnnxInterpreter::gather},
        {"ReduceMean", &OnnxInterpreter::mean},
        {"MatMul", &OnnxInterpreter::matmul},
        {"Softmax", &OnnxInterpreter::softmax},
        {"LayerNormalization", &OnnxInterpreter::layer_norm},
        {"Conv", &OnnxInterpreter::conv},
        {"Shape", &OnnxInterpreter::shape},
        {"Expand", &OnnxInterpreter::expand}};
    if (unary.contains(node.op)) {
      Array y = input(node, 0);
      for (double& v : y.values) v = unary.at(node.op)(v);
      return y;
    }
    if (binary.contains(node.op)) return broadcast(node, binary.at(node.op));
    return (this->*others.at(node.op))(node);
  }

  static Extents common_shape(const Extents& a, const Extents& b) {
    Extents shape(std::max(a.size(), b.size()), 1);
    for (const Extents* part : {&a, &b}) {
      const std::size_t skip = shape.size() - part->size();
      for (std::size_t d = 0; d < part->size(); ++d) {
        std::int64_t& extent = shape[d + skip];
        if (extent != 1 && (*part)[d] != 1 && extent != (*part)[d]) {
          throw std::runtime_error("shapes that do not broadcast");
        }
        extent = std::max(extent, (*part)[d]);
      }
    }
    return shape;
  }

  Array broadcast(const OnnxNode& node, double (*f)(double, double)) const {
    const Array &a = input(node, 0), &b = input(node, 1);
    Array y{common_shape(a.shape, b.shape), {}};
    for_each_index(y.shape, [&](const Extents& i) {
      y.values.push_back(f(a.values[std::size_t(position_in(a.shape, i))],
                           b.values[std::size_t(position_in(b.shape, i))]));
    });
    return y;
  }

  Array gelu(const OnnxNode& node) const {
    Array y = input(node, 0);
    const bool by_tanh = node.attributes.at("approximate").text == "tanh";
    for (double& x : y.values) {
      const double inner = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
      x *= 0.5 * (1 + (by_tanh ? std::tanh(inner) : std::erf(x / std::sqrt(2.0))));
    }
    return y;
  }

  Array reshape(const OnnxNode& node) const {
    Array y = input(node, 0);
    Extents shape = list(node, 1);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 0) shape[d] = y.shape.at(d);
    }
    if (product_of(shape) != y.numel()) throw std::runtime_error("Reshape: another size");
    y.shape = shape;
    return y;
  }

  Array transpose(const OnnxNode& node) const {
    const Array& x = input(node, 0);
    const Extents& order = node.attributes.at("perm").integers;
    Array y;
    for (std::int64_t d : order) y.shape.push_back(x.shape.at(std::size_t(d)));
    Extents from(order.size());
    for_each_index(y.shape, [&](const Extents& i) {
      for (std::size_t d = 0; d < order.size(); ++d) from[std::size_t(order[d])] = i[d];
      y.values.push_back(x.values[std::size_t(position_in(x.shape, from))]);
    });
    return y;
  }

  // x at `index`, with the coordinate along the axis replaced by `at`.
  static double along(const Array& x, Extents index, std::size_t axis, std::int64_t at) {
    index.at(axis) = at;
    return x.values[std::size_t(position_in(x.shape, index))];
  }

  Array concat(const OnnxNode& node) const {
    const std::size_t axis = axis_of(node.attributes.at("axis").integer, input(node, 0));
    Array y = input(node, 0);
    for (std::size_t k = 1; k < node.inputs.size(); ++k) {
      const Array &first = y, &second = input(node, k);
      Array joined{first.shape, {}};
      joined.shape.at(axis) += second.shape.at(axis);
      for_each_index(joined.shape, [&](const Extents& i) {
        const std::int64_t at = i[axis], behind = at - first.shape[axis];
        joined.values.push_back(behind < 0 ? along(first, i, axis, at)
                                           : along(second, i, axis, behind));
      });
      y = std::move(joined);
    }
    return y;
  }

  Array slice(const OnnxNode& node) const {
    const Array& x = input(node, 0);
    const std::int64_t begin = list(node, 1).at(0), end = list(node, 2).at(0);
    const std::size_t axis = axis_of(list(node, 3).at(0), x);
    Array y{x.shape, {}};
    y.shape.at(axis) = std::min(end, x.shape[axis]) - begin;
    for_each_index(
        y.shape, [&](const Extents& i) { y.values.push_back(along(x, i, axis, i[axis] + begin)); });
    return y;
  }

  // The index is a single number, so the dimension is dropped.
  Array gather(const OnnxNode& node) const {
    const Array& x = input(node, 0);
    const std::size_t axis = axis_of(node.attributes.at("axis").integer, x);
    const auto at = static_cast<std::int64_t>(input(node, 1).values.at(0));
    if (!input(node, 1).shape.empty()) throw std::runtime_error("Gather: not a single index");
    Array y{x.shape, {}};
    y.shape.erase(y.shape.begin() + std::ptrdiff_t(axis));
    for_each_index(y.shape, [&](Extents i) {
      i.insert(i.begin() + std::ptrdiff_t(axis), at);
      y.values.push_back(x.values[std::size_t(position_in(x.shape, i))]);
    });
    return y;
  }

  Array mean(const OnnxNode& node) const {
    const Array& x = input(node, 0);
    const bool by_input = file_.opset >= 18;
    const Extents axes = by_input ? list(node, 1) : node.attributes.at("axes").integers;
    Array y{x.shape, {}};
    for (std::int64_t axis : axes) y.shape.at(axis_of(axis, x)) = 1;
    y.values.resize(std::size_t(product_of(y.shape)));
    const double share = double(y.numel()) / double(x.numel());
    std::size_t from = 0;
    for_each_index(x.shape, [&](const Extents& i) {
      y.values[std::size_t(position_in(y.shape, i))] += x.values[from++] * share;
    });
    if (node.attributes.at("keepdims").integer == 0) {
      for (std::int64_t axis : axes) {
        y.shape.erase(y.shape.begin() + std::ptrdiff_t(axis_of(axis, x)));
      }
    }
    return y;
  }

  Array matmul(const OnnxNode& node) const {
    const Array &a = input(node, 0), &b = input(node, 1);
    const auto batch_of = [](const Array& x) {
      return Extents(x.shape.begin(), x.shape.end() - 2);
    };
    const Extents of_a = batch_of(a), of_b = batch_of(b), batch = common_shape(of_a, of_b);
    const std::int64_t m = a.shape.end()[-2], k = a.shape.back(), n = b.shape.back();
    if (b.shape.end()[-2] != k) throw std::runtime_error("MatMul: sizes that do not meet");
    Array y{batch, {}};
    y.shape.insert(y.shape.end(), {m, n});
    for_each_index(batch, [&](const Extents& i) {
      const double* pa = a.values.data() + position_in(of_a, i) * m * k;
      const double* pb = b.values.data() + position_in(of_b, i) * k * n;
      for (std::int64_t r = 0; r < m; ++r) {
        for (std::int64_t c = 0; c < n; ++c) {
          double sum = 0;
          for (std::int64_t j = 0; j < k; ++j) sum += pa[r * k + j] * pb[j * n + c];
          y.values.push_back(sum);
        }
      }
    });
    return y;
  }

  template <class F>
  static Array map_rows(Array x, F&& f) {
    const std::int64_t width = x.shape.back();
    for (std::int64_t at = 0; at < x.numel(); at += width) f(x.values.data() + at, width);
    return x;
  }

  Array softmax(const OnnxNode& node) const {
    if (node.attributes.at("axis").integer != -1) throw std::runtime_error("Softmax: other axis");
    return map_rows(input(node, 0), [](double* row, std::int64_t n) {
      const double most = *std::max_element(row, row + n);
      double sum = 0;
      for (double* v = row; v != row + n; ++v) sum += * v = std::exp(*v - most);
      for (double* v = row; v != row + n; ++v) *v /= sum;
    });
  }

  Array layer_norm(const OnnxNode& node) const {
    if (node.attributes.at("axis").integer != -1) throw std::runtime_error("norm: other axis");
    const Array &weight = input(node, 1), &bias = input(node, 2);
    const double eps = node.attributes.at("epsilon").number;
    return map_rows(input(node, 0), [&](double* row, std::int64_t n) {
      const double mu = std::accumulate(row, row + n, 0.0) / double(n);
      double var = 0;
      for (std::int64_t c = 0; c < n; ++c) var += (row[c] - mu) * (row[c] - mu) / double(n);
      for (std::int64_t c = 0; c < n; ++c) {
        row[c] = (row[c] - mu) / std::sqrt(var + eps) * weight.values.at(std::size_t(c)) +
                 bias.values.at(std::size_t(c));
      }
    });
  }

  // Patch convolutions only: the stride equals the kernel size.
  Array conv(const OnnxNode& node) const {
    const Array &x = input(node, 0), &w = input(node, 1);
    const Extents& strides = node.attributes.at("strides").integers;
    const std::int64_t p = strides.at(0);
    if (strides != node.attributes.at("kernel_shape").integers || w.shape.at(2) != p) {
      throw std::runtime_error("Conv: not of patches");
    }
    Array y{{x.shape[0], w.shape[0], x.shape[2] / p, x.shape[3] / p}, {}};
    const Extents kernel = {w.shape[1], p, p};
    for_each_index(y.shape, [&](const Extents& i) {
      double sum = node.inputs.size() > 2 ? input(node, 2).values.at(std::size_t(i[1])) : 0;
      for_each_index(kernel, [&](const Extents& k) {
        sum += x.values[std::size_t(
                   position_in(x.shape, {i[0], k[0], i[2] * p + k[1], i[3] * p + k[2]}))] *
               w.values[std::size_t(position_in(w.shape, {i[1], k[0], k[1], k[2]}))];
      });
      y.values.push_back(sum);
    });
    return y;
  }

  Array shape(const OnnxNode& node) const {
    const auto begin = node.attributes.at("start").integer, end = node.attributes.at("end").integer;
    Array y{{end - begin}, {}};
    for (std::int64_t d = begin; d < end; ++d) {
      y.values.push_back(double(input(node, 0).shape.at(std::size_t(d))));
    }
    return y;
  }

  Array expand(const OnnxNode& node) const {
    const Array& x = input(node, 0);
    Array y{common_shape(x.shape, list(node, 1)), {}};
    for_each_index(y.shape, [&](const Extents& i) {
      y.values.push_back(x.values[std::size_t(position_in(x.shape, i))]);
    });
    return y;
  }

  const OnnxFile& file_;
  std::map<std::string, Array> values_;
};

}  // namespace dtn::test
