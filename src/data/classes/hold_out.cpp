#include "data/classes/hold_out.h"

#include <string>
#include <utility>
#include <vector>

#include "core/format.h"
#include "data/classes/class_order.h"
#include "data/classes/field_rows.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/core/philox.h"
#include "io/fingerprint.h"

namespace dtn {
namespace {

constexpr std::uint32_t kHoldOutStream = 0x484f4c44;  // "HOLD"

// The samples of one class.
struct OfClass {
  std::int64_t count = 0;
  std::int64_t smallest = -1, largest = -1;  // by their numbers
  std::int64_t held_out = 0;
};

// Returns, for each sample, if it is held out for validation. `classes` gets the counts.
std::vector<bool> choose(const Dataset& whole, double share, std::uint64_t seed,
                         std::vector<OfClass>& classes) {
  std::vector<double> numbers;
  std::vector<bool> held_out;
  classes.resize(static_cast<std::size_t>(whole.num_classes()));
  const auto number_of = [&](std::int64_t i) { return numbers[static_cast<std::size_t>(i)]; };
  for (std::int64_t i = 0; i < whole.size(); ++i) {
    const double number = numbers.emplace_back(hold_out_number(seed, whole.file_name(i)));
    held_out.push_back(number < share);
    OfClass& of = classes[static_cast<std::size_t>(whole.label(i))];
    ++of.count;
    of.held_out += number < share;
    if (of.smallest < 0 || number < number_of(of.smallest)) of.smallest = i;
    if (of.largest < 0 || number > number_of(of.largest)) of.largest = i;
  }
  for (OfClass& of : classes) {
    if (of.count > 0 && of.held_out == of.count) {
      held_out[static_cast<std::size_t>(of.largest)] = false;
      --of.held_out;
    } else if (of.count > 1 && of.held_out == 0) {
      held_out[static_cast<std::size_t>(of.smallest)] = true;
      ++of.held_out;
    }
  }
  return held_out;
}

// Logs the classes that validation lacks.
void note_single_samples(const Dataset& whole, const std::vector<OfClass>& classes) {
  std::vector<std::string> names;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    if (classes[k].count != 1) continue;
    names.push_back(k < whole.class_names().size() ? whole.class_names()[k] : std::to_string(k));
  }
  if (names.empty()) return;
  log_info(cat("data.split: ", counted(names.size(), "classes"),
               names.size() == 1 ? " has" : " have",
               " a single image, which stays in the training split: ", listed_names(names)));
}

class PartOfImages final : public Dataset {
 public:
  PartOfImages(std::shared_ptr<const Dataset> whole, const std::vector<bool>& held_out, Split split,
               double share, std::uint64_t seed)
      : whole_(std::move(whole)) {
    for (std::int64_t i = 0; i < whole_->size(); ++i) {
      if (held_out[static_cast<std::size_t>(i)] != (split == Split::kVal)) continue;
      places_.push_back(i);
      labels_.push_back(whole_->label(i));
    }
    ready_fields_ = rows_at(whole_->ready_fields(), places_);
    class_names_ = whole_->class_names();
    num_classes_ = whole_->num_classes();
    has_pixels_ = whole_->has_pixels();
    has_labels_ = whole_->has_labels();
    description_ = cat(size(), " ", name_of(split), " images (data.split: ", share,
                       ", seed: ", seed, ") of ", whole_->description());
  }

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    return whole_->load(place(index), workspace);
  }
  std::string sample_name(std::int64_t index) const override {
    return whole_->sample_name(place(index));
  }
  std::string item_name(std::int64_t index) const override {
    return whole_->item_name(place(index));
  }
  std::string file_name(std::int64_t index) const override {
    return whole_->file_name(place(index));
  }

 private:
  std::int64_t place(std::int64_t index) const { return places_[static_cast<std::size_t>(index)]; }

  std::shared_ptr<const Dataset> whole_;
  std::vector<std::int64_t> places_;
};

}  // namespace

double hold_out_number(std::uint64_t seed, std::string_view file_name) {
  Fingerprint print;
  print.add(file_name);
  const Philox4 random =
      philox_group({seed, kHoldOutStream, 0}, static_cast<std::uint64_t>(print.number()));
  const std::uint64_t bits = std::uint64_t{random.v[0]} << 32 | random.v[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

std::unique_ptr<Dataset> hold_out(const std::shared_ptr<const Dataset>& whole, Split split,
                                  double share, std::uint64_t seed) {
  DTN_CHECK(whole->vocabulary() == 0, "these are not image files");
  std::vector<OfClass> classes;
  const std::vector<bool> held_out = choose(*whole, share, seed, classes);
  if (split == Split::kVal) note_single_samples(*whole, classes);
  auto part = std::make_unique<PartOfImages>(whole, held_out, split, share, seed);
  if (part->size() == 0) {
    throw DataError(cat("data.split: ", whole->description(),
                        ": each class has a single image, so none is left for validation; add "
                        "images"));
  }
  return part;
}

}  // namespace dtn
