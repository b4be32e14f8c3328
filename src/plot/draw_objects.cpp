#include "plot/draw_objects.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "dtn/core/check.h"
#include "plot/raster_text.h"

namespace dtn::plot {
namespace {

constexpr int kLeastSide = 480;         // of the longer side of a drawn picture, in pixels
constexpr double kPixelsPerText = 320;  // longer side of a picture for each step of the text size
constexpr int kTintPercent = 40;        // share of the colour in a mask

constexpr int kMaxTabPercent = 15;  // of a picture, in texts of the normal size

// Each colour is the one farthest from those before it: the smallest distance in OKLab for people
// with all receptors, without the red and without the green ones (Machado et al., 2009).
constexpr std::array<std::uint32_t, kObjectColors> kColors = {
    0x0072b2, 0xe69f00, 0x009e73, 0xd55e00, 0x56b4e9, 0xcc79a7, 0xf0e442, 0x870f1e, 0x78ffff,
    0x0000ff, 0x0f4b78, 0x87d2a5, 0x5a87ff, 0xb42d00, 0x2d6969, 0x2d2db4, 0xa5ffb4, 0x96d2ff,
    0x0f69f0, 0x78b478, 0xc3d269, 0xd21ec3, 0x008778, 0x69c3c3, 0x781e5a, 0x4b693c, 0x4bf0d2,
    0x2d5a96, 0xd2873c, 0x2da5c3, 0xd20f4b, 0x1ea5ff, 0x96c369, 0x691ed2, 0x4b78d2, 0xb40096,
    0xb4e1a5, 0xffb40f, 0xe1f087, 0x690f96, 0x872d4b, 0xc3785a, 0x2d5a78, 0x2d96e1, 0xa50f0f,
    0x69c3ff, 0xa56996, 0x87d2d2, 0xe196a5, 0x78871e, 0xff0f87, 0x3c785a, 0x2d69d2, 0x5ab4c3,
    0x5af0ff, 0xd2e178, 0x5affd2, 0x2d4bb4, 0x4ba5e1, 0x69b496, 0xe1b487, 0x2de13c, 0x1e7878,
    0x87c3e1, 0x1e4bf0, 0x5a78f0, 0xf00fa5, 0x2dd287, 0x96b45a, 0x87003c, 0x961e2d, 0x4b783c,
    0xa578d2, 0xb469b4, 0x008796, 0xd29600, 0xb44b1e, 0x5a965a, 0xc387ff, 0xf0004b, 0x96a55a,
    0xff5ab4, 0x78e1e1, 0x4bff3c, 0xa50087, 0xa5005a, 0x69e1c3, 0xd22d69, 0x960000, 0xf0f069,
    0x964be1, 0xc3d287, 0x0fa587, 0x871ee1, 0xa52d2d, 0xb4b43c};

// Pixels [x0, x1) of rows [y0, y1).
struct Area {
  int x0 = 0, y0 = 0, x1 = 0, y1 = 0;

  int width() const { return x1 - x0; }
  int height() const { return y1 - y0; }
  bool empty() const { return x1 <= x0 || y1 <= y0; }
  Area grown(int by) const { return {x0 - by, y0 - by, x1 + by, y1 + by}; }
  Area both(const Area& b) const {
    return {std::max(x0, b.x0), std::max(y0, b.y0), std::min(x1, b.x1), std::min(y1, b.y1)};
  }
  std::int64_t pixels() const { return empty() ? 0 : std::int64_t{width()} * height(); }
};

// Sizes of lines and texts, in pixels.
struct Sizes {
  explicit Sizes(const Image& image)
      : text(std::max(1, static_cast<int>(
                             std::lround(std::max(image.width, image.height) / kPixelsPerText)))),
        line(std::max(2, text)),
        outline(std::max(1, text / 2)) {}

