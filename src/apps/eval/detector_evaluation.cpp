#include "apps/eval/detector_evaluation.h"

#include <cstdio>
#include <optional>

#include "apps/common/program.h"
#include "apps/eval/coco_tables.h"
#include "core/format.h"
#include "core/progress.h"
#include "data/coco/results.h"
#include "data/feed/open_split.h"
#include "data/source/input_file.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/io/safetensors.h"
#include "dtn/ops/primitive.h"
#include "tasks/detect/meter.h"
#include "train/evaluator.h"
#include "train/rank_consistency.h"

namespace dtn::app {
namespace {

std::vector<CocoFigures> figures_of(const DetectionMeter& meter) {
  std::vector<CocoFigures> figures;
  for (const CocoReport& report : meter.reports()) {
    figures.push_back({figures.empty() ? OverlapKind::kBoxes : OverlapKind::kMasks, report});
  }
  return figures;
}

// Collects the detections of a split, as COCO's results.
class ResultCollector {
 public:
  explicit ResultCollector(const CocoDataset& truths) : truths_(truths) {}

  void add(const DeviceBatch& batch, const Fields& outputs) {
    for (std::int64_t i = 0; i < batch.n; ++i) {
      const CocoImage& image = truths_.image(batch.indices[static_cast<std::size_t>(i)]);
      for (const FoundObject& object :
           found_in(outputs, i, truths_.annotations().categories(), {image.height, image.width})) {
        const CocoResult result{image.id, object.category, object.box, object.score};
        if (outputs.has("masks")) {
          results_.add(result, object.mask);
        } else {
          results_.add(result);
        }
      }
    }
  }
  const CocoResults& results() const { return results_; }

 private:
  const CocoDataset& truths_;
  CocoResults results_;
};

// Channels last to channels first: x [N, h w, C] -> [N, C, h, w] on the host.
Tensor planes_of(const Variable& x, const TokenGrid& grid) {
  Context ctx;
  const Variable wide = primitive::cast(ctx, x, DType::kFloat32);
  return primitive::permute(ctx, wide, {0, 2, 1})
      .value()
      .to(kCpu)
      .reshape({x.dim(0), x.dim(2), grid.height, grid.width});
}

int save_logits(const DetectorEvaluation& e) {
  if (e.logits.empty()) {
    throw ConfigError(
        "--inputs for a detector gives the outputs of its dense heads; name their file with "
        "--save-logits");
  }
  const Tensor images = read_input_file(e.inputs, e.config.model, {.any_size = true}).at("image");
  const ImageSize size(static_cast<int>(images.dim(2)), static_cast<int>(images.dim(3)));
  const std::string problem = e.task.backbone()->size_problem(size);
  if (!problem.empty()) {
    throw ConfigError(cat(e.inputs, ": the model cannot process images of ", size, ": ", problem));
  }
  Context ctx;
  ctx.mode.compute = e.compute;
  if (e.compute == DType::kBFloat16) e.task.detector().parameters().enable_bfloat16();
  NamedTensors tensors;
  const std::vector<DensePrediction> levels = e.task.predict(ctx, images.to(e.device));
  for (std::size_t l = 0; l < levels.size(); ++l) {
    tensors.emplace_back(cat("cls.", l), planes_of(levels[l].classes, levels[l].grid));
    tensors.emplace_back(cat("reg.", l), planes_of(levels[l].boxes, levels[l].grid));
  }
  write_safetensors(e.logits, tensors);
  std::printf("%s\n", counted(images.dim(0), "images").c_str());
  return kExitDone;
}

void print(const DetectorEvaluation& e, const DetectionMeter& meter, const Evaluation& result,
           std::int64_t damaged) {
  const std::vector<CocoFigures> figures = figures_of(meter);
  const double rate = result.seconds > 0 ? static_cast<double>(result.count) / result.seconds : 0;
  if (e.json) {
    nlohmann::ordered_json json = coco_json(figures);
    json["count"] = result.count;
    json["images_per_second"] = rate;
    json["skipped"] = damaged;
    std::printf("%s\n", json.dump().c_str());
    return;
  }
  std::printf("%s%s, %.1f images/s\n", coco_table(figures).c_str(),
              counted(result.count, "images").c_str(), rate);
  if (damaged > 0) std::printf("skipped %s\n", counted(damaged, "damaged images").c_str());
}

}  // namespace

int evaluate_detector(const DetectorEvaluation& e) {
  if (!e.inputs.empty()) return save_logits(e);
  if (!e.logits.empty()) {
    throw ConfigError(
        "--save-logits of a detector needs images of one size; give them with --inputs");
  }
  Communicator& ranks = *job();
  std::optional<Communicator::Work> opening(std::in_place, ranks, "opening the data set",
                                            Communicator::Work::kLong);
  const auto source = validation_source(e.task, e.device);
  const std::unique_ptr<Meter> made = e.task.meter();
  auto& meter = dynamic_cast<DetectionMeter&>(*made);
  log_info(cat("val: ", source->description()));
  check_equal_config(e.config, ranks);
  check_equal_data(*source, ranks);
  check_equal_weights(e.task.detector().parameters().values(), ranks);
  const auto split = open_split(source, e.config, Split::kVal,
                                {.device = e.device,
                                 .batch_size = e.batch_size * ranks.size(),
                                 .rank = ranks.rank(),
                                 .ranks = ranks.size()});
  std::optional<ProgressBar> bar;
  if (ranks.is_root()) bar.emplace("evaluating", split->loader().samples_per_epoch());
  ResultCollector collector(meter.truths());
  EvalOptions options;
  options.compute = e.compute;
  options.ranks = &ranks;
  options.meter = &meter;
  options.on_batch = [&](const DeviceBatch& batch, const Fields& outputs, std::int64_t done) {
    if (bar) bar->update(done, "");
    if (!e.results.empty()) collector.add(batch, outputs);
  };
  opening.reset();
  const std::optional<Evaluation> result = evaluate(e.task, split->feeder(), options);
  bar.reset();
  const std::int64_t damaged = ranks.sum(split->loader().report().bad_images);
  if (!e.results.empty()) {
    write_coco_results(e.results, collector.results());
    log_info(cat(counted(collector.results().size(), "results"), " in ", e.results));
  }
  if (ranks.is_root()) print(e, meter, *result, damaged);
  return kExitDone;
}

}  // namespace dtn::app
