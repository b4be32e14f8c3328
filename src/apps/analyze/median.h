// Median of numbers that come in two equal passes, in constant memory.
#pragma once

#include <cstdint>
#include <vector>

namespace dtn {

// Numbers are not negative. Each is rounded to float32, whose bits have the order of the numbers.
// The first pass counts the upper 16 bits, and the second pass the lower 16 bits of the middle
// numbers. The median is exact except for that rounding. Infinity is larger than all numbers; if
// there is a NaN, the median is NaN.
class MedianInTwoPasses {
 public:
  MedianInTwoPasses();

  // Adds a number to the present pass.
  void add(double value);
  void begin_second_pass();
  // Call after both passes. Returns the mean of the middle two of an even count; NaN if there are
  // no numbers.
  double median() const;

 private:
  // One of the two middle numbers.
  struct Middle {
    std::uint32_t upper = 0;  // upper 16 bits
    std::uint64_t rank = 0;   // among the numbers with these bits
    std::vector<std::uint64_t> lower{};
    float value() const;
  };
  Middle find(std::uint64_t rank) const;

  bool second_ = false, nan_ = false;
  std::uint64_t count_ = 0;
  std::vector<std::uint64_t> upper_;
  std::vector<Middle> middles_;  // one if both middle numbers have the same upper bits
};

}  // namespace dtn
