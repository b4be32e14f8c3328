#include "dtn/core/check.h"
#include "dtn/tasks/classify.h"
#include "dtn/tasks/detect.h"
#include "dtn/tasks/diffusion.h"
#include "dtn/tasks/dino.h"
#include "dtn/tasks/multilabel.h"
#include "dtn/tasks/registries.h"
#include "dtn/tasks/supcon.h"
#include "dtn/tasks/task.h"
#include "dtn/tasks/translate.h"
#include "tasks/detect/checks.h"
#include "tasks/diffusion/checks.h"
#include "tasks/dino_checks.h"
#include "tasks/translate/checks.h"
#include "tasks/view_checks.h"

namespace dtn {
namespace {

template <class T>
std::unique_ptr<Task> make(const TaskSetup& setup) {
  return std::make_unique<T>(setup);
}

std::vector<FigureSchema> accuracies(const std::string& method = "") {
  return {{.name = "top1", .title = method + "top-1", .percent = true},
          {.name = "top5", .title = method + "top-5", .percent = true}};
}

// Keys of the loss of the task classify, and of its draws from the classes.
std::vector<std::string> classify_loss() {
  return {"train.loss",        "train.label_smoothing",      "train.class_weights",
          "train.focal_gamma", "train.bce_target_threshold", "train.bce_sum",
          "data.sampling"};
}

// All keys of the augmentation but the flip.
std::vector<std::string> augmentation_but_flip() {
  return {"augment.scale",        "augment.ratio",  "augment.policy",     "augment.color_jitter",
          "augment.gray",         "augment.blur",   "augment.solarize",   "augment.erase",
          "augment.mixup",        "augment.cutmix", "augment.mix_chance", "augment.mix_switch",
          "augment.mix_off_epoch"};
}

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TaskSchema classify_schema() {
  TaskSchema schema{.name = "classify",
                    .doc = "classes of images, by softmax or binary cross-entropy",
                    .figures = accuracies(),
                    .sections = {"distill"},
                    .check = one_view_problem,
                    .gives_condition = true};
  schema.figures.push_back({.name = "loss", .title = "loss", .higher_is_better = false});
  return schema;
}

TaskSchema multilabel_schema() {
  std::vector<std::string> unread = classify_loss();
  unread.insert(unread.end(), {"data.classes", "data.label_sets"});
  return {.name = "multilabel",
          .doc = "images with any number of classes each, by binary cross-entropy of each class",
          .figures = {{.name = "map", .title = "mAP"},
                      {.name = "f1_micro", .title = "micro F1"},
                      {.name = "f1_macro", .title = "macro F1"},
                      {.name = "threshold", .title = "threshold"},
                      {.name = "loss", .title = "loss", .higher_is_better = false}},
          .unread = std::move(unread),
          .check = one_view_problem,
          .gives_condition = true};
}

TaskSchema dino_schema() {
  return {.name = "dino",
          .doc =
              "features without labels, from a teacher that averages the model (DINO); "
              "evaluations classify by nearest neighbors",
          .figures = accuracies("k-NN "),
          .sections = {"dino"},
          .unread = classify_loss(),
          .check = dino_problem,
          .uses_average = true,
          .features_only = true};
}

TaskSchema supcon_schema() {
  return {.name = "supcon",
          .doc =
              "features that are similar within a class, by a contrastive loss; evaluations "
              "classify by nearest neighbors",
          .figures = accuracies("k-NN "),
          .sections = {"supcon"},
          .unread = classify_loss(),
          .check = supcon_problem,
          .features_only = true};
}

TaskSchema diffusion_schema() {
  const auto figure = [](const char* name) {
    return FigureSchema{.name = name, .title = name, .higher_is_better = false};
  };
  // It learns whole images, with pixels in [-1, 1].
  const std::vector<std::string> pixels = {"data.mean", "data.std", "data.crop_pct",
                                           "data.train_interpolation"};
  return {.name = "diffusion",
          .doc = "noise in images at every noise level, from which samples can be drawn",
          .figures = {figure("loss"), figure("mse"), figure("vb")},
          .sections = {"diffusion"},
          .unread = joined(joined(pixels, augmentation_but_flip()), classify_loss()),
          .check = diffusion_problem,
          .own_families = true};
}

TaskSchema translate_schema() {
  // It trains on pairs of pictures with pixels in [0, 1], without classes.
  const std::vector<std::string> pixels = {"data.mean", "data.std", "data.crop_pct",
                                           "data.label_sets"};
  std::vector<std::string> augmentation = augmentation_but_flip();
  std::erase(augmentation, "augment.scale");
  std::erase(augmentation, "augment.ratio");
  return {.name = "translate",
          .doc = "images from images, such as restored ones, by the difference of their pixels",
          .figures = {{.name = "psnr", .title = "PSNR (dB)", .decimals = 2},
                      {.name = "ssim", .title = "SSIM"},
                      {.name = "l1", .title = "L1", .higher_is_better = false},
                      {.name = "loss", .title = "loss", .higher_is_better = false},
                      {.name = "input_psnr", .title = "PSNR of the input (dB)", .decimals = 2},
                      {.name = "input_ssim", .title = "SSIM of the input"},
                      {.name = "iou", .title = "IoU"}},
          .sections = {"translate"},
          .keys = {"data.corruptions", "data.corrupted"},
          .unread = joined(joined(pixels, augmentation), classify_loss()),
          .check = translate_problem,
          .gives_condition = true,
          .own_families = true};
}

TaskSchema detect_schema() {
  TaskSchema schema{.name = "detect",
                    .doc = "objects in images, by boxes and with Mask R-CNN also by masks",
                    .figures = {},
                    .keys = {"model.detector", "model.fpn_channels", "model.head_convs",
                             "model.head_fc", "model.rpn_samples", "model.roi_samples",
                             "data.scale", "data.size_divisor", "data.flip"},
                    .implied_by = "model.detector",
                    .check = detect_problem};
  for (const char* figure : {"AP", "AP50", "AP75", "APs", "APm", "APl"}) {
    schema.figures.push_back(
        {.name = cat("bbox_", figure), .title = cat("box ", figure), .percent = true});
  }
  for (const char* figure : {"AP", "AP50", "AP75"}) {
    schema.figures.push_back(
        {.name = cat("segm_", figure), .title = cat("mask ", figure), .percent = true});
  }
  const std::vector<std::string> images = {"data.classes",
                                           "data.label_sets",
                                           "data.crop_pct",
                                           "data.interpolation",
                                           "data.train_interpolation",
                                           "data.decode",
                                           "augment.preset",
                                           "augment.hflip",
                                           "augment.repeats"};
  schema.unread = joined(joined(images, augmentation_but_flip()), classify_loss());
  return schema;
}

}  // namespace

const TaskRegistry& task_registry() {
  static const TaskRegistry entries("task", {{classify_schema(), make<Classify>},
                                             {multilabel_schema(), make<Multilabel>},
                                             {dino_schema(), make<Dino>},
                                             {supcon_schema(), make<Supcon>},
                                             {diffusion_schema(), make<Diffusion>},
                                             {translate_schema(), make<Translate>},
                                             {detect_schema(), make<Detect>}});
  return entries;
}

std::unique_ptr<Task> make_task(const TaskSetup& setup) {
  return setup.registries.tasks.at(setup.config.task).make(setup);
}

ConfigSchemas Registries::schemas() const {
  return {norms.schemas(),         datasets.schemas(),
          augmentations.schemas(), optimizers.schemas(),
          schedules.schemas(),     tasks.schemas(),
          models.schemas(),        {presets.begin(), presets.end()}};
}

const Registries& standard_registries() {
  static const Registries ours;
  return ours;
}

}  // namespace dtn