  int text;     // factor of the font
  int line;     // width of a frame, and of the edge of a mask
  int outline;  // width of the line in a contrasting colour on both sides of a frame
  // Chooses smaller texts.
  void make_room() { text = std::max(1, text * 2 / 3); }
  int margin() const {
    return line / 2 + line % 2 + outline;
  }  // from a box to the end of its lines
  int tab_height() const { return kGlyphHeight * text + 2 * text; }
};

Area all_of(const Image& image) { return {0, 0, image.width, image.height}; }

std::uint8_t* pixel_at(Image& image, int x, int y) {
  return image.pixels.data() + (static_cast<std::size_t>(y) * image.width + x) * 3;
}

void put(std::uint8_t* pixel, Rgb color) {
  pixel[0] = color.r, pixel[1] = color.g, pixel[2] = color.b;
}

void fill(Image& image, const Area& area, Rgb color) {
  const Area inside = area.both(all_of(image));
  for (int y = inside.y0; y < inside.y1; ++y) {
    for (int x = inside.x0; x < inside.x1; ++x) put(pixel_at(image, x, y), color);
  }
}

Image enlarged(const Image& picture, int factor) {
  Image out;
  out.reshape(picture.width * factor, picture.height * factor, 3);
  for (int y = 0; y < out.height; ++y) {
    for (int x = 0; x < out.width; ++x) {
      const std::size_t from = static_cast<std::size_t>(y / factor) * picture.width +
                               static_cast<std::size_t>(x / factor);
      const std::uint8_t* source = picture.pixels.data() + from * picture.channels;
      put(pixel_at(out, x, y), picture.channels == 3 ? Rgb{source[0], source[1], source[2]}
                                                     : Rgb{source[0], source[0], source[0]});
    }
  }
  return out;
}

// A mask on the drawn picture.
struct MaskPixels {
  Area bounds;                    // of the pixels that are set
  std::vector<std::uint8_t> set;  // [height, width] of the bounds: 0 or 1
};

// Returns the mask in its own size, [width, height] by columns.
std::vector<std::uint8_t> decoded(const DrawnMask& mask) {
  std::uint64_t pixels = 0;
  for (const std::uint32_t run : mask.runs) pixels += run;
  DTN_CHECK(mask.height > 0 && mask.width > 0 &&
                pixels == static_cast<std::uint64_t>(mask.height) * mask.width,
            "a mask of ", mask.width, " x ", mask.height, " pixels with runs of ", pixels);
  std::vector<std::uint8_t> bitmap;
  bitmap.reserve(pixels);
  for (std::size_t i = 0; i < mask.runs.size(); ++i) {
    bitmap.insert(bitmap.end(), mask.runs[i], static_cast<std::uint8_t>(i % 2));
  }
  return bitmap;
}

// Numbers [first, end) of pixels along a side.
struct Span {
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), end = 0;
  void take_in(std::int64_t from, std::int64_t to) {
    first = std::min(first, from);
    end = std::max(end, to);
  }
  // Scales the span, rounded outwards, from a side of `from` pixels to one of `to`.
  Span scaled(std::int64_t from, std::int64_t to) const {
    return {first * to / from, (end * to + from - 1) / from};
  }
};

// Returns the bounds of the pixels of a mask that are set, on an image that it covers.
Area bounds_on(const Image& image, const DrawnMask& mask) {
  Span x, y;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < mask.runs.size(); ++i) {
    const std::int64_t begin = at;
    at += mask.runs[i];
    if (i % 2 == 0 || at == begin) continue;
    const std::int64_t first = begin / mask.height, last = (at - 1) / mask.height;
    x.take_in(first, last + 1);
    if (first == last) {
      y.take_in(begin % mask.height, (at - 1) % mask.height + 1);
    } else {
      y.take_in(0, mask.height);
    }
  }
  if (x.end == 0) return {};
  x = x.scaled(mask.width, image.width);
  y = y.scaled(mask.height, image.height);
  return {static_cast<int>(x.first), static_cast<int>(y.first), static_cast<int>(x.end),
          static_cast<int>(y.end)};
}

