#include "apps/report/analysis/head_maps.h"

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
constexpr double kPairGap = 4;     // between the two blocks of a pair
constexpr double kBlockHead = 18;  // the layer's name above a block
constexpr double kLabels = 100;    // width of the column with run names
constexpr double kImageSide = 76;
constexpr double kRoom = kFigureWidth - kLabels - kFigureSide;
constexpr std::int64_t kMaxPixels = 256;  // maximum side of a preview in the figure

// A block is k x k for k x k heads. Heads run down its columns, as Eq. 7 of the paper assigns their
// offsets: a map lies on the side of the block to which its head looks.
std::size_t block_columns(std::size_t heads) {
  return std::max<std::size_t>(
      1, static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(heads)) - 1e-9)));
}
std::size_t block_rows(std::size_t heads) {
  const std::size_t columns = block_columns(heads);
  return std::max<std::size_t>(1, (heads + columns - 1) / columns);
}

// Box of a map of the grid, with this many pixels per cell.
plot::Box map_of(const MapSize& grid, double cell) {
  return {0, 0, std::max(cell * static_cast<double>(grid.columns), 1.0),
          std::max(cell * static_cast<double>(grid.rows), 1.0)};
}

// Runs whose blocks are side by side in each layer: one run, or the state of a run before training
// and the run.
using RunRow = std::vector<std::size_t>;

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
    std::vector<bool> placed(runs_.size(), false);
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      if (placed[r] || !std::ranges::any_of(what_.maps[r], has_maps)) continue;
      rows_.push_back(row_of(r));
      for (const std::size_t run : rows_.back()) placed[run] = true;
    }
  }

  bool empty() const { return rows_.empty(); }
  plot::Figure draw();

 private:
  static bool has_maps(const std::vector<std::vector<double>>& heads) {
    return std::ranges::any_of(heads, any_number);
  }
  RunRow row_of(std::size_t run) const;
  bool row_has_maps(const RunRow& row, std::size_t layer) const;
  plot::Box block_box(std::size_t run, std::size_t layer, double cell) const;
  double row_width(const RunRow& row, std::size_t layer, double cell) const;
  double fitting_cell(const RunRow& row, std::size_t layer, std::size_t layers) const;
  std::vector<Stretch> stretches(const std::vector<RunRow>& group) const;
  double stretch_height(std::size_t run, const Stretch& stretch) const;
  std::vector<std::pair<RunRow, Stretch>> lines_of_blocks() const;
  void draw_row(plot::Canvas& canvas, plot::HeatSheet& sheet, plot::Point at, const RunRow& row,
                const Stretch& stretch);
  void draw_block(plot::HeatSheet& sheet, plot::Point at, std::size_t run, std::size_t layer,
                  double cell);
  void draw_label(plot::Canvas& canvas, double top, std::size_t run, const Stretch& stretch) const;

  // A position for marks, which are drawn after all maps.
  struct Mark {
    plot::Box box;
    MapPlace place;
  };

  const std::vector<AnalyzedRun>& runs_;
  HeadMaps what_;
  std::vector<RunRow> rows_;  // with maps
  std::vector<Mark> marks_;
};

// Returns the row of a run: with its trained run if it is a state before training of equal shape.
RunRow MapsFigure::row_of(std::size_t run) const {
  const auto trained = runs_[run].before_training_of;
  if (!what_.pairs || !trained || *trained >= runs_.size() || *trained <= run) return {run};
  const AnalyzedRun& after = runs_[*trained];
  const bool alike = after.grids == runs_[run].grids && after.heads == runs_[run].heads &&
                     std::ranges::any_of(what_.maps[*trained], has_maps);
  return alike ? RunRow{run, *trained} : RunRow{run};
}

bool MapsFigure::row_has_maps(const RunRow& row, std::size_t layer) const {
  return std::ranges::any_of(row, [&](std::size_t r) { return has_maps(what_.maps[r][layer]); });
}

plot::Box MapsFigure::block_box(std::size_t run, std::size_t layer, double cell) const {
  const plot::Box map = map_of(runs_[run].grids[layer], cell);
  const std::size_t heads = std::max<std::size_t>(runs_[run].heads[layer], 1);
  const double columns = static_cast<double>(block_columns(heads));
  const double rows = static_cast<double>(block_rows(heads));
  return {0, 0, columns * (map.width + kMapGap) - kMapGap, rows * (map.height + kMapGap) - kMapGap};
}

// Width of a layer in a row.
double MapsFigure::row_width(const RunRow& row, std::size_t layer, double cell) const {
  const double n = static_cast<double>(row.size());
  return n * (block_box(row[0], layer, cell).width + kPairGap) - kPairGap;
}

// Returns the size of a cell with which so many layers fill the room.
double MapsFigure::fitting_cell(const RunRow& row, std::size_t layer, std::size_t layers) const {
  const AnalyzedRun& run = runs_[row[0]];
  const double n = static_cast<double>(layers);
  const double width = (kRoom - (n - 1) * kBlockGap) / n;
  const double block = (width + kPairGap) / static_cast<double>(row.size()) - kPairGap;
  const double maps = static_cast<double>(block_columns(run.heads[layer]));
  const double columns = static_cast<double>(run.grids[layer].columns);
  return ((block + kMapGap) / maps - kMapGap) / std::max(columns, 1.0);
}

