// What an axis says: its range, where its ticks are, and what stands beside them.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtn::plot {

// A missing value: nothing is drawn for it.
inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// Of values; starts empty.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  bool empty() const { return !(low <= high); }
  void take_in(double value);  // unless it is not finite, or beyond 1e300
  void take_in(std::span<const double> values);
};

struct Axis {
  std::string label = {};
  Range data = {};     // what is to be seen; empty ones become 0 .. 1
  bool log = false;    // values of 0 or less are missing then
  bool round = true;   // out to whole ticks, else the data's own ends
  bool whole = false;  // ticks at whole numbers alone
  Range limit = {};    // of what values can be, such as 0 .. 100 for percentages: no axis, band or
                       // whisker goes beyond; empty: no limit
  std::vector<std::string> categories = {};  // of positions 0, 1, ..., in place of ticks
};

// Of a share in percent.
inline constexpr Range kPercent = {0, 100};

struct Tick {
  double value;
  std::string label;  // may be empty
};

// The axis with its range settled, ready to place values.
class Scale {
 public:
  // `ticks`: about how many there is room for.
  Scale(const Axis& axis, int ticks);

  double low() const { return range_.low; }
  double high() const { return range_.high; }
  // 0 at the low end, 1 at the high one, beyond outside of it; NaN for what has no place.
  double position(double value) const;
  // The value, held within the limit of the axis.
  double limited(double value) const;
  const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  void linear_ticks(const Axis& axis, int wanted);
  void log_ticks(const Axis& axis, int wanted);

  Range range_, limit_;
  bool log_ = false;
  std::vector<Tick> ticks_;
};

}  // namespace dtn::plot
