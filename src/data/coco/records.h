// Records of COCO's JSON files, read piece by piece: images, categories, annotations and results.
// Fields that nobody needs are skipped. Only record_reader.cpp depends on the JSON library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/coco/polygon.h"
#include "io/file.h"

namespace dtn::coco {

// Deepest nesting of a file. COCO's files have 5 levels.
inline constexpr int kMaxDepth = 64;

enum class RecordList : std::uint8_t { kImages, kCategories, kAnnotations, kResults };

enum class RecordField : std::uint8_t {
  kId,
  kImageId,
  kCategoryId,
  kWidth,
  kHeight,
  kFileName,
  kName,
  kBox,
  kArea,
  kScore,
  kCrowd,
  kIgnore,
  kSegmentation
};

enum class SegmentationKind : std::uint8_t { kNone, kPolygons, kRuns, kText };

// The segmentation of a record, in the form that the file has.
struct RecordSegmentation {
  SegmentationKind kind = SegmentationKind::kNone;
  std::vector<Corner> corners;         // of all polygons
  std::vector<std::size_t> ends;       // end of each polygon in `corners`
  std::int64_t height = 0, width = 0;  // of kRuns and kText
  std::vector<std::int64_t> runs;
  std::string text;
};

// One object of a list. A field has a meaning if the record has() it; null is as good as absent.
struct Record {
  RecordList list{};
  std::int64_t position = 0;  // in its list, from 0
  std::int64_t byte = 0;      // position of its first byte in the file
  std::uint32_t fields = 0;   // bit set of RecordField

  std::int64_t id = 0, image_id = 0, category_id = 0, width = 0, height = 0;
  std::string text;             // file name or name
  std::array<double, 4> box{};  // x, y, width, height in pixels
  double area = 0, score = 0;
  bool crowd = false, ignore = false;
  RecordSegmentation segmentation;

  bool has(RecordField field) const { return fields >> static_cast<int>(field) & 1; }
  void set(RecordField field) { fields |= 1u << static_cast<int>(field); }
};

std::string_view name_of(RecordList list);
std::string_view name_of(RecordField field);

// Returns the place of a record for messages: "annotations[3] (id 17)".
std::string shown(const Record& record);

// Throws DataError: "<file>: at byte 1234: annotations[3] (id 17): <what>".
[[noreturn]] void fail_record(const std::string& file, const Record& record,
                              const std::string& what);

// Throws DataError if the record lacks a field.
void require(const std::string& file, const Record& record, RecordField field);

// Calls `visit` for each record of a file, in file order; the record lives until `visit` returns.
// A file of annotations is an object of lists, of which `categories` may stand anywhere. A file of
// results is a list. Throws DataError, with the position in the file, if the file is not valid
// JSON, nests deeper than kMaxDepth, lacks a list, or if a field has a value of another kind. Masks
// are checked: their runs add up to their size.
void read_annotation_records(const ByteSource& file, const std::function<void(Record&)>& visit);
void read_result_records(const ByteSource& file, const std::function<void(Record&)>& visit);

}  // namespace dtn::coco
