#include "data/coco/rle.h"

#include <algorithm>
#include <numeric>

#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr int kGroupBits = 5;
constexpr int kMoreGroups = 32;
constexpr int kSignOfGroup = 16;
constexpr char kFirstCharacter = 48, kLastCharacter = 48 + 63;
// A difference of two runs has 33 bits with its sign.
constexpr int kMaxGroups = 7;
// The first run that is written as a difference.
constexpr std::size_t kFirstDifference = 3;

// Adds up runs and refuses those that do not fit.
class RunsReader {
 public:
  RunsReader(std::int64_t height, std::int64_t width) : rle_{height, width, {}} {
    check_mask_size(height, width);
    pixels_ = height * width;
  }

  void reserve(std::size_t runs) { rle_.runs.reserve(runs); }
  std::size_t count() const { return rle_.runs.size(); }
  std::int64_t run(std::size_t i) const { return rle_.runs[i]; }

  void add(std::int64_t run) {
    if (run < 0) throw DataError(cat("run ", count(), " of the mask is ", run, ", below 0"));
    if (run > pixels_ - sum_) fail_sum("add up to more than");
    sum_ += run;
    rle_.runs.push_back(static_cast<std::uint32_t>(run));
  }
  Rle finish() {
    if (sum_ != pixels_) fail_sum(cat("add up to ", sum_, ", not to"));
    if (rle_.runs.empty()) rle_.runs.push_back(0);
    return std::move(rle_);
  }

 private:
  [[noreturn]] void fail_sum(const std::string& fault) const {
    throw DataError(
        cat("the runs of the mask ", fault, " its ", rle_.height, " x ", rle_.width, " pixels"));
  }

  Rle rle_;
  std::int64_t pixels_ = 0;
  std::int64_t sum_ = 0;
};

// Removes one number from the text.
std::int64_t take_number(std::string_view text, std::size_t& at) {
  std::int64_t value = 0;
  for (int group = 0;; ++group) {
    if (at == text.size()) throw DataError("the text of the mask ends inside a number");
    const char c = text[at];
    if (c < kFirstCharacter || c > kLastCharacter) {
      throw DataError(cat("character ", at, " of the mask's text has code ",
                          static_cast<int>(static_cast<unsigned char>(c)), ", not 48 to 111"));
    }
    if (group == kMaxGroups) {
      throw DataError(cat("the number before character ", at, " of the mask's text is too long"));
    }
    ++at;
    const int bits = c - kFirstCharacter;
    value |= static_cast<std::int64_t>(bits & (kMoreGroups - 1)) << (kGroupBits * group);
    if (bits & kMoreGroups) continue;
    if (bits & kSignOfGroup) value -= std::int64_t{1} << (kGroupBits * (group + 1));
    return value;
  }
}

void append_number(std::string& text, std::int64_t value) {
  for (bool more = true; more;) {
    int bits = static_cast<int>(value & (kMoreGroups - 1));
    value >>= kGroupBits;
    more = value != ((bits & kSignOfGroup) ? -1 : 0);
    if (more) bits |= kMoreGroups;
    text += static_cast<char>(kFirstCharacter + bits);
  }
}

// Walks along two masks of one size: step() returns the next number of pixels over which neither
// changes.
class TwoMasks {
 public:
  TwoMasks(const Rle& a, const Rle& b) : a_(a.runs), b_(b.runs) {
    DTN_CHECK(a.height == b.height && a.width == b.width, "masks of ", a.height, " x ", a.width,
              " and ", b.height, " x ", b.width, " pixels");
  }

  // Returns 0 at the end.
  std::int64_t step() {
    if (!a_.fill() || !b_.fill()) return 0;
    const std::uint32_t pixels = std::min(a_.left, b_.left);
    in_a = a_.is_set();
    in_b = b_.is_set();
    a_.left -= pixels;
    b_.left -= pixels;
    return pixels;
  }

  bool in_a = false, in_b = false;  // of the pixels of the last step

 private:
  struct Side {
    explicit Side(std::span<const std::uint32_t> all) : runs(all) {}
    // Goes on to the next run if the current one is used up. Returns false at the end.
    bool fill() {
      while (left == 0 && next < runs.size()) left = runs[next++];
      return left > 0;
    }
    bool is_set() const { return next % 2 == 0; }

    std::span<const std::uint32_t> runs;
    std::size_t next = 0;
    std::uint32_t left = 0;
  };
  Side a_, b_;
};

// Appends pixels that are `value`, and joins them to the last run if that has the same value.
void append_pixels(std::vector<std::uint32_t>& runs, bool value, std::int64_t pixels) {
  const bool same = !runs.empty() && (runs.size() % 2 == 0) == value;
  if (runs.empty() && value) runs.push_back(0);
  if (same) {
    runs.back() += static_cast<std::uint32_t>(pixels);
  } else {
    runs.push_back(static_cast<std::uint32_t>(pixels));
  }
}

