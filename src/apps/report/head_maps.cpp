#include "apps/report/head_maps.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "dtn/core/check.h"
#include "io/image/image_encode.h"
#include "plot/text.h"

namespace dtn::drawing {
namespace {

constexpr double kMapGap = 1.5;    // between the maps of a block
constexpr double kBlockGap = 9;    // between blocks
constexpr double kBlockHead = 18;  // the layer's name above a block
constexpr double kLabels = 100;    // width of the column with run names
constexpr double kImageSide = 76;
constexpr double kRoom = kFigureWidth - kLabels - kFigureSide;
constexpr std::int64_t kMaxPixels = 256;  // maximum side of a preview in the figure

// Rows of k heads for k x k heads, as Eq. 7 of the paper assigns the offsets.
std::size_t block_columns(std::size_t heads) {
  return std::max<std::size_t>(
      1, static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(heads)) - 1e-9)));
}

// Box of a map of the grid, with this many pixels per cell.
plot::Box map_of(const MapSize& grid, double cell) {
  return {0, 0, std::max(cell * static_cast<double>(grid.columns), 1.0),
          std::max(cell * static_cast<double>(grid.rows), 1.0)};
}

// Layers with blocks side by side; all have the same grid and number of heads.
struct Stretch {
  std::vector<std::size_t> layers;
  double cell;  // pixels per token
  bool first;   // first stretch of its run
};

class MapsFigure {
 public:
  MapsFigure(const std::vector<AnalyzedRun>& runs, HeadMaps what)
      : runs_(runs), what_(std::move(what)) {
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      if (std::ranges::any_of(what_.maps[r], has_maps)) shown_.push_back(r);
    }
  }

  bool empty() const { return shown_.empty(); }
  plot::Figure draw();

 private:
  static bool has_maps(const std::vector<std::vector<double>>& heads) {
    return std::ranges::any_of(heads, any_number);
  }
  plot::Box block_box(std::size_t run, std::size_t layer, double cell) const;
  std::vector<Stretch> stretches(const std::vector<std::size_t>& group) const;
  double stretch_height(std::size_t run, const Stretch& stretch) const;
  std::vector<std::pair<std::size_t, Stretch>> lines_of_blocks() const;
  void draw_block(plot::Canvas& canvas, plot::HeatSheet& sheet, plot::Point at, std::size_t run,
                  std::size_t layer, double cell);
  void draw_label(plot::Canvas& canvas, double top, std::size_t run, const Stretch& stretch) const;

  // A position for marks, which are drawn after all maps.
  struct Mark {
    plot::Box box;
    MapPlace place;
  };

  const std::vector<AnalyzedRun>& runs_;
  HeadMaps what_;
  std::vector<std::size_t> shown_;
  std::vector<Mark> marks_;
};

plot::Box MapsFigure::block_box(std::size_t run, std::size_t layer, double cell) const {
  const plot::Box map = map_of(runs_[run].grids[layer], cell);
  const std::size_t heads = std::max<std::size_t>(runs_[run].heads[layer], 1);
  const double columns = static_cast<double>(block_columns(heads));
  const double rows = std::ceil(static_cast<double>(heads) / columns);
  return {0, 0, columns * (map.width + kMapGap) - kMapGap, rows * (map.height + kMapGap) - kMapGap};
}

