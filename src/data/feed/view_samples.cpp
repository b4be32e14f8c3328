#include "data/feed/view_samples.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/queue.h"
#include "data/sample/normalization.h"
#include "data/sample/transforms.h"
#include "dtn/core/check.h"
#include "kernels/image/images.h"

namespace dtn {
namespace {

std::string pixels_of(const ViewSet& set) { return set.field + ".pixels"; }
std::string flips_of(const ViewSet& set) { return set.field + ".flips"; }

Shape shape_of_views(const ViewSet& set, int channels) {
  return {set.views, channels, set.size.height, set.size.width};
}

// Throws DataError if the data set does not have these views ready.
void check_ready(const Dataset& dataset, const std::vector<ViewSet>& sets, int channels) {
  for (const ViewSet& set : sets) {
    const Shape wanted{dataset.size(), set.views, channels, set.size.height, set.size.width};
    const Tensor* found = dataset.ready_fields().find(set.field);
    if (found && found->shape() == wanted) continue;
    throw DataError(cat(dataset.description(), ": `", set.field, "` is ",
                        found ? to_string(found->shape()) : "missing", ", expected ",
                        to_string(wanted), " by the config; change the file or the config"));
  }
}

std::string description_of(const Dataset& dataset, const std::vector<ViewSet>& sets) {
  std::string text = dataset.description() + "; views of each:";
  for (const ViewSet& set : sets) {
    text += cat(&set == &sets.front() ? " " : ", ", set.views, " of ", set.size);
  }
  return text;
}

// Makes views from pixels on the device.
class ViewFinisher final : public BatchFinisher {
 public:
  ViewFinisher(std::vector<ViewSet> sets, std::span<const float> table, int channels, Device device)
      : sets_(std::move(sets)),
        table_(Tensor::from(table, {channels, 256}).to(device)),
        device_(device) {}

  void finish(const Fields& host_batch, const BatchKey&, Fields& device_batch) override {
    for (const ViewSet& set : sets_) {
      Tensor& views = device_batch.at(set.field);  // [n, views, channels, height, width]
      const auto bytes = [&](const std::string& field) {
        return static_cast<const std::uint8_t*>(host_batch.at(field).raw());
      };
      run_on(device_, NormalizeImages{.batch = views.dim(0) * set.views,
                                      .channels = views.dim(2),
                                      .height = set.size.height,
                                      .width = set.size.width,
                                      .pixels = bytes(pixels_of(set)),
                                      .flips = bytes(flips_of(set)),
                                      .table = static_cast<const float*>(table_.raw()),
                                      .images = static_cast<float*>(views.raw())});
    }
  }

 private:
  const std::vector<ViewSet> sets_;
  const Tensor table_;  // [channels, 256] float32
  const Device device_;
};

}  // namespace

struct ViewSamples::ViewWorkspace final : SampleSource::Workspace {
  explicit ViewWorkspace(StageSeconds* totals) : stages(totals) {}

