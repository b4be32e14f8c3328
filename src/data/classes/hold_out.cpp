#include "data/classes/hold_out.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/format.h"
#include "data/classes/class_order.h"
#include "data/classes/field_rows.h"
#include "data/classes/subset.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/core/philox.h"
#include "io/fingerprint.h"

namespace dtn {
namespace {

constexpr std::uint32_t kHoldOutStream = 0x484f4c44;  // "HOLD"

// The samples of one class.
struct OfClass {
  std::vector<std::int64_t> samples;  // by rising number
  std::int64_t held_out = 0;

  std::int64_t count() const { return std::ssize(samples); }
  std::int64_t left() const { return count() - held_out; }  // for training
};

// Divides the samples of a data set, in which each may have any number of classes.
class Division {
 public:
  Division(const Dataset& whole, double share, std::uint64_t seed)
      : whole_(whole), classes_(static_cast<std::size_t>(whole.num_classes())) {
    for (std::int64_t i = 0; i < whole.size(); ++i) {
      numbers_.push_back(hold_out_number(seed, whole.file_name(i)));
      held_out_.push_back(numbers_.back() < share);
      for_each_class(i, [&](OfClass& of) {
        of.samples.push_back(i);
        of.held_out += number_of(i) < share;
      });
    }
    for (OfClass& of : classes_) {
      std::ranges::stable_sort(of.samples, {}, [&](std::int64_t i) { return number_of(i); });
    }
    // The rarest class has the least choice.
    std::vector<OfClass*> order;
    for (OfClass& of : classes_) order.push_back(&of);
    std::ranges::stable_sort(order, {}, [](const OfClass* of) { return of->count(); });
    for (OfClass* of : order) leave_one_for_training(*of);
    for (OfClass* of : order) hold_out_one(*of);
  }

  // For each sample, if it is held out for validation.
  const std::vector<bool>& held_out() const { return held_out_; }

  // Returns the names of the classes that have samples, but none that is held out.
  std::vector<std::string> without_validation() const {
    std::vector<std::string> names;
    for (std::size_t k = 0; k < classes_.size(); ++k) {
      if (classes_[k].count() == 0 || classes_[k].held_out > 0) continue;
      names.push_back(k < whole_.class_names().size() ? whole_.class_names()[k]
                                                      : std::to_string(k));
    }
    return names;
  }

 private:
  double number_of(std::int64_t i) const { return numbers_[static_cast<std::size_t>(i)]; }

  template <class Visit>
  void for_each_class(std::int64_t i, Visit&& visit) {
    const Tensor* labels = whole_.ready_fields().find("labels");
    if (!labels) return visit(classes_[static_cast<std::size_t>(whole_.label(i))]);
    const std::uint8_t* row = labels->data<std::uint8_t>() + i * labels->dim(1);
    for (std::size_t k = 0; k < classes_.size(); ++k) {
      if (row[k] != 0) visit(classes_[k]);
    }
  }

  // True if each other class of a sample has more than this one sample on its side.
  bool can_move(std::int64_t i, const OfClass& from) {
    const bool held_out = held_out_[static_cast<std::size_t>(i)];
    bool can = true;
    for_each_class(i, [&](const OfClass& of) {
      can = can && (&of == &from || (held_out ? of.held_out : of.left()) > 1);
    });
    return can;
  }
  void move(std::int64_t i) {
    const bool held_out = !held_out_[static_cast<std::size_t>(i)];
    held_out_[static_cast<std::size_t>(i)] = held_out;
    for_each_class(i, [&](OfClass& of) { of.held_out += held_out ? 1 : -1; });
  }

  void leave_one_for_training(OfClass& of) {
    if (of.count() == 0 || of.left() > 0) return;
    const auto found = std::find_if(of.samples.rbegin(), of.samples.rend(),
                                    [&](std::int64_t i) { return can_move(i, of); });
    move(found == of.samples.rend() ? of.samples.back() : *found);
  }
  void hold_out_one(OfClass& of) {
    if (of.count() < 2 || of.held_out > 0) return;
    const auto found =
        std::ranges::find_if(of.samples, [&](std::int64_t i) { return can_move(i, of); });
    if (found != of.samples.end()) move(*found);
  }

  const Dataset& whole_;
  std::vector<OfClass> classes_;
  std::vector<double> numbers_;
  std::vector<bool> held_out_;
};

// Logs the classes that validation lacks.
void note_missing_classes(const Dataset& whole, const Division& division) {
  const std::vector<std::string> names = division.without_validation();
  if (names.empty()) return;
  const char* const have = names.size() == 1 ? " has" : " have";
  log_info(cat("data.split: ", counted(names.size(), "classes"), have,
               whole.ready_fields().has("labels")
                   ? " no image in the validation split: "
                   : " a single image, which stays in the training split: ",
               listed_names(names)));
}

class PartOfImages final : public Subset {
 public:
  PartOfImages(std::shared_ptr<const Dataset> all, const std::vector<bool>& held_out, Split split,
               double share, std::uint64_t seed)
      : Subset(std::move(all)) {
    for (std::int64_t i = 0; i < whole().size(); ++i) {
      if (held_out[static_cast<std::size_t>(i)] == (split == Split::kVal)) add(i, whole().label(i));
    }
    ready_fields_ = rows_at(whole().ready_fields(), places());
    class_names_ = whole().class_names();
    num_classes_ = whole().num_classes();
    description_ = cat(size(), " ", name_of(split), " images (data.split: ", share,
                       ", seed: ", seed, ") of ", whole().description());
  }
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
  const Division division(*whole, share, seed);
  if (split == Split::kVal) note_missing_classes(*whole, division);
  auto part = std::make_unique<PartOfImages>(whole, division.held_out(), split, share, seed);
  if (part->size() == 0) {
    throw DataError(cat("data.split: ", whole->description(),
                        ": each class has a single image, so none is left for validation; add "
                        "images"));
  }
  return part;
}

}  // namespace dtn
