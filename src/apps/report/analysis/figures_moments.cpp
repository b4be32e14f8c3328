// Figure of the statistics that positional normalization takes: maps of mean and deviation of each
// token over its channels, beside those of the network before training.
#include <algorithm>
#include <array>
#include <cmath>

#include "apps/report/analysis/head_maps.h"
#include "core/format.h"
#include "dtn/core/check.h"
#include "plot/text.h"

namespace dtn::drawing {
namespace {

constexpr double kSide = 100, kGap = 8, kTileText = 20;  // a map, and the text below it
constexpr double kEntryHead = 22, kEntryGap = 20;        // the text above the maps of a place
constexpr double kImage = 120;
constexpr std::size_t kMaxPlaces = 24;

// The maps of the first image at one place; `maps` has the mean and the deviation.
struct Place {
  std::string name;
  std::array<std::vector<double>, 2> maps;
  MapSize size;
};

MapSize size_of(const AnalysisJson& map) {
  return {map.is_array() ? map.size() : 0, item(map, 0).is_array() ? item(map, 0).size() : 0};
}

std::vector<Place> places_of(const AnalyzedRun& run) {
  std::vector<Place> places;
  const AnalysisJson& sites = run.at("moments.sites");
  for (std::size_t s = 0; sites.is_array() && s < sites.size(); ++s) {
    const AnalysisJson& mean = item(item(run.at("moments.mean"), s), 0);
    const AnalysisJson& std = item(item(run.at("moments.std"), s), 0);
    Place place{text_of(sites[s]), {numbers_of(mean), numbers_of(std)}, size_of(mean)};
    const std::size_t cells = place.size.rows * place.size.columns;
    const bool fits = cells > 0 && place.maps[0].size() == cells && place.maps[1].size() == cells;
    if (fits && any_number(place.maps[0])) places.push_back(std::move(place));
  }
  return places;
}

// At most kMaxPlaces of them, at equal distances, with the first and the last.
std::vector<std::size_t> shown_places(std::size_t count) {
  std::vector<std::size_t> shown;
  const std::size_t most = std::min(count, kMaxPlaces);
  for (std::size_t i = 0; i < most; ++i) {
    shown.push_back(most == 1 ? 0 : i * (count - 1) / (most - 1));
  }
  return shown;
}

const AnalyzedRun* state_before(const std::vector<AnalyzedRun>& runs, const AnalyzedRun& run) {
  const auto found =
      std::ranges::find(runs, std::optional(run.index), &AnalyzedRun::before_training_of);
  return found == runs.end() ? nullptr : &*found;
}

std::string correlation_text(const AnalyzedRun& run, const char* key, std::size_t site,
                             std::size_t which) {
  const double value = number_of(item(item(run.at(key), site), which));
  return std::isfinite(value) ? format("%.2f", value) : "-";
}

void add_rows(const AnalyzedRun& run, plot::Table& table) {
  const AnalysisJson& sites = run.at("moments.sites");
  for (std::size_t s = 0; sites.is_array() && s < sites.size(); ++s) {
    table.rows.push_back(
        {run.name, text_of(sites[s]), correlation_text(run, "moment_brightness", s, 0),
         correlation_text(run, "moment_brightness", s, 1),
         correlation_text(run, "moment_edges", s, 0), correlation_text(run, "moment_edges", s, 1)});
  }
}

class MomentsFigure {
 public:
  // `states`: the run before training, if that is known, and the run.
  MomentsFigure(const FigureInput& in, std::vector<const AnalyzedRun*> states)
      : in_(in), states_(std::move(states)) {
    for (const AnalyzedRun* state : states_) places_.push_back(places_of(*state));
    const bool differ = std::ranges::any_of(
        places_, [&](const auto& places) { return places.size() != places_.back().size(); });
    if (differ) places_.clear();
  }

  bool empty() const { return places_.empty() || places_.back().empty(); }

  plot::Figure draw(const std::string& name) {
    const std::vector<std::size_t> shown = shown_places(places_.back().size());
    const std::size_t rows = (shown.size() + columns() - 1) / columns();
    const bool has_image = !in_.previews.empty() && drawable(in_.previews.front());
    const double top = has_image ? 62 + kImage + kEntryGap : 70;
    const double row = kEntryHead + kSide + kTileText + kEntryGap;
    plot::Canvas canvas(kFigureWidth, top + row * static_cast<double>(rows));
    const std::string title = "Mean and deviation of the tokens: " + states_.back()->name;
    draw_head(canvas, title,
              cat("first image; mean over the channels, then deviation", place_text(),
                  "; each map on its own scale, with its range below"),
              {});
    if (has_image) draw_image(canvas);
    plot::HeatSheet sheet(plot::ColorMap::kViridis);
    for (std::size_t i = 0; i < shown.size(); ++i) {
      const std::size_t line = i / columns();
      const plot::Point at{
          kFigureSide + static_cast<double>(i % columns()) * (entry_width() + kEntryGap),
          top + static_cast<double>(line) * row};
      draw_entry(canvas, sheet, at, shown[i]);
    }
    sheet.draw(canvas);
    return make_figure(name, title, caption(shown.size()),
                       cat(title, ": maps at ", counted(shown.size(), "places")), canvas, table());
  }

