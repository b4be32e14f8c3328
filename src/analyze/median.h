// The median of numbers that come in two equal passes, in memory that does not grow with them.
#pragma once

#include <cstdint>
#include <vector>

namespace dtn {

// Numbers are not negative; each is rounded to float32, whose bits then order them, and the first
// pass counts the upper 16 bits, the second the lower 16 of those in the middle. So the median is
// exact but for that rounding. Infinity is larger than all numbers; of numbers with a NaN the median
// is NaN.
class MedianInTwoPasses {
 public:
  MedianInTwoPasses();

  // Of whichever pass it is.
  void add(double value);
  void begin_second_pass();
  // After both; the mean of the middle two of an even count, NaN of none.
  double median() const;

 private:
  // One of the two numbers in the middle.
  struct Middle {
    std::uint32_t upper = 0;  // bits
    std::uint64_t rank = 0;   // among those with these bits
    std::vector<std::uint64_t> lower{};
    float value() const;
  };
  Middle find(std::uint64_t rank) const;

  bool second_ = false, nan_ = false;
  std::uint64_t count_ = 0;
  std::vector<std::uint64_t> upper_;
  std::vector<Middle> middles_;  // one where both agree so far
};

}  // namespace dtn
