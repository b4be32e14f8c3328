#include "data/coco/records.h"

#include <string_view>

#include "dtn/core/check.h"

namespace dtn::coco {
namespace {

constexpr std::array<std::string_view, 4> kListNames = {"images", "categories", "annotations",
                                                        "results"};
constexpr std::array<std::string_view, 13> kFieldNames = {
    "id",   "image_id", "category_id", "width",   "height", "file_name",   "name",
    "bbox", "area",     "score",       "iscrowd", "ignore", "segmentation"};

}  // namespace

std::string_view name_of(RecordList list) { return kListNames[static_cast<std::size_t>(list)]; }

std::string_view name_of(RecordField field) { return kFieldNames[static_cast<std::size_t>(field)]; }

std::string shown(const Record& record) {
  const bool has_id = record.has(RecordField::kId);
  return cat(name_of(record.list), "[", record.position, "]",
             has_id ? cat(" (id ", record.id, ")") : "");
}

void fail_record(const std::string& file, const Record& record, const std::string& what) {
  throw DataError(cat(file, ": at byte ", record.byte, ": ", shown(record), ": ", what));
}

void require(const std::string& file, const Record& record, RecordField field) {
  if (record.has(field)) return;
  fail_record(file, record, cat("lacks ", name_of(field), "; add it, or remove the entry"));
}

}  // namespace dtn::coco
