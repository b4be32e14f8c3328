// The figures of an analysis by topic, and their shared parts: width, heading, legend and axes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "apps/analyze/analysis.h"
#include "apps/report/analysis/analysis_json.h"
#include "plot/page.h"
#include "plot/panel.h"

namespace dtn::drawing {

struct FigureInput {
  const AnalysisJson& analysis;
  std::vector<AnalyzedRun> runs;
  std::string data;  // "64 images of fashion_mnist"
  std::span<const Preview> previews;
};

using Figures = std::vector<plot::Figure>;

// Parts of draw_figures(). Each function appends the figures of its topic for which numbers exist.
void add_magnitude_maps(const FigureInput& in, Figures& out);  // Fig. 1
void add_magnitude_dots(const FigureInput& in, Figures& out);
void add_attention(const FigureInput& in, Figures& out);  // Fig. 2, entropy, class token
void add_rollout(const FigureInput& in, Figures& out);
void add_variation(const FigureInput& in, Figures& out);      // Fig. 3b
void add_position_maps(const FigureInput& in, Figures& out);  // Figs. 6, 7
void add_offsets(const FigureInput& in, Figures& out);
void add_position_extent(const FigureInput& in, Figures& out);
void add_lambdas(const FigureInput& in, Figures& out);  // Fig. 8
void add_lambda_history(const FigureInput& in, Figures& out);
void add_planes(const FigureInput& in, Figures& out);  // Fig. 9
void add_token_likeness(const FigureInput& in, Figures& out);
void add_moment_maps(const FigureInput& in, Figures& out);
void add_signals(const FigureInput& in, Figures& out);  // rms and gradients
void add_cka(const FigureInput& in, Figures& out);

inline constexpr double kFigureWidth = 940;
inline constexpr double kFigureSide = 16;

// Height of the heading that draw_head() draws.
double head_height(const std::vector<plot::LegendEntry>& legend, double width = kFigureWidth);
// Draws a title, a subtitle and a legend; each may be empty. `width` is that of the picture.
void draw_head(plot::Canvas& canvas, const std::string& title, const std::string& subtitle,
               const std::vector<plot::LegendEntry>& legend, double width = kFigureWidth);

plot::LegendEntry legend_entry(const AnalyzedRun& run);

// Axis of layers, counted from 1. With the residual stream's input it starts at 0.
plot::Axis layer_axis(std::size_t depth, bool from_zero = false);
// Draws dotted lines where the grid of a multi-stage model changes.
void mark_stages(plot::Canvas& canvas, const plot::Panel& panel, const AnalyzedRun& run);

// Assembles a figure. Screen readers read `description` instead of the picture.
plot::Figure make_figure(const std::string& name, const std::string& title,
                         const std::string& caption, const std::string& description,
                         const plot::Canvas& canvas, plot::Table table);

// Returns the range of each run's values, for descriptions: "LN 0.4 to 2.5, DTN 0.4 to 2".
std::string spans_text(const std::vector<AnalyzedRun>& runs,
                       const std::vector<plot::Range>& ranges);

// Title of a panel: `name`, shortened so that it fits together with `more`.
std::string panel_title(const std::string& name, const std::string& more, double width);

// Positions of layers on their axis: 1.0, 2.0, ...
std::vector<double> layer_places(std::size_t depth, double first = 1);

// Range from zero or less to the values without the largest 0.5 %, so that outliers do not dominate
// the colours.
plot::Range most_of(std::vector<double> values);

}  // namespace dtn::drawing
