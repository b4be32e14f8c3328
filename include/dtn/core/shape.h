// The extents of a tensor, outermost first.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace dtn {

class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  // Negative indices count from the end, as in Python.
  std::int64_t operator[](int i) const { return dims_[i < 0 ? i + rank_ : i]; }
  std::int64_t& operator[](int i) { return dims_[i < 0 ? i + rank_ : i]; }
  // Number of elements, the product of the extents; 1 for rank 0. Throws Error if it is too large.
  std::int64_t numel() const;
  // The extents.
  std::span<const std::int64_t> dims() const {
    return {dims_.data(), static_cast<std::size_t>(rank_)};
  }
  bool operator==(const Shape& other) const;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

// `shape` with its last extent replaced by `last`.
inline Shape with_last(Shape shape, std::int64_t last) {
  shape[-1] = last;
  return shape;
}

// "[16, 196, 432]"
std::string to_string(const Shape& shape);

}  // namespace dtn