Rle union_of_two(const Rle& a, const Rle& b) {
  Rle both{a.height, a.width, {}};
  TwoMasks walk(a, b);
  while (const std::int64_t pixels = walk.step()) {
    append_pixels(both.runs, walk.in_a || walk.in_b, pixels);
  }
  if (both.runs.empty()) both.runs.push_back(0);
  return both;
}

}  // namespace

void check_mask_size(std::int64_t height, std::int64_t width) {
  if (height >= 0 && width >= 0 && (height == 0 || width <= kMaxMaskPixels / height)) return;
  throw DataError(cat("a mask of ", height, " x ", width, " pixels; sides must be at least 0, and ",
                      kMaxMaskPixels, " pixels are the most"));
}

Rle rle_of_text(std::int64_t height, std::int64_t width, std::string_view counts) {
  RunsReader reader(height, width);
  reader.reserve(counts.size());
  for (std::size_t at = 0; at < counts.size();) {
    const std::int64_t number = take_number(counts, at);
    const std::size_t i = reader.count();
    reader.add(i < kFirstDifference ? number : number + reader.run(i - 2));
  }
  return reader.finish();
}

Rle rle_of_runs(std::int64_t height, std::int64_t width, std::span<const std::int64_t> runs) {
  RunsReader reader(height, width);
  reader.reserve(runs.size());
  for (const std::int64_t run : runs) reader.add(run);
  return reader.finish();
}

std::string rle_text(const Rle& mask) {
  std::string text;
  for (std::size_t i = 0; i < mask.runs.size(); ++i) {
    const std::int64_t run = mask.runs[i];
    append_number(text, i < kFirstDifference ? run : run - mask.runs[i - 2]);
  }
  return text;
}

Rle rle_of_mask(const std::uint8_t* mask, std::int64_t height, std::int64_t width) {
  check_mask_size(height, width);
  Rle rle{height, width, {}};
  bool value = false;
  std::uint32_t run = 0;
  for (std::int64_t x = 0; x < width; ++x) {
    for (std::int64_t y = 0; y < height; ++y, ++run) {
      if ((mask[y * width + x] != 0) == value) continue;
      rle.runs.push_back(run);
      value = !value;
      run = 0;
    }
  }
  rle.runs.push_back(run);
  return rle;
}

void write_mask(const Rle& rle, std::uint8_t* mask) {
  std::int64_t x = 0, y = 0;
  std::uint8_t value = 0;
  for (const std::uint32_t run : rle.runs) {
    for (std::uint32_t i = 0; i < run; ++i) {
      mask[y * rle.width + x] = value;
      if (++y == rle.height) {
        y = 0;
        ++x;
      }
    }
    value ^= 1;
  }
}

std::int64_t mask_area(const Rle& mask) {
  std::int64_t area = 0;
  for (std::size_t i = 1; i < mask.runs.size(); i += 2) area += mask.runs[i];
  return area;
}

Rle union_of(std::span<const Rle> masks) {
  DTN_CHECK(!masks.empty(), "a union of no masks has no size");
  if (masks.size() == 1) return union_of_two(masks[0], masks[0]);
  if (masks.size() == 2) return union_of_two(masks[0], masks[1]);
  // In halves, so that each run is read log2(masks) times.
  const std::size_t half = masks.size() / 2;
  return union_of_two(union_of(masks.first(half)), union_of(masks.subspan(half)));
}

std::int64_t intersection_area(const Rle& a, const Rle& b) {
  std::int64_t area = 0;
  TwoMasks walk(a, b);
  while (const std::int64_t pixels = walk.step()) area += walk.in_a && walk.in_b ? pixels : 0;
  return area;
}

PixelBox bounds_of(const Rle& mask) {
  std::int64_t x0 = mask.width, y0 = mask.height, x1 = -1, y1 = -1, begin = 0;
  for (std::size_t i = 0; i < mask.runs.size(); ++i) {
    const std::int64_t end = begin + mask.runs[i];
    if (i % 2 == 1 && end > begin) {
      const std::int64_t first = begin / mask.height, last = (end - 1) / mask.height;
      const bool is_long = last > first;
      x0 = std::min(x0, first);
      x1 = std::max(x1, last);
      y0 = std::min(y0, is_long ? 0 : begin % mask.height);
      y1 = std::max(y1, is_long ? mask.height - 1 : (end - 1) % mask.height);
    }
    begin = end;
  }
  if (x1 < 0) return {};
  return {x0, y0, x1 - x0 + 1, y1 - y0 + 1};
}

}  // namespace dtn