// Splits the layers with the same grid into stretches of equal length. Their number follows from
// the wanted size of a map; then the maps grow to fill the row, to at most 1.5 times that size.
// Layers without a map in any run of the group take no space.
std::vector<Stretch> MapsFigure::stretches(const std::vector<std::size_t>& group) const {
  const AnalyzedRun& r = runs_[group[0]];
  std::vector<std::size_t> layers;
  for (std::size_t l = 0; l < r.depth(); ++l) {
    if (std::ranges::any_of(group, [&](std::size_t g) { return has_maps(what_.maps[g][l]); })) {
      layers.push_back(l);
    }
  }
  std::vector<Stretch> out;
  for (auto begin = layers.begin(); begin != layers.end();) {
    const auto end = std::find_if(begin, layers.end(), [&](std::size_t l) {
      return r.grids[l] != r.grids[*begin] || r.heads[l] != r.heads[*begin];
    });
    const auto count = static_cast<std::size_t>(end - begin);
    const MapSize grid = r.grids[*begin];
    const double longest = static_cast<double>(std::max({grid.rows, grid.columns, std::size_t{1}}));
    const double wanted = 14 * what_.cell / longest;
    const double taken = block_box(group[0], *begin, wanted).width + kBlockGap;
    const std::size_t most = std::max<std::size_t>(
        1, static_cast<std::size_t>(std::lround((kRoom + kBlockGap) / taken)));
    const std::size_t lines = (count + most - 1) / most;
    const std::size_t each = (count + lines - 1) / lines;
    const double n = static_cast<double>(each);
    const double block = (kRoom - (n - 1) * kBlockGap) / n;
    const double maps = static_cast<double>(block_columns(r.heads[*begin]));
    const double fits =
        ((block + kMapGap) / maps - kMapGap) / std::max(static_cast<double>(grid.columns), 1.0);
    const double cell = std::min(fits, 1.5 * wanted);
    while (begin != end) {
      const auto stop =
          begin + std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(each), end - begin);
      out.push_back({{begin, stop}, cell > 1 ? std::floor(2 * cell) / 2 : cell, out.empty()});
      begin = stop;
    }
  }
  return out;
}

double MapsFigure::stretch_height(std::size_t run, const Stretch& stretch) const {
  return std::max(kBlockHead + block_box(run, stretch.layers[0], stretch.cell).height,
                  what_.image && stretch.first ? kImageSide + 54 : 40) +
         kBlockGap;
}

void MapsFigure::draw_block(plot::Canvas& canvas, plot::HeatSheet& sheet, plot::Point at,
                            std::size_t run, std::size_t layer, double cell) {
  const MapSize grid = runs_[run].grids[layer];
  const plot::Box map = map_of(grid, cell), block = block_box(run, layer, cell);
  canvas.text({at.x + block.width / 2, at.y + 12}, cat(block.width > 50 ? "layer " : "", layer + 1),
              {plot::kSmallText, plot::Anchor::kMiddle, plot::kSoft});
  const std::size_t columns = block_columns(runs_[run].heads[layer]);
  for (std::size_t h = 0; h < runs_[run].heads[layer]; ++h) {
    const std::vector<double>& values = what_.maps[run][layer][h];
    if (!any_number(values)) continue;
    const auto row = h / columns;
    const plot::Box box = {at.x + static_cast<double>(h % columns) * (map.width + kMapGap),
                           at.y + kBlockHead + static_cast<double>(row) * (map.height + kMapGap),
                           map.width, map.height};
    sheet.add(box, values, static_cast<std::int64_t>(grid.rows),
              static_cast<std::int64_t>(grid.columns), what_.scale);
    marks_.push_back({box, {run, layer, h}});
  }
}

void MapsFigure::draw_label(plot::Canvas& canvas, double top, std::size_t run,
                            const Stretch& stretch) const {
  for (const std::string& line : plot::wrapped(runs_[run].name, plot::kText * plot::kBoldWidth,
                                               kLabels - kFigureSide - 4, 2)) {
    canvas.text({kFigureSide, top + 12}, line,
                {plot::kText, plot::Anchor::kStart, plot::kInk, true});
    top += 14;
  }
  top -= 14;
  const MapSize grid = runs_[run].grids[stretch.layers[0]];
  canvas.text({kFigureSide, top + 27}, cat(grid.rows, " \xC3\x97 ", grid.columns),
              {plot::kSmallText, plot::Anchor::kStart, plot::kSoft});
  if (!stretch.first || !what_.image) return;
  const double longest = static_cast<double>(std::max(what_.image->width, what_.image->height));
  canvas.image(
      {kFigureSide, top + 36, kImageSide * static_cast<double>(what_.image->width) / longest,
       kImageSide * static_cast<double>(what_.image->height) / longest},
      preview_png(*what_.image));
}

