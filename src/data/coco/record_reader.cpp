#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "core/format.h"
#include "data/coco/json_bytes.h"
#include "data/coco/records.h"
#include "data/coco/rle.h"
#include "dtn/core/check.h"

namespace dtn::coco {
namespace {

using Json = nlohmann::json;

// Fields that are read, by list; all others are skipped.
std::span<const RecordField> fields_of(RecordList list) {
  using enum RecordField;
  static constexpr RecordField kImages[] = {kId, kFileName, kWidth, kHeight};
  static constexpr RecordField kCategories[] = {kId, kName};
  static constexpr RecordField kAnnotations[] = {kId,   kImageId, kCategoryId, kBox,
                                                 kArea, kCrowd,   kIgnore,     kSegmentation};
  static constexpr RecordField kResults[] = {kImageId, kCategoryId, kBox, kScore, kSegmentation};
  switch (list) {
    case RecordList::kImages: return kImages;
    case RecordList::kCategories: return kCategories;
    case RecordList::kAnnotations: return kAnnotations;
    case RecordList::kResults: return kResults;
  }
  return {};
}

// Returns text of a file for a message: shortened, with unprintable bytes as \xNN.
std::string printable(std::string_view text) {
  constexpr std::size_t kMax = 40;
  std::string out = "'";
  for (const char c : text.substr(0, kMax)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte > 0x7e ? format("\\x%02x", byte) : std::string(1, c);
  }
  return out + (text.size() > kMax ? "...'" : "'");
}

// A value without parts.
struct Scalar {
  enum class Kind { kNull, kFlag, kInteger, kNumber, kText };
  Kind kind = Kind::kNull;
  std::int64_t integer = 0;     // kFlag and kInteger
  double number = 0;            // kFlag, kInteger and kNumber
  std::string* text = nullptr;  // kText

  bool is_null() const { return kind == Kind::kNull; }
  bool is_text() const { return kind == Kind::kText; }
  bool is_number() const { return kind == Kind::kInteger || kind == Kind::kNumber; }
};

// Handles the JSON event by event. Only one record is held.
class RecordReader : public nlohmann::json_sax<Json> {
 public:
  RecordReader(const ByteSource& file, const std::function<void(Record&)>& visit, bool results)
      : file_(file), bytes_(file), visit_(visit), results_(results) {}

  void read() {
    if (file_.size() == 0) throw DataError(cat(file_.name(), ": the file is empty"));
    // Every event that returns false has thrown before.
    Json::sax_parse(JsonByteIterator(bytes_), JsonByteIterator(), this);
    for (const RecordList list :
         {RecordList::kImages, RecordList::kCategories, RecordList::kAnnotations}) {
      if (results_ || (seen_lists_ >> static_cast<int>(list) & 1)) continue;
      throw DataError(cat(file_.name(), ": has no list '", name_of(list),
                          "'; a file of COCO annotations is an object with the lists images, "
                          "annotations and categories"));
    }
  }

  bool null() override { return take({}); }
  bool boolean(bool value) override {
    return take({Scalar::Kind::kFlag, value, static_cast<double>(value), nullptr});
  }
  bool number_integer(number_integer_t value) override {
    return take({Scalar::Kind::kInteger, value, static_cast<double>(value), nullptr});
  }
  bool number_unsigned(number_unsigned_t value) override {
    const auto number = static_cast<double>(value);
    if (value > static_cast<std::uint64_t>(INT64_MAX)) return take_number(number);
    return take({Scalar::Kind::kInteger, static_cast<std::int64_t>(value), number, nullptr});
  }
  bool number_float(number_float_t value, const string_t&) override { return take_number(value); }
  bool string(string_t& value) override { return take({Scalar::Kind::kText, 0, 0, &value}); }
  bool binary(binary_t&) override { return false; }  // not in JSON

