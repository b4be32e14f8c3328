#include "dtn/core/shape.h"

#include <algorithm>

#include "dtn/core/check.h"

namespace dtn {

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) {
  DTN_CHECK(dims.size() <= static_cast<std::size_t>(kMaxRank), "a tensor has at most ", kMaxRank,
            " dimensions, got ", dims.size());
  for (std::int64_t d : dims) {
    DTN_CHECK(d >= 0, "a tensor has the negative extent ", d);
    dims_[rank_++] = d;
  }
}

std::int64_t Shape::numel() const {
  std::int64_t n = 1;
  for (int i = 0; i < rank_; ++i) {
    DTN_CHECK(!__builtin_mul_overflow(n, dims_[i], &n), "tensor of shape ", to_string(*this),
              " is too large");
  }
  return n;
}

bool Shape::operator==(const Shape& other) const {
  return std::ranges::equal(dims(), other.dims());
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    if (i) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace dtn
