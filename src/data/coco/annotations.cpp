#include "data/coco/annotations.h"

#include <algorithm>
#include <limits>

#include "dtn/core/check.h"

namespace dtn {
namespace {

using coco::Record;
using coco::RecordField;
using coco::SegmentationKind;

std::size_t index_of(std::integral auto value) { return static_cast<std::size_t>(value); }

// Throws DataError if an id appears twice in the sorted ids.
void check_unique(std::span<const std::int64_t> sorted, const std::string& name, const char* what) {
  const auto twin = std::ranges::adjacent_find(sorted);
  if (twin == sorted.end()) return;
  throw DataError(cat(name, ": ", what, " id ", *twin, " appears twice; ids must be unique"));
}

template <class Range, class IdOf>
std::vector<std::int64_t> sorted_ids(const Range& range, IdOf id_of) {
  std::vector<std::int64_t> ids;
  ids.reserve(range.size());
  for (const auto& item : range) ids.push_back(id_of(item));
  std::ranges::sort(ids);
  return ids;
}

}  // namespace

std::span<const std::int32_t> CocoAnnotations::of_image(std::size_t image) const {
  const std::size_t begin = image > 0 ? image_ends_[image - 1] : 0;
  return std::span(by_image_).subspan(begin, image_ends_[image] - begin);
}

std::int32_t CocoAnnotations::find_image(std::int64_t id) const {
  const auto found =
      std::ranges::lower_bound(image_ids_, id, {}, [](const auto& p) { return p.first; });
  return found != image_ids_.end() && found->first == id ? found->second : -1;
}

std::int32_t CocoAnnotations::find_category(std::int64_t id) const {
  const auto found = std::ranges::lower_bound(categories_, id, {}, &CocoCategory::id);
  if (found == categories_.end() || found->id != id) return -1;
  return static_cast<std::int32_t>(found - categories_.begin());
}

Rle CocoAnnotations::mask(std::size_t annotation) const {
  const CocoAnnotation& a = annotations_[annotation];
  const CocoImage& image = images_[index_of(a.image)];
  const std::size_t count = a.end - a.begin;
  try {
    switch (a.segmentation) {
      case SegmentationKind::kPolygons: {
        std::vector<std::span<const Corner>> polygons;
        for (std::uint64_t i = a.begin; i < a.end; ++i) {
          const std::uint64_t first = i > 0 ? polygon_ends_[i - 1] : 0;
          polygons.push_back(std::span(corners_).subspan(first, polygon_ends_[i] - first));
        }
        return rasterize(polygons, image.height, image.width);
      }
      case SegmentationKind::kRuns: {
        const auto runs = std::span(runs_).subspan(a.begin, count);
        return {image.height, image.width, {runs.begin(), runs.end()}};
      }
      case SegmentationKind::kText:
        return rle_of_text(image.height, image.width,
                           std::string_view(texts_).substr(a.begin, count));
      case SegmentationKind::kNone: break;
    }
    throw DataError("has no segmentation; models with masks need one for each truth");
  } catch (const DataError& e) {
    throw DataError(cat(name_, ": annotation id ", a.id, ": ", e.what()));
  }
}

CocoAnnotationsBuilder::CocoAnnotationsBuilder(std::string name) { made_.name_ = std::move(name); }

void CocoAnnotationsBuilder::add(const Record& record) {
  coco::require(made_.name_, record, RecordField::kId);
  switch (record.list) {
    case coco::RecordList::kImages: return add_image(record);
    case coco::RecordList::kCategories: return add_category(record);
    default: return add_annotation(record);
  }
}

void CocoAnnotationsBuilder::add_image(const Record& record) {
  for (const auto field : {RecordField::kFileName, RecordField::kWidth, RecordField::kHeight}) {
    coco::require(made_.name_, record, field);
  }
  if (record.width < 1 || record.height < 1 || record.width > kMaxMaskPixels / record.height) {
    coco::fail_record(made_.name_, record,
                      cat("an image of ", record.width, " x ", record.height,
                          " pixels; correct its width and height"));
  }
  if (record.text.empty()) coco::fail_record(made_.name_, record, "its file_name is empty");
  made_.images_.push_back({record.id, record.text, record.width, record.height});
}

void CocoAnnotationsBuilder::add_category(const Record& record) {
  coco::require(made_.name_, record, RecordField::kName);
  made_.categories_.push_back({record.id, record.text});
}

void CocoAnnotationsBuilder::add_annotation(const Record& record) {
  for (const auto field :
       {RecordField::kImageId, RecordField::kCategoryId, RecordField::kBox, RecordField::kArea}) {
    coco::require(made_.name_, record, field);
  }
  CocoAnnotation& a = made_.annotations_.emplace_back();
  a.id = record.id;
  a.box = record.box;
  a.area = record.area;
  a.crowd = record.crowd;
  a.ignore = record.ignore;
  add_segmentation(record.segmentation, a);
  Pending& pending = pending_.emplace_back();
  pending.image_id = record.image_id;
  pending.category_id = record.category_id;
  pending.byte = record.byte;
  if (a.segmentation == SegmentationKind::kRuns || a.segmentation == SegmentationKind::kText) {
    pending.mask_height = record.segmentation.height;
    pending.mask_width = record.segmentation.width;
  }
}

void CocoAnnotationsBuilder::add_segmentation(const coco::RecordSegmentation& from,
                                              CocoAnnotation& to) {
  to.segmentation = from.kind;
  switch (from.kind) {
    case SegmentationKind::kPolygons: {
      const std::size_t corners = made_.corners_.size();
      made_.corners_.insert(made_.corners_.end(), from.corners.begin(), from.corners.end());
      to.begin = made_.polygon_ends_.size();
      for (const std::size_t end : from.ends) made_.polygon_ends_.push_back(corners + end);
      to.end = made_.polygon_ends_.size();
      break;
    }
    case SegmentationKind::kRuns:
      to.begin = made_.runs_.size();
      for (const std::int64_t run : from.runs) {
        made_.runs_.push_back(static_cast<std::uint32_t>(run));
      }
      to.end = made_.runs_.size();
      break;
    case SegmentationKind::kText:
      to.begin = made_.texts_.size();
      made_.texts_ += from.text;
      to.end = made_.texts_.size();
      break;
    case SegmentationKind::kNone: break;
  }
}

CocoAnnotations CocoAnnotationsBuilder::finish() {
  constexpr std::size_t kMaxCount = std::numeric_limits<std::int32_t>::max();
  if (std::max(made_.images_.size(), made_.annotations_.size()) > kMaxCount) {
    throw DataError(cat(made_.name_, ": more than ", kMaxCount, " images or annotations"));
  }
  index_ids();
  resolve();
  group_by_image();
  return std::move(made_);
}

void CocoAnnotationsBuilder::index_ids() {
  const std::string& name = made_.name_;
  std::ranges::sort(made_.categories_, {}, &CocoCategory::id);
  check_unique(sorted_ids(made_.categories_, [](const auto& c) { return c.id; }), name, "category");
  check_unique(sorted_ids(made_.images_, [](const auto& i) { return i.id; }), name, "image");
  check_unique(sorted_ids(made_.annotations_, [](const auto& a) { return a.id; }), name,
               "annotation");
  for (std::size_t i = 0; i < made_.images_.size(); ++i) {
    made_.image_ids_.emplace_back(made_.images_[i].id, static_cast<std::int32_t>(i));
  }
  std::ranges::sort(made_.image_ids_);
}

void CocoAnnotationsBuilder::resolve() {
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    const Pending& pending = pending_[i];
    CocoAnnotation& a = made_.annotations_[i];
    a.image = made_.find_image(pending.image_id);
    a.category = made_.find_category(pending.category_id);
    const auto fail = [&](const auto&... what) {
      throw DataError(
          cat(made_.name_, ": at byte ", pending.byte, ": annotation id ", a.id, what...));
    };
    if (a.image < 0) {
      fail(" is of image ", pending.image_id,
           ", which is not in the list of images; add the image, or remove the annotation");
    }
    const CocoImage& image = made_.images_[index_of(a.image)];
    if (pending.mask_height < 0) continue;
    if (pending.mask_height == image.height && pending.mask_width == image.width) continue;
    fail(" has a mask of ", pending.mask_height, " x ", pending.mask_width,
         " pixels (height x width), but its image ", image.id, " has ", image.height, " x ",
         image.width);
  }
  pending_ = {};
}

void CocoAnnotationsBuilder::group_by_image() {
  std::vector<std::size_t>& ends = made_.image_ends_;
  ends.assign(made_.images_.size(), 0);
  for (const CocoAnnotation& a : made_.annotations_) ++ends[index_of(a.image)];
  std::vector<std::size_t> next(ends.size());
  for (std::size_t i = 0, end = 0; i < ends.size(); ++i) {
    next[i] = end;
    ends[i] = end += ends[i];
  }
  made_.by_image_.resize(made_.annotations_.size());
  for (std::size_t i = 0; i < made_.annotations_.size(); ++i) {
    const std::size_t image = index_of(made_.annotations_[i].image);
    made_.by_image_[next[image]++] = static_cast<std::int32_t>(i);
  }
}

CocoAnnotations read_coco_annotations(const ByteSource& file) {
  CocoAnnotationsBuilder builder(file.name());
  coco::read_annotation_records(file, [&](const Record& record) { builder.add(record); });
  return builder.finish();
}

CocoAnnotations read_coco_annotations(const std::filesystem::path& path) {
  return read_coco_annotations(FileSource(path.string()));
}

}  // namespace dtn