// Resizes a mask to an image: each pixel is that of the mask at its centre.
MaskPixels mask_on(const Image& image, const DrawnMask& mask) {
  const std::vector<std::uint8_t> bitmap = decoded(mask);
  MaskPixels out{.bounds = bounds_on(image, mask), .set = {}};
  const auto nearest = [](int at, std::int64_t from, int to) {
    return (2 * std::int64_t{at} + 1) * from / (2 * std::int64_t{to});
  };
  out.set.reserve(static_cast<std::size_t>(out.bounds.pixels()));
  for (int y = out.bounds.y0; y < out.bounds.y1; ++y) {
    const std::int64_t row = nearest(y, mask.height, image.height);
    for (int x = out.bounds.x0; x < out.bounds.x1; ++x) {
      const std::int64_t column = nearest(x, mask.width, image.width);
      out.set.push_back(bitmap[static_cast<std::size_t>(column * mask.height + row)]);
    }
  }
  return out;
}

// Removes the pixels of a line of n values whose distance to one that is not set, or to the end of
// the line, is at most `by`. `step`: distance of neighbours.
void erode_line(std::uint8_t* values, std::size_t step, int n, int by) {
  int last_unset = -1;  // before pixel i
  int next = 0;         // first unset pixel from i on
  const auto value = [&](int i) -> std::uint8_t& {
    return values[static_cast<std::size_t>(i) * step];
  };
  for (int i = 0; i < n; ++i) {
    if (!value(i)) {
      last_unset = i;
      continue;
    }
    if (next < i) next = i;
    while (next < n && value(next)) ++next;
    if (i - last_unset <= by || next - i <= by) value(i) = 2;  // unset once the line is done
  }
  for (int i = 0; i < n; ++i) {
    if (value(i) == 2) value(i) = 0;
  }
}

std::vector<std::uint8_t> eroded(const MaskPixels& mask, int by) {
  std::vector<std::uint8_t> set = mask.set;
  const int width = mask.bounds.width(), height = mask.bounds.height();
  for (int y = 0; y < height; ++y) {
    erode_line(set.data() + static_cast<std::size_t>(y) * width, 1, width, by);
  }
  for (int x = 0; x < width; ++x) {
    erode_line(set.data() + x, static_cast<std::size_t>(width), height, by);
  }
  return set;
}

void draw_mask(Image& image, const DrawnMask& mask, Rgb color, const Sizes& sizes) {
  const MaskPixels pixels = mask_on(image, mask);
  if (pixels.bounds.empty()) return;
  const std::vector<std::uint8_t> inner = eroded(pixels, sizes.line);
  const auto tinted = [](std::uint8_t below, std::uint8_t tint) {
    return static_cast<std::uint8_t>((below * (100 - kTintPercent) + tint * kTintPercent + 50) /
                                     100);
  };
  std::size_t at = 0;
  for (int y = pixels.bounds.y0; y < pixels.bounds.y1; ++y) {
    for (int x = pixels.bounds.x0; x < pixels.bounds.x1; ++x, ++at) {
      if (!pixels.set[at]) continue;
      std::uint8_t* pixel = pixel_at(image, x, y);
      put(pixel, inner[at] ? Rgb{tinted(pixel[0], color.r), tinted(pixel[1], color.g),
                                 tinted(pixel[2], color.b)}
                           : color);
    }
  }
}

// Returns the box in whole pixels, moved inwards so that its lines lie in the image. Nothing if it
// is not finite, or outside of the image.
std::optional<Area> box_on(const Image& image, const DrawnObject& object, int factor,
                           const Sizes& sizes) {
  const auto whole = [factor](float at, int side) {
    return static_cast<int>(
        std::lround(std::clamp(static_cast<double>(at) * factor, 0.0, static_cast<double>(side))));
  };
  for (const float at : {object.x1, object.y1, object.x2, object.y2}) {
    if (!std::isfinite(at)) return std::nullopt;
  }
  const bool outside = object.x2 < object.x1 || object.y2 < object.y1 || object.x2 <= 0 ||
                       object.y2 <= 0 || object.x1 * static_cast<float>(factor) >= image.width ||
                       object.y1 * static_cast<float>(factor) >= image.height;
  if (outside) return std::nullopt;
  const Area box{whole(object.x1, image.width), whole(object.y1, image.height),
                 whole(object.x2, image.width), whole(object.y2, image.height)};
  const auto inside = [&](int at, int side) {
    const int margin = std::min(sizes.margin(), side / 2);
    return std::clamp(at, margin, side - margin);
  };
  return Area{inside(box.x0, image.width), inside(box.y0, image.height),
              inside(box.x1, image.width), inside(box.y1, image.height)};
}

