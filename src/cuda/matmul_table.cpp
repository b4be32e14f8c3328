#include "cuda/matmul_table.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include "dtn/core/check.h"

namespace dtn::cuda {
namespace {

constexpr std::string_view kCommitted =
#include "cuda/measured_products.inc"
    ;

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

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
  for (const std::string& line : split(text, '\n')) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> fields = split(line, '\t');
    if (fields.size() != 4) {
      throw ConfigError(cat(source, ", line ", number,
                            ": a measured product has four fields separated by tabs (card, "
                            "version, product and algorithm), not ",
                            fields.size()));
    }
    recipes_[{fields[0], fields[1], fields[2]}] = fields[3];
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
