#include "models/weights/key_prefixes.h"

#include <array>
#include <map>
#include <set>
#include <string_view>

#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/models/backbone.h"

namespace dtn {
namespace {

constexpr std::string_view kBackbonePrefix = "backbone.", kTeacher = "teacher.",
                           kStudent = "student.";
// Prefixes of PyTorch's DistributedDataParallel and torch.compile, and of trainers.
constexpr std::array<std::string_view, 3> kWrappers{"module.", "_orig_mod.", "model."};
// All prefixes, in the order in which they are tried. The teacher comes before the student, as in
// evaluations of DINO, and the moving average of DiT's checkpoints before the model.
constexpr std::string_view kPrefixes[] = {
    "module.", "_orig_mod.", "teacher.backbone.", kTeacher, kBackbonePrefix, "ema.",
    "model.",  kStudent,
};
constexpr int kMaxNested = 4;  // nested prefixes

struct Unwrapped {
  std::string prefix;
  NamedTensors inside;  // tensors that had the prefix, without it
  NamedTensors beside;  // other tensors, without the outer prefixes that they had
};

// Removes the prefix from the name, and returns true if the name had it.
bool strip(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return true;
}

// Returns the network of a tensor, kStudent, kTeacher or empty for a single one, and removes its
// prefix from the name, with those of wrappers around it.
std::string_view strip_network(std::string_view& name) {
  name = without_wrappers(name);
  for (const std::string_view network : {kStudent, kTeacher}) {
    if (!strip(name, network)) continue;
    name = without_wrappers(name);
    return network;
  }
  return {};
}

class NameTranslation {
 public:
  NameTranslation(const Classifier& model, std::vector<std::string>& notes)
      : model_(model), name_maps_(model.family().weights), notes_(notes) {
    for (const Parameter& p : model.parameters().parameters()) names_.insert(p.name);
    for (const Buffer& b : model.parameters().buffers()) names_.insert(b.name);
  }

  NamedTensors of(const NamedTensors& tensors, const std::string& source) const {
    check_unambiguous(tensors, source, [&](const std::string& name) {
      return names_.contains(name) && !model_.is_head(name);
    });
    std::vector<std::string> plain_notes;
    NamedTensors plain = renamed(tensors, plain_notes);
    Unwrapped found;
    if (fits(plain) || !unwrap(tensors, kMaxNested, found)) {
      notes_.insert(notes_.end(), plain_notes.begin(), plain_notes.end());
      return plain;
    }
    const std::size_t count = found.inside.size();
    const NamedTensors others = add_heads(found);
    std::string note =
        cat("removed the prefix '", found.prefix, "' from ", counted(count, "tensors"));
    if (!others.empty()) {
      note += cat("; ", others.size(), others.size() == 1 ? " other is" : " others are",
                  " not used (", others.front().first, others.size() == 1 ? ")" : ", ...)");
    }
    notes_.push_back(note);
    return renamed(found.inside, notes_);
  }

 private:
  NamedTensors renamed(const NamedTensors& tensors, std::vector<std::string>& notes) const {
    return name_maps_.renamed ? name_maps_.renamed(tensors, notes) : tensors;
  }
  // Returns true if a tensor has the name of a backbone parameter. Ignores heads, because a
  // wrapper's head may have the name of the model's head.
  bool fits(const NamedTensors& ours) const {
    for (const auto& [name, tensor] : ours) {
      if (names_.contains(name) && !model_.is_head(name)) return true;
    }
    return false;
  }

  bool unwrap(const NamedTensors& tensors, int nested, Unwrapped& found) const {
    std::vector<std::string> ignored;
    for (const std::string_view prefix : kPrefixes) {
      NamedTensors inside, beside;
      for (const auto& [name, tensor] : tensors) {
        if (name.starts_with(prefix)) {
          inside.emplace_back(name.substr(prefix.size()), tensor);
        } else {
          beside.emplace_back(name, tensor);
        }
      }
      if (inside.empty()) continue;
      if (fits(renamed(inside, ignored))) {
        found.inside = std::move(inside);
      } else if (nested == 1 || !unwrap(inside, nested - 1, found)) {
        continue;
      }
      found.prefix.insert(0, prefix);
      found.beside.insert(found.beside.end(), beside.begin(), beside.end());
      return true;
    }
    return false;
  }

  // Moves the heads from `beside` to `inside`, and returns the other tensors of `beside`.
  NamedTensors add_heads(Unwrapped& found) const {
    std::set<std::string> inside;
    for (const auto& [name, tensor] : found.inside) inside.insert(name);
    NamedTensors others;
    for (const auto& [name, tensor] : found.beside) {
      const std::string head = head_name(name);
      if (head.empty() || !inside.insert(head).second) {
        others.emplace_back(name, tensor);
      } else {
        found.inside.emplace_back(head, tensor);
      }
    }
    return others;
  }

  // Returns the model's name for a head tensor, or empty if the tensor is not one.
  std::string head_name(const std::string& name) const {
    constexpr std::string_view kClassifier = "classifier.";
    if (model_.is_head(name)) return name;
    if (!name.starts_with(kClassifier)) return "";
    for (const char* head : {"head.", "fc."}) {
      std::string ours = head + name.substr(kClassifier.size());
      if (model_.is_head(ours)) return ours;
    }
    return "";
  }

  const Classifier& model_;
  const WeightNameMaps& name_maps_;
  std::vector<std::string>& notes_;
  std::set<std::string> names_;
};

}  // namespace

std::string_view without_wrappers(std::string_view name) {
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view wrapper : kWrappers) found = strip(name, wrapper) || found;
  }
  return name;
}

StudentAndTeacher split_student_teacher(const NamedTensors& tensors) {
  StudentAndTeacher split;
  for (const auto& [key, tensor] : tensors) {
    std::string_view name = key;
    const std::string_view network = strip_network(name);
    if (network.empty()) {
      split.others.emplace_back(key, tensor);
    } else {
      (network == kStudent ? split.student : split.teacher).emplace_back(name, tensor);
    }
  }
  split.are_two = !split.student.empty() && !split.teacher.empty();
  if (split.are_two) return split;
  if (split.student.empty() && split.teacher.empty()) return {tensors, tensors, {}};
  (split.student.empty() ? split.student : split.teacher) =
      split.student.empty() ? split.teacher : split.student;
  return split;
}

void check_unambiguous(const NamedTensors& tensors, const std::string& source,
                       const std::function<bool(const std::string& name)>& is_in_model) {
  std::map<std::string, std::string_view> keys;
  for (const auto& [key, tensor] : tensors) {
    std::string_view name = key;
    const std::string_view network = strip_network(name);
    while (strip(name, kBackbonePrefix)) name = without_wrappers(name);
    if (!is_in_model(std::string(name))) continue;
    const auto [same, is_new] = keys.emplace(cat(network, name), key);
    if (is_new) continue;
    throw DataError(cat(source, ": both ", same->second, " and ", key, " may be the model's ", name,
                        "; remove one of the two networks from the file"));
  }
}

NamedTensors in_names_of(const Classifier& model, const NamedTensors& tensors,
                         const std::string& source, std::vector<std::string>& notes) {
  NamedTensors ours = NameTranslation(model, notes).of(tensors, source);
  std::set<std::string> seen;
  for (const auto& [name, tensor] : ours) {
    if (!seen.insert(name).second) {
      throw DataError(cat(source, ": two of its tensors match the model's ", name));
    }
  }
  return ours;
}

}  // namespace dtn
