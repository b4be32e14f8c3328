#include "tasks/judging/sample_judge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "data/classes/draw_over_classes.h"
#include "data/feed/image_samples.h"
#include "data/feed/open_split.h"
#include "data/sample/normalization.h"
#include "dtn/core/check.h"
#include "dtn/models/backbone.h"
#include "dtn/tasks/registries.h"
#include "tasks/frozen/image_splits.h"

namespace dtn {
namespace {

constexpr std::uint64_t kDrawSeed = 0;

// Returns the class with the largest logit, the first of several; -1 if a logit is not finite.
std::int64_t top_class(const float* logits, std::int64_t classes) {
  if (!std::all_of(logits, logits + classes, [](float v) { return std::isfinite(v); })) return -1;
  return std::max_element(logits, logits + classes) - logits;
}

// Collects the outputs of batches.
class JudgementBuilder {
 public:
  explicit JudgementBuilder(const std::optional<std::vector<std::int64_t>>& kept) : kept_(kept) {}

  // `outputs` on the host; `labels` [n]; `indices` ascend from batch to batch.
  void add(const Fields& outputs, const Tensor& labels, std::span<const std::int64_t> indices) {
    const Tensor& logits = outputs.at("logits");
    const Tensor& features = outputs.at("features");
    const std::int64_t classes = logits.dim(1);
    width_ = features.dim(1);
    for (std::int64_t i = 0; i < logits.dim(0); ++i) {
      judgement_.seen.push_back(top_class(logits.data<float>() + i * classes, classes));
      judgement_.labels.push_back(labels.data<std::int64_t>()[i]);
      judgement_.indices.push_back(indices[static_cast<std::size_t>(i)]);
      if (kept_ && !std::ranges::binary_search(*kept_, judgement_.indices.back())) continue;
      const float* row = features.data<float>() + i * width_;
      features_.insert(features_.end(), row, row + width_);
      ++rows_;
    }
  }
  std::int64_t count() const { return std::ssize(judgement_.seen); }
  Judgement take() {
    judgement_.features = Tensor::from(features_, {rows_, width_});
    return std::move(judgement_);
  }

 private:
  const std::optional<std::vector<std::int64_t>>& kept_;
  Judgement judgement_;
  std::vector<float> features_;
  std::int64_t width_ = 0, rows_ = 0;
};

Fields on_host(Fields fields) {
  for (auto& [name, tensor] : fields) tensor = tensor.to(kCpu);
  return fields;
}

}  // namespace

double Judgement::agreement() const {
  if (seen.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::int64_t hits = 0;
  for (std::size_t i = 0; i < seen.size(); ++i) hits += seen[i] == labels[i];
  return 100.0 * static_cast<double>(hits) / static_cast<double>(seen.size());
}

std::vector<ClassAgreement> agreement_by_class(const Judgement& judgement, std::int64_t classes) {
  std::vector<ClassAgreement> counts(static_cast<std::size_t>(classes));
  for (std::size_t i = 0; i < judgement.seen.size(); ++i) {
    ClassAgreement& of_class = counts.at(static_cast<std::size_t>(judgement.labels[i]));
    ++of_class.count;
    of_class.hits += judgement.seen[i] == judgement.labels[i];
  }
  return counts;
}

SampleJudge::SampleJudge(Classify& task, const ExperimentConfig& config, Device device,
                         const Registries& registries, std::int64_t batch)
    : task_(task), config_(config), device_(device), registries_(registries), batch_(batch) {
  if (config.model.num_classes == 0) {
    throw ConfigError(
        "the judge has no classes, since its model.num_classes is 0; name a model "
        "with a classification head");
  }
  if (config.model.max_length > 0) {
    throw ConfigError(
        "the judge reads sequences, but samples are images; name a classifier of "
        "images");
  }
  task.keep_features();
}

std::int64_t SampleJudge::features() const {
  return task_.model().backbone().stages().back().channels;
}

bool SampleJudge::reads_unchanged() const {
  return config_.data.dataset == "tensors" && config_.data.mean.empty();
}

Tensor SampleJudge::input_of(const SampleFile& file) const {
  const ModelConfig& model = config_.model;
  const Tensor& samples = file.samples;
  const Shape wanted{samples.dim(0), model.channels, model.image_size.height,
                     model.image_size.width};
  if (samples.shape() != wanted) {
    throw DataError(cat(file.path, ": samples of ", samples.dim(1), " channels and ",
                        samples.dim(2), " x ", samples.dim(3), " pixels, but the judge reads ",
                        model.channels, " channels and ", model.image_size.height, " x ",
                        model.image_size.width,
                        "; train a judge on images of the size of the samples"));
  }
  if (reads_unchanged()) return samples;
  const Normalization n = resolve_normalization(config_.data, model.channels, registries_.datasets);
  Tensor input = samples.clone();
  const std::int64_t plane = samples.dim(2) * samples.dim(3), channels = samples.dim(1);
  float* values = input.data<float>();
  for (std::int64_t i = 0; i < input.numel(); ++i) {
    const auto c = n.mean.size() == 1 ? 0 : static_cast<std::size_t>(i / plane % channels);
    values[i] = ((std::clamp(values[i], -1.0f, 1.0f) + 1) / 2 - n.mean[c]) / n.std[c];
  }
  return input;
}

Fields SampleJudge::outputs_of(const Tensor& images) const {
  Context ctx;
  ctx.mode.skip_unread = true;
  return on_host(task_.outputs(ctx, {{"image", images.to(device_)}}));
}

Judgement SampleJudge::judge(const Tensor& input, const Tensor& labels,
                             const JudgeProgress& progress) const {
  const std::int64_t count = input.dim(0);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  const std::optional<std::vector<std::int64_t>> all;
  JudgementBuilder builder(all);
  for (std::int64_t first = 0; first < count; first += batch_) {
    const std::int64_t last = std::min(count, first + batch_);
    builder.add(outputs_of(input.slice(first, last)), labels.slice(first, last),
                std::span(indices).subspan(static_cast<std::size_t>(first)));
    if (progress) progress(last);
  }
  return builder.take();
}

Judgement SampleJudge::judge(const std::shared_ptr<const SampleSource>& images,
                             const std::optional<std::vector<std::int64_t>>& kept,
                             const JudgeProgress& progress) const {
  const auto split =
      open_split(images, config_, Split::kVal, {.device = device_, .batch_size = batch_});
  JudgementBuilder builder(kept);
  split->feeder().start(0);
  for (DeviceBatch batch; split->feeder().next(batch);) {
    builder.add(outputs_of(batch.fields.at("image")), batch.host.at("label"), batch.indices);
    if (progress) progress(builder.count());
  }
  if (builder.count() == 0) throw DataError(cat(images->description(), ": no images to judge"));
  return builder.take();
}

std::shared_ptr<const SampleSource> SampleJudge::training_images() const {
  return image_samples_of(open_training_images(config_, registries_), config_, Split::kVal, device_,
                          registries_);
}

std::shared_ptr<const SampleSource> SampleJudge::test_images() const {
  return task_.source(Split::kVal, device_);
}

std::vector<std::int64_t> draw_images(const SampleSource& images, std::int64_t count) {
  std::vector<std::int64_t> labels(static_cast<std::size_t>(images.size()), 0);
  if (const auto* labelled = dynamic_cast<const ImageSamples*>(&images)) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      labels[i] = labelled->dataset().label(static_cast<std::int64_t>(i));
    }
  }
  std::vector<std::int64_t> drawn = draw_over_classes(labels, count, kDrawSeed);
  std::ranges::sort(drawn);
  return drawn;
}

}  // namespace dtn
