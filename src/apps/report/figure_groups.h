// Parts of draw_figures(). Each function appends the figures of its topic for which numbers exist.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "apps/analyze/analysis.h"
#include "apps/report/analysis_json.h"
#include "plot/page.h"

namespace dtn::drawing {

struct FigureInput {
  const AnalysisJson& analysis;
  std::vector<AnalyzedRun> runs;
  std::string data;  // "64 images of fashion_mnist"
  std::span<const Preview> previews;
};

using Figures = std::vector<plot::Figure>;

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
void add_signals(const FigureInput& in, Figures& out);  // rms and gradients
void add_cka(const FigureInput& in, Figures& out);

}  // namespace dtn::drawing