  SampleWorkspace sample;
  std::vector<ViewDraw> draws;
  Image decoded, view;
  ResampleWorkspace resample;
  ImageOpsWorkspace ops;
  StageSeconds* stages;  // totals to add to, or null
};

ViewSamples::ViewSamples(std::shared_ptr<const Dataset> dataset, std::vector<ViewSet> sets,
                         const DataConfig& data, const ModelConfig& model,
                         const ViewSamplesOptions& options, const DataRegistries& registries)
    : dataset_(std::move(dataset)),
      sets_(std::move(sets)),
      channels_(model.channels),
      interpolation_(train_interpolation_of(data)),
      resample_(data.resample),
      decoding_{.upright = data.exif},
      fast_decode_(data.decode != DecodeMode::kExact),
      labels_(options.labels),
      raw_(options.raw_pixels && dataset_->has_pixels()),
      table_(normalization_table(resolve_normalization(data, model.channels, registries.datasets))),
      description_(description_of(*dataset_, sets_)) {
  for (const ViewSet& set : sets_) {
    DTN_CHECK(set.augments.size() == static_cast<std::size_t>(set.views), "`", set.field, "` has ",
              set.views, " views and ", set.augments.size(), " augmentations");
    for (const ViewAugment& augment : set.augments) check_augment(augment.crop);
  }
  if (!dataset_->has_pixels()) check_ready(*dataset_, sets_, channels_);
}

int ViewSamples::views() const {
  return std::accumulate(sets_.begin(), sets_.end(), 0,
                         [](int sum, const ViewSet& set) { return sum + set.views; });
}

std::string ViewSamples::identity(std::int64_t index) const {
  return cat(dataset_->item_name(index), " ", dataset_->label(index));
}

std::vector<FieldSpec> ViewSamples::host_fields() const {
  if (!raw_) return device_fields();
  std::vector<FieldSpec> fields;
  for (const ViewSet& set : sets_) {
    fields.push_back(
        {pixels_of(set), {set.views, set.size.height, set.size.width, channels_}, DType::kUInt8});
    fields.push_back({flips_of(set), {set.views}, DType::kUInt8});
  }
  if (labels_) fields.push_back({"label", {views()}, DType::kInt64});
  return fields;
}

std::vector<FieldSpec> ViewSamples::device_fields() const {
  std::vector<FieldSpec> fields;
  for (const ViewSet& set : sets_) fields.push_back({set.field, shape_of_views(set, channels_)});
  if (labels_) fields.push_back({"label", {views()}, DType::kInt64});
  return fields;
}

std::unique_ptr<SampleSource::Workspace> ViewSamples::make_timed_workspace(
    StageSeconds* stages) const {
  return std::make_unique<ViewWorkspace>(stages);
}

void ViewSamples::make(std::int64_t index, const SampleKey& key, FieldRow& row,
                       SampleSource::Workspace& workspace) const {
  auto& ws = static_cast<ViewWorkspace&>(workspace);
  if (labels_) {
    const std::int64_t label = dataset_->has_labels() ? dataset_->label(index) : index;
    std::ranges::fill(row.at<std::int64_t>("label"), label);
  }
  if (!dataset_->has_pixels()) return copy_ready(index, row);
  StageClock clock(ws.stages);
  const Sample sample = dataset_->load(index, ws.sample);
  clock.end(&StageSeconds::read);
  const DecodedPart part = decode(sample, key, ws);
  clock.end(&StageSeconds::decode);
  write_views(part, key, row, ws);
}

void ViewSamples::copy_ready(std::int64_t index, FieldRow& row) const {
  for (const ViewSet& set : sets_) {
    const std::span<float> to = row.at<float>(set.field);
    const auto all = dataset_->ready_fields().at(set.field).values<float>();
    const std::size_t first = static_cast<std::size_t>(index) * to.size();
    std::ranges::copy(all.subspan(first, to.size()), to.begin());
  }
}

std::vector<ViewDraw>& ViewSamples::draw_all(int width, int height, const SampleKey& key,
                                             ViewWorkspace& ws) const {
  ws.draws.clear();
  for (const ViewSet& set : sets_) {
    for (const ViewAugment& augment : set.augments) {
      const int view = static_cast<int>(ws.draws.size());
      ws.draws.push_back(draw_view(augment, width, height, key, view));
    }
  }
  return ws.draws;
}

// Draws the views, and decodes the part of the image that all of them need. In fast mode the scale
// is the largest that a view would be decoded at by itself.
DecodedPart ViewSamples::decode(const Sample& sample, const SampleKey& key,
                                ViewWorkspace& ws) const {
  if (const Image* image = sample.image) {
    draw_all(image->width, image->height, key, ws);
    const ImageRegion all{0, 0, image->width, image->height};
    if (image->channels == channels_) return {image, all};
    channels_ == 1 ? rgb_to_gray(*image, ws.decoded) : gray_to_rgb(*image, ws.decoded);
    return {&ws.decoded, all};
  }
  const ImageInfo info = read_image_info(sample.encoded, ws.sample.name, decoding_);
  const std::vector<ViewDraw>& draws = draw_all(info.width, info.height, key, ws);
  DecodedPart part{&ws.decoded, draws.front().crop, fast_decode_ ? 1 : 8};
  std::size_t view = 0;
  for (const ViewSet& set : sets_) {
    for (int i = 0; i < set.views; ++i, ++view) {
      const ImageRegion& crop = draws[view].crop;
      part.region = {std::min(part.region.x0, crop.x0), std::min(part.region.y0, crop.y0),
                     std::max(part.region.x1, crop.x1), std::max(part.region.y1, crop.y1)};
      if (part.eighths == 8) continue;
      part.eighths =
          std::max(part.eighths, fast_decode_eighths(info, crop.x1 - crop.x0, crop.y1 - crop.y0,
                                                     set.size.width, set.size.height));
    }
  }
  decode_image_scaled(sample.encoded, ws.sample.name, part.region, part.eighths, ws.decoded,
                      decoding_, channels_ == 1 ? ColorMode::kGray : ColorMode::kRgb);
  return part;
}

void ViewSamples::write_views(const DecodedPart& part, const SampleKey& key, FieldRow& row,
                              ViewWorkspace& ws) const {
  StageClock clock(ws.stages);
  int number = 0;
  for (const ViewSet& set : sets_) {
    const std::size_t each = static_cast<std::size_t>(set.size.height) * set.size.width * channels_;
    for (std::size_t i = 0; i < static_cast<std::size_t>(set.views); ++i, ++number) {
      const ViewDraw& draw = ws.draws[static_cast<std::size_t>(number)];
      const Resampling how(view_interpolation(interpolation_, key, number), resample_);
      resize_crop(part, draw.crop, set.size.width, set.size.height, how, ws.resample, ws.view);
      clock.end(&StageSeconds::resize);
      apply_colors(draw, ws.view, ws.ops);
      clock.end(&StageSeconds::augment);
      if (raw_) {
        std::memcpy(row.at<std::uint8_t>(pixels_of(set)).data() + i * each, ws.view.pixels.data(),
                    each);
        row.at<std::uint8_t>(flips_of(set))[i] = draw.flip;
      } else {
        normalize_image(ws.view, table_, draw.flip, row.at<float>(set.field).data() + i * each);
      }
      clock.end(&StageSeconds::normalize);
    }
  }
}

std::unique_ptr<BatchFinisher> ViewSamples::make_finisher(Device device) const {
  if (!raw_) return nullptr;
  return std::make_unique<ViewFinisher>(sets_, table_, channels_, device);
}

}  // namespace dtn