// Draws the lines between two rectangles. With `gap`, leaves out every second part of that length.
void draw_ring(Image& image, const Area& outer, const Area& inner, Rgb color, int gap) {
  const auto strip = [&](const Area& area) {
    if (gap == 0) return fill(image, area, color);
    const bool wide = area.width() >= area.height();
    const int length = wide ? area.width() : area.height();
    for (int at = 0; at < length; at += 2 * gap) {
      const int end = std::min(at + gap, length);
      fill(image,
           wide ? Area{area.x0 + at, area.y0, area.x0 + end, area.y1}
                : Area{area.x0, area.y0 + at, area.x1, area.y0 + end},
           color);
    }
  };
  strip({outer.x0, outer.y0, outer.x1, inner.y0});
  strip({outer.x0, inner.y1, outer.x1, outer.y1});
  strip({outer.x0, inner.y0, inner.x0, inner.y1});
  strip({inner.x1, inner.y0, outer.x1, inner.y1});
}

void draw_frame(Image& image, const Area& box, Rgb color, bool dashed, const Sizes& sizes) {
  const int out = sizes.line / 2 + sizes.line % 2, in = sizes.line / 2;
  const auto shrunk = [&](int by) {  // a box smaller than its lines is filled
    const Area a = box.grown(-by);
    return Area{a.x0, a.y0, std::max(a.x0, a.x1), std::max(a.y0, a.y1)};
  };
  draw_ring(image, box.grown(out + sizes.outline), shrunk(in + sizes.outline), ink_on(color), 0);
  draw_ring(image, box.grown(out), shrunk(in), color, dashed ? 3 * sizes.line : 0);
}

// A text and its place.
struct Tab {
  Area area;
  std::string text;
};

// Returns the text of a tab, in at most that many pixels where the number permits it.
std::string tab_text(const DrawnObject& object, const Sizes& sizes, int most) {
  if (object.number.empty()) return fitted_raster_text(object.text, sizes.text, most);
  if (object.text.empty()) return object.number;
  const std::string end = " " + object.number;
  const int used = raster_text_width(end, sizes.text) + sizes.text;
  return fitted_raster_text(object.text, sizes.text, most - used) + end;
}

int tab_width(const std::string& text, const Sizes& sizes) {
  return raster_text_width(text, sizes.text) + 2 * sizes.text;
}

// Chooses the places of tabs.
class TabLayout {
 public:
  explicit TabLayout(const Image& image, const Sizes& sizes) : image_(image), sizes_(sizes) {}

  // Returns the tab of an object. It lies above the box, inside or below, where it covers least of
  // the tabs before it. Nothing if there is no text, or if the image is too low.
  std::optional<Tab> place(const Area& box, const DrawnObject& object) {
    const int height = sizes_.tab_height(), most = image_.width - 2 * sizes_.text;
    Tab tab{.area = {}, .text = tab_text(object, sizes_, most)};
    if (tab.text.empty() || height > image_.height) return std::nullopt;
    const int width = std::min(image_.width, tab_width(tab.text, sizes_));
    const Area frame = box.grown(sizes_.margin());
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const int left : {frame.x0, frame.x1 - width}) {
      for (const int top : {frame.y0 - height, frame.y0, frame.y1, frame.y1 - height}) {
        const int x = std::clamp(left, 0, image_.width - width);
        const int y = std::clamp(top, 0, image_.height - height);
        const Area area{x, y, x + width, y + height};
        if (const std::int64_t covered = covers(area); covered < least) {
          least = covered;
          tab.area = area;
        }
      }
    }
    placed_.push_back(tab.area);
    return tab;
  }

 private:
  std::int64_t covers(const Area& area) const {
    std::int64_t pixels = 0;
    for (const Area& other : placed_) pixels += area.both(other).pixels();
    return pixels;
  }

  const Image& image_;
  const Sizes& sizes_;
  std::vector<Area> placed_;
};

