#include "tasks/translate/data_checks.h"

#include <string>

#include "dtn/core/check.h"
#include "tasks/translate/corruption_list.h"
#include "tasks/translate/drawn_picture.h"
#include "tasks/translate/tensor_pairs.h"

namespace dtn {
namespace {

using Problem = std::optional<ConfigProblem>;

int out_channels_of(const ModelConfig& model) {
  return model.out_channels.value_or(model.channels);
}

// Augmentations that change a picture would change only one of a pair.
Problem picture_augment_problem(const AugmentConfig& a) {
  if (a.preset != AugmentPreset::kNone && a.preset != AugmentPreset::kLight) {
    return ConfigProblem{{"augment.preset", "task"},
                         "the task translate crops and mirrors both pictures of a pair alike, and "
                         "changes nothing else; set augment.preset: none (the centre of the "
                         "picture) or light (random crops)"};
  }
  if (a.policy == "none" && a.color_jitter == 0 && a.gray == 0 && a.blur.empty() &&
      a.solarize == 0 && a.erase == 0 && !a.mixes()) {
    return {};
  }
  return ConfigProblem{{"augment.policy", "augment.color_jitter", "augment.gray", "augment.blur",
                        "augment.solarize", "augment.erase", "augment.mixup", "augment.cutmix"},
                       "the task translate crops and mirrors pictures, and changes nothing else; "
                       "remove the other keys of the section augment"};
}

// Pictures have 1 or 3 channels. `name` is the key of a number of channels.
Problem pixels_problem(const char* name, int channels, const std::string& dataset) {
  if (channels == 1 || channels == 3) return {};
  return ConfigProblem{{name, "data.dataset"},
                       cat(name, " is ", channels, ", but the pictures of data.dataset ", dataset,
                           " have 1 or 3 channels; change it, or use data.dataset: tensors")};
}

Problem map_problem(const ExperimentConfig& config) {
  if (!reads_map(config.model)) return {};
  return ConfigProblem{
      {"model.norm.type", "data.dataset"},
      cat("the model reads the field `map` (spade), which data.dataset ", config.data.dataset,
          " does not have; use data.dataset: tensors with a tensor `map`, or "
          "data.dataset: drawn with data.drawn: map")};
}

// For data without the field that the model's condition comes from.
Problem no_condition_problem(const ExperimentConfig& config) {
  if (!config.model.condition.from) return {};
  return ConfigProblem{{"model.condition.from", "data.dataset"},
                       cat("the model reads a condition, which data.dataset ", config.data.dataset,
                           config.data.dataset == "drawn" ? " with data.drawn: map" : "",
                           " does not have; unset model.condition.from, or use data.dataset: "
                           "tensors")};
}

Problem styles_problem(const ExperimentConfig& config) {
  const ConditionConfig& condition = config.model.condition;
  if (condition.from == ConditionFrom::kVector) {
    return ConfigProblem{{"model.condition.from", "data.corruptions"},
                         "model.condition.from is vector, but images with data.corruptions have no "
                         "vectors; set it to index (the position of the corruption) or image (an "
                         "image after the same corruption)"};
  }
  if (condition.from != ConditionFrom::kIndex) return {};
  const auto cells = static_cast<std::int64_t>(corruption_list(config.data).size());
  const std::int64_t styles = condition.styles.value_or(0);
  if (styles >= cells) return {};
  return ConfigProblem{{"model.condition.styles", "data.corruptions"},
                       cat("model.condition.styles is ", styles, ", but data.corruptions has ",
                           cells, " (a range counts once for each severity); set it to ", cells)};
}

Problem corrupted_problem(const ExperimentConfig& config) {
  const ModelConfig& model = config.model;
  if (config.data.corruptions.empty()) {
    return ConfigProblem{
        {"data.corruptions", "data.dataset"},
        cat("the task translate needs pairs of pictures, and data.dataset ", config.data.dataset,
            " has single ones; set data.corruptions, such as [fog/1-5], to make "
            "the other ones, or use data.dataset: pairs, drawn or tensors")};
  }
  if (Problem problem = corruption_list_problem(config)) return problem;
  if (Problem problem = pixels_problem("model.channels", model.channels, config.data.dataset)) {
    return problem;
  }
  if (out_channels_of(model) != model.channels) {
    return ConfigProblem{{"model.out_channels", "data.corruptions"},
                         cat("model.out_channels is ", out_channels_of(model),
                             ", but with data.corruptions both pictures have model.channels, ",
                             model.channels, "; unset it")};
  }
  if (Problem problem = map_problem(config)) return problem;
  return styles_problem(config);
}

Problem pairs_problem(const ExperimentConfig& config) {
  const ModelConfig& model = config.model;
  if (Problem problem = pixels_problem("model.channels", model.channels, "pairs")) return problem;
  if (Problem problem = pixels_problem("model.out_channels", out_channels_of(model), "pairs")) {
    return problem;
  }
  if (Problem problem = map_problem(config)) return problem;
  return no_condition_problem(config);
}

Problem question_problem(const ExperimentConfig& config) {
  if (Problem problem = map_problem(config)) return problem;
  const ConditionConfig& condition = config.model.condition;
  if (!condition.from) return {};  // a model that cannot know the question
  if (condition.from == ConditionFrom::kVector && condition.size == drawn::kQuestionSize) return {};
  return ConfigProblem{{"model.condition.from", "model.condition.size", "data.drawn"},
                       cat("data.drawn: question has questions of ", drawn::kQuestionSize,
                           " numbers; set model.condition.from: vector and model.condition.size: ",
                           drawn::kQuestionSize)};
}

Problem drawn_problem(const ExperimentConfig& config) {
  const ModelConfig& model = config.model;
  const bool is_map = config.data.drawn != DrawnTask::kQuestion;
  if (!(model.image_size == ImageSize(drawn::kSide))) {
    return ConfigProblem{
        {"model.image_size", "data.dataset"},
        cat("data.dataset drawn has pictures of ", drawn::kSide, " x ", drawn::kSide,
            ", but model.image_size is ", model.image_size, "; set it to ", drawn::kSide)};
  }
  const int channels = is_map ? drawn::kClasses : 3, out_channels = is_map ? 3 : 1;
  if (model.channels != channels || out_channels_of(model) != out_channels) {
    return ConfigProblem{{"model.channels", "model.out_channels", "data.drawn"},
                         cat("data.drawn: ", is_map ? "map" : "question", " needs model.channels: ",
                             channels, " and model.out_channels: ", out_channels, ", but they are ",
                             model.channels, " and ", out_channels_of(model))};
  }
  if (!is_map) return question_problem(config);
  if (reads_map(model) && model.condition.size != drawn::kClasses) {
    return ConfigProblem{{"model.condition.size", "data.drawn"},
                         cat("the maps of data.drawn have ", drawn::kClasses,
                             " classes; set model.condition.size: ", drawn::kClasses)};
  }
  return no_condition_problem(config);
}

}  // namespace

std::optional<ConfigProblem> translate_data_problem(const ExperimentConfig& config) {
  if (Problem problem = picture_augment_problem(config.augment)) return problem;
  const std::string& dataset = config.data.dataset;
  const bool has_pairs = dataset == "tensors" || dataset == "pairs" || dataset == "drawn";
  if (!has_pairs) return corrupted_problem(config);
  if (!config.data.corruptions.empty()) {
    return ConfigProblem{{"data.corruptions", "data.dataset"},
                         cat("data.dataset ", dataset,
                             " has both pictures of each pair, so data.corruptions has nothing to "
                             "do; unset it (null)")};
  }
  if (dataset == "pairs") return pairs_problem(config);
  if (dataset == "drawn") return drawn_problem(config);
  return {};
}

}  // namespace dtn
