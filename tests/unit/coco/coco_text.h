// COCO files in memory, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "data/coco/annotations.h"
#include "data/coco/results.h"
#include "dtn/core/check.h"
#include "io/cursor.h"

namespace dtn::test {

inline CocoAnnotations annotations_of(const std::string& json) {
  return read_coco_annotations(MemorySource(as_bytes_of(json), "a.json"));
}

inline CocoResults results_of(const std::string& json) {
  return read_coco_results(MemorySource(as_bytes_of(json), "r.json"));
}

// Two images, two categories, and the given annotations. Image 7 is 10 pixels wide and 4 high.
inline std::string file_with(const std::string& annotations) {
  return R"({"info": {"year": 2017, "nested": [{"a": [1, {}]}]},
"images": [{"id": 7, "file_name": "b.jpg", "width": 10, "height": 4, "license": 3},
           {"id": 5, "file_name": "a.jpg", "width": 64, "height": 48}],
"annotations": [)" +
         annotations + R"(],
"categories": [{"id": 90, "name": "toothbrush", "supercategory": "indoor"},
               {"id": 1, "name": "person", "keypoints": ["nose"]}]})";
}

// An annotation of id 3 in image 7, with more or other fields.
inline std::string annotation(const std::string& more = "", const std::string& id = "3") {
  return R"({"id": )" + id +
         R"(, "image_id": 7, "category_id": 90, "bbox": [1, 0, 3.5, 2], "area": 6.25)" +
         (more.empty() ? "" : ", " + more) + "}";
}

// Returns the message of the DataError that reading throws; "none" without an error.
template <class Read>
std::string data_error(const Read& read) {
  try {
    read();
  } catch (const DataError& e) {
    return e.what();
  }
  return "none";
}

inline std::string annotation_error(const std::string& json) {
  return data_error([&] { annotations_of(json); });
}
inline std::string result_error(const std::string& json) {
  return data_error([&] { results_of(json); });
}

// True if the text has all of the parts, for messages.
inline ::testing::AssertionResult has_parts(const std::string& text,
                                            std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    if (text.find(part) == std::string::npos) {
      return ::testing::AssertionFailure() << '"' << text << "\" lacks \"" << part << '"';
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace dtn::test