// Runs of the same shape are below each other, stretch by stretch; runs of other shapes follow.
std::vector<std::pair<std::size_t, Stretch>> MapsFigure::lines_of_blocks() const {
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t r : shown_) {
    const auto alike = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return runs_[group[0]].grids == runs_[r].grids && runs_[group[0]].heads == runs_[r].heads;
    });
    if (alike == groups.end()) {
      groups.push_back({r});
    } else {
      alike->push_back(r);
    }
  }
  std::vector<std::pair<std::size_t, Stretch>> lines;
  for (const std::vector<std::size_t>& group : groups) {
    for (const Stretch& s : stretches(group)) {
      for (std::size_t r : group) {
        if (std::ranges::any_of(s.layers,
                                [&](std::size_t l) { return has_maps(what_.maps[r][l]); })) {
          lines.emplace_back(r, s);
        }
      }
    }
  }
  return lines;
}

plot::Figure MapsFigure::draw() {
  const double head = head_height({}) + 34;
  const std::vector<std::pair<std::size_t, Stretch>> lines = lines_of_blocks();
  double height = head + 16;
  for (const auto& [run, stretch] : lines) height += stretch_height(run, stretch);
  plot::Canvas canvas(kFigureWidth, height);
  draw_head(canvas, what_.title, what_.data, {});
  plot::draw_color_bar(canvas, {kFigureSide, 74, 260, 10}, what_.scale, what_.unit);
  plot::HeatSheet sheet(what_.scale.map);
  double y = head + 16;
  for (const auto& [run, stretch] : lines) {
    draw_label(canvas, y, run, stretch);
    double x = kLabels;
    for (std::size_t l : stretch.layers) {
      draw_block(canvas, sheet, {x, y}, run, l, stretch.cell);
      x += block_box(run, l, stretch.cell).width + kBlockGap;
    }
    y += stretch_height(run, stretch);
  }
  sheet.draw(canvas);
  if (what_.marks) {
    for (const Mark& m : marks_) what_.marks(canvas, m.box, m.place);
  }
  return make_figure(what_.name, what_.title, what_.caption,
                     cat(what_.title, ", ", what_.data, ": maps of ", marks_.size(), " heads"),
                     canvas, what_.table);
}

}  // namespace

LayerMaps head_map_values(const std::vector<AnalyzedRun>& runs, std::string_view key,
                          std::size_t site) {
  LayerMaps out;
  for (const AnalyzedRun& run : runs) {
    auto& layers = out.emplace_back(run.depth());
    for (std::size_t l = 0; l < run.depth(); ++l) {
      const std::size_t cells = run.grids[l].rows * run.grids[l].columns;
      const AnalysisJson& heads = item(item(run.at(key), l), site);
      for (std::size_t h = 0; h < run.heads[l]; ++h) {
        std::vector<double> map = numbers_of(item(heads, h));
        if (map.size() != cells) map.clear();  // a map of another size cannot be placed
        layers[l].push_back(std::move(map));
      }
    }
  }
  return out;
}

void add_head_maps(const FigureInput& in, HeadMaps what, Figures& out) {
  MapsFigure figure(in.runs, std::move(what));
  if (!figure.empty()) out.push_back(figure.draw());
}

std::string preview_png(const Preview& preview, bool grey) {
  // A pixel of the picture is the mean of factor x factor pixels of the preview.
  const std::int64_t longest = std::max(preview.height, preview.width);
  const std::int64_t factor = (longest + kMaxPixels - 1) / kMaxPixels;
  Image image{static_cast<int>(preview.width / factor),
              static_cast<int>(preview.height / factor),
              grey ? 1 : 3,
              {}};
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t x = 0; x < image.width; ++x) {
      std::array<std::int64_t, 3> sum{};
      for (std::int64_t i = 0; i < factor * factor; ++i) {
        const std::int64_t row = y * factor + i / factor, column = x * factor + i % factor;
        const std::uint8_t* rgb = &preview.rgb[3 * (row * preview.width + column)];
        for (std::size_t c = 0; c < 3; ++c) sum[c] += rgb[c];
      }
      for (std::int64_t& s : sum) s /= factor * factor;
      if (grey) sum[0] = (299 * sum[0] + 587 * sum[1] + 114 * sum[2]) / 1000;
      for (int c = 0; c < image.channels; ++c) {
        image.pixels.push_back(static_cast<std::uint8_t>(sum[static_cast<std::size_t>(c)]));
      }
    }
  }
  std::vector<std::byte> png;
  encode_png(image, png);
  return {reinterpret_cast<const char*>(png.data()), png.size()};
}

}  // namespace dtn::drawing