  bool start_object(std::size_t) override {
    deeper();
    if (skipped_depth_ > 0) return skip_deeper();
    switch (at_) {
      case At::kStart:
        if (results_) fail("a file of results is a list of objects, not an object");
        return go(At::kTop);
      case At::kList: return begin_record();
      case At::kSegmentation: return go(At::kMask);
      case At::kSkipped: return skip_deeper();
      default: break;
    }
    fail(cat(expected(), ", not an object"));
  }
  bool end_object() override {
    --depth_;
    if (skipped_depth_ > 0) return skip_shallower();
    switch (at_) {
      case At::kTop: return go(At::kDone);
      case At::kRecord: return end_record();
      default: return end_mask();
    }
  }
  bool start_array(std::size_t) override {
    deeper();
    if (skipped_depth_ > 0) return skip_deeper();
    switch (at_) {
      case At::kStart:
        if (!results_) fail("a file of annotations is an object of lists, not a list");
        return begin_list(RecordList::kResults);
      case At::kListValue: return go(At::kList);
      case At::kValue:
        if (field_ != RecordField::kBox) break;
        numbers_ = 0;
        return go(At::kBox);
      case At::kSegmentation: return go(At::kPolygons);
      case At::kPolygons: return go(At::kPolygon);
      case At::kSizeValue: numbers_ = 0; return go(At::kSize);
      case At::kCountsValue: has_counts_ = true; return go(At::kRuns);
      case At::kSkipped: return skip_deeper();
      default: break;
    }
    fail(cat(expected(), ", not a list"));
  }
  bool end_array() override {
    --depth_;
    if (skipped_depth_ > 0) return skip_shallower();
    switch (at_) {
      case At::kList: return go(results_ ? At::kDone : At::kTop);
      case At::kBox: return end_box();
      case At::kPolygon: return end_polygon();
      case At::kPolygons: return end_polygons();
      case At::kSize:
        if (numbers_ != 2) fail("the size of a mask must be [height, width]");
        return go(At::kMask);
      default: record_.segmentation.kind = SegmentationKind::kRuns; return go(At::kMask);
    }
  }
  bool key(string_t& name) override {
    if (skipped_depth_ > 0) return true;
    switch (at_) {
      case At::kTop: return top_key(name);
      case At::kRecord: return record_key(name);
      default: return mask_key(name);
    }
  }
  bool parse_error(std::size_t, const std::string& token,
                   const nlohmann::detail::exception& e) override {
    const std::string where = in_record() ? cat(" in ", shown(record_)) : "";
    const std::int64_t byte = bytes_.position();
    constexpr int kOutOfRange = 406;
    if (e.id == kOutOfRange) fail_at(byte, cat("the number ", token, where, " is too large"));
    const bool at_end = bytes_.at_end();
    if (at_end && depth_ > 0) {
      fail_at(byte, cat("the file ends", where.empty() ? " too early" : where,
                        "; it is cut short, so copy or write it again"));
    }
    const bool not_finite = token.ends_with('N') || token.ends_with('I');
    fail_at(byte,
            cat("not valid JSON", where, " after ", printable(token),
                not_finite ? "; JSON has no NaN and no Infinity, so correct the number" : ""));
  }

 private:
  enum class At {
    kStart,
    kTop,
    kListValue,
    kList,
    kRecord,
    kValue,  // of a field without parts, or the box
    kBox,
    kSegmentation,
    kPolygons,
    kPolygon,
    kMask,
    kSizeValue,
    kSize,
    kCountsValue,
    kRuns,
    kSkipped,  // a value that is not read
    kDone
  };

  [[noreturn]] void fail_at(std::int64_t byte, const std::string& what) const {
    throw DataError(cat(file_.name(), ": at byte ", byte, ": ", what));
  }
  bool in_record() const { return at_ >= At::kRecord && at_ < At::kDone && record_open_; }

  [[noreturn]] void fail(const std::string& what) const {
    fail_at(bytes_.position(), in_record() ? cat(shown(record_), ": ", what) : what);
  }
  // Returns the sentence about the value that should stand here.
  std::string expected() const {
    switch (at_) {
      case At::kListValue: return cat("'", list_name(), "' must be a list");
      case At::kList: return cat("'", list_name(), "' must hold objects");
      case At::kValue: return cat(name_of(field_), " must be ", kind_of(field_));
      case At::kBox: return "bbox must be 4 numbers [x, y, width, height]";
      case At::kPolygon: return "a polygon must be a list of numbers";
      case At::kSizeValue:
      case At::kSize: return "the size of a mask must be [height, width]";
      case At::kCountsValue: return "the counts of a mask must be a list of runs or a text";
      case At::kRuns: return "the runs of a mask must be whole numbers";
      case At::kSegmentation:
      case At::kPolygons:
        return "segmentation must be a list of polygons, or an object with size and counts";
      default:
        return results_ ? "a file of results is a list of objects"
                        : "a file of annotations is an object of lists";
    }
  }
  std::string_view list_name() const { return name_of(list_); }
  static const char* kind_of(RecordField field) {
    switch (field) {
      case RecordField::kFileName:
      case RecordField::kName: return "a text";
      case RecordField::kBox: return "4 numbers [x, y, width, height]";
      case RecordField::kArea:
      case RecordField::kScore: return "a number";
      case RecordField::kCrowd:
      case RecordField::kIgnore: return "0 or 1";
      default: return "a whole number";
    }
  }

