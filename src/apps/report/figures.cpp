#include "apps/report/figures.h"

#include "apps/report/figure_groups.h"

namespace dtn {

std::vector<plot::Figure> draw_figures(const nlohmann::ordered_json& analysis,
                                       std::span<const Preview> previews) {
  using namespace drawing;
  const FigureInput in{analysis, read_runs(analysis), inputs_text(analysis), previews};
  Figures out;
  for (const auto add :
       {add_magnitude_maps, add_magnitude_dots, add_attention, add_rollout, add_variation,
        add_position_maps, add_offsets, add_position_extent, add_lambdas, add_lambda_history,
        add_planes, add_token_likeness, add_signals, add_cka}) {
    add(in, out);
  }
  return out;
}

}  // namespace dtn
