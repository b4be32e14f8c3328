// Annotations of scenes as the text of a file in COCO's layout.
#pragma once

#include <cstdint>
#include <string>

#include "data/shapes/scene.h"

namespace dtn::shapes {

// Collects the annotations of a split. Numbers are written from integers, so that the bytes do not
// depend on the machine. A shape is a polygon, a crowd is uncompressed run lengths.
class CocoText {
 public:
  // Adds a picture. Returns the name of its file.
  std::string add(const Scene& scene, std::uint32_t split, std::uint32_t number);
  // Returns the whole file.
  std::string finish() const;

 private:
  void add_shape(const Shape& shape, std::int64_t image);
  void add_crowd(const Crowd& crowd, const Scene& scene, std::int64_t image);
  void begin_annotation(std::int64_t image, Form form);

  std::string images_, annotations_;  // elements of the lists
  std::int64_t last_id_ = 1000;       // of an annotation
};

}  // namespace dtn::shapes
