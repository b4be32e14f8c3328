#include "cuda/matmul_table.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include "core/text.h"
#include "dtn/core/check.h"

namespace dtn::cuda {
namespace {

constexpr std::string_view kCommitted =
#include "cuda/measured_products.inc"
    ;

MeasuredProducts read_measured(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) {
    throw ConfigError(cat("DTN_CUDA_PRODUCTS: ", file,
                          " cannot be read; set it to `first`, `least-waste` or a file of "
                          "dtn-bench products, or unset it"));
  }
  return {text.str(), file};
}

}  // namespace

MeasuredProducts::MeasuredProducts(std::string_view text, const std::string& source) {
  int number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string_view> fields = split(line, '\t');
    if (fields.size() != 4) {
      throw ConfigError(cat(source, ", line ", number,
                            ": a measured product has four fields separated by tabs (card, "
                            "version, product and algorithm), not ",
                            fields.size()));
    }
    recipes_[{std::string(fields[0]), std::string(fields[1]), std::string(fields[2])}] = fields[3];
  }
}

const std::string* MeasuredProducts::find(const std::string& card, const std::string& version,
                                          const std::string& product) const {
  const auto found = recipes_.find({card, version, product});
  return found == recipes_.end() ? nullptr : &found->second;
}

ProductPolicy product_policy() {
  const char* set = std::getenv("DTN_CUDA_PRODUCTS");
  const std::string wish = set ? set : "";
  if (wish == "first") return {};
  if (wish == "least-waste") return {{}, true};
  if (!wish.empty()) return {read_measured(wish)};
  return {{kCommitted, "measured_products.inc"}};
}

}  // namespace dtn::cuda
