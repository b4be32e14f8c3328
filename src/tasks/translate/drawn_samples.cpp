#include "tasks/translate/drawn_samples.h"

#include "tasks/translate/drawn_picture.h"
#include "tasks/translate/tensor_pairs.h"

namespace dtn {
namespace {

constexpr std::int64_t kDefaultPictures[] = {1024, 256};

const char* kind_text(DrawnTask kind) {
  switch (kind) {
    case DrawnTask::kMap: return "maps of shapes";
    case DrawnTask::kPlainMap: return "maps of one class each";
    case DrawnTask::kQuestion: break;
  }
  return "pictures with questions";
}

}  // namespace

DrawnSamples::DrawnSamples(const ExperimentConfig& config, Split split)
    : size_(config.data.size.value_or(kDefaultPictures[static_cast<int>(split)])),
      seed_(config.seed),
      split_(static_cast<std::uint32_t>(split)),
      kind_(config.data.drawn),
      extra_(has_maps() ? reads_map(config.model) : config.model.condition.from.has_value()) {
  description_ = cat(size_, " drawn ", name_of(split), " ", kind_text(kind_));
}

std::vector<FieldSpec> DrawnSamples::host_fields() const {
  using namespace drawn;
  if (has_maps()) {
    std::vector<FieldSpec> fields{{"input", {kClasses, kSide, kSide}, DType::kFloat32},
                                  {"target", {3, kSide, kSide}, DType::kFloat32}};
    if (extra_) fields.push_back({"map", {kClasses, kSide, kSide}, DType::kFloat32});
    return fields;
  }
  std::vector<FieldSpec> fields{{"input", {3, kSide, kSide}, DType::kFloat32},
                                {"target", {1, kSide, kSide}, DType::kFloat32}};
  if (extra_) fields.push_back({"vector", {kQuestionSize}, DType::kFloat32});
  return fields;
}

void DrawnSamples::make(std::int64_t index, const SampleKey&, FieldRow& row,
                        SampleSource::Workspace&) const {
  const drawn::Picture picture =
      drawn::plan_picture(seed_, split_, static_cast<std::uint32_t>(index));
  if (has_maps()) {
    const drawn::ClassMap classes =
        kind_ == DrawnTask::kMap ? drawn::class_map(picture) : drawn::plain_map(index);
    drawn::write_one_hot(classes, row.at<float>("input"));
    drawn::write_textures(classes, row.at<float>("target"));
    if (extra_) drawn::write_one_hot(classes, row.at<float>("map"));
    return;
  }
  drawn::write_colors(picture, row.at<float>("input"));
  drawn::write_answer(picture, row.at<float>("target"));
  if (extra_) drawn::write_question(picture.question, row.at<float>("vector"));
}

}  // namespace dtn