// Splits the layers with the same grid into stretches of equal length. Their number follows from
// the wanted size of a map; then the maps grow to fill the row, to at most 1.5 times that size.
// Layers without a map in any row of the group take no space.
std::vector<Stretch> MapsFigure::stretches(const std::vector<RunRow>& group) const {
  const RunRow& row = group[0];
  const AnalyzedRun& r = runs_[row[0]];
  std::vector<std::size_t> layers;
  for (std::size_t l = 0; l < r.depth(); ++l) {
    if (std::ranges::any_of(group, [&](const RunRow& g) { return row_has_maps(g, l); })) {
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
    const double taken = row_width(row, *begin, wanted) + kBlockGap;
    const std::size_t most = std::max<std::size_t>(
        1, static_cast<std::size_t>(std::lround((kRoom + kBlockGap) / taken)));
    const std::size_t lines = (count + most - 1) / most;
    const std::size_t each = (count + lines - 1) / lines;
    const double cell = std::min(fitting_cell(row, *begin, each), 1.5 * wanted);
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

// Draws the layers of a stretch, each with a block per run of the row.
void MapsFigure::draw_row(plot::Canvas& canvas, plot::HeatSheet& sheet, plot::Point at,
                          const RunRow& row, const Stretch& stretch) {
  constexpr double kShort = 50, kShortPair = 80;
  for (const std::size_t layer : stretch.layers) {
    const double width = block_box(row[0], layer, stretch.cell).width;
    const bool pair = row.size() > 1;
    std::string label = cat(width > (pair ? kShortPair : kShort) ? "layer " : "", layer + 1);
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (pair) label = i == 0 ? cat(label, " before") : "after";
      canvas.text({at.x + width / 2, at.y + 12}, label,
                  {plot::kSmallText, plot::Anchor::kMiddle, plot::kSoft});
      draw_block(sheet, at, row[i], layer, stretch.cell);
      at.x += width + kPairGap;
    }
    at.x += kBlockGap - kPairGap;
  }
}

void MapsFigure::draw_block(plot::HeatSheet& sheet, plot::Point at, std::size_t run,
                            std::size_t layer, double cell) {
  const MapSize grid = runs_[run].grids[layer];
  const plot::Box map = map_of(grid, cell);
  const std::size_t rows = block_rows(runs_[run].heads[layer]);
  for (std::size_t h = 0; h < runs_[run].heads[layer]; ++h) {
    const std::vector<double>& values = what_.maps[run][layer][h];
    if (!any_number(values)) continue;
    const std::size_t place = h / rows;
    const double column = static_cast<double>(place), row = static_cast<double>(h % rows);
    const plot::Box box = {at.x + column * (map.width + kMapGap),
                           at.y + kBlockHead + row * (map.height + kMapGap), map.width, map.height};
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

// Rows of the same shape are below each other, stretch by stretch; rows of other shapes follow.
std::vector<std::pair<RunRow, Stretch>> MapsFigure::lines_of_blocks() const {
  std::vector<std::vector<RunRow>> groups;
  for (const RunRow& row : rows_) {
    const AnalyzedRun& run = runs_[row[0]];
    const auto alike = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      const AnalyzedRun& other = runs_[group[0][0]];
      return group[0].size() == row.size() && other.grids == run.grids && other.heads == run.heads;
    });
    if (alike == groups.end()) {
      groups.push_back({row});
    } else {
      alike->push_back(row);
    }
  }
  std::vector<std::pair<RunRow, Stretch>> lines;
  for (const std::vector<RunRow>& group : groups) {
    for (const Stretch& s : stretches(group)) {
      for (const RunRow& row : group) {
        if (std::ranges::any_of(s.layers, [&](std::size_t l) { return row_has_maps(row, l); })) {
          lines.emplace_back(row, s);
        }
      }
    }
  }
  return lines;
}

plot::Figure MapsFigure::draw() {
  const double head = head_height({}) + 34;
  const std::vector<std::pair<RunRow, Stretch>> lines = lines_of_blocks();
  double height = head + 16;
  for (const auto& [row, stretch] : lines) height += stretch_height(row[0], stretch);
  plot::Canvas canvas(kFigureWidth, height);
  draw_head(canvas, what_.title, what_.data, {});
  plot::draw_color_bar(canvas, {kFigureSide, 74, 260, 10}, what_.scale, what_.unit);
  plot::HeatSheet sheet(what_.scale.map);
  double y = head + 16;
  for (const auto& [row, stretch] : lines) {
    draw_label(canvas, y, row.back(), stretch);
    draw_row(canvas, sheet, {kLabels, y}, row, stretch);
    y += stretch_height(row[0], stretch);
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

bool drawable(const Preview& p) {
  return p.height > 0 && p.width > 0 && p.height < 32768 && p.width < 32768 &&
         p.rgb.size() == static_cast<std::size_t>(3 * p.height * p.width);
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
