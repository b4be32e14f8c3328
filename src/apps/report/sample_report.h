// The common part of pages on where a model is wrong.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/format.h"
#include "plot/gallery.h"
#include "plot/sorted_table.h"

namespace dtn {

// An evaluation of a model.
struct SampleReport {
  std::string title = {};                 // of the page
  std::vector<std::string> lead = {};     // model and data, one line each
  std::string noun = "images";            // of the samples, in the plural
  std::vector<std::string> classes = {};  // names in label order, [K]
  std::int64_t skipped = 0;               // damaged samples
  // Name of a sample for people, by its index in the data set.
  std::function<std::string(std::int64_t)> name = {};
  // Bytes of the PNG or JPEG file of a sample, as the model saw it; empty: damaged. Not set: the
  // samples are no images.
  std::function<std::string(std::int64_t)> picture = {};
  bool pixelated = false;  // the pictures are so small that a page enlarges them

  const std::string& class_name(std::int64_t label) const {
    return classes[static_cast<std::size_t>(label)];
  }
};

inline std::string percent(double fraction) { return format("%.1f %%", 100 * fraction); }

// Returns the pictures of the first of these samples that are not damaged. describe(sample) returns
// a picture without its file.
template <class Sample, class Describe>
std::vector<plot::GalleryPicture> pictures_of(const SampleReport& report,
                                              const std::vector<Sample>& samples, std::size_t most,
                                              const Describe& describe) {
  std::vector<plot::GalleryPicture> pictures;
  for (const Sample& sample : samples) {
    if (pictures.size() == most) break;
    std::string file = report.picture(sample.index);
    if (file.empty()) continue;
    pictures.push_back(describe(sample));
    pictures.back().png = std::move(file);
  }
  return pictures;
}

// Returns the rows of the classes of a report in the order of a key of their figures; equal keys
// come in label order.
template <class Report, class Key>
plot::TableOrder order_by(const Report& report, const std::string& label, const Key& key) {
  plot::TableOrder order{label, std::vector<std::size_t>(report.classes.size())};
  std::iota(order.rows.begin(), order.rows.end(), std::size_t{0});
  std::ranges::stable_sort(order.rows, {},
                           [&](std::size_t c) { return key(report.figures.classes[c]); });
  return order;
}

}  // namespace dtn