  bool go(At next) {
    at_ = next;
    return true;
  }
  void deeper() {
    if (++depth_ > kMaxDepth) {
      fail(cat("values are nested deeper than ", kMaxDepth, " levels; this is no COCO file"));
    }
  }
  // Skips the next value, after which the reader is at `after`.
  bool skip(At after) {
    after_skipped_ = after;
    return go(At::kSkipped);
  }
  bool skip_deeper() {
    ++skipped_depth_;
    return true;
  }
  bool skip_shallower() { return --skipped_depth_ > 0 || go(after_skipped_); }

  bool top_key(const string_t& name) {
    for (const RecordList list :
         {RecordList::kImages, RecordList::kCategories, RecordList::kAnnotations}) {
      if (name == name_of(list)) return begin_list(list);
    }
    return skip(At::kTop);
  }
  bool begin_list(RecordList list) {
    const std::uint32_t bit = 1u << static_cast<int>(list);
    list_ = list;
    if (seen_lists_ & bit) fail(cat("'", list_name(), "' appears twice"));
    seen_lists_ |= bit;
    position_ = 0;
    return go(list == RecordList::kResults ? At::kList : At::kListValue);
  }

  bool begin_record() {
    RecordSegmentation& s = record_.segmentation;
    s.kind = SegmentationKind::kNone;
    s.corners.clear();
    s.ends.clear();
    s.runs.clear();
    record_.list = list_;
    record_.position = position_++;
    record_.byte = bytes_.position() - 1;
    record_.fields = 0;
    record_.crowd = record_.ignore = false;
    seen_keys_ = 0;
    record_open_ = true;
    return go(At::kRecord);
  }
  bool end_record() {
    record_open_ = false;
    visit_(record_);
    return go(At::kList);
  }
  bool record_key(const string_t& name) {
    for (const RecordField field : fields_of(list_)) {
      if (name != name_of(field)) continue;
      field_ = field;
      const std::uint32_t bit = 1u << static_cast<int>(field);
      if (seen_keys_ & bit) fail(cat("has the field ", name, " twice"));
      seen_keys_ |= bit;
      return go(field == RecordField::kSegmentation ? At::kSegmentation : At::kValue);
    }
    return skip(At::kRecord);
  }
  bool end_field() {
    record_.set(field_);
    return go(At::kRecord);
  }

  bool take_number(double value) { return take({Scalar::Kind::kNumber, 0, value, nullptr}); }
  bool take(const Scalar& value) {
    if (skipped_depth_ > 0) return true;
    switch (at_) {
      case At::kSkipped: return go(after_skipped_);
      case At::kValue: return take_value(value);
      case At::kBox:
        if (!value.is_number() || numbers_ == record_.box.size()) break;
        record_.box[numbers_++] = value.number;
        return true;
      case At::kPolygon:
        if (!value.is_number()) break;
        return add_coordinate(value.number);
      case At::kSegmentation:
        if (!value.is_null()) break;
        return go(At::kRecord);
      case At::kSize:
        if (numbers_ == 2) break;
        size_[numbers_++] = whole(value);
        return true;
      case At::kCountsValue:
        if (!value.is_text()) break;
        has_counts_ = true;
        record_.segmentation.text.swap(*value.text);
        record_.segmentation.kind = SegmentationKind::kText;
        return go(At::kMask);
      case At::kRuns: record_.segmentation.runs.push_back(whole(value)); return true;
      default: break;
    }
    fail(cat(expected(), ", not ", described(value)));
  }
  static std::string described(const Scalar& value) {
    switch (value.kind) {
      case Scalar::Kind::kNull: return "null";
      case Scalar::Kind::kFlag: return value.integer ? "true" : "false";
      case Scalar::Kind::kText: return cat("the text ", printable(*value.text));
      case Scalar::Kind::kInteger: return std::to_string(value.integer);
      default: return format("%.17g", value.number);
    }
  }
  // Returns a whole number, which may be written as 3.0.
  std::int64_t whole(const Scalar& value) const {
    constexpr double kMaxExact = 9007199254740992.0;  // 2^53
    if (value.kind == Scalar::Kind::kInteger) return value.integer;
    const double number = value.number;
    if (value.kind != Scalar::Kind::kNumber || std::abs(number) > kMaxExact ||
        std::trunc(number) != number) {
      fail(cat(expected(), ", not ", described(value)));
    }
    return static_cast<std::int64_t>(number);
  }
  bool take_value(const Scalar& value) {
    if (value.is_null()) return go(At::kRecord);
    switch (field_) {
      case RecordField::kId: record_.id = whole(value); break;
      case RecordField::kImageId: record_.image_id = whole(value); break;
      case RecordField::kCategoryId: record_.category_id = whole(value); break;
      case RecordField::kWidth: record_.width = whole(value); break;
      case RecordField::kHeight: record_.height = whole(value); break;
      case RecordField::kArea:
      case RecordField::kScore:
        if (!value.is_number()) fail(cat(expected(), ", not ", described(value)));
        (field_ == RecordField::kArea ? record_.area : record_.score) = value.number;
        break;
      case RecordField::kCrowd:
      case RecordField::kIgnore:
        if (value.is_text()) fail(cat(expected(), ", not ", described(value)));
        (field_ == RecordField::kCrowd ? record_.crowd : record_.ignore) = value.number != 0;
        break;
      case RecordField::kFileName:
      case RecordField::kName:
        if (!value.is_text()) fail(cat(expected(), ", not ", described(value)));
        record_.text.swap(*value.text);
        break;
      default: fail(cat(expected(), ", not ", described(value)));
    }
    return end_field();
  }

