#include "data/sample/auto_augment.h"
#include "dtn/core/check.h"
#include "dtn/data/registries.h"

namespace dtn {
namespace {

std::unique_ptr<Augmentation> make_policy(const std::string& policy,
                                          const AugmentationSetup& setup) {
  return std::make_unique<AutoAugment>(policy, geometry_for(setup));
}

std::optional<std::string> problem_with(const std::string& policy) {
  try {
    [[maybe_unused]] const AutoAugment made(policy);
    return {};
  } catch (const ConfigError& e) {
    return e.what();
  }
}

}  // namespace

const AugmentationRegistry& augmentation_registry() {
  static const AugmentationRegistry ours({
      {{"none", "nothing", {}},
       [](const std::string&, const AugmentationSetup&) { return nullptr; }},
      {{"rand", "RandAugment in timm's notation, such as rand-m9-mstd0.5-inc1", problem_with},
       make_policy},
      {{"three", "DeiT III's policy: one of grey, solarize and blur", {}}, make_policy},
  });
  return ours;
}

const DataRegistries& data_registries() {
  static const DataRegistries ours;
  return ours;
}

}  // namespace dtn
