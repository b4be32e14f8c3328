#include "data/coco/results.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "dtn/core/check.h"
#include "io/atomic_file.h"

namespace dtn {
namespace {

using coco::Record;
using coco::RecordField;
using coco::SegmentationKind;

// No result takes fewer bytes of a file.
constexpr std::string_view kShortestResult =
    R"({"image_id":1,"category_id":1,"bbox":[0,0,0,0],"score":0})";
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
// Results for which memory is reserved at first.
constexpr std::size_t kMaxReserved = std::size_t{1} << 24;

Rle mask_of(const coco::RecordSegmentation& s) {
  return s.kind == SegmentationKind::kRuns ? rle_of_runs(s.height, s.width, s.runs)
                                           : rle_of_text(s.height, s.width, s.text);
}

void add_record(const Record& record, const std::string& file, CocoResults& results) {
  for (const auto field : {RecordField::kImageId, RecordField::kCategoryId, RecordField::kScore}) {
    coco::require(file, record, field);
  }
  CocoResult result{record.image_id, record.category_id, record.box, record.score};
  const coco::RecordSegmentation& s = record.segmentation;
  if (!record.has(RecordField::kBox)) {
    if (s.kind == SegmentationKind::kNone) {
      coco::fail_record(file, record, "lacks bbox and segmentation; a result has one or both");
    }
    const PixelBox bounds = bounds_of(mask_of(s));
    result.box = {static_cast<double>(bounds.x), static_cast<double>(bounds.y),
                  static_cast<double>(bounds.width), static_cast<double>(bounds.height)};
  }
  switch (s.kind) {
    case SegmentationKind::kText: results.add(result, s.height, s.width, s.text); break;
    case SegmentationKind::kRuns: results.add(result, mask_of(s)); break;
    default: results.add(result); break;
  }
}

void append_number(std::string& out, double value, const char* field) {
  if (!std::isfinite(value)) {
    throw DataError(cat("a result has the ", field, " ", value, ", which JSON cannot hold"));
  }
  char text[32];
  const auto [end, error] = std::to_chars(std::begin(text), std::end(text), value);
  out.append(text, end);
}

// Appends a mask's text. Of its characters, JSON escapes only the backslash.
void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '\\') out += '\\';
    out += c;
  }
}

void append_result(std::string& out, const CocoResults& results, std::size_t i) {
  const CocoResult& r = results[i];
  out += cat("{\"image_id\":", r.image_id, ",\"category_id\":", r.category_id, ",\"bbox\":[");
  for (std::size_t k = 0; k < r.box.size(); ++k) {
    if (k > 0) out += ',';
    append_number(out, r.box[k], "box");
  }
  out += "],\"score\":";
  append_number(out, r.score, "score");
  if (results.has_mask(i)) {
    const PixelBox size = results.mask_size(i);
    out += cat(",\"segmentation\":{\"size\":[", size.height, ",", size.width, "],\"counts\":\"");
    append_escaped(out, results.mask_text(i));
    out += "\"}";
  }
  out += '}';
}

}  // namespace

void CocoResults::add(const CocoResult& result, const Rle& mask) {
  add(result, mask.height, mask.width, rle_text(mask));
}

void CocoResults::add(const CocoResult& result, std::int64_t height, std::int64_t width,
                      std::string_view counts) {
  masks_.push_back({results_.size(), height, width, texts_.size(), texts_.size() + counts.size()});
  texts_ += counts;
  results_.push_back(result);
}

const CocoResults::Mask* CocoResults::find_mask(std::size_t i) const {
  // All results have a mask, or few lack one, or none has: the place is near i.
  if (i < masks_.size() && masks_[i].result == i) return &masks_[i];
  const auto found = std::ranges::lower_bound(masks_, i, {}, &Mask::result);
  return found != masks_.end() && found->result == i ? &*found : nullptr;
}

PixelBox CocoResults::mask_size(std::size_t i) const {
  const Mask* mask = find_mask(i);
  DTN_CHECK(mask, "result ", i, " has no mask");
  return {0, 0, mask->width, mask->height};
}

std::string_view CocoResults::mask_text(std::size_t i) const {
  const Mask* mask = find_mask(i);
  DTN_CHECK(mask, "result ", i, " has no mask");
  return std::string_view(texts_).substr(mask->begin, mask->end - mask->begin);
}

Rle CocoResults::mask(std::size_t i) const {
  const PixelBox size = mask_size(i);
  return rle_of_text(size.height, size.width, mask_text(i));
}

void CocoResults::keep(const std::vector<bool>& is_kept) {
  DTN_CHECK(is_kept.size() == size(), is_kept.size(), " flags of ", size(), " results");
  std::size_t kept = 0, masks = 0, next_mask = 0;
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const bool has_mask = next_mask < masks_.size() && masks_[next_mask].result == i;
    if (is_kept[i]) {
      if (has_mask) {
        masks_[masks] = masks_[next_mask];
        masks_[masks++].result = kept;
      }
      results_[kept++] = results_[i];
    }
    next_mask += has_mask;
  }
  results_.resize(kept);
  masks_.resize(masks);
}

CocoResults read_coco_results(const ByteSource& file) {
  CocoResults results;
  // More than are there: memory that is not touched costs nothing, and growth would copy all.
  results.reserve(
      std::min(kMaxReserved, static_cast<std::size_t>(file.size()) / kShortestResult.size() + 1));
  coco::read_result_records(
      file, [&](const Record& record) { add_record(record, file.name(), results); });
  return results;
}

CocoResults read_coco_results(const std::filesystem::path& path) {
  return read_coco_results(FileSource(path.string()));
}

void write_coco_results(const std::filesystem::path& path, const CocoResults& results) {
  AtomicFile file(path);
  std::string piece = "[";
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i > 0) piece += ",\n";
    append_result(piece, results, i);
    if (piece.size() < kPieceBytes) continue;
    file.write(piece);
    piece.clear();
  }
  file.write(piece + "]\n");
  file.commit();
}

std::int64_t match_results(CocoResults& results, const CocoAnnotations& truths,
                           const std::string& name) {
  std::vector<bool> is_known(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto fail = [&](const auto&... what) {
      throw DataError(cat(name, ": results[", i, "] ", what...));
    };
    const std::int32_t index = truths.find_image(results[i].image_id);
    if (index < 0) {
      fail("is of image ", results[i].image_id, ", which ", truths.name(),
           " does not list; are these results of another split?");
    }
    is_known[i] = truths.find_category(results[i].category_id) >= 0;
    if (!results.has_mask(i)) continue;
    const CocoImage& image = truths.images()[static_cast<std::size_t>(index)];
    const PixelBox size = results.mask_size(i);
    if (size.height == image.height && size.width == image.width) continue;
    fail("has a mask of ", size.height, " x ", size.width, " pixels (height x width), but image ",
         image.id, " has ", image.height, " x ", image.width);
  }
  const std::int64_t unknown = std::ranges::count(is_known, false);
  if (unknown > 0) results.keep(is_known);
  return unknown;
}

}  // namespace dtn