  bool end_box() {
    if (numbers_ == 0) return go(At::kRecord);  // as good as absent
    if (numbers_ != record_.box.size()) fail(expected());
    return end_field();
  }

  bool add_coordinate(double value) {
    if (!has_x_) {
      x_ = value;
      has_x_ = true;
      return true;
    }
    has_x_ = false;
    try {
      record_.segmentation.corners.push_back(corner_at(x_, value));
    } catch (const DataError& e) {
      fail(e.what());
    }
    return true;
  }
  bool end_polygon() {
    if (has_x_) fail("a polygon has an odd number of coordinates; they must be pairs x, y");
    record_.segmentation.ends.push_back(record_.segmentation.corners.size());
    return go(At::kPolygons);
  }
  bool end_polygons() {
    RecordSegmentation& s = record_.segmentation;
    if (s.ends.empty()) return go(At::kRecord);
    if (results_) fail("the segmentation of a result must be an object with size and counts");
    s.kind = SegmentationKind::kPolygons;
    return end_field();
  }

  bool mask_key(const string_t& name) {
    const bool is_size = name == "size", is_counts = name == "counts";
    if (!is_size && !is_counts) return skip(At::kMask);
    if (is_size ? has_size_ : has_counts_) fail(cat("its mask has the field ", name, " twice"));
    if (is_size) has_size_ = true;
    return go(is_size ? At::kSizeValue : At::kCountsValue);
  }
  bool end_mask() {
    if (!has_size_ || !has_counts_) fail("a mask must have a size and counts");
    has_size_ = has_counts_ = false;
    RecordSegmentation& s = record_.segmentation;
    s.height = size_[0];
    s.width = size_[1];
    try {
      if (s.kind == SegmentationKind::kRuns) {
        rle_of_runs(s.height, s.width, s.runs);
      } else {
        rle_of_text(s.height, s.width, s.text);
      }
    } catch (const DataError& e) {
      fail(e.what());
    }
    return end_field();
  }

  const ByteSource& file_;
  JsonBytes bytes_;
  const std::function<void(Record&)>& visit_;
  const bool results_;

  At at_ = At::kStart, after_skipped_ = At::kStart;
  int depth_ = 0, skipped_depth_ = 0;
  RecordList list_ = RecordList::kResults;
  std::uint32_t seen_lists_ = 0;  // bits of RecordList
  std::int64_t position_ = 0;     // number of records of the list

  Record record_;
  bool record_open_ = false;
  RecordField field_{};          // of the value that is read
  std::uint32_t seen_keys_ = 0;  // bits of RecordField, null values too
  std::size_t numbers_ = 0;      // of a box or a size
  double x_ = 0;
  bool has_x_ = false;
  std::int64_t size_[2] = {};
  bool has_size_ = false, has_counts_ = false;
};

}  // namespace

void read_annotation_records(const ByteSource& file, const std::function<void(Record&)>& visit) {
  RecordReader(file, visit, false).read();
}

void read_result_records(const ByteSource& file, const std::function<void(Record&)>& visit) {
  RecordReader(file, visit, true).read();
}

}  // namespace dtn::coco