 private:
  double entry_width() const {
    return 2 * static_cast<double>(states_.size()) * (kSide + kGap) - kGap;
  }
  std::size_t columns() const {
    const double room = kFigureWidth - 2 * kFigureSide + kEntryGap;
    return std::max<std::size_t>(1, static_cast<std::size_t>(room / (entry_width() + kEntryGap)));
  }

  std::string place_text() const {
    return states_.size() == 2 ? "; on the left before training, on the right after it" : "";
  }

  std::string caption(std::size_t shown) const {
    std::string text =
        "Positional normalization takes these statistics away, and a moment shortcut hands them to "
        "the decoder. The table has their correlations over the grid with the grey values of the "
        "image and with the sizes of its gradients, means over the images.";
    if (shown < places_.back().size()) {
      text += cat(" ", shown, " of ", places_.back().size(), " places are shown.");
    }
    if (states_.size() < 2) text += " With --before, the network before training is beside them.";
    return text;
  }

  plot::Table table() const {
    plot::Table table{{"run", "place", "mean, brightness", "deviation, brightness", "mean, edges",
                       "deviation, edges"},
                      {}};
    for (const AnalyzedRun* state : states_) add_rows(*state, table);
    return table;
  }

  void draw_image(plot::Canvas& canvas) const {
    const Preview& image = in_.previews.front();
    const auto longest = static_cast<double>(std::max(image.width, image.height));
    canvas.image({kFigureSide, 62, kImage * static_cast<double>(image.width) / longest,
                  kImage * static_cast<double>(image.height) / longest},
                 preview_png(image));
  }

  void draw_entry(plot::Canvas& canvas, plot::HeatSheet& sheet, plot::Point at,
                  std::size_t index) const {
    for (std::size_t s = 0; s < states_.size(); ++s) {
      const Place& place = places_[s][index];
      const double left = at.x + 2 * static_cast<double>(s) * (kSide + kGap);
      const bool before = s + 1 < states_.size();
      canvas.text({left, at.y + 14},
                  plot::fitted(cat(place.name, before ? ", before training" : ""),
                               plot::kText * plot::kBoldWidth, 2 * kSide + kGap),
                  {plot::kText, plot::Anchor::kStart, plot::kInk, true});
      for (std::size_t k = 0; k < 2; ++k) {
        draw_map(canvas, sheet, {left + static_cast<double>(k) * (kSide + kGap), at.y + kEntryHead},
                 place, k);
      }
    }
  }

  static void draw_map(plot::Canvas& canvas, plot::HeatSheet& sheet, plot::Point at,
                       const Place& place, std::size_t which) {
    plot::Range range;
    range.take_in(place.maps[which]);
    const auto longest = static_cast<double>(std::max(place.size.rows, place.size.columns));
    sheet.add({at.x, at.y, kSide * static_cast<double>(place.size.columns) / longest,
               kSide * static_cast<double>(place.size.rows) / longest},
              place.maps[which], static_cast<std::int64_t>(place.size.rows),
              static_cast<std::int64_t>(place.size.columns),
              {range, plot::ColorMap::kViridis, false});
    if (range.empty()) return;
    canvas.text({at.x, at.y + kSide + 14},
                cat(plot::readable(range.low, 3), " to ", plot::readable(range.high, 3)),
                {plot::kSmallText, plot::Anchor::kStart, plot::kSoft});
  }

  const FigureInput& in_;
  std::vector<const AnalyzedRun*> states_;
  std::vector<std::vector<Place>> places_;
};

}  // namespace

void add_moment_maps(const FigureInput& in, Figures& out) {
  for (const AnalyzedRun& run : in.runs) {
    if (run.before_training_of) continue;  // drawn with its run
    std::vector<const AnalyzedRun*> states;
    if (const AnalyzedRun* before = state_before(in.runs, run)) states.push_back(before);
    states.push_back(&run);
    MomentsFigure figure(in, std::move(states));
    if (!figure.empty()) out.push_back(figure.draw(cat("moments_", run.index + 1)));
  }
}

}  // namespace dtn::drawing