// Returns true if the tabs cover a large part of the image.
bool are_crowded(const Image& image, std::span<const DrawnObject> objects, const Sizes& sizes) {
  std::int64_t pixels = 0;
  for (const DrawnObject& object : objects) {
    const std::string text = tab_text(object, sizes, image.width);
    if (!text.empty()) pixels += std::int64_t{tab_width(text, sizes)} * sizes.tab_height();
  }
  return pixels > all_of(image).pixels() * kMaxTabPercent / 100;
}

void draw_tab(Image& image, const Tab& tab, Rgb color, const Sizes& sizes) {
  fill(image, tab.area, color);
  draw_raster_text(image, tab.area.x0 + sizes.text, tab.area.y0 + sizes.text, tab.text,
                   ink_on(color), sizes.text);
}

// Returns the objects from the lowest score to the highest; NaN comes first.
std::vector<std::size_t> by_rising_score(std::span<const DrawnObject> objects) {
  std::vector<std::size_t> order(objects.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto score = [&](std::size_t i) {
    const float s = objects[i].score;
    return std::isnan(s) ? -std::numeric_limits<float>::infinity() : s;
  };
  std::ranges::stable_sort(order, {}, score);
  return order;
}

// Relative luminance of WCAG 2, 0 to 1.
double luminance(Rgb color) {
  const auto linear = [](std::uint8_t value) {
    const double v = value / 255.0;
    return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(color.r) + 0.7152 * linear(color.g) + 0.0722 * linear(color.b);
}

}  // namespace

Rgb object_color(std::int64_t label) {
  const std::int64_t index = (label % kObjectColors + kObjectColors) % kObjectColors;
  return rgb(kColors[static_cast<std::size_t>(index)]);
}

Rgb ink_on(Rgb color) {
  // Contrasts to white and to black: 1.05 / (L + 0.05) and (L + 0.05) / 0.05.
  const double l = luminance(color) + 0.05;
  return l * l > 1.05 * 0.05 ? Rgb{0, 0, 0} : Rgb{255, 255, 255};
}

int drawing_factor(int width, int height) {
  const int longer = std::max(width, height);
  return longer > 0 ? (kLeastSide + longer - 1) / longer : 1;
}

Image draw_objects(const Image& picture, std::span<const DrawnObject> objects) {
  DTN_CHECK(
      picture.width > 0 && picture.height > 0 && (picture.channels == 1 || picture.channels == 3),
      "objects on a picture of ", picture.width, " x ", picture.height, " pixels in ",
      picture.channels, " channels");
  const int factor = drawing_factor(picture.width, picture.height);
  Image image = enlarged(picture, factor);
  Sizes sizes(image);
  if (are_crowded(image, objects, sizes)) sizes.make_room();
  const std::vector<std::size_t> order = by_rising_score(objects);
  std::vector<std::optional<Area>> boxes;
  for (const DrawnObject& object : objects) {
    boxes.push_back(box_on(image, object, factor, sizes));
  }
  // The tabs of the highest scores have the first choice.
  std::vector<std::optional<Tab>> tabs(objects.size());
  TabLayout layout(image, sizes);
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    if (boxes[*i]) tabs[*i] = layout.place(*boxes[*i], objects[*i]);
  }
  for (const std::size_t i : order) {
    const DrawnObject& object = objects[i];
    if (!object.mask.runs.empty()) {
      draw_mask(image, object.mask, object_color(object.label), sizes);
    }
  }
  for (const std::size_t i : order) {
    if (boxes[i]) {
      draw_frame(image, *boxes[i], object_color(objects[i].label), objects[i].dashed, sizes);
    }
  }
  for (const std::size_t i : order) {
    if (tabs[i]) draw_tab(image, *tabs[i], object_color(objects[i].label), sizes);
  }
  return image;
}

}  // namespace dtn::plot
